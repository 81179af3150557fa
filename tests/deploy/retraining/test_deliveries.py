"""Deliveries that are incomplete, wrong or of the future, and what the other ones make of it."""

import json
import os
import re
import time

import pytest
from support import growing_corpus as corpus
from support.stand_in_commands import served, taken

from beambert.deploy.retraining import command as retrain
from beambert.deploy.retraining import workspace
from beambert.errors import InputError


@pytest.fixture
def configure(tmp_path):
    """Returns the configuration with manifests and other lines."""

    def write(*lines):
        more = [f'manifests = ["{tmp_path}/text/*.manifest"]', *lines]
        path = corpus.write_config(tmp_path, more="".join(f"{line}\n" for line in more))
        return workspace.read_config(str(path))

    return write


def deliver(root, number, minutes=60, text=None):
    """Delivers a file and its manifest, both some minutes ago."""
    file = corpus.deliver(root, number)
    entry = {"path": file.name, "bytes": file.stat().st_size}
    manifest = root / "text" / f"{number}.manifest"
    manifest.write_text(json.dumps({"files": [entry]}) if text is None else text)
    for path in (file, manifest):
        os.utime(path, (time.time() - 60 * minutes,) * 2)
    return manifest


UNREADABLE = ""  # It may be gone between the list and the look.
BAD = {
    UNREADABLE: "manifest, or a file that it names, cannot be read",
    '{"files": [{"path": "2.jsonl", "by': "half-written",
    '{"files": []}': "manifest names no file",
    '{"files": [{"path": "9.jsonl", "bytes": 5}]}': "9.jsonl, which is missing",
    '{"files": [{"path": "2.jsonl", "bytes": 5}]}': "should have 5",
}


@pytest.mark.parametrize("text", BAD)
def test_a_wrong_manifest_stops_its_own_delivery_only(tmp_path, configure, commands, capsys, text):
    """Alone it is an error; beside a correct one it is left out with its files, and reported."""
    config = configure()
    manifest = deliver(tmp_path, 2)
    manifest.unlink()
    manifest.symlink_to("nowhere") if text == UNREADABLE else manifest.write_text(text)
    with pytest.raises(InputError, match=BAD[text]):
        retrain.retrain(config)
    assert commands.ran == []
    deliver(tmp_path, 1)
    retrain.retrain(config)
    assert taken(config, 1) == ["1.jsonl"] and sorted(served(config)) == ["1"]
    (told,) = (line for line in capsys.readouterr().err.splitlines() if "2.manifest" in line)
    assert re.search(BAD[text], told) and told.endswith("; was left out")
    with pytest.raises(InputError, match=BAD[text]):  # there is nothing else to take any more
        retrain.retrain(config)
    manifest.unlink()
    deliver(tmp_path, 2)  # mended
    retrain.retrain(config)
    assert taken(config, 2) == ["2.jsonl"] and sorted(served(config)) == ["1", "2"]


def test_a_file_without_a_manifest_is_not_taken_yet(tmp_path, configure, commands, capsys):
    """It may be half a file, or one of several."""
    config = configure()
    corpus.deliver(tmp_path, 1)
    retrain.retrain(config)
    assert commands.ran == [] and "no manifest matches" in capsys.readouterr().out
    deliver(tmp_path, 2)
    retrain.retrain(config)
    assert taken(config, 1) == ["2.jsonl"]
    assert "1 files are in no complete delivery yet, such as" in capsys.readouterr().out
    deliver(tmp_path, 1)
    retrain.retrain(config)
    assert taken(config, 2) == ["1.jsonl"]


def test_a_delivery_that_no_input_matches(tmp_path, configure, commands, capsys):
    """Nobody would hear of it, as its manifest is right."""
    config = configure()
    deliver(tmp_path, 1)
    for name in ("2.json", "3.txt"):
        (tmp_path / "text" / name).write_text("x")
    entries = [{"path": name, "bytes": 1} for name in ("2.json", "3.txt")]
    deliver(tmp_path, 4, text=json.dumps({"files": entries}))
    retrain.retrain(config)
    assert taken(config, 1) == ["1.jsonl"]
    told = capsys.readouterr().err
    assert f"{tmp_path}/text/2.json and 1 other: named by a manifest, but no pattern of" in told
    assert "was left out" in told  # which the alert looks for


def test_deliveries_in_a_row_are_taken_together(tmp_path, configure, commands, capsys):
    config = configure("settle_minutes = 10")
    deliver(tmp_path, 1, minutes=30)
    manifest = deliver(tmp_path, 2, minutes=9)
    retrain.retrain(config)
    assert commands.ran == [] and "younger than 10 minutes" in capsys.readouterr().out
    os.utime(manifest, (time.time() - 660,) * 2)
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
