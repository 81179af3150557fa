"""Versions that are served, deliveries, and jobs that an earlier start has sent."""

import dataclasses
import os
import pathlib
import shutil
import time

import pytest
from google.api_core.exceptions import NotFound, PermissionDenied, ServiceUnavailable
from google.cloud import dataflow_v1beta3 as dataflow
from support import growing_corpus as corpus
from support.stand_in_commands import served, taken

from beambert.deploy.retraining import command as retrain
from beambert.deploy.retraining import workspace
from beambert.deploy.retraining.runs import next_run, records_job
from beambert.errors import InputError
from beambert.folders import BusyError


@pytest.fixture
def config(tmp_path, commands):
    """A workspace with two served versions."""
    config = workspace.read_config(str(corpus.write_config(tmp_path)))
    for number in (1, 2):
        corpus.deliver(tmp_path, number)
        retrain.retrain(config)
    commands.ran.clear()
    return config


def run_next(tmp_path, config, commands):
    """Delivers a third file and returns the flags of the steps of the run that takes it."""
    corpus.deliver(tmp_path, 3)
    retrain.retrain(config)
    return dict(commands.ran)


def check_return_to_the_first(tmp_path, config, commands):
    """The next run goes on from the first version, with all that came since, as a third one."""
    assert sorted(served(config)) == ["1"]
    flags = run_next(tmp_path, config, commands)
    assert flags["encoder"].init == f"{config.workspace}/runs/000001/encoder"
    assert flags["baseline"].model == f"{config.workspace}/runs/000001/classifier"
    assert taken(config, 3) == ["2.jsonl", "3.jsonl"]
    assert sorted(served(config)) == ["1", "3"]  # the deleted number isn't used again


def test_the_newest_version_deleted_by_hand(tmp_path, config, commands):
    """Serving went back, and so does the next run."""
    shutil.rmtree(f"{config.workspace}/serving/2")
    check_return_to_the_first(tmp_path, config, commands)


def test_the_newest_version_emptied_by_hand(tmp_path, config, commands):
    """A folder without a graph serves nothing; the next run has another number."""
    pathlib.Path(config.workspace, "serving", "2", "saved_model.pb").unlink()
    run_next(tmp_path, config, commands)
    flags = dict(commands.ran)
    assert flags["encoder"].init == f"{config.workspace}/runs/000001/encoder"
    assert sorted(served(config)) == ["1", "2", "3"]


def test_a_model_to_continue_from_that_is_gone(tmp_path, config, commands):
    """It is said before a training begins, and the way back works."""
    shutil.rmtree(f"{config.workspace}/runs/000002/classifier")
    corpus.deliver(tmp_path, 3)
    commands.ran.clear()
    with pytest.raises(InputError, match="is gone, .*delete the newest folder of"):
        retrain.retrain(config)
    assert commands.ran == [] and sorted(served(config)) == ["1", "2"]
    shutil.rmtree(f"{config.workspace}/serving/2")
    retrain.retrain(config)
    assert sorted(served(config)) == ["1", "3"]


def test_all_versions_are_gone(tmp_path, config, commands):
    """That is no reason to begin anew, and nothing is done until someone has said what is meant."""
    kept = shutil.move(f"{config.workspace}/serving", tmp_path / "elsewhere")
    corpus.deliver(tmp_path, 3)
    with pytest.raises(
        InputError, match="serving: has no version, .*put the version to serve back"
    ):
        retrain.retrain(config)
    assert commands.ran == []
    shutil.move(kept, f"{config.workspace}/serving")
    retrain.retrain(config)
    assert sorted(served(config)) == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("result.json", "[]"),
        ("result.json", "{}"),
        ("result.json", "[" * 100_000),
        ("result.json", '{"outcome": "published", "version": "2"}'),
        ("run.json", "3"),
        ("run.json", '{"path": 1, "new_files": 1, "records": []}'),
        ("run.json", '{"path": "a", "new_files": 1, "records": "b"}'),
        ("version.json", "[2]"),
        ("version.json", '"../../../foreign"'),
    ],
)
def test_a_damaged_file_of_a_run_is_named(tmp_path, config, commands, name, content):
    (tmp_path / "foreign").mkdir()
    path = pathlib.Path(config.workspace, "runs/000002", name)
    path.write_text(content)
    if name != "result.json":
        path.with_name("result.json").unlink()
    with pytest.raises(InputError, match=f"{name}: is damaged"):
        retrain.retrain(config)
    assert commands.ran == [] and (tmp_path / "foreign").exists()


def test_a_copy_of_a_workspace_does_not_write_into_the_other(tmp_path, config, commands):
    path = pathlib.Path(config.workspace, "runs/000002/result.json")
    path.unlink()
    copy = shutil.copytree(config.workspace, tmp_path / "copy")
    with pytest.raises(InputError, match="copy/runs/000002/run.json: is of .*; delete .*copy/runs"):
        retrain.retrain(dataclasses.replace(config, workspace=str(copy)))
    assert commands.ran == [] and not path.exists()


@pytest.fixture
def configure(tmp_path):
    """Returns the configuration with other lines."""

    def write(*lines):
        path = corpus.write_config(tmp_path, more="".join(f"{line}\n" for line in lines))
        return workspace.read_config(str(path))

    return write


def deliver(root, number, minutes=60):
    """Delivers a file some minutes ago."""
    file = corpus.deliver(root, number)
    os.utime(file, (time.time() - 60 * minutes,) * 2)
    return file


def test_deliveries_in_a_row_are_taken_together(tmp_path, configure, commands, capsys):
    """A file that is younger may be half-written."""
    config = configure("settle_minutes = 10")
    retrain.retrain(config)
    assert "no file matches" in capsys.readouterr().out
    deliver(tmp_path, 1, minutes=30)
    file = deliver(tmp_path, 2, minutes=9)
    retrain.retrain(config)
    assert commands.ran == [] and "younger than 10 minutes" in capsys.readouterr().out
    os.utime(file, (time.time() - 660,) * 2)
    retrain.retrain(config)
    assert taken(config, 1) == ["1.jsonl", "2.jsonl"]


@pytest.mark.parametrize("what", ["2.jsonl", "2.*"])
def test_a_poison_file_is_left_out(tmp_path, configure, commands, what):
    """It fails each run until it is named; what is served stays, and then the next run works."""
    deliver(tmp_path, 1)
    config = configure()
    retrain.retrain(config)
    deliver(tmp_path, 2)
    deliver(tmp_path, 3)
    commands.fail = "records"
    for _ in range(2):
        with pytest.raises(InputError, match="records"):
            retrain.retrain(config)
    assert sorted(served(config)) == ["1"]
    commands.fail = None
    config = configure(f'leave_out = ["{tmp_path}/text/{what}"]')
    retrain.retrain(config)
    assert taken(config, 2) == ["3.jsonl"] and sorted(served(config)) == ["1", "2"]
    commands.ran.clear()
    retrain.retrain(config)
    assert commands.ran == []


FLAGS = 'runner = "DataflowRunner"\nproject = "p"\nregion = "r"'


@pytest.fixture
def dataflow_config(tmp_path):
    corpus.deliver(tmp_path, 1)
    return workspace.read_config(str(corpus.write_config(tmp_path, data=FLAGS)))


@pytest.fixture
def open_run(dataflow_config):
    """The run of a start that was killed while its job wrote a shard."""
    run = next_run(dataflow_config, (), 1, 1)
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
def test_nothing_is_deleted_under_a_live_job(dataflow_config, open_run, services, succeeds):
    """What it makes counts; without it the records are begun again."""
    run, shard = open_run
    job = Job(services, records_job(dataflow_config, run))
    with pytest.raises(BusyError, match="the Dataflow job 2026-1 of an earlier start"):
        retrain.plan(dataflow_config)
    assert shard.exists()
    job.is_live = False
    if succeeds:
        shard.with_name("_SUCCESS").write_text("{}")
    workspace.begin(retrain.plan(dataflow_config))
    assert shard.exists() == succeeds


@pytest.mark.parametrize("status", [PermissionDenied("no"), NotFound("no")])
def test_a_look_that_fails_changes_nothing(dataflow_config, open_run, services, status):
    _, shard = open_run
    services.answers["list_jobs"] = status
    with pytest.raises(InputError, match="Dataflow doesn't tell .*nothing was changed"):
        workspace.begin(retrain.plan(dataflow_config))
    assert shard.exists()


def test_a_dry_run_waits_for_nothing(dataflow_config, open_run, services):
    services.answers["list_jobs"] = ServiceUnavailable("no")
    assert retrain.plan(dataflow_config, is_dry=True).number == "000001"
    assert not services.requests
