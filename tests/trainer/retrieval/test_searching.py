"""Indexes of embeddings, and searches in them."""

import hashlib
import json
import pathlib
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beambert.cli import run
from beambert.errors import InputError
from beambert.trainer.embedding.writing import passages
from beambert.trainer.retrieval import indexing
from beambert.trainer.retrieval.indexing import (
    Ranking,
    best_of,
    bm25_of,
    fused,
    make_index,
    open_bm25,
)
from beambert.trainer.retrieval.searching import Index, open_index

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


WIDTH, COUNT = 24, 3000


def drawn(count: int, seed: int) -> np.ndarray:
    """Vectors around forty centres, as texts have topics."""
    generator = np.random.default_rng(seed)
    centres = np.random.default_rng(9).normal(size=(40, WIDTH))
    of = centres[generator.integers(0, 40, count)] + generator.normal(size=(count, WIDTH))
    return of.astype(np.float32)


def write_embeddings(folder, vectors_NH, part=1000, model="0", first=0) -> str:
    """Writes a folder as `beambert embed` leaves it; the text of a passage is its number."""
    folder.mkdir()
    for number, start in enumerate(range(0, len(vectors_NH), part)):
        some = vectors_NH[start : start + part]
        lines = first + np.arange(start, start + len(some))
        columns = {"file": ["a.txt"] * len(some), "line": lines, "start": np.zeros_like(lines)}
        columns["text"] = [f"passage {line}" for line in lines]
        flat = pa.array(some.reshape(-1))
        columns["embedding"] = pa.FixedSizeListArray.from_arrays(flat, some.shape[1])
        pq.write_table(pa.table(columns), folder / f"part-{number:05d}.parquet")
    parts = [path.read_bytes() for path in sorted(folder.iterdir())]
    info = {"texts": len(vectors_NH), "width": vectors_NH.shape[1]}
    info |= {"sha256": [hashlib.sha256(part).hexdigest() for part in parts]}
    (folder / "_info.json").write_text(json.dumps(info | {"model_sha256": model}))
    (folder / "_SUCCESS").write_text("{}")
    return str(folder)


def found(index: Index, query_H: np.ndarray, count: int = 10) -> list[int]:
    return [hit.line for hit in index.rank("", query_H, "vectors", count)]


@pytest.fixture(scope="module")
def embeddings(tmp_path_factory):
    return write_embeddings(tmp_path_factory.mktemp("embeddings") / "folder", drawn(COUNT, 0))


@pytest.fixture(scope="module")
def exact(embeddings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exact")
    make_index([embeddings], f"{folder}/index")
    assert open_index(f"{folder}/index").passages.num_rows == COUNT
    return folder / "index"


def test_all_vectors_are_compared(exact):
    """Beside the cosines of all vectors, by the formula."""
    index, all_NH = open_index(str(exact)), drawn(COUNT, 0).astype(np.float64)
    for query_H in drawn(20, 1):
        cosines = all_NH @ query_H / np.linalg.norm(all_NH, axis=1) / np.linalg.norm(query_H)
        hits = index.rank("", query_H, "vectors", 10)
        assert [hit.line for hit in hits] == np.argsort(-cosines)[:10].tolist()
        assert [hit.score for hit in hits] == pytest.approx(np.sort(-cosines)[:10] * -1, abs=1e-5)
        assert [hit.text for hit in hits] == [f"passage {hit.line}" for hit in hits]


def test_several_folders_are_as_one(exact, tmp_path, capsys, monkeypatch):
    halves = drawn(COUNT, 0)[:1700], drawn(COUNT, 0)[1700:]
    folders = [
        write_embeddings(tmp_path / f"half-{first}", half, first=first)
        for half, first in zip(halves, (0, 1700), strict=True)
    ]
    monkeypatch.chdir(tmp_path)
    assert run(["index", "--embeddings", *folders, "--output=~"]) == 0  # a name like others
    index = open_index("~")
    for query_H in drawn(5, 1):
        assert found(index, query_H) == found(open_index(str(exact)), query_H)
    assert index.rank("2222", None, "words", 1)[0].line == 2222
    other = write_embeddings(tmp_path / "other", drawn(9, 2), model="1")
    assert run(["index", "--embeddings", folders[0], other, f"--output={tmp_path / 'no'}"]) == 2
    told = f"--embeddings={other}: was made otherwise than {folders[0]} (model_sha256 there"
    assert told in capsys.readouterr().err
    assert run(["index", "--embeddings", other, other, f"--output={tmp_path / 'no'}"]) == 2
    assert "comes twice" in capsys.readouterr().err


@pytest.mark.parametrize("value", [np.nan, np.inf, 0])
def test_vectors_without_a_direction(tmp_path, capsys, value):
    bad = drawn(12, 0)
    bad[7] = value
    flags = [f"--embeddings={write_embeddings(tmp_path / 'e', bad)}", f"--output={tmp_path / 'i'}"]
    assert run(["index", *flags]) == 2
    assert "a.txt, line 7: has an embedding that is zero or no finite" in capsys.readouterr().err
    assert not (tmp_path / "i/_SUCCESS").exists()


FILES = ("vectors.npy", "passages.arrow", "index.json", "words.arrow", "word_scores.npy")


@pytest.mark.parametrize("change", ["cut", "emptied", "a bit", "gone"])
@pytest.mark.parametrize("name", FILES)
def test_damaged_files_are_named_before_any_answer(
    exact, embeddings, tmp_path, capsys, name, change
):
    copy = shutil.copytree(exact, tmp_path / "copy")
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 3] ^= 1
    changed = {"cut": content[:-70], "emptied": b"", "a bit": content}
    (copy / name).unlink()
    if change in changed:
        (copy / name).write_bytes(changed[change])
    commands = [["search", f"--index={copy}", "--by=words", "a"]]
    if change != "gone" or name != "index.json":
        commands.append(["index", f"--embeddings={embeddings}", f"--output={copy}"])
    for command in commands:
        assert run(command) == 2
        error = capsys.readouterr().err
        assert "copy" in error and error.count("\n") == 1
        assert name in error or (name == "index.json" and change == "gone") or "is damaged" in error


def test_embeddings_that_are_not_whole(tmp_path, capsys):
    folder = tmp_path / "e"
    flags = [f"--embeddings={write_embeddings(folder, drawn(30, 0), part=10)}"]
    flags += [f"--output={tmp_path / 'i'}"]
    (folder / "part-00001.parquet").write_bytes(b"PAR1")
    assert run(["index", *flags]) == 2
    assert "part-00001.parquet: cannot be read" in capsys.readouterr().err
    (folder / "_SUCCESS").unlink()
    assert run(["index", *flags]) == 2
    assert "not a finished folder of `beambert embed`" in capsys.readouterr().err


def test_an_interrupted_command_begins_again(embeddings, exact, tmp_path, monkeypatch):

    def fails(*_):
        raise InputError("stopped")

    output = tmp_path / "index"
    with monkeypatch.context() as patched:
        patched.setattr(indexing, "units", fails)
        with pytest.raises(InputError, match="stopped"):
            make_index([embeddings], str(output))
    with pytest.raises(InputError, match="not a finished folder of `beambert index`"):
        open_index(str(output))
    make_index([embeddings], str(output))
    for file in exact.iterdir():
        assert (output / file.name).read_bytes() == file.read_bytes(), file.name
    assert {path.name for path in output.iterdir()} == {path.name for path in exact.iterdir()}
