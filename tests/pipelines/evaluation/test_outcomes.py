"""Scores of outcomes and their intervals against SciPy's bootstrap and the definitions."""

import math

import numpy as np
import pytest
import scipy.stats

from beambert.pipelines.evaluation import intervals, outcomes
from beambert.pipelines.evaluation.measures import calibration

POSITIVE = 1


def class_outcomes(count=200, classes=3, seed=0):
    """Returns outcomes of a fair classifier."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes, count)
    logits = generator.normal(size=(count, classes)) + np.eye(classes)[labels]
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return outcomes.ClassOutcomes(labels, probabilities.argmax(axis=1), probabilities)


def number_outcomes(count=150):
    """Returns outcomes of a fair regression."""
    generator = np.random.default_rng(1)
    labels = generator.uniform(0, 5, count)
    return outcomes.NumberOutcomes(labels, labels + generator.normal(size=count))


def tag_outcomes(count=120):
    """Returns outcomes of sentences of a few words."""
    generator = np.random.default_rng(2)
    names = np.array([b"O", b"B-x", b"B-y"])

    def sentence():
        words = generator.integers(3, 9)
        tags = names[generator.choice(3, words, p=[0.6, 0.2, 0.2])]
        others = names[generator.choice(3, words, p=[0.6, 0.2, 0.2])]
        return {
            "tags": tags.tolist(),
            "predicted_tags": np.where(generator.random(words) < 0.7, tags, others).tolist(),
        }

    return outcomes.TagOutcomes.of_records([sentence() for _ in range(count)])


CASES = [
    (class_outcomes(), "macro_f1"),
    (class_outcomes(), "matthews_correlation"),
    (class_outcomes(), "cross_entropy"),
    (number_outcomes(), "pearson"),
    (number_outcomes(), "mean_squared_error"),
    (tag_outcomes(), "entity_f1"),
    (tag_outcomes(), "accuracy"),
]


@pytest.mark.parametrize(("found", "name"), CASES)
def test_intervals_equal_scipys_bootstrap(found, name):
    """SciPy draws otherwise, so that ends differ by the noise of 1,000 draws."""
    expected = scipy.stats.bootstrap(
        (np.arange(len(found)),),
        lambda rows: found.take(rows).scores([name], POSITIVE)[name],
        n_resamples=2000,
        vectorized=False,
        method="percentile",
        rng=np.random.default_rng(3),
    )
    low, high = intervals.intervals(found, [name], POSITIVE)[name]
    # The standard error of a 2.5 % percentile of 1,000 normal draws is 0.084 of their deviation.
    tolerance = 4 * 0.1 * expected.standard_error
    assert low == pytest.approx(expected.confidence_interval.low, abs=tolerance)
    assert high == pytest.approx(expected.confidence_interval.high, abs=tolerance)
    assert low < found.scores([name], POSITIVE)[name] < high


def test_shares_of_examples_have_wilson_intervals():
    """The closed form's roots: |share - p| = z sqrt(p (1 - p) / n) at both ends."""
    for correct, count in ((7, 10), (0, 5), (5, 5), (812, 872)):
        right = np.arange(count) < correct
        score = right.astype(float)
        answers = outcomes.AnswerOutcomes(score, score, right * 0, score)
        for end in intervals.intervals(answers, ["exact_match"], POSITIVE)["exact_match"]:
            distance = abs(correct / count - end)
            assert distance == pytest.approx(
                1.959964 * math.sqrt(end * (1 - end) / count + 1e-18), abs=1e-8
            )


def test_changes_are_of_the_same_draws():
    """A model that is right where the other is, and in 20 more of 200, is surely better."""
    old = class_outcomes()
    wrong = np.flatnonzero(old.labels != old.predictions)[:20]
    predictions = old.predictions.copy()
    predictions[wrong] = old.labels[wrong]
    new = outcomes.ClassOutcomes(old.labels, predictions, old.probabilities)
    low, high = intervals.change_interval(old, new, "accuracy", (1, 1))
    # The change is the mean of 20 ones and 180 zeros.
    expected = scipy.stats.binom.ppf([0.025, 0.975], 200, 0.1) / 200
    assert [low, high] == pytest.approx(expected, abs=0.0101)
    assert intervals.change_interval(old, old, "accuracy", (1, 1)) == (0, 0)


def test_constant_answers_of_classes():
    """Accuracy, F1, correlation and cross entropy of what knows the labels' shares alone."""
    labels = np.array([0, 0, 0, 1])
    found = outcomes.ClassOutcomes(labels, labels, np.eye(2)[labels])
    names = ["accuracy", "f1", "matthews_correlation", "cross_entropy"]
    best = outcomes.best_constants(found, names, POSITIVE)
    assert best["accuracy"] == (0, 0.75)
    assert best["f1"] == (1, pytest.approx(2 * 1 / (1 + 4)))
    assert best["matthews_correlation"][1] == 0
    assert best["cross_entropy"][1] == pytest.approx(scipy.stats.entropy([0.75, 0.25]))


def test_constant_answers_of_the_other_kinds():
    """The mean number, O for every word, no answer."""
    numbers = number_outcomes()
    best = outcomes.best_constants(numbers, ["pearson", "mean_squared_error"], POSITIVE)
    assert best["pearson"][1] == 0
    assert best["mean_squared_error"][0] == pytest.approx(numbers.labels.mean(), abs=1e-6)
    assert best["mean_squared_error"][1] == pytest.approx(numbers.labels.var())
    records = [{"tags": [b"O", b"B-x", b"O", b"O"], "predicted_tags": [b"B-x"] * 4}]
    tags = outcomes.TagOutcomes.of_records(records)
    best = outcomes.best_constants(tags, ["entity_f1", "accuracy"], POSITIVE)
    assert best == {"entity_f1": ("O", 0), "accuracy": ("O", 0.75)}
    answers = outcomes.AnswerOutcomes(np.zeros(4), np.zeros(4), np.array([1, 0, 0, 0]), np.ones(4))
    best = outcomes.best_constants(answers, ["squad_f1"], POSITIVE)
    assert best == {"squad_f1": ("no answer", 0.25)}


@pytest.mark.parametrize(
    ("kind", "metric"),
    [("span", "squad_f1"), ("regression", "mean_squared_error"), ("regression", "pearson")],
)
def test_scores_are_the_same_from_tfma_as_from_the_records(kind, metric):
    """TFMA's features are float32 arrays; a constant answer must not seem better by rounding."""
    generator = np.random.default_rng(8)
    written = [
        {"squad_f1": x, "exact_match": x, "number": x, "score": y, "probability": y}
        for x, y in generator.random((2000, 2)).astype(np.float32)
    ]
    lists, arrays = (
        outcomes.OUTCOMES[kind].of_records(
            [{"impossible": [0]} | {name: one(x) for name, x in of.items()} for of in written]
        )
        for one in (lambda x: [float(x)], lambda x: np.array([x]))
    )
    assert arrays.scores([metric], POSITIVE) == lists.scores([metric], POSITIVE)


def test_calibration_of_a_model_that_knows_its_chances():
    """Answers that are right as often as said have no error; answers surer than that have."""
    generator = np.random.default_rng(4)
    probability = generator.uniform(0.5, 1, 20000)
    right = generator.random(20000) < probability
    honest = calibration(probability, right)
    assert honest["expected_calibration_error"] < 0.02
    assert [one["examples"] > 0 for one in honest["bins"]] == [False] * 5 + [True] * 5
    boastful = calibration(np.full(20000, 0.99), right)
    assert boastful["expected_calibration_error"] == pytest.approx(0.99 - 0.75, abs=0.01)
    assert boastful["bins"][-1]["accuracy"] == pytest.approx(0.75, abs=0.01)


def test_probabilities_on_an_edge_are_counted_once():
    """0, 1 and a tenth in between."""
    found = calibration(np.array([1.0, 0.0, 0.4]), np.array([True, False, True]))
    assert [i for i, one in enumerate(found["bins"]) if one["examples"]] == [0, 3, 9]
    assert sum(one["examples"] for one in found["bins"]) == 3


def test_confidence_is_of_the_given_answer():
    """Not of the right one."""
    found = outcomes.ClassOutcomes(np.array([0, 1]), np.array([0, 0]), np.array([[0.7, 0.3]] * 2))
    probability, right = found.confidence()
    assert (probability.tolist(), right.tolist()) == ([0.7, 0.7], [True, False])
