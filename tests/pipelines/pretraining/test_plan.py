"""The plan of a job: its shards, very many inputs, and what earlier runs have taken."""

import gzip
import json
import os
import pathlib
import pickle
import random

import apache_beam as beam
import pytest
from support.data_command import data, hashes, info, refused, wikiextractor
from support.sample_text import make_document

from beambert.pipelines import input_files
from beambert.pipelines.input_files import InputFile, InputList, read_list, write_list
from beambert.pipelines.pretraining.graph import CreatePretrainingData
from beambert.pipelines.pretraining.job import PretrainingDataJob
from beambert.pipelines.pretraining.plan import default_num_shards, make_plan


@pytest.mark.parametrize(
    ("text_bytes", "shards"),
    [
        (0, 1),
        (8 << 20, 1),
        ((8 << 20) + 1, 2),
        (500 * 10**6, 60),
        (20 * 10**9, 2385),
        ((8 << 20) * 4096, 4096),
        (200 * 10**9, 4096),
        (2 * 10**12, 29803),
    ],
)
def test_shards_grow_with_huge_corpora_only(text_bytes, shards):
    assert default_num_shards([InputFile("a", text_bytes)]) == shards


def test_compressed_text_counts_by_its_usual_size():
    assert default_num_shards([InputFile("a.gz", 100 << 20)]) == 44  # 3.5 times 100 MB


@pytest.fixture
def inputs(tmp_path):
    """Five files of two sources, one with a name of its own alphabet."""
    for number, name in enumerate(("a/1", "a/2", "b/1", "b/ü", "b/3")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"The river. A city began.\nThe song {number}.\n\nOne house. A game.\n")
    return ["--input", f"{tmp_path}/a/*", f"{tmp_path}/b/*", "--num_shards=2", "--format=lines"]


@pytest.mark.slow
def test_many_inputs_stand_in_a_file_of_their_own(
    capsys, tmp_path, vocab_file, inputs, monkeypatch
):
    """The records and counts are the same, and --since knows the files."""
    flags = [*inputs, "--random_next=source", "--max_seq_length=32,64"]
    flags += ["--max_predictions_per_seq=5,10"]
    few, many = tmp_path / "few", tmp_path / "many"
    assert data(capsys, vocab_file, few, *flags)[0] == 0
    monkeypatch.setattr(input_files, "MOST_LISTED", 4)
    assert data(capsys, vocab_file, many, *flags)[0] == 0
    listed = info(few / "32")["inputs"]
    for length in ("32", "64"):
        assert hashes(many / length) == hashes(few / length)
        assert info(many / length)["counts"] == info(few / length)["counts"]
        summary = info(many / length)["inputs"]
        assert (summary["files"], summary["bytes"]) == (5, sum(each["bytes"] for each in listed))
        assert json.loads((many / length / "_SUCCESS").read_text())["inputs"] == summary
        rows = gzip.decompress((many / length / "inputs.jsonl.gz").read_bytes()).splitlines()
        assert [json.loads(row) for row in rows] == listed
        names = {path.name for path in (few / length).iterdir()} | {"inputs.jsonl.gz"}
        assert {path.name for path in (many / length).iterdir()} == names
    # The same command has nothing to do, and another one sees no new file.
    assert "nothing to do" in data(capsys, vocab_file, many, *flags)[1]
    found = data(capsys, vocab_file, tmp_path / "new", *flags, f"--since={many}")
    assert found[0] == 0 and "nothing new" in found[1]
    (tmp_path / "a" / "1").write_text("The river. A city.\nThe song ended.\n\nOne house. A game.\n")
    assert "of another job (inputs.bytes there" in data(capsys, vocab_file, many, *flags)[2]
    found = data(capsys, vocab_file, tmp_path / "new", *flags, f"--since={many}")
    assert found[0] == 0 and found[1].startswith("1 file,")


def test_a_million_inputs_make_a_small_job(tmp_path, vocabulary, vocab_file):
    """Neither the job that is sent nor info.json grows with them."""
    files = [InputFile(f"gs://bucket/text/{i // 1000}/{i:07d}.txt", 10, 1.5) for i in range(20_000)]
    sizes = []
    for count in (10_000, 20_000):
        job = PretrainingDataJob(
            vocab_file=str(vocab_file), output=f"{tmp_path}/out", format="jsonl", num_shards=3
        )
        plan = make_plan(job, files[:count])
        pipeline = beam.Pipeline(runner="FnApiRunner")
        pipeline.options.view_as(beam.options.pipeline_options.TestOptions).dry_run = True
        pipeline | CreatePretrainingData(job, plan=plan)
        about = json.dumps(plan.identity(plan.layout.folders()[0]))
        parts = (
            pipeline.to_runner_api().SerializeToString(),
            pickle.dumps(plan.for_workers()),
            about,
        )
        sizes.append([len(part) for part in parts])
    # Each of 10,000 inputs would take some bytes; compressed pickles differ by a hundred.
    assert max(abs(a - b) for a, b in zip(*sizes, strict=True)) < 1000
    assert sizes[1][0] < 200_000


def test_a_list_is_the_same_bytes_every_time(tmp_path):
    files = [InputFile(f"/ü/{i}", i, i / 7) for i in range(2000)]
    paths = [str(tmp_path / name) for name in ("a.jsonl.gz", "b.jsonl.gz")]
    for path in paths:
        write_list(path, files)
    assert read_list(paths[0]) == files
    assert len({pathlib.Path(path).read_bytes() for path in paths}) == 1
    one, other = InputList.of(files, "a"), InputList.of(files, "b")
    assert one.summary == other.summary and one.count == 2000
    assert InputList.of(files[:1999], "a").summary["sha256"] != one.summary["sha256"]
    assert InputList.of(files[:1000], "a") == InputList(tuple(files[:1000]))


@pytest.fixture
def write(tmp_path):
    """Writes a file of ten documents of its own."""
    (tmp_path / "corpus").mkdir()

    def file(name, seed):
        generator = random.Random(seed)
        path = tmp_path / "corpus" / name
        path.write_text(wikiextractor(make_document(generator, 6) for _ in range(10)))
        return path

    return file


@pytest.fixture
def run(tmp_path, capsys, vocab_file):
    """Runs the command on the corpus; returns status, what it printed, and its errors."""

    def command(name, *flags):
        output = tmp_path / "records" / name
        return data(capsys, vocab_file, output, f"--input={tmp_path}/corpus/*", *flags)

    return command


def names(folder) -> list[str]:
    return [os.path.basename(file["path"]) for file in info(folder)["inputs"]]


@pytest.mark.slow
def test_only_what_is_new_or_changed(tmp_path, write, run):
    records = tmp_path / "records"
    for seed, name in enumerate(["a", "b", "c"]):
        write(name, seed)
    assert run("1")[0] == 0
    assert names(records / "1") == ["a", "b", "c"]

    write("d", 3)
    write("b", 4)
    assert run("2", f"--since={records}/1")[0] == 0
    assert names(records / "2") == ["b", "d"]
    assert info(records / "2")["counts"]["documents"]["read"] == 20

    write("e", 5)
    os.utime(tmp_path / "corpus" / "a", (1, 1))  # another date: perhaps another text
    assert run("3", f"--since={records}/*")[0] == 0
    assert names(records / "3") == ["a", "e"]
    status, out, err = run("4", f"--since={records}/*")
    assert (status, err) == (0, "") and out.startswith("nothing new") and out.count("\n") == 1
    assert not (records / "4").exists()


@pytest.mark.slow
def test_folders_of_several_lengths(tmp_path, write, run):
    """Their info.json lies a folder deeper."""
    write("a", 0)
    lengths = ["--max_seq_length=32,64", "--max_predictions_per_seq=5,10"]
    assert run("1", *lengths, "--eval_fraction=0.3")[0] == 0
    write("b", 1)
    for since in ("records/*", "records/1/32"):
        assert run("2", *lengths, f"--since={tmp_path}/{since}")[0] == 0
        assert names(tmp_path / "records" / "2" / "64") == ["b"]
        for path in sorted((tmp_path / "records" / "2").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()


def test_unfinished_folders_have_taken_nothing(tmp_path, write, run):
    write("a", 0)
    assert run("1")[0] == 0
    (tmp_path / "records" / "1" / "_SUCCESS").unlink()
    result = run("2", f"--since={tmp_path}/records/1")
    refused(result, f"--since={tmp_path}/records/1", "no finished records folder")
    assert not (tmp_path / "records" / "2").exists()


@pytest.mark.slow
def test_files_that_are_left_out(tmp_path, write, run):
    """By a list; beside --since, and with a name that would be a pattern."""
    paths = [write(name, seed) for seed, name in enumerate(["a", "b", "c[1]", "d"])]
    listing = tmp_path / "left_out.txt"
    listing.write_text(f"{paths[1]}\n\n{paths[2]}\n{tmp_path}/corpus/none\n")
    left_out = f"--leave_out={listing}"
    assert run("1", left_out)[0] == 0
    assert names(tmp_path / "records" / "1") == ["a", "d"]
    assert run("2", f"--since={tmp_path}/records/1")[0] == 0
    assert names(tmp_path / "records" / "2") == ["b", "c[1]"]
    listing.write_text("".join(f"{path}\n" for path in paths))
    status, _, error = run("3", left_out)
    assert status == 2 and "names all files of --input; take those to read out of it" in error
    status, _, error = run("3", "--leave_out=nowhere")
    assert status == 2 and "--leave_out=nowhere: cannot be read" in error
