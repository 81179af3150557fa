"""Hard negatives: which passages are taken, and the files that get them."""

import json
import pathlib

import numpy as np
import pyarrow as pa
import pytest

from beambert.cli import run
from beambert.errors import InputError
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.reading import read_splits
from beambert.pipelines.tasks.vectors import VectorExample
from beambert.trainer.retrieval.indexing import bm25_of
from beambert.trainer.retrieval.negatives import mine
from beambert.trainer.retrieval.searching import Index

SENTENCES = pathlib.Path(__file__).parents[1] / "golden_sentences"


def index_of(cosines: dict[str, float]) -> Index:
    """Passages whose cosines with the vector [1, 0] are these."""
    across = np.array(list(cosines.values()), np.float32)
    units = np.stack([across, np.sqrt(1 - across**2)], axis=1)
    passages = pa.table({"text": list(cosines)})
    return Index("--index=i", {}, passages, units, bm25_of([]))


def pair(text: str, text_b: str, *negatives: str) -> VectorExample:
    return VectorExample(text, text_b, negatives, None, {})


def mined(index, pairs, count, cosine=0.8):
    """The negatives where each right text has this cosine."""
    queries = np.tile(np.float32([1, 0]), (len(pairs), 1))
    right = np.tile(np.float32([cosine, (1 - cosine**2) ** 0.5]), (len(pairs), 1))
    return mine(index, pairs, queries, right, count)


PASSAGES = {
    "the answer": 0.8,
    "is the answer here": 0.7,  # It contains the right text.
    "answer": 0.7,  # It is part of it.
    "another answer": 0.75,  # It is right for an equal query.
    "too near": 0.77,  # More than 0.95 of 0.8.
    "near": 0.75,
    "asked": 0.74,  # It is the query.
    " known ": 0.73,  # The pair has it already.
    "nearer": 0.72,
    "far": 0.1,
    "farther": -0.5,
}


def test_the_nearest_passages_that_are_not_right():
    pairs = [pair("asked", "the answer ", "known"), pair("asked", "another answer", "known")]
    found = mined(index_of(PASSAGES), pairs, 3)
    assert found.negatives == [("near", "nearer", "far")] * 2 and not found.drawn


def test_others_are_drawn_where_too_few_are_left():
    """By the right text's cosine of 0.1 only the last is less near. They are always the same."""
    pairs = [pair("asked", "the answer")]
    found = mined(index_of(PASSAGES), pairs, 4, cosine=0.1)
    assert found.negatives[0][0] == "farther" and found.drawn == 3
    allowed = {"another answer", "too near", "near", "known", "nearer", "far"}
    assert len(set(found.negatives[0][1:]) & allowed) == 3
    assert mined(index_of(PASSAGES), pairs, 4, cosine=0.1) == found


def test_a_negative_cosine_has_no_greater_bound():
    found = mined(index_of({"a": -0.5, "b": -0.61, "c": -0.57}), [pair("q", "r")], 1, cosine=-0.6)
    assert found.negatives == [("b",)] and not found.drawn


def test_too_few_passages():
    with pytest.raises(InputError, match="--index=i: has only 2 passages that are not right"):
        mined(index_of({"the answer": 0.8, "b": 0.1, "c": 0.2}), [pair("q", "the answer")], 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Pairs in columns of other names, and an index of what they must find."""
    root = tmp_path_factory.mktemp("negatives")
    (root / "pairs").mkdir()
    words = ["river", "road", "village", "house", "field", "forest"]
    rows = [{"asked": f"a {word}", "answer": f"the {word} is here"} for word in words]
    for split, some in (("train", rows[:4]), ("dev", rows[4:])):
        lines = "".join(f"{json.dumps(row)}\n" for row in some)
        (root / f"pairs/{split}.jsonl").write_text(lines)
    texts = "".join(f"the {word} is here\n" for word in words)
    (root / "passages.txt").write_text(texts)
    flags = [f"--model={SENTENCES / 'mean'}", f"--input={root / 'passages.txt'}"]
    assert run(["embed", *flags, f"--output={root / 'embeddings'}"]) == 0
    assert run(["index", f"--embeddings={root / 'embeddings'}", f"--output={root / 'index'}"]) == 0
    return root


def flags_of(folder, output):
    model = f"--model={SENTENCES / 'mean'}"
    given = [f"--data_dir={folder / 'pairs'}", f"--index={folder / 'index'}", model]
    return [*given, "--text_columns=asked,answer", f"--output={output}"]


def test_the_files(folder, tmp_path, capsys):
    flags = [*flags_of(folder, tmp_path / "out"), "--hard_negatives=2"]
    assert run(["negatives", *flags]) == 0
    assert "out: 8 negatives for 4 pairs" in capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "out/train.jsonl").read_text().splitlines()]
    for row, word in zip(rows, ["river", "road", "village", "house"], strict=True):
        assert list(row) == ["asked", "answer", "negative_1", "negative_2"]
        assert (row["asked"], row["answer"]) == (f"a {word}", f"the {word} is here")
        assert len({row["answer"], row["negative_1"], row["negative_2"]}) == 3
    dev = "dev.jsonl"
    assert (tmp_path / "out" / dev).read_bytes() == (folder / "pairs" / dev).read_bytes()
    assert run(["negatives", *flags]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert run(["negatives", *flags[:-1], "--hard_negatives=1"]) == 2
    assert "--hard_negatives there 2, here 1" in capsys.readouterr().err


def test_what_was_written_is_read(folder, tmp_path):
    import dataclasses

    assert run(["negatives", *flags_of(folder, tmp_path / "out")]) == 0
    task = dataclasses.replace(find_task("embedding"), text_columns=("asked", "answer"))
    read = read_splits(task, str(tmp_path / "out"), ("train", "dev"), skip_bad_rows=False)
    assert [len(each.negatives) for each in read.examples["train"]] == [1] * 4
    again = [*flags_of(folder, tmp_path / "more"), "--hard_negatives=2"]
    again[0] = f"--data_dir={tmp_path / 'out'}"
    assert run(["negatives", *again]) == 0
    read = read_splits(task, str(tmp_path / "more"), ("train", "dev"), skip_bad_rows=False)
    assert [len(set(each.negatives)) for each in read.examples["train"]] == [3] * 4


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ("--hard_negatives=9", "passages that are not right for the query"),
        ("--text_columns=asked", "--text_columns=asked: must name two columns"),
        ("--text_columns=asked,more", "has no column 'more'"),
    ],
)
def test_refusals(folder, tmp_path, capsys, changed, told):
    assert run(["negatives", *flags_of(folder, tmp_path / "out"), changed]) == 2
    assert told in capsys.readouterr().err
