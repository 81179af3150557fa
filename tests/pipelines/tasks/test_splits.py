"""The splits of a task together: their labels, and what must be alike in all of them."""

import re

import pytest

from beambert.errors import InputError
from beambert.pipelines.tasks import tables
from beambert.pipelines.tasks.declarations import TASKS, find_task
from beambert.pipelines.tasks.reading import has_split, present_splits, read_splits, split_path


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


def test_every_file_is_read_once(tmp_path, monkeypatch):
    folder = write(tmp_path, train="text\tlabel\na\tz\nb\tb\n", dev="text\tlabel\na\tz\n")
    read, read_text = [], tables.read_text
    monkeypatch.setattr(tables, "read_text", lambda p, *_: read.append(p.name) or read_text(p))
    read_splits(TASKS["classification"], folder, ("train", "dev"), False)
    assert read == ["train.tsv", "dev.tsv"]


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
    with refused(
        "has no dev.tsv or dev.csv or dev.jsonl or dev/ (it has train.tsv); the dev split of "
    ):
        read_splits(TASKS["classification"], folder, ("train", "dev"), False)
    write(tmp_path, test="text\na\n")
    assert present_splits(TASKS["classification"], folder) == ("train", "dev", "test")


def test_a_name_that_no_file_can_have():
    task = find_task("sst-2")
    with pytest.raises(InputError, match="no such folder"):
        split_path(task, "x" * 5000, "dev")
    assert not has_split(task, "x" * 5000, "dev")


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


def test_labels_that_hardly_differ_are_told(tmp_path):
    folder = write(tmp_path, train="text\tlabel\na\tSpam\nb\tspam \nc\tham\n")
    notes = read_splits(TASKS["classification"], folder, ("train",), False).notes
    assert any("the labels 'Spam', 'spam ' differ by case or blanks" in note for note in notes)
