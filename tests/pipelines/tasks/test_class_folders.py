"""Texts in folders that are named by their labels."""

import dataclasses
import os

import pytest

from beambert.errors import InputError
from beambert.pipelines.tasks import tables
from beambert.pipelines.tasks.declarations import TASKS
from beambert.pipelines.tasks.reading import present_splits, read_file, read_splits

TASK = TASKS["classification"]
GERMAN = "Die Größe der Bäume überraschte die müden Wanderer, denn es war nicht mehr zu sehen. "


@pytest.fixture
def data(tmp_path):
    """Reviews as the Large Movie Review Dataset has them."""
    for split, count in (("train", 3), ("dev", 1), ("test", 1)):
        for label, text in (("pos", "A fine film.\nSee it."), ("neg", "A dull film.")):
            folder = tmp_path / split / label
            folder.mkdir(parents=True)
            for number in range(count):
                (folder / f"{number}_7.txt").write_text(f"{text} {number}")
    return tmp_path


def train(folder, task=TASK, skip_bad_rows=False):
    return read_file(task, str(folder), "train", skip_bad_rows=skip_bad_rows)


def test_texts_labels_and_names(data):
    splits = read_splits(TASK, str(data), present_splits(TASK, str(data)), False)
    assert splits.labels == ("neg", "pos")
    assert {split: len(found) for split, found in splits.examples.items()} == {
        "train": 6, "dev": 2, "test": 2,
    }  # fmt: skip
    last = splits.examples["train"][-1]
    assert (last.text, last.label) == ("A fine film.\nSee it. 2", "pos")
    assert last.columns == {"file": "pos/2_7.txt"} and last.text_b is None
    assert splits.notes[0] == f"{data}/train: 3 neg, 3 pos"


def test_files_without_an_ending(tmp_path):
    """20 Newsgroups has them."""
    for label in ("alt.atheism", "sci.space"):
        (tmp_path / "train" / label).mkdir(parents=True)
        (tmp_path / "train" / label / "49960").write_text("From: x\n\nHello.")
    found = train(tmp_path).examples
    assert [(e.label, e.columns["file"]) for e in found] == [
        ("alt.atheism", "alt.atheism/49960"), ("sci.space", "sci.space/49960"),
    ]  # fmt: skip


def test_what_is_no_text_of_a_label_is_said(data):
    (data / "train" / "urls_pos.txt").write_text("x")
    (data / "train" / "pos" / "deeper").mkdir()
    (data / "train" / "pos" / ".DS_Store").write_bytes(b"\xff")
    os.mkfifo(data / "train" / "pos" / "pipe")
    read = train(data)
    assert len(read.examples) == 6
    assert read.notes[0] == (
        f"{data}/train: 3 files and folders that are no texts of a label are not read, such as "
        "pos/deeper"
    )


def test_folders_that_are_no_label(data):
    (data / "train" / "unsup").mkdir()
    (data / "train" / "unsup" / "1.txt").write_text("A film.")
    assert {example.label for example in train(data).examples} == {"pos", "neg", "unsup"}
    read = train(data, TASK.__class__(**{**vars_of(TASK), "labels": ("neg", "pos")}))
    assert len(read.examples) == 6
    assert read.notes[0] == (
        f"{data}/train/unsup: is no label of --labels; its 1 files are not read"
    )


def vars_of(task) -> dict:
    return {name: getattr(task, name) for name in ("name", "files", "text_columns")} | {
        "text_b_is_optional": True
    }


def test_a_label_of_dev_alone_is_refused(data):
    (data / "dev" / "new").mkdir()
    (data / "dev" / "new" / "1.txt").write_text("A film.")
    with pytest.raises(InputError, match=r"dev/new/1.txt, line 1: has the label 'new', which is"):
        read_splits(TASK, str(data), ("train", "dev"), False)


def test_other_encodings_are_declared(data):
    pos = data / "train" / "pos"
    (pos / "0_7.txt").write_bytes((GERMAN * 3).encode("cp1252"))
    (pos / "1_7.txt").write_bytes("Schön!".encode("utf-8-sig"))
    with pytest.raises(InputError, match=f"^{pos}/0_7.txt, line 1: .*=utf-8,windows-1252"):
        train(data)
    task = dataclasses.replace(TASK, encoding="utf-8,windows-1252")
    read = train(data, task)
    assert [e.text for e in read.examples if e.label == "pos"][:2] == [GERMAN * 3, "Schön!"]


def test_files_that_are_no_text_are_named(data):
    """They are ASCII, and their bytes would be learnt."""
    path = data / "train" / "pos" / "0_7.txt"
    path.write_bytes(b"%PDF-1.7\n1 0 obj << >> endobj\n")
    with pytest.raises(InputError, match=f"^{path}, line 1: is a PDF document; export it as text"):
        train(data)
    assert len(train(data, skip_bad_rows=True).examples) == 5


def test_a_text_that_is_not_utf8(data):
    path = data / "train" / "pos" / "0_7.txt"
    path.write_bytes(b"\xff\xfd\x80")
    with pytest.raises(InputError, match=f"^{path}, line 1: .* is not UTF-8.*--encoding="):
        train(data)
    read = train(data, skip_bad_rows=True)
    assert (len(read.examples), len(read.bad_rows)) == (5, 1)


def test_an_empty_text(data):
    path = data / "train" / "pos" / "0_7.txt"
    path.write_text(" \n")
    with pytest.raises(InputError, match=f"^{path}, line 1: has an empty 'text'; fill it in or"):
        train(data)


def test_uneven_labels_are_said(data):
    for number in range(3, 40):
        (data / "train" / "neg" / f"{number}").write_text("A film.")
    assert train(data).notes == [
        f"{data}/train: 40 neg, 3 pos; --class_weights=balanced makes rare labels count as much as "
        "common ones"
    ]


@pytest.mark.parametrize("inside", [[], ["a.txt"]])
def test_a_folder_without_labels(tmp_path, inside):
    (tmp_path / "train").mkdir()
    for name in inside:
        (tmp_path / "train" / name).write_text("A film.")
    with pytest.raises(InputError, match=r"train: has no folders with texts; put the texts of"):
        train(tmp_path)


def test_one_label_alone(tmp_path):
    (tmp_path / "train" / "pos").mkdir(parents=True)
    (tmp_path / "train" / "pos" / "1").write_text("A film.")
    with pytest.raises(InputError, match=r"the one label 'pos' only; .*, each with its folder"):
        read_splits(TASK, str(tmp_path), ("train",), False)


def test_the_digest_follows_names_and_texts(data):
    def digest() -> str:
        return read_splits(TASK, str(data), ("train",), False).sha256()["train"]

    first = digest()
    assert digest() == first
    (data / "train" / "pos" / "0_7.txt").rename(data / "train" / "neg" / "9_7.txt")
    moved = digest()
    (data / "train" / "neg" / "9_7.txt").write_text("Another film.")
    assert len({first, moved, digest()}) == 3


@pytest.mark.parametrize("name", ["regression", "multi_label", "sst-2"])
def test_other_tasks_take_files_alone(data, name):
    with pytest.raises(InputError, match=r"has no train\.tsv"):
        read_file(TASKS[name], str(data), "train")


def test_a_file_that_cannot_be_read(data):
    with pytest.raises(InputError, match=r"train: cannot be read \(Is a directory\); fix that"):
        tables.read_text(data / "train")


def test_a_table_and_a_folder(data):
    (data / "train.tsv").write_text("text\tlabel\n")
    with pytest.raises(InputError, match=r"has both train.tsv and train; keep one of them"):
        train(data)
