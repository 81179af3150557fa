"""`beambert embed` and the transform `Embed` in Beam pipelines, beside this process alone."""

import doctest
import inspect
import json
import pathlib
import shutil
import subprocess
import sys
import time

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.typehints.decorators import TypeCheckError
from support import untrained_models
from support.absent_packages import BEAM_PACKAGES, without

import beambert
from beambert import embedding_in_beam as graph
from beambert.cli import run as run_command
from beambert.pipelines.tasks import saved_models
from beambert.trainer.embedding import embedder, writing
from beambert.trainer.embedding.embedder import Embedder, embed
from beambert.trainer.weights.export import export_tensorflow

GOLDEN = pathlib.Path(__file__).parent / "trainer"
MODEL = str(GOLDEN / "golden_sentences" / "mean")
IN_BEAM = ["--runner=FnApiRunner"]
TWO_PROCESSES = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]


def command(output, *flags, model=MODEL):
    return run_command(["embed", f"--model={model}", f"--output={output}", *map(str, flags)])


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def small_parts(monkeypatch):
    """Two texts in a part, and at most three segments of parts."""
    monkeypatch.setattr(writing, "PART_TEXTS", 2)
    monkeypatch.setattr(graph, "MOST_STRETCHES", 3)


@pytest.fixture
def corpus(tmp_path):
    """Texts of several files, one of them without any; parts and segments begin within files."""
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
    assert command(tmp_path / "two", *flags, *two) == 0
    assert files_of(tmp_path / "two") == expected
    told = capsys.readouterr().out
    assert said.splitlines()[-1].replace("here", "two") == told.splitlines()[-1]
    pattern = corpus.removeprefix("--input=")
    given = {"passage_words": 2, "normalize": True, "max_seq_length": 8}
    asked = beambert.EmbeddingJob(MODEL, pattern, str(tmp_path / "one"), **given)
    found = beambert.embed_files(asked, PipelineOptions())
    assert files_of(tmp_path / "one") == expected
    assert found.cut == json.loads(expected["_info.json"])["cut"]
    assert beambert.embed_files(asked).was_done
    assert command(tmp_path / "two", *flags) == 0
    assert "nothing to do" in capsys.readouterr().out


@pytest.mark.slow
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
def test_where_beam_is_not_installed(tmp_path):
    (tmp_path / "a.txt").write_text("a river\n")
    given = ["embed", f"--model={MODEL}", f"--input={tmp_path}/a.txt", f"--output={tmp_path}/out"]
    code = f"""{without(BEAM_PACKAGES)}
from beambert.cli import run
print(run({given!r} + ["--runner=FnApiRunner"]), run({given!r}))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "2 0"
    assert "--runner=FnApiRunner: no such flag" in done.stderr
    assert (tmp_path / "out" / "_SUCCESS").exists()


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
        vectors = [np.round(each.astype(float), 4).tolist() for each in expected]
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
    with pytest.raises(beambert.InputError, match="--model=.*none"):
        beambert.Embed(beambert.EmbeddingJob(str(tmp_path / "none")))
    with pytest.raises(TypeCheckError):
        beam.Pipeline() | beam.Create([1]) | beambert.Embed(beambert.EmbeddingJob(MODEL))


@pytest.mark.slow
def test_the_example_of_the_docstring(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(MODEL, "encoder")
    text = inspect.getdoc(beambert.Embed)
    test = doctest.DocTestParser().get_doctest(text, {}, "Embed", None, None)
    told = []
    doctest.DocTestRunner(verbose=False).run(test, out=told.append)
    assert test.examples and told == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["folder", "TF1"])
def test_workers_elsewhere_read_a_copy_of_the_model(
    corpus, tmp_path, monkeypatch, vocabulary, kind
):
    """In --temp_location, which is tidied at the end."""
    model = MODEL
    if kind == "TF1":
        own = untrained_models.save_encoder(tmp_path / "own", vocabulary)
        export_tensorflow(str(own), str(tmp_path / "tf1"))
        model = tmp_path / "tf1" / "bert_model.ckpt"
    assert command(tmp_path / "here", corpus, model=model) == 0
    opened, read = [], embedder.open_initial
    monkeypatch.setattr(
        embedder, "open_initial", lambda where, *of: (opened.append(where), read(where, *of))[1]
    )
    monkeypatch.setattr(saved_models, "has_local_workers", lambda _: False)
    shared = tmp_path / "shared"
    flags = [*IN_BEAM, f"--temp_location={shared}"]
    assert command(tmp_path / "there", corpus, *flags, model=model) == 0
    assert [each.startswith(str(shared)) for each in opened] == [False, True]
    assert list(shared.iterdir()) == []
    assert files_of(tmp_path / "there") == files_of(tmp_path / "here")


@pytest.fixture
def many_texts(tmp_path):
    """Texts for three parts of whole size."""
    texts = tmp_path / "texts.txt"
    texts.write_text(
        "".join(f"a river {number} b\n" for number in range(2 * writing.PART_TEXTS + 5))
    )
    return [f"--input={texts}", "--keep_text=False"]


@pytest.mark.release
def test_a_killed_pipeline_goes_on(many_texts, tmp_path):
    """Killed with its workers once a part is there; that part is not made again."""
    assert command(tmp_path / "whole", *many_texts) == 0
    output = tmp_path / "out"
    given = ["embed", f"--model={MODEL}", f"--output={output}", *many_texts, *TWO_PROCESSES]
    process = subprocess.Popen([sys.executable, "-m", "beambert", *given])
    while not (parts := list(output.glob("part-*"))):
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    before = {path: path.stat().st_mtime_ns for path in parts}
    assert (output / "_UNFINISHED").exists()
    assert command(output, *many_texts, *TWO_PROCESSES) == 0
    assert {path: path.stat().st_mtime_ns for path in parts} == before
    assert files_of(output) == files_of(tmp_path / "whole")
