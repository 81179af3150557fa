"""The flags that declare a task of one's own."""

import re

import pytest

from beambert.errors import InputError
from beambert.flags import FlagParser
from beambert.pipelines.tasks.flags import (
    add_learning_flags,
    add_task_flags,
    task_arguments,
    task_of,
)


def declared(*flags: str):
    parser = FlagParser()
    add_task_flags(parser)
    add_learning_flags(parser)
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


def test_flags_as_the_arguments_of_another_command():
    """As `deliver` gives them to `finetune` and `evaluate`."""
    parser = FlagParser()
    add_task_flags(parser)
    given = ["--task=multi_label", "--data_dir=d", "--text_columns=a,b", "--label_separator=;"]
    assert task_arguments(parser.parse_args(given)) == given
    given += ["--encoding=windows-1252", "--skip_bad_rows"]
    assert task_arguments(parser.parse_args(given)) == given


def test_how_labels_are_learnt():
    task = declared("--task=sst-2", "--long_documents=windows", "--class_weights=0=2, 1=0.5")
    assert task.windows == 8
    assert task.class_weights == {"0": 2, "1": 0.5}
    assert declared("--task=sst-2", "--long_documents=truncate").windows == 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--task=sst-2", "--labels=a,b"), "--labels: sst-2 has its own columns and labels; leave"),
        (("--task=sst-2", "--labels=a,b"), "or take --task=classification"),
        (("--task=tagging", "--text_columns=a"), "--text_columns: a tagging task has none"),
        (("--task=word_labels", "--label_column=a"), "--label_column: a tagging task has none"),
        (("--task=classification", "--choice_columns=a,b"), "--choice_columns: a classif"),
        (("--task=similarity", "--text_columns=a"), "--text_columns=a: name the two columns that"),
        (("--task=embedding", "--text_columns=a"), "--text_columns=a: name the two columns that"),
        (("--task=rerank", "--text_columns=a"), "--text_columns=a: name the two columns that"),
        (("--task=regression", "--labels=1,2"), "--labels: a regression task has none"),
        (("--task=classification", "--label_separator=;"), "--label_separator: a classif"),
        (("--task=regression", "--class_weights=balanced"), "--class_weights: a regression task"),
        (("--task=sst-2", "--max_windows=4"), "--max_windows=4: needs --long_documents=windows"),
        (("--task=sst-2", "--class_weights=a"), "--class_weights: 'a' is neither balanced nor"),
        (("--task=sst-2", "--class_weights=a=0"), "--class_weights: 'a=0' is neither balanced"),
        (("--task=choice", "--labels=1,2"), "--labels: a choice task has none"),
        (("--task=classification", "--text_columns=a,b,c"), "--text_columns=a,b,c: name one"),
        (
            ("--task=classification", "--labels=a"),
            "--labels=a: name at least two labels, each once",
        ),
        (
            ("--task=classification", "--labels=a,b,a"),
            "--labels=a,b,a: name at least two labels, each",
        ),
        (
            ("--task=classification", "--labels=a,b,"),
            "--labels=a,b,: name at least two labels, each once",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(flags, message):
    with pytest.raises(InputError, match=re.escape(message)):
        declared(*flags)


def test_no_kind_without_a_task_of_ones_own_is_recommended():
    with pytest.raises(InputError, match="has its own columns and labels; leave the flag out$"):
        declared("--task=squad2.0", "--text_columns=a")
