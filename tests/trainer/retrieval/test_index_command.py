"""`beambert index`: what it finds beside a comparison of all vectors, and what it refuses."""

import hashlib
import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beambert.cli import run
from beambert.errors import InputError
from beambert.trainer.retrieval import indexing
from beambert.trainer.retrieval.indexing import make_index
from beambert.trainer.retrieval.searching import Index, open_index

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
    assert make_index([embeddings], f"{folder}/index").passages == COUNT
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
    told = f"--embeddings={other}: was made otherwise than {folders[0]} (--model there"
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
