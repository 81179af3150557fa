"""The flags that declare a task of one's own."""


import pytest

from beambert.config import add_settings
from beambert.errors import InputError
from beambert.flags import FlagParser
from beambert.pipelines.tasks.flags import (
    LearningSettings,
    TaskSettings,
    task_arguments,
    task_of,
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


def test_flags_as_the_arguments_of_another_command():
    """As `deliver` gives them to `finetune` and `evaluate`."""
    parser = FlagParser()
    add_settings(parser, TaskSettings)
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
