"""Benchmarks describe themselves, and what they compute besides time."""

import importlib
import json
import os
import pathlib
import random

import pytest

from benchmarks import soak

ROOT = pathlib.Path(__file__).parents[2]
NAMES = sorted(
    path.stem
    for path in (ROOT / "benchmarks").glob("*.py")
    if path.stem not in ("__init__", "measuring", "peer")
)


@pytest.mark.parametrize("name", NAMES)
def test_help(name, capsys):
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"benchmarks.{name}").main(["--help"])
    assert ended.value.code == 0
    assert f"python -m benchmarks.{name}" in capsys.readouterr().out


def test_results_are_those_of_commands_that_exist():
    """The published ones say which benchmark made them."""
    files = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
    assert len(files) >= 9
    for path in files:
        about = json.loads(path.read_text())
        words = about["made_by"].split()
        assert words[:2] == ["python", "-m"] and words[2].startswith("benchmarks."), path
        assert (ROOT / f"{words[2].replace('.', os.sep)}.py").is_file(), path
        assert about["result"], path


def test_a_signal_that_came_too_late_is_no_kill(tmp_path):
    row = {"job": "data", "seconds": 9.0, "undisturbed": 3.0, "faults": ["cut 1 times 0.10"]}
    row |= {"signals": ["KILL 1.00 write", "STOP 1.00 time", "INT 2.00 time late"]}
    row |= {"different": ["part"], "left": [], "unexpected": []}
    (tmp_path / "log").write_text(json.dumps(row) + "\n")
    line = soak.summary(tmp_path / "log").splitlines()[-1]
    assert line == "| all | 1 | 1 | 1 | 1 | 1 | 6.0 | 1 | 0 | 0 |"


def test_a_round_names_what_differs_and_what_is_left(tmp_path, monkeypatch):
    out = tmp_path / "out/made"
    out.mkdir(parents=True)
    for name, content in (("a", "1"), ("b", "2"), ("_tmp-lock", ""), ("_SUCCESS", "")):
        (out / name).write_text(content)
    expected = soak.sums(str(out)) | {"b": "another", "c": "missing"}
    (tmp_path / "temporary/beambert-run-1").mkdir(parents=True)
    bench = soak.Bench(tmp_path, {})
    monkeypatch.setattr(soak, "clear", lambda _: None)
    monkeypatch.setattr(soak.Round, "_attempt", lambda *_: False)
    about = {"files": expected, "unlike": [], "seconds": 1.0}
    row = soak.Round(bench, "data", random.Random(1), about).run()
    assert row["different"] == ["b", "c"]
    assert row["left"] == ["_tmp-lock", "TMPDIR/beambert-run-1"]
