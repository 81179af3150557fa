"""The models of words, against scikit-learn 1.9.1 with the settings that the module names."""

import numpy as np
import pytest

from beambert.pipelines.tasks import words
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.table_task import TextExample
from beambert.pipelines.tasks.tagging import TaggedExample

TRAIN = [
    *("the river is long and wide", "the river is wide", "a long river in the north"),
    *("the court refused the appeal", "an appeal to the court in the north", "the court is long"),
    *("bake the bread for an hour", "the bread is wide and long"),
    "bake it for an hour in the north",
]
CLASSES = [0, 0, 0, 1, 1, 1, 2, 2, 2]
ASKED = ["the court of the river", "bread for the north", "zebra"]


def sides(texts):
    return [(text,) for text in texts]


@pytest.mark.parametrize(
    ("exclusive", "expected"),
    [
        (
            True,
            [[0.3857, 0.4942, 0.1201], [0.2459, 0.2166, 0.5375], [0.3325, 0.301, 0.3665]],
        ),
        (
            False,
            [[0.3847, 0.4769, 0.1268], [0.2476, 0.2252, 0.4774], [0.303, 0.2842, 0.3303]],
        ),
    ],
)
def test_probabilities_are_those_of_scikit_learn(exclusive, expected):
    found = words.probabilities(sides(TRAIN), np.eye(3)[CLASSES], sides(ASKED), exclusive)
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_numbers_are_those_of_scikit_learn():
    found = words.numbers(sides(TRAIN), np.array(CLASSES, float), sides(ASKED))
    np.testing.assert_allclose(found, [0.578, 1.2487, 1.0], atol=2e-4)


def test_pairs_are_compared():
    """The words of each text say nothing of the label, and whether they are the same does."""
    names = [f"{a} {b}" for a in ("red", "old", "big") for b in ("car", "dog", "hat")]
    pairs = [(a, b) for a in names for b in names]
    labels = np.array([[a != b, a == b] for a, b in pairs], float)
    repeated = [i for i in range(len(pairs)) for _ in range(8 if labels[i, 1] else 1)]
    train, targets = [pairs[i] for i in repeated], labels[repeated]
    found = words.probabilities(train, targets, pairs).argmax(axis=1)
    assert (found == labels.argmax(axis=1)).mean() > 0.85


def test_scripts_without_spaces_are_read_by_characters():
    assert words.WORD.findall("東京 1958年 ab") == ["東", "京", "1958", "年", "ab"]


def test_every_kind_of_text_is_answered():
    """Each text answers with the words of its label; the metrics follow."""
    labelled = list(zip(TRAIN, CLASSES, strict=True))
    one = [TextExample(text, None, "abc"[label], {}) for text, label in labelled]
    found = find_task("classification").by_words(one, one, ["a", "b", "c"])
    assert found.scores(["accuracy"], 1) == {"accuracy": 1.0}
    several = [TextExample(e.text, None, (e.label,), {}) for e in one]
    found = find_task("multi_label").by_words(several, several, ["a", "b", "c"])
    assert found.scores(["exact_match"], 1)["exact_match"] > 0.6
    numbers = [TextExample(text, None, str(label), {}) for text, label in labelled]
    found = find_task("regression").by_words(numbers, numbers, [])
    assert found.scores(["pearson"], 1)["pearson"] > 0.9


def test_a_tag_is_the_commonest_of_its_word():
    train = [
        TaggedExample(("in", "Rome", "ran"), ("O", "B-place", "O")),
        TaggedExample(("Rome", "fell"), ("B-place", "O")),
        TaggedExample(("Rome", "said"), ("B-person", "O")),
    ]
    asked = [TaggedExample(("Rome", "grew"), ("B-place", "O"))]
    found = find_task("tagging").by_words(train, asked, ["O", "B-place", "B-person"])
    assert found.scores(["entity_f1"], 1) == {"entity_f1": 1.0}


def test_texts_without_a_common_word_are_answered_by_the_shares():
    found = words.probabilities([("a",), ("b",), ("c",)], np.eye(2)[[0, 0, 1]], [("d",)])
    np.testing.assert_allclose(found, [[2 / 3, 1 / 3]], atol=1e-3)
