"""A run finds its own job on Dataflow before it deletes records or sends a second one."""

import pathlib

import pytest
from google.api_core.exceptions import NotFound, PermissionDenied, ServiceUnavailable
from google.cloud import dataflow_v1beta3 as dataflow
from support import growing_corpus as corpus

from beambert.deploy.retraining import command as retrain
from beambert.deploy.retraining import workspace
from beambert.deploy.retraining.runs import next_run, records_job
from beambert.errors import InputError

FLAGS = 'runner = "DataflowRunner"\nproject = "p"\nregion = "r"'


@pytest.fixture
def config(tmp_path):
    corpus.deliver(tmp_path, 1)
    return workspace.read_config(str(corpus.write_config(tmp_path, data=FLAGS)))


@pytest.fixture
def open_run(config):
    """The run of a start that was killed while its job wrote a shard."""
    run = next_run(config, (), 1, 1)
    workspace.begin(run)
    shard = pathlib.Path(run.folder("records"), "part-0.tfrecord")
    shard.parent.mkdir()
    shard.write_text("half a shard")
    return run, shard


class Job:
    """Dataflow with one job, which ends after some looks."""

    def __init__(self, services, name, looks, at_end=lambda: None):
        self.name, self.looks, self.at_end = name, looks, at_end
        services.answers["list_jobs"] = self

    def __call__(self, request):
        assert request.filter == dataflow.ListJobsRequest.Filter.ACTIVE
        assert (request.project_id, request.location) == ("p", "r")
        if request.name != self.name or not self.looks:
            return []
        self.looks -= 1
        if not self.looks:
            self.at_end()
        return [dataflow.Job(id="2026-1", name=self.name)]


def test_what_a_live_job_makes_counts(config, open_run, services, capsys):
    """Nothing is deleted under it; after its end the run goes on with its records."""
    run, shard = open_run

    def finish():
        assert shard.exists()
        shard.with_name("_SUCCESS").write_text("{}")

    Job(services, records_job(config, run), 3, finish)
    assert retrain.plan(config) == run
    workspace.begin(run)
    assert shard.exists()
    printed = capsys.readouterr().out
    assert printed.count("waits for the Dataflow job 2026-1") == 1


def test_a_live_job_that_fails_is_begun_again(config, open_run, services):
    run, shard = open_run
    Job(services, records_job(config, run), 2, lambda: None)
    workspace.begin(retrain.plan(config))
    assert not shard.exists()


@pytest.mark.parametrize("status", [PermissionDenied("no"), NotFound("no")])
def test_a_look_that_fails_changes_nothing(config, open_run, services, status):
    _, shard = open_run
    services.answers["list_jobs"] = status
    with pytest.raises(InputError, match="Dataflow doesn't tell .*nothing was changed"):
        workspace.begin(retrain.plan(config))
    assert shard.exists()


def test_a_dry_run_waits_for_nothing(config, open_run, services):
    services.answers["list_jobs"] = ServiceUnavailable("no")
    assert retrain.plan(config, is_dry=True).number == "000001"
    assert not services.requests
