"""Texts -> ids against a plain Python reference."""

import numpy as np
import pytest
import tensorflow as tf

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
