"""The splits of a task together: their labels, and what must be alike in all of them."""

import dataclasses
import re

import pytest

from beambert.config import add_settings
from beambert.errors import InputError
from beambert.flags import FlagParser
from beambert.pipelines.tasks.declarations import TASKS
from beambert.pipelines.tasks.flags import (
    LearningSettings,
    task_of,
)
from beambert.pipelines.tasks.reading import present_splits, read_file, read_splits


def write(folder, **files: str):
    """Writes files, named without their ending, and returns the folder."""
    for name, content in files.items():
        ending = "conll" if " " in content.split("\n")[0] else "tsv"
        (folder / f"{name}.{ending}").write_text(content)
    return str(folder)


def labels(task: str, folder: str) -> tuple[str, ...]:
    return read_splits(TASKS[task], folder, ("train",), False).labels


def refused(message: str):
    return pytest.raises(InputError, match=re.escape(message))


def test_labels_are_those_of_train_sorted(tmp_path):
    folder = write(tmp_path, train="text\tlabel\na\tz\nb\tb\nc\tz\n")
    assert labels("classification", folder) == ("b", "z")


def test_declared_labels_win_over_the_file(tmp_path):
    assert labels("sst-2", write(tmp_path, train="sentence\tlabel\na\t1\n")) == ("0", "1")


def test_one_label_is_too_few(tmp_path):
    """Such a classifier could learn nothing."""
    folder = write(tmp_path, train="text\tlabel\na\tz\n")
    with refused("train.tsv: has the one label 'z' only; a classifier needs at least two, in colu"):
        labels("classification", folder)
    (tmp_path / "train.tsv").unlink()
    folder = write(tmp_path, train="the O\nriver O\n")
    with refused(
        "train.conll: has the one label 'O' only; a classifier needs at least two, as tag"
    ):
        labels("tagging", folder)


@pytest.mark.parametrize("task", ["tagging", "word_labels"])
def test_words_without_tags_teach_nothing(tmp_path, task):
    (tmp_path / "train.conll").write_text("the\nriver\n")
    with refused("train.conll: has no column of tags; put each word's tag behind it"):
        labels(task, str(tmp_path))


def test_only_test_files_may_be_absent(tmp_path):
    folder = write(tmp_path, train="text\tlabel\na\tz\nb\tb\n")
    assert present_splits(TASKS["classification"], folder) == ("train", "dev")
    with refused("has no dev.tsv or dev.csv or dev.jsonl or dev/; the dev split of "):
        read_splits(TASKS["classification"], folder, ("train", "dev"), False)
    write(tmp_path, test="text\na\n")
    assert present_splits(TASKS["classification"], folder) == ("train", "dev", "test")


def test_examples_of_dev_that_are_in_train_are_told(tmp_path):
    """Whatever their labels are; a few may be by chance."""
    train = "text\tlabel\n" + "".join(f"text {i}\t{i % 2}\n" for i in range(100))
    own = "".join(f"other {i}\t{i % 2}\n" for i in range(49))
    folder = write(tmp_path, train=train, dev=f"text\tlabel\ntext 1\t0\n{own}")
    read = read_splits(TASKS["classification"], folder, ("train", "dev"), False)
    assert not any("promise" in note for note in read.notes)
    write(tmp_path, dev=train)
    note = read_splits(TASKS["classification"], folder, ("train", "dev"), False).notes[-1]
    assert note.endswith(
        f"dev.tsv: 100 of 100 examples have the text of an example of {tmp_path / 'train.tsv'}; "
        "figures on this file promise too much"
    )


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


def declared(*flags: str):
    parser = FlagParser()
    add_settings(parser, LearningSettings)
    return task_of(parser.parse_args(["--data_dir=d", *flags]))


def test_columns_and_labels_of_ones_own():
    task = declared(
        "--task=classification", "--text_columns=a, b", "--label_column=topic", "--labels=y,x"
    )
    assert task.text_columns == ("a", "b") and not task.text_b_is_optional
    assert (task.label_column, task.labels) == ("topic", ("y", "x"))
    # Single texts can be learnt from under any name.
    assert declared("--task=embedding", "--text_columns=a,b").text_b_is_optional
    assert not declared("--task=rerank", "--text_columns=a,b").text_b_is_optional


def test_how_labels_are_learnt():
    task = declared("--task=sst-2", "--long_documents=windows", "--class_weights=0=2, 1=0.5")
    assert task.windows == 8
    assert task.class_weights == {"0": 2, "1": 0.5}
    assert declared("--task=sst-2", "--long_documents=truncate").windows == 1


@pytest.mark.parametrize(
    ("task", "flag"),
    [
        ("sst-2", "--labels=a,b"),
        ("tagging", "--text_columns=a"),
        ("word_labels", "--label_column=a"),
        ("classification", "--choice_columns=a,b"),
        ("similarity", "--text_columns=a"),
        ("classification", "--text_columns=a,b,c"),
        ("regression", "--class_weights=balanced"),
        ("sst-2", "--max_windows=4"),
        ("sst-2", "--class_weights=a=0"),
        ("classification", "--labels=a,b,a"),
        ("rerank", "--loss=cosine"),
    ],
)
def test_what_cannot_be_meant_is_refused(task, flag):
    with pytest.raises(InputError, match=f"^{flag.partition('=')[0]}"):
        declared(f"--task={task}", flag)


def test_no_kind_without_a_task_of_ones_own_is_recommended():
    with pytest.raises(InputError, match="has its own columns and labels; leave the flag out$"):
        declared("--task=squad2.0", "--text_columns=a")
