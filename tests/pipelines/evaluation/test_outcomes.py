"""Scores of outcomes against the definitions, and answers that are always the same."""

import numpy as np
import pytest
import scipy.stats

from beambert.pipelines.evaluation.measures import Measures, constant_answers
from beambert.pipelines.evaluation.report import worst_mistakes
from beambert.pipelines.tasks.classification import ClassOutcomes
from beambert.pipelines.tasks.declarations import KINDS
from beambert.pipelines.tasks.regression import NumberOutcomes
from beambert.pipelines.tasks.span import AnswerOutcomes
from beambert.pipelines.tasks.tagging import TagOutcomes
from beambert.pipelines.tasks.vectors import VectorExample

POSITIVE = 1


def best_constants(outcomes, names, labels=("0", "1")):
    """Returns metric -> answer, score."""
    found = constant_answers(outcomes, Measures("", tuple(names), POSITIVE), labels)
    return {name: (one["answer"], one["score"]) for name, one in found.items()}


def test_constant_answers_of_classes():
    """Accuracy, F1, correlation and cross entropy of what knows the labels' shares alone."""
    labels = np.array([0, 0, 0, 1])
    found = ClassOutcomes(labels, labels, np.eye(2)[labels])
    names = ["accuracy", "f1", "matthews_correlation", "cross_entropy"]
    best = best_constants(found, names)
    assert best["accuracy"] == ("0", 0.75)
    assert best["f1"] == ("1", pytest.approx(2 * 1 / (1 + 4)))
    assert best["matthews_correlation"][1] == 0
    assert best["cross_entropy"][1] == pytest.approx(scipy.stats.entropy([0.75, 0.25]))


def test_metrics_of_several_classes_need_several():
    """F1, its mean and the correlation say nothing about examples of one class."""
    labels, predictions = np.array([1, 1, 0]), np.array([1, 0, 0])
    found = ClassOutcomes(labels, predictions, np.eye(2)[predictions])
    assert found.undefined() == frozenset()
    of_one = found.take(np.array([0, 1, 1]))
    assert len(of_one) == 3 and of_one.predictions.tolist() == [1, 0, 0]
    assert of_one.undefined() == {"f1", "macro_f1", "matthews_correlation"}


def test_constant_answers_of_the_other_kinds():
    """The mean number, O for every word, no answer."""
    labels = np.random.default_rng(1).uniform(0, 5, 150)
    numbers = NumberOutcomes(labels, labels + 1)
    best = best_constants(numbers, ["pearson", "mean_squared_error"])
    assert best["pearson"][1] == 0
    assert best["mean_squared_error"][0] == pytest.approx(labels.mean(), abs=1e-6)
    assert best["mean_squared_error"][1] == pytest.approx(labels.var())
    records = [{"tags": [b"O", b"B-x", b"O", b"O"], "predicted_tags": [b"B-x"] * 4}]
    tags = TagOutcomes.of_records(records)
    best = best_constants(tags, ["entity_f1", "accuracy"])
    assert best == {"entity_f1": ("O", 0), "accuracy": ("O", 0.75)}
    answers = AnswerOutcomes(np.zeros(4), np.zeros(4), np.array([1, 0, 0, 0]))
    best = best_constants(answers, ["squad_f1"])
    assert best == {"squad_f1": ("no answer", 0.25)}


@pytest.mark.parametrize(
    ("kind", "metric"),
    [("span", "squad_f1"), ("regression", "mean_squared_error"), ("regression", "pearson")],
)
def test_scores_are_the_same_from_tfma_as_from_the_records(kind, metric):
    """TFMA's features are float32 arrays; a constant answer must not seem better by rounding."""
    generator = np.random.default_rng(8)
    written = [
        {"squad_f1": x, "exact_match": x, "number": x, "score": y}
        for x, y in generator.random((2000, 2)).astype(np.float32)
    ]
    lists, arrays = (
        KINDS[kind].OUTCOMES.of_records(
            [{"impossible": [0]} | {name: one(x) for name, x in each.items()} for each in written]
        )
        for one in (lambda x: [float(x)], lambda x: np.array([x]))
    )
    assert arrays.scores([metric], POSITIVE) == lists.scores([metric], POSITIVE)


def test_constant_outcomes_of_tags_and_classes():
    """As many examples, with O as right as it is; every class has the shares of all."""
    records = [
        {"tags": ["B-x", "O", "O"], "predicted_tags": ["O", "B-y", "O"]},
        {"tags": ["B-y"], "predicted_tags": ["B-y"]},
    ]
    ((answer, constant),) = TagOutcomes.of_records(records).constants()
    assert answer == "O" and len(constant) == 2
    by_type = constant.details([])["by_type"]
    counts = {
        name: [one[key] for key in ("true", "predicted", "correct")]
        for name, one in by_type.items()
    }
    assert counts == {"x": [1, 0, 0], "y": [1, 0, 0]}
    assert constant.scores(["accuracy"], POSITIVE) == {"accuracy": 0.5}
    labels = np.array([0, 2, 2, 2])
    classes = ClassOutcomes(labels, labels, np.eye(3)[labels]).constants()
    assert [answer for answer, _ in classes] == [0, 1, 2]
    for answer, constant in classes:
        assert constant.predictions.tolist() == [answer] * 4
        assert constant.probabilities.tolist() == [[0.25, 0, 0.75]] * 4


def test_labels_of_words_that_are_no_entities_have_accuracy_alone():
    """On either side: parts of speech, or a tag that the model made up."""
    for true, predicted in ((["NOUN", "O"], ["O", "O"]), (["O", "O"], ["NOUN", "O"])):
        found = TagOutcomes.of_records([{"tags": true, "predicted_tags": predicted}])
        assert found.types == ()
        assert found.scores(["accuracy"], POSITIVE) == {"accuracy": 0.5}


def test_a_similarity_is_judged_by_ranks():
    """Cosines in the order of their labels are right, though they are far from them."""
    examples = [VectorExample(str(i), "b", str(i // 2), {}) for i in range(6)]
    rows = [{"row": [i], "number": [float(i // 2)], "score": [i / 50]} for i in range(6)]
    assert worst_mistakes("similarity", rows, examples) == []
    # The second of the worst label has the greatest cosine: rank 6, where the label has 1 and 2.
    rows[1] |= {"score": [0.9]}
    found = worst_mistakes("similarity", rows, examples)
    assert [(one.row, one.weight) for one in found] == [(1, 4.0), (2, 1.0), (4, 1.0)]
