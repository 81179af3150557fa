"""When a delivery is taken, and what is left out."""

import os
import time

import pytest
from support import growing_corpus as corpus
from support.stand_in_commands import served, taken

from beambert.deploy.retraining import command as retrain
from beambert.deploy.retraining import workspace
from beambert.errors import InputError


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
