"""Benchmarks: what they say of themselves, and what they compute besides time."""

import importlib
import json
import os
import pathlib
import random

import pytest

from benchmarks import soak
from benchmarks.languages import f1, paragraphs_of, read_trees, spans_of

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
    """The published ones say which benchmark made them, and of which commit if it is gone."""
    files = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
    assert len(files) >= 9
    for path in files:
        about = json.loads(path.read_text())
        words = about["made_by"].split()
        assert words[:2] == ["python", "-m"] and words[2].startswith("benchmarks."), path
        is_there = (ROOT / f"{words[2].replace('.', os.sep)}.py").is_file()
        assert is_there == ("commit" not in about), path
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


TREES = """# newdoc
# text = Vámonos al mar.
1-2\tVámonos\t_
1\tVamos\tir
2\tnos\tnosotros
3-4\tal\t_
3\ta\ta
4\tel\tel
5\tmar\tmar
6\t.\t.

# text = Ya.
1\tYa\tya
1.1\tvoy\tir
2\t.\t.

# newpar
# text = No.
1\tNo\tno
2\t.\t.
"""


def test_words_are_those_that_are_written(tmp_path):
    path = tmp_path / "es.conllu"
    path.write_text(TREES)
    found = list(read_trees(str(path)))
    expected = [["Vámonos", "al", "mar", "."], ["Ya", "."], ["No", "."]]
    assert [words for _, _, words in found] == expected
    assert paragraphs_of(found) == [["Vámonos al mar.", "Ya."], ["No."]]
    # Where every sentence is a document of its own, twenty make a paragraph.
    alone = [(True, text, words) for _, text, words in found] * 14
    assert [len(each) for each in paragraphs_of(alone)] == [20, 20, 2]


def test_scores():
    assert spans_of(["a b", " c"]) == {(0, 2), (2, 3)}
    assert f1([(["a.", "b."], ["a.", "b."])]) == 100.0
    # Of two sentences and one that is found none has both of its ends.
    assert f1([(["a.", "b."], ["a. b."])]) == 0.0
    # One of three and of two: 2 / 5 of both.
    assert f1([(["a.", "b.", "c."], ["a.", "b. c."])]) == 40.0
