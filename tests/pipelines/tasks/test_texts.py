"""What a model reads of texts, and the labels and splits of tasks."""

import re

import numpy as np
import pytest
import tensorflow as tf

from beambert.config import add_settings
from beambert.errors import InputError
from beambert.flags import FlagParser
from beambert.pipelines.tasks.declarations import TASKS
from beambert.pipelines.tasks.flags import (
    LearningSettings,
    task_of,
)
from beambert.pipelines.tasks.reading import read_splits
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.pipelines.tokenizers.word_pieces import Tokenizer
from beambert.trainer.tasks.graph import servable

LENGTH = 12
WORDS = ["river", "city", "music", "zoo", "the", "qx", "people."]


@pytest.fixture(scope="module", params=["python", "graph"])
def convert(vocabulary, request):
    """Returns a function of the number of windows that returns a converter of columns of texts."""

    def converter(windows=1):
        features = TextFeatures(vocabulary, True, LENGTH, windows)
        if request.param == "python":
            return features
        graph = tf.function(servable(features).__call__, autograph=False)
        return lambda *columns: graph(*map(tf.constant, columns))

    return converter


@pytest.fixture(scope="module")
def tokenize(vocabulary):
    tokenizer = Tokenizer(vocabulary, True)

    def to_ids(text: str) -> list[int]:
        return tokenizer.tokenize_batch([text])[0].tolist()

    return to_ids


def reference(vocabulary, first: list[int], second: list[int] | None) -> dict[str, list[int]]:
    """run_classifier.py, convert_single_example, token by token."""
    first, second = list(first), None if second is None else list(second)
    room = LENGTH - (2 if second is None else 3)
    while len(first) + len(second or ()) > room:
        longer = first if second is None or len(first) > len(second) else second
        longer.pop()
    classify, separate, padding = (vocabulary.id_of(t) for t in ("[CLS]", "[SEP]", "[PAD]"))
    ids = [classify, *first, separate]
    segments = [0] * len(ids)
    if second is not None:
        ids += [*second, separate]
        segments += [1] * (len(second) + 1)
    mask = [1] * len(ids)
    rest = LENGTH - len(ids)
    return {
        "input_ids": ids + [padding] * rest,
        "input_mask": mask + [0] * rest,
        "segment_ids": segments + [0] * rest,
    }


def check(features, expected: list[dict[str, list[int]]]) -> None:
    assert features.keys() == {"input_ids", "input_mask", "segment_ids"}
    for name, tensor in features.items():
        assert np.array(tensor).dtype == np.int32
        assert tensor.shape == (len(expected), LENGTH)
        np.testing.assert_array_equal(tensor, [row[name] for row in expected])


def texts_of_lengths(lengths) -> list[str]:
    # One token each, all different from their neighbours.
    words = ["river", "city", "music", "house", "year"]
    return [" ".join(words[i % len(words)] for i in range(length)) for length in lengths]


def test_single_texts(convert, tokenize, vocabulary):
    texts = ["", "River!", "The zoo qx, city.", *texts_of_lengths(range(8, 15))]
    expected = [reference(vocabulary, tokenize(text), None) for text in texts]
    assert {sum(row["input_mask"]) for row in expected} >= {2, 11, 12}
    check(convert()(texts), expected)


def test_every_combination_of_pair_lengths(convert, tokenize, vocabulary):
    lengths = [(first, second) for first in range(14) for second in range(14)]
    first = texts_of_lengths(a for a, _ in lengths)
    second = [
        text[::1].replace("river", "people") for text in texts_of_lengths(b for _, b in lengths)
    ]
    expected = [
        reference(vocabulary, tokenize(a), tokenize(b)) for a, b in zip(first, second, strict=True)
    ]
    check(convert()(first, second), expected)


def test_words_fall_into_the_pieces_of_the_data_pipeline(convert, tokenize, vocabulary):
    random = np.random.default_rng(7)
    texts = [" ".join(random.choice(WORDS, random.integers(0, 9))) for _ in range(50)]
    expected = [reference(vocabulary, tokenize(text), None) for text in texts]
    check(convert()(texts), expected)


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 3, 10, 11, 18, 19, 26, 27, 50])
def test_windows_of_a_text(convert, vocabulary, tokenize, count):
    """Word by word; each window of ten begins with the last two of the one before."""
    text = " ".join(f"{WORDS[i % 5]}" for i in range(count))
    pieces, windows, first = tokenize(text), [], 0
    while len(windows) < 3 and (not windows or first + 2 < len(pieces)):
        windows.append(pieces[first : first + LENGTH - 2])
        first += LENGTH - 2 - 2
    classify, separate = (vocabulary.id_of(token) for token in ("[CLS]", "[SEP]"))
    expected = [one for window in windows for one in (classify, *window, separate)]
    found = {name: np.array(each) for name, each in convert(3)(["the river", text]).items()}
    assert found["input_mask"].shape == (2, 3 * LENGTH)
    assert found["input_mask"][1].tolist() == [1] * len(expected) + [0] * (
        3 * LENGTH - len(expected)
    )
    assert found["input_ids"][1][: len(expected)].tolist() == expected
    assert not found["segment_ids"].any()
    assert found["input_mask"][0].sum() == 4


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
    assert task.max_windows == 8
    assert task.class_weights == {"0": 2, "1": 0.5}
    assert declared("--task=sst-2").max_windows == 1


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
