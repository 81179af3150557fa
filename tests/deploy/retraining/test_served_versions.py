"""Served versions, and deliveries."""

import dataclasses
import os
import pathlib
import shutil
import time

import pytest
from support import growing_corpus as corpus
from support.stand_in_commands import served, taken

from beambert.deploy.retraining import command as retrain
from beambert.deploy.retraining import workspace
from beambert.errors import InputError


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
