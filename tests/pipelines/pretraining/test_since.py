"""`--since`: a later run over a growing corpus takes what no earlier one has taken."""

import os
import random

import pytest
from support import data_command
from support.data_command import data, info, refused, wikiextractor
from support.sample_text import make_document

vocab_file = data_command.vocab_file


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
