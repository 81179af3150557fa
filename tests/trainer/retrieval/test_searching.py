"""Searching: BM25 beside bm25s, passages with their places, and indexes of other models."""

import json
import pathlib

import numpy as np
import pytest

from beambert.cli import run
from beambert.errors import InputError
from beambert.trainer.embedding.writing import passages
from beambert.trainer.retrieval.indexing import (
    Ranking,
    best_of,
    bm25_of,
    fused,
    open_bm25,
)

HERE = pathlib.Path(__file__).parent
BM25 = json.loads((HERE / "golden_retrieval.json").read_text("utf-8"))["bm25"]
SENTENCES = HERE.parent / "golden_sentences"


def test_bm25_is_that_of_bm25s(tmp_path):
    """Also where its files are read back."""
    index = bm25_of(BM25["documents"])
    index.save(tmp_path)
    for found in (index, open_bm25(tmp_path, len(BM25["documents"]))):
        for query, expected in zip(BM25["queries"], BM25["scores"], strict=True):
            np.testing.assert_allclose(found.scores(query), expected, atol=1e-5)
            best = found.search(query, 3)
            assert best.scores_K.tolist() == sorted(found.scores(query), reverse=True)[:3]


@pytest.mark.parametrize("documents", [[], [[], []]])
def test_no_words(documents, tmp_path):
    bm25_of(documents).save(tmp_path)
    assert not open_bm25(tmp_path, len(documents)).search(["a"], 3).numbers_K.size


def test_the_best_scores():
    """Of equal ones the first, also where they stand at the end of the ranking."""
    scores = np.random.default_rng(0).integers(0, 9, 300).astype(np.float32)
    for count in (0, 1, 7, 120, 300, 500):
        expected = np.argsort(-scores, kind="stable")[:count]
        found = best_of(scores, count)
        assert found.numbers_K.tolist() == expected.tolist()
        assert found.scores_K.tolist() == scores[expected].tolist()


def test_reciprocal_ranks_are_added():
    """Worked by hand: 7 and 3 have the ranks 1 and 2 in turn, and 5 is in one ranking."""
    found = fused([Ranking(np.array(each), np.ones(len(each))) for each in ([7, 3, 5], [3, 7])], 9)
    assert found.numbers_K.tolist() == [3, 7, 5]
    np.testing.assert_allclose(found.scores_K, [1 / 61 + 1 / 62, 1 / 61 + 1 / 62, 1 / 63])
    assert fused([found, found], 1).numbers_K.tolist() == [3]


def test_passages_know_where_they_begin():
    text = "  one two\nthree  four five "
    found = list(passages(text, 2))
    assert found == [(2, "one"), (6, "two\nthree"), (17, "four five")]
    assert all(text[start:].startswith(passage) for start, passage in found)
    assert list(passages(text, 0)) == [(0, text)] and list(passages(text, 9))[0][0] == 2


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    root = tmp_path_factory.mktemp("index")
    (root / "a.txt").write_text("a river and a road\n\nthe lazy dog sleeps here now\n")
    (root / "b.txt").write_text("b c d e f g\n")
    flags = [f"--model={SENTENCES / 'mean'}", f"--input={root}/*.txt", "--unit=file"]
    assert run(["embed", *flags, "--passage_words=6", f"--output={root / 'embeddings'}"]) == 0
    assert run(["index", f"--embeddings={root / 'embeddings'}", f"--output={root / 'index'}"]) == 0
    return root / "index"


def test_a_passage_is_found_by_its_own_words_and_vector(index, tmp_path):
    queries = tmp_path / "queries.txt"
    queries.write_text("lazy dog sleeps here now\nb c d e f g\n")
    for by in ("vectors", "words", "both"):
        out = tmp_path / f"{by}.jsonl"
        model = [] if by == "words" else [f"--model={SENTENCES / 'mean'}"]
        flags = [f"--index={index}", f"--by={by}", f"--input={queries}", f"--output={out}", *model]
        assert run(["search", *flags, "--top=1"]) == 0
        dog, letters = (json.loads(line)["hits"][0] for line in out.read_text().splitlines())
        assert (dog["start"], dog["text"]) == (
            20,
            "the lazy dog sleeps here now",
        ) or by == "vectors"
        assert letters["file"].endswith("b.txt") and letters["text"] == "b c d e f g"
        if by == "vectors":
            assert letters["score"] == pytest.approx(1, abs=1e-5)


def test_queries_that_are_cut_are_counted(index, capsys):
    given = [f"--index={index}", f"--model={SENTENCES / 'mean'}"]
    assert run(["search", *given, "--top=1", "river", "river " * 999]) == 0
    assert "1 of 2 queries cut to " in capsys.readouterr().out.splitlines()[0]
    assert run(["search", *given, "--top=1", "river"]) == 0
    assert "cut to" not in capsys.readouterr().out


def test_from_python(index, tmp_path):
    import dataclasses

    import beambert

    model, out = str(SENTENCES / "mean"), tmp_path / "hits.jsonl"
    found = beambert.Searcher(str(index), model).search(["b c d", "lazy dog"], top=2)
    (tmp_path / "queries.txt").write_text("b c d\nlazy dog\n")
    flags = [f"--index={index}", f"--model={model}", f"--input={tmp_path / 'queries.txt'}"]
    assert run(["search", *flags, "--top=2", f"--output={out}"]) == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    for line, hits in zip(lines, found, strict=True):
        for written, hit in zip(line["hits"], map(dataclasses.asdict, hits), strict=True):
            assert written.pop("score") == pytest.approx(hit.pop("score"), rel=1e-6)
            assert written == hit
    with pytest.raises(InputError, match="^queries: is one text, 'river'; give a list"):
        beambert.Searcher(str(index)).search("river")
    with pytest.raises(InputError, match="--by=both: needs --model"):
        beambert.Searcher(str(index), by="both")


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--by=vectors", "a"], "--by=vectors: needs --model"),
        (["--output=/tmp", "a"], "--output=/tmp: already exists"),
        ([], "--input: is needed without a TEXT"),
    ],
)
def test_refusals(index, capsys, flags, told):
    assert run(["search", f"--index={index}", *flags]) == 2
    assert told in capsys.readouterr().err


def test_an_index_of_another_model(index, untrained, capsys):
    assert run(["search", f"--index={index}", f"--model={untrained('encoder')}", "a"]) == 2
    assert "is not the model that made --index" in capsys.readouterr().err
