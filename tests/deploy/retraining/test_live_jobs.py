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
from beambert.folders import BusyError

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
    """Dataflow with one job, which is at work or not."""

    def __init__(self, services, name):
        self.name, self.is_live = name, True
        services.answers["list_jobs"] = self

    def __call__(self, request):
        assert request.filter == dataflow.ListJobsRequest.Filter.ACTIVE
        assert (request.project_id, request.location) == ("p", "r")
        is_found = self.is_live and request.name == self.name
        return [dataflow.Job(id="2026-1", name=self.name)] if is_found else []


@pytest.mark.parametrize("succeeds", [True, False])
def test_nothing_is_deleted_under_a_live_job(config, open_run, services, succeeds):
    """What it makes counts; without it the records are begun again."""
    run, shard = open_run
    job = Job(services, records_job(config, run))
    with pytest.raises(BusyError, match="the Dataflow job 2026-1 of an earlier start"):
        retrain.plan(config)
    assert shard.exists()
    job.is_live = False
    if succeeds:
        shard.with_name("_SUCCESS").write_text("{}")
    workspace.begin(retrain.plan(config))
    assert shard.exists() == succeeds


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
