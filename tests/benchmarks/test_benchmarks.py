"""Benchmarks describe themselves, and what they compute besides time."""

import importlib
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest

from benchmarks import peer, recipes, soak

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


def test_the_best_rate_of_each_recipe_is_that_of_the_least_mean_loss():
    rows = [
        {"model": "tiny", "budget": "4", "recipe": recipe, "learning_rate": rate}
        | {"masked_lm_loss": loss, "seed": seed}
        for recipe, rate, losses in (
            ("paper", 1e-3, (6.0, 6.2)),
            ("paper", 3e-3, (5.0, 9.0)),
            ("muon", 1e-3, (5.5, 5.5)),
            ("muon", 3e-3, (5.0, 5.1)),
        )
        for seed, loss in enumerate(losses)
    ]
    assert [(row["recipe"], row["learning_rate"], row["seed"]) for row in recipes.best(rows)] == [
        ("paper", 1e-3, 0),
        ("paper", 1e-3, 1),
        ("muon", 3e-3, 0),
        ("muon", 3e-3, 1),
    ]


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


SCRIPTS = pathlib.Path(peer.__file__).with_name("peers")


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*_*ing.py")), ids=lambda path: path.stem)
def test_a_peer_needs_nothing_of_this_project(script, tmp_path):
    """In a bare interpreter, what it misses first is another system's."""
    done = subprocess.run(
        [sys.executable, "-S", "-E", script, "{}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    missing = done.stderr.strip().splitlines()[-1]
    assert missing in (
        "ModuleNotFoundError: No module named " + repr(n) for n in ("numpy", "keras")
    )
    imports = [line.split()[1] for line in script.read_text().splitlines() if "import " in line]
    assert not {"beambert", "benchmarks"} & {name.split(".")[0] for name in imports}


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
