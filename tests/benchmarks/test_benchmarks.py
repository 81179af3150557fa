"""Benchmarks describe themselves, and what they compute besides time."""

import importlib
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest

from beambert.errors import InputError
from benchmarks import peer, recipes, retrieval, soak

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


def test_pairs_of_squad(tmp_path):
    """The last three articles are for dev."""
    articles = [
        {
            "paragraphs": [{"context": f"of {n}", "qas": [{"question": " a "}, {"question": "b"}]}]
            * 2
        }
        for n in range(4)
    ]
    counts = retrieval.write_pairs(articles, str(tmp_path))
    assert counts == {"train": 4, "dev": 12}
    train = (tmp_path / "train.jsonl").read_text()
    assert json.loads(train.splitlines()[0]) == {"text": "a", "text_b": "of 0"}


SCRIPTS = pathlib.Path(peer.__file__).with_name("peers")
# The protocol's own module is the real one; the system next to it is no more than a counter.
SYSTEM = """
import sys
sys.path.insert(0, {scripts!r})
from answering import answer
sys.argv = sys.argv[1:]
def prepare(asked):
    print("a system that talks")
    def work():
        print("at work")
        with open(asked["file"], "a") as file:
            file.write("x")
    return work
answer(prepare)
"""


@pytest.fixture
def interpreter(tmp_path):
    """Returns a function: code -> a program that runs it with the peer's arguments."""

    def make(code: str) -> str:
        path = tmp_path / "python"
        path.write_text(f"#!{sys.executable}\n{code}")
        path.chmod(0o755)
        return str(path)

    return make


def test_every_step_is_a_piece_of_work(interpreter, tmp_path, capfd):
    python = interpreter(SYSTEM.format(scripts=str(SCRIPTS)))
    counted = tmp_path / "counted"
    other = peer.Peer("hugging_face_pretraining.py", python, {"file": str(counted)})
    assert not counted.exists()
    other.step()
    other.step()
    assert counted.read_text() == "xx"
    other.end()
    printed, noise = capfd.readouterr()
    assert printed == ""
    assert "a system that talks" in noise


def test_a_peer_that_fails_names_itself(interpreter):
    with pytest.raises(InputError, match=r"python hugging_face_pretraining\.py: ended early"):
        peer.Peer("hugging_face_pretraining.py", interpreter("raise SystemExit(1)"), {})


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
    out = tmp_path / "out"
    out.mkdir()
    for name, content in (("a", "1"), ("b", "2"), ("_tmp-lock", ""), ("_SUCCESS", "")):
        (out / name).write_text(content)
    expected = soak.sums(str(out)) | {"b": "another", "c": "missing"}
    (tmp_path / "temporary/beambert-run-1").mkdir(parents=True)
    bench = soak.Bench(tmp_path, {})
    monkeypatch.setattr(soak, "clear", lambda _: None)
    monkeypatch.setattr(soak.Round, "_attempt", lambda *_: False)
    row = soak.Round(bench, "data", random.Random(1), {"files": expected, "seconds": 1.0}).run()
    assert row["different"] == ["c", "b"]
    assert row["left"] == ["_tmp-lock", "TMPDIR/beambert-run-1"]
