"""Input files: a name that exists is itself, changes are seen; values stored beside a job."""

import os

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beambert.errors import InputError
from beambert.io import read_bytes
from beambert.pipelines.input_files import (
    StoredValue,
    check_unchanged,
    match_inputs,
    match_sources,
    store_values,
)


def names(*patterns) -> list[str]:
    return [os.path.basename(file.path) for file in match_inputs([str(p) for p in patterns])]


def test_a_name_that_exists_is_itself(tmp_path):
    for name in ("a1.jsonl", "a[1].jsonl", "b*.txt", "b2.txt"):
        (tmp_path / name).write_text("x")
    assert names(tmp_path / "a1.jsonl", tmp_path / "a[1].jsonl") == ["a1.jsonl", "a[1].jsonl"]
    assert names(tmp_path / "b*.txt") == ["b*.txt"]
    assert names(tmp_path / "a[12].jsonl") == ["a1.jsonl"]
    assert names(tmp_path / "*") == ["a1.jsonl", "a[1].jsonl", "b*.txt", "b2.txt"]


@pytest.mark.parametrize("pattern", ["gone.txt", "*.txt"])
def test_a_link_to_nothing_is_named(tmp_path, pattern):
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"gone\.txt: is a link to .*nothing, which cannot be"):
        names(tmp_path / pattern)


def test_only_regular_files(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    for path in ("/dev/zero", tmp_path / "pipe.txt", tmp_path / "*.txt"):
        with pytest.raises(InputError, match="is not a regular file"):
            names(path)
    for path in ("/dev/zero", tmp_path / "pipe.txt"):
        with pytest.raises(InputError, match="--vocab_file=.*not a regular file"):
            read_bytes(str(path), "--vocab_file")


def test_a_name_that_is_not_utf8(tmp_path):
    path = os.fsencode(tmp_path) + b"/caf\xe9.txt"
    with open(path, "w") as file:
        file.write("x")
    for pattern in (os.fsdecode(path), str(tmp_path / "*")):
        with pytest.raises(InputError, match=r"caf\\udce9\.txt: the name is not UTF-8") as caught:
            match_inputs([pattern])
        str(caught.value).encode()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda path: path.write_text(""), "has 0 bytes now and had 5"),
        (lambda path: path.write_text("longer text"), "has 11 bytes now"),
        (lambda path: os.utime(path, (1, 1)), "has another date"),
        (lambda path: path.unlink(), "is gone"),
    ],
)
def test_changes_are_seen(tmp_path, change, what):
    path = tmp_path / "a.txt"
    path.write_text("text\n")
    inputs = match_inputs([str(path)])
    check_unchanged(inputs, [str(path)], "wait")
    change(path)
    with pytest.raises(InputError, match=f"was changed while it was read .{what}.*; wait"):
        check_unchanged(inputs, [str(path)], "wait")


def test_changes_of_objects_are_seen(gs):
    from beambert.io import write_bytes

    write_bytes(f"{gs}/inputs/a.txt", b"text")
    patterns = [f"{gs}/inputs/*"]
    inputs = match_inputs(patterns)
    check_unchanged(inputs, patterns, "wait")
    write_bytes(f"{gs}/inputs/a.txt", b"longer text")
    with pytest.raises(InputError, match=r"a\.txt: was changed .*11 bytes now and had 4"):
        check_unchanged(inputs, patterns, "wait")


@pytest.mark.parametrize("pattern", ["*.txt", "./*.txt", "b.txt", "in/../*.txt"])
def test_patterns_are_of_the_working_folder(pattern, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "b.txt").write_text("text")
    (found,) = match_inputs([pattern])
    assert (found.path, found.bytes) == (str(tmp_path / "b.txt"), 4)
    with pytest.raises(InputError, match=r"--input=\*\.csv: matches no file"):
        match_inputs(["*.csv"])
    with pytest.raises(InputError, match="=b.txt,c.txt: matches no file; give blanks between"):
        match_inputs(["b.txt,c.txt"])


def test_files_of_several_sources_are_listed_once(tmp_path):
    for name in ("b.txt", "a.txt", "c.txt"):
        (tmp_path / name).write_text("text")
    sources = {"one": (f"{tmp_path}/b.txt", f"{tmp_path}/a.txt"), "two": (f"{tmp_path}/[bc].txt",)}
    assert [file.path for file in match_sources(sources)] == [f"{tmp_path}/{n}.txt" for n in "abc"]
    with pytest.raises(InputError, match="^--source=two"):
        match_sources({"two": (f"{tmp_path}/none*",)})


VALUES = [["a"], {"b": (1, None)}, "", ["c" * 5000]]


def test_workers_read_them(tmp_path):
    places = store_values(f"{tmp_path}/values", VALUES)
    assert [place.read() for place in places] == VALUES
    pipeline = beam.Pipeline(runner="FnApiRunner")
    read = pipeline | beam.Create(places) | beam.Map(StoredValue.read)
    assert_that(read, equal_to(VALUES))
    # The job has their places only.
    assert b"ccccc" not in pipeline.to_runner_api().SerializeToString()
    pipeline.run()


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_what_was_changed_is_not_loaded(tmp_path, number):
    """A pickle runs code, so a byte from somebody else is a byte too many."""
    path = tmp_path / "values"
    place = store_values(str(path), VALUES)[number]
    data = bytearray(path.read_bytes())
    data[place.start] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match="values: was changed while the job ran"):
        place.read()


def test_a_file_that_was_cut_off_is_noticed(tmp_path):
    place = store_values(f"{tmp_path}/values", VALUES)[-1]
    os.truncate(place.path, place.start + 10)
    with pytest.raises(EOFError, match="values: ends at byte"):
        place.read()
