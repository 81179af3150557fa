"""The splits of a task together: their labels, and what must be alike in all of them."""

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
from beambert.pipelines.tasks.reading import read_splits


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
    task = declared("--task=sst-2", "--max_windows=8", "--class_weights=0=2, 1=0.5")
    assert task.windows == 8
    assert task.class_weights == {"0": 2, "1": 0.5}
    assert declared("--task=sst-2").windows == 1


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
        ("regression", "--max_windows=4"),
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
