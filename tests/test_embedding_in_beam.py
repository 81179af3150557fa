"""`beambert embed` and the transform `Embed` in Beam pipelines, beside this process alone."""

import json
import pathlib

import apache_beam as beam
import numpy as np
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that, equal_to

import beambert
from beambert.commands import run as run_command
from beambert.embedding import graph, run
from beambert.trainer.embedding import job
from beambert.trainer.embedding.embedder import Embedder, embed

GOLDEN = pathlib.Path(__file__).parent / "trainer" / "golden_sentences"
MODEL = str(GOLDEN / "mean")
IN_BEAM = ["--runner=FnApiRunner"]


def command(output, *flags):
    return run_command(["embed", f"--model={MODEL}", f"--output={output}", *map(str, flags)])


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def small_parts(monkeypatch):
    """Two texts in a part, and at most three stretches of parts."""
    for module in (job, run):
        monkeypatch.setattr(module, "PART_TEXTS", 2)
    monkeypatch.setattr(graph, "MOST_STRETCHES", 3)


@pytest.fixture
def corpus(tmp_path):
    """Texts of several files, one of them without any; parts and stretches begin within files."""
    (tmp_path / "a.txt").write_text("a\n\nb\nc b a\n")
    (tmp_path / "b.txt").write_text("\n\n")
    (tmp_path / "c.csv").write_text('text,id\n"a river,\nb",7\nroad,8\n')
    (tmp_path / "d.txt").write_text("".join(f"{letter * 12} b\n" for letter in "abcdefgh"))
    return f"--input={tmp_path}/*.*"


def test_the_same_files_in_this_process_and_in_beam(small_parts, corpus, tmp_path, capsys):
    """Byte by byte: parts, information and marker, also by two workers."""
    flags = [corpus, "--passage_words=2", "--normalize=True", "--max_seq_length=8"]
    assert command(tmp_path / "here", *flags) == 0
    said = capsys.readouterr().out
    expected = files_of(tmp_path / "here")
    assert len([name for name in expected if name.startswith("part-")]) == 8
    assert json.loads(expected["_info.json"])["cut"] > 0
    two = ["--direct_num_workers=2", "--direct_running_mode=multi_threading"]
    for name, more in (("one", IN_BEAM), ("two", two)):
        assert command(tmp_path / name, *flags, *more) == 0
        assert files_of(tmp_path / name) == expected
        told = capsys.readouterr().out
        assert said.splitlines()[-1].replace("here", name) == told.splitlines()[-1]
    assert command(tmp_path / "two", *flags) == 0
    assert "nothing to do" in capsys.readouterr().out


def test_a_pipeline_goes_on_with_what_another_command_has_begun(
    small_parts, corpus, tmp_path, monkeypatch
):
    """Parts that are there aren't made again, whoever made them."""
    assert command(tmp_path / "whole", corpus) == 0
    asked, ask = [], Embedder.embed

    def fails(self, texts, report):
        asked.extend(texts)
        if len(asked) > 6:
            raise KeyboardInterrupt
        return ask(self, texts, report)

    with monkeypatch.context() as patched:
        patched.setattr(Embedder, "embed", fails)
        assert command(tmp_path / "out", corpus) == 130
    done = {name: data for name, data in files_of(tmp_path / "out").items() if "part-" in name}
    assert len(done) == 3
    asked.clear()
    monkeypatch.setattr(Embedder, "embed", lambda *of: (asked.extend(of[1]), ask(*of))[1])
    assert command(tmp_path / "out", corpus, *IN_BEAM) == 0
    assert len(asked) == 13 - 6
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


@pytest.mark.slow
def test_a_bad_row_is_one_sentence_before_anything_is_embedded(
    small_parts, corpus, tmp_path, monkeypatch, capsys
):
    """The last row of the last file; then the corrected command has the folder."""
    monkeypatch.setattr(Embedder, "embed", None)
    bad = tmp_path / "e.jsonl"
    bad.write_text('{"text": "a"}\n{"text": null}\n')
    assert command(tmp_path / "out", corpus, *IN_BEAM) == 2
    error = capsys.readouterr().err
    assert "e.jsonl, line 2: has an empty 'text'" in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()
    monkeypatch.undo()
    bad.unlink()
    assert command(tmp_path / "out", corpus, *IN_BEAM) == 0
    assert command(tmp_path / "none", f"--input={tmp_path}/b.txt", *IN_BEAM) == 2
    assert "b.txt: has no text" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_an_unknown_flag(tmp_path, capsys):
    assert command(tmp_path / "out", "--input=x", "--poolin=cls") == 2
    assert "--poolin=cls: no such flag; did you mean --pooling?" in capsys.readouterr().err


def test_embed(small_parts):
    """Texts and columns with their vectors, those without a text with the reason."""
    rows = ["a river", {"text": "b", "id": 7}, " ", {"body": "a"}, {"text": 5}]
    made = beambert.Embed(beambert.EmbeddingJob(MODEL, prefix="a ", normalize=True))
    expected = embed(MODEL, ["a river", "b"], prefix="a ", normalize=True)

    def told(row):
        vector = row.pop("embedding", np.zeros(0, np.float32))
        assert vector.dtype == np.float32
        return row, np.round(vector.astype(float), 4).tolist()

    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = pipeline | beam.Create(rows) | made | beam.Map(told)
        vectors = [np.round(of.astype(float), 4).tolist() for of in expected]
        reasons = [
            ({"text": " "}, "has an empty 'text'; fill it in"),
            ({"body": "a"}, "has no column 'text' (it has body); name another"),
            ({"text": 5}, "has no text in 'text'; write one"),
        ]
        assert_that(
            found,
            equal_to(
                [({"text": "a river"}, vectors[0]), ({"text": "b", "id": 7}, vectors[1])]
                + [(row | {"reason": f"a row: {why}"}, []) for row, why in reasons]
            ),
        )


def test_embed_refuses_at_once(tmp_path):
    with pytest.raises(beambert.InputError, match="--last_layers=9: must be from 1 to"):
        beambert.Embed(beambert.EmbeddingJob(MODEL, last_layers=9))
    with pytest.raises(beambert.InputError, match="no such|nothing|not"):
        beambert.Embed(beambert.EmbeddingJob(str(tmp_path / "none")))


@pytest.mark.release
def test_two_processes_give_the_same_bytes(tmp_path):
    """Three parts of whole size, by worker processes that share nothing with this one."""
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"a river {number} b\n" for number in range(2 * job.PART_TEXTS + 5)))
    job_of = beambert.EmbeddingJob(MODEL, (str(texts),), keep_text=False)
    two = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    for name, more in (("here", []), ("there", two)):
        assert command(tmp_path / name, f"--input={texts}", "--keep_text=False", *more) == 0
    expected = files_of(tmp_path / "here")
    assert len(expected) == 5 and files_of(tmp_path / "there") == expected
    found = pq.read_table(tmp_path / "there", columns=["embedding"])["embedding"].to_numpy()
    np.testing.assert_allclose(
        found[-1], embed(job_of.model, [f"a river {2 * job.PART_TEXTS + 4} b"])[0], atol=1e-6
    )
