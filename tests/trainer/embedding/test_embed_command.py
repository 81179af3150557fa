"""`beambert embed`: what it reads and writes, what it refuses, and how it goes on."""

import json
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beambert.cli import run
from beambert.errors import InputError
from beambert.trainer.embedding import writing
from beambert.trainer.embedding.embedder import Embedder, embed

GOLDEN = pathlib.Path(__file__).parents[1] / "golden_sentences"
MODEL = f"--model={GOLDEN / 'mean'}"


def command(folder, *flags):
    return run(["embed", MODEL, f"--output={folder / 'out'}", *map(str, flags)])


@pytest.mark.slow
def test_lines_and_columns(tmp_path, capsys):
    """Files in the order of their names, blank lines left out, identifiers where there are any."""
    (tmp_path / "b.txt").write_text("a river\n\n  a b \n")
    (tmp_path / "a.csv").write_text('body,number\n"a,\nb",7\nc,8\n')
    flags = ["--input", tmp_path / "a.csv", "--text_column=body", "--id_column=number"]
    assert command(tmp_path, *flags) == 0
    table = pq.read_table(tmp_path / "out")
    assert table.column_names == ["file", "line", "start", "id", "text", "embedding"]
    assert table["line"].to_pylist() == [2, 4] and table["id"].to_pylist() == ["7", "8"]
    assert table["text"].to_pylist() == ["a,\nb", "c"]
    assert table.schema.field("embedding").type == pa.list_(pa.float32(), 16)
    expected = embed(str(GOLDEN / "mean"), ["a,\nb", "c"])
    np.testing.assert_allclose(np.stack(table["embedding"].to_numpy()), expected, atol=1e-6)
    assert "out: embeddings of 2 texts, 16 wide\n" in capsys.readouterr().out

    other = tmp_path / "other"
    flags = [f"--input={tmp_path}/*.txt", "--max_seq_length=3"]
    assert command(other, *flags) == 0
    table = pq.read_table(other / "out")
    assert table.column_names == ["file", "line", "start", "text", "embedding"]
    assert table["line"].to_pylist() == [1, 3]
    assert table["file"].to_pylist() == [str(tmp_path / "b.txt")] * 2
    assert "2 texts, 16 wide; 2 texts cut to 3 tokens" in capsys.readouterr().out


def test_a_killed_command_goes_on(tmp_path, monkeypatch, capsys):
    """The second part is missing; the first and the third aren't made again."""
    monkeypatch.setattr(writing, "PART_TEXTS", 2)
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"{letter} {letter * 12}\n" for letter in "abcde"))
    whole = tmp_path / "whole"
    assert command(whole, f"--input={texts}") == 0
    expected = pq.read_table(whole / "out")
    asked, ask = [], Embedder.embed

    def fails(self, texts, report):
        asked.append(list(texts))
        if len(asked) == 2:
            raise KeyboardInterrupt
        return ask(self, texts, report)

    monkeypatch.setattr(Embedder, "embed", fails)
    assert command(tmp_path, f"--input={texts}") == 130
    assert "continues it" in capsys.readouterr().err
    assert command(tmp_path, f"--input={texts}") == 0
    assert [each[0][0] for each in asked] == ["a", "c", "c", "e"]
    assert pq.read_table(tmp_path / "out").equals(expected)
    info, of_whole = ((to / "out/_info.json").read_text() for to in (tmp_path, whole))
    assert info == of_whole and json.loads(info)["cut"] == 5
    assert command(tmp_path, f"--input={texts}") == 0
    assert len(asked) == 4 and "nothing to do" in capsys.readouterr().out
    assert command(tmp_path, f"--input={texts}", "--pooling=cls") == 2
    assert '--pooling there "mean", here "cls"' in capsys.readouterr().err


@pytest.mark.parametrize("name", ["part-00000.parquet", "_info.json"])
def test_a_changed_bit_is_refused_or_changes_nothing(tmp_path, name):
    (tmp_path / "a.txt").write_text("a river\na b\n")
    assert command(tmp_path, f"--input={tmp_path}/a.txt") == 0
    path = tmp_path / "out" / name
    content, refused = path.read_bytes(), 0

    def read():
        folder = writing.open_embeddings(str(path.parent))
        about = {key: value for key, value in folder.info.items() if key != "cut"}
        return about, [(rows.to_pydict(), all_NH.tolist()) for rows, all_NH in folder.parts()]

    expected = read()
    for position in range(0, len(content), 11):
        changed = bytearray(content)
        changed[position] ^= 4
        path.write_bytes(changed)
        try:
            assert read() == expected
        except InputError:
            refused += 1
    assert refused > len(content) / 11 / 4


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("t.txt", "\n \n", "has no text"),
        ("t.csv", "text,id\na,1\n ,2\n", "t.csv, line 3: has an empty 'text'"),
        ("t.jsonl", '{"text": "a"}\n{"text": null}\n', "t.jsonl, line 2: has an empty 'text'"),
    ],
)
def test_bad_rows_are_refused_before_the_first_is_embedded(tmp_path, capsys, name, content, told):
    (tmp_path / name).write_text(content)
    assert command(tmp_path, f"--input={tmp_path / name}") == 2
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", ["", "a river\nmore\n", "another\n"])
def test_a_file_that_changes_meanwhile_is_refused(tmp_path, monkeypatch, capsys, content):
    """It is emptied, grows or is replaced after its rows have been counted."""
    texts, claimed = tmp_path / "t.txt", writing.folders.claimed
    texts.write_text("a river\n")

    def claim(*given):
        texts.write_text(content)
        return claimed(*given)

    monkeypatch.setattr(writing.folders, "claimed", claim)
    assert command(tmp_path, f"--input={texts}") == 2
    assert "t.txt: was changed while it was read" in capsys.readouterr().err
    assert not (tmp_path / "out/_SUCCESS").exists()


@pytest.mark.slow
def test_gs(gs, tmp_path, monkeypatch, capsys):
    """The same vectors as of files here; a command that was cut off goes on; an index of them."""
    import tensorflow as tf

    monkeypatch.setattr(writing, "PART_TEXTS", 2)
    contents = {"a.csv": "text,id\na river,7\na road,8\n", "b.csv": "text,id\na b c,9\n"}
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
        with tf.io.gfile.GFile(f"{gs}/texts/{name}", "w") as file:
            file.write(content)
    assert command(tmp_path, f"--input={tmp_path}/*.csv", "--id_column=id") == 0
    flags = [MODEL, f"--input={gs}/texts/*.csv", "--id_column=id", f"--output={gs}/embeddings"]
    ask = Embedder.embed

    def fails(embedder, texts, report):
        if len(texts) == 1:
            raise KeyboardInterrupt
        return ask(embedder, texts, report)

    with monkeypatch.context() as patched:
        patched.setattr(Embedder, "embed", fails)
        assert run(["embed", *flags]) == 130
    asked = []
    monkeypatch.setattr(Embedder, "embed", lambda *of: (asked.extend(of[1]), ask(*of))[1])
    assert run(["embed", *flags]) == 0 and asked == ["a b c"]
    assert run(["index", f"--embeddings={gs}/embeddings", f"--output={tmp_path / 'index'}"]) == 0
    passages = pa.ipc.open_file(tmp_path / "index/passages.arrow").read_all()
    here = pq.read_table(tmp_path / "out")
    assert passages["file"].to_pylist() == [f"{gs}/texts/{each}.csv" for each in "aab"]
    assert passages["text"].to_pylist() == here["text"].to_pylist()
    vectors = np.load(tmp_path / "index/vectors.npy")
    expected = np.stack(here["embedding"].to_numpy())
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
