"""Intervals of scores against SciPy's bootstrap, published values and the definitions."""

import math

import numpy as np
import pytest
import scipy.stats

from beambert.pipelines.evaluation import measures
from beambert.pipelines.tasks.classification import ClassOutcomes
from beambert.pipelines.tasks.regression import NumberOutcomes, RelevanceOutcomes
from beambert.pipelines.tasks.span import AnswerOutcomes
from beambert.pipelines.tasks.tagging import TagOutcomes

POSITIVE = 1


def class_outcomes(count=200, classes=3, seed=0):
    """Returns outcomes of a fair classifier."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes, count)
    logits = generator.normal(size=(count, classes)) + np.eye(classes)[labels]
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return ClassOutcomes(labels, probabilities.argmax(axis=1), probabilities)


def number_outcomes(count=150):
    """Returns outcomes of a fair regression."""
    generator = np.random.default_rng(1)
    labels = generator.uniform(0, 5, count)
    return NumberOutcomes(labels, labels + generator.normal(size=count))


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

    return TagOutcomes.of_records([sentence() for _ in range(count)])


CASES = [
    (class_outcomes(), "macro_f1"),
    (class_outcomes(), "matthews_correlation"),
    (class_outcomes(), "cross_entropy"),
    (number_outcomes(), "pearson"),
    (number_outcomes(), "mean_squared_error"),
    (tag_outcomes(), "entity_f1"),
    (tag_outcomes(), "accuracy"),
]


@pytest.mark.slow
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
    low, high = measures.intervals(found, [name], POSITIVE)[name]
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
        answers = AnswerOutcomes(score, score, right * 0, score)
        for end in measures.intervals(answers, ["exact_match"], POSITIVE)["exact_match"]:
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
    new = ClassOutcomes(old.labels, predictions, old.probabilities)
    low, high = measures.change_interval(old, new, "accuracy", (1, 1))
    # The change is the mean of 20 ones and 180 zeros.
    expected = scipy.stats.binom.ppf([0.025, 0.975], 200, 0.1) / 200
    assert [low, high] == pytest.approx(expected, abs=0.0101)
    assert measures.change_interval(old, old, "accuracy", (1, 1)) == (0, 0)


@pytest.mark.parametrize(
    ("right", "count", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_shares_as_newcombe_published_them(right, count, low, high):
    """Newcombe (1998), "Two-sided confidence intervals for the single proportion", method 3."""
    found = measures.wilson_interval(right / count, count)
    assert found == pytest.approx((low, high), abs=5.1e-5)


def test_shares_stay_between_none_and_all():
    """Rounding must not give an accuracy of more than 1."""
    for count in range(1, 3000):
        assert 0 <= measures.wilson_interval(0.0, count)[0] < 1e-9
        assert 1 - 1e-9 < measures.wilson_interval(1.0, count)[1] <= 1


class Numbered:
    """Stands in for outcomes: the n-th draw scores n."""

    SHARES = frozenset()

    def __init__(self, count):
        self.count, self.draws = count, []

    def __len__(self):
        return self.count

    def take(self, rows):
        assert len(rows) == self.count and 0 <= rows.min() <= rows.max() < self.count
        self.draws.append(rows)
        return self

    def scores(self, names, positive):
        return {name: len(self.draws) for name in names}


def test_a_fortieth_of_the_draws_lies_on_either_side():
    """Of 1 to 1,000, the 2.5 % and 97.5 % quantiles; every example can be drawn."""
    drawn = Numbered(10)
    found = measures.intervals(drawn, ["a", "b"], POSITIVE)
    assert found["a"] == found["b"] == pytest.approx((25.975, 975.025))
    assert np.bincount(np.concatenate(drawn.draws)) == pytest.approx([1000] * 10, abs=150)


@pytest.mark.parametrize(
    ("examples", "draws"), [(10_000, 1000), (10_001, 999), (20_000, 500), (60_000, 200)]
)
def test_fewer_draws_of_many_examples(examples, draws):
    """Ten million rows in all, and 200 draws at the least."""
    drawn = Numbered(examples)
    measures.intervals(drawn, ["a"], POSITIVE)
    assert len(drawn.draws) == draws


def test_the_class_that_f1_is_of_may_have_another_number_in_each_model():
    """Two models that say the same with their classes in another order differ by nothing."""
    old = class_outcomes(classes=2)
    new = ClassOutcomes(1 - old.labels, 1 - old.predictions, old.probabilities[:, ::-1])
    assert measures.change_interval(old, new, "f1", (1, 0)) == (0, 0)
    assert measures.change_interval(old, new, "f1", (0, 1)) == (0, 0)


def test_each_metric_has_the_interval_of_its_kind():
    """Shares of the examples a closed form, others a bootstrap, whatever is asked for first."""
    found = class_outcomes()
    both = measures.intervals(found, ["macro_f1", "accuracy"], POSITIVE)
    score = found.scores(["accuracy"], POSITIVE)["accuracy"]
    assert both["accuracy"] == measures.wilson_interval(score, len(found))
    assert both == measures.intervals(found, ["accuracy", "macro_f1"], POSITIVE)
    assert measures.intervals(found, ["accuracy"], POSITIVE) == {"accuracy": both["accuracy"]}


def test_a_slice_without_a_relevant_candidate_has_no_interval():
    """Its queries are left out, so that it has no outcomes, and its scores say nothing."""
    records = [{"query_id": [i // 2], "number": [0.0], "score": [i / 4]} for i in range(4)]
    found = RelevanceOutcomes.of_records(records)
    assert len(found) == 0
    assert measures.intervals(found, ["ndcg_at_10"], POSITIVE) == {"ndcg_at_10": (0, 0)}
    assert found.undefined() == {"ndcg_at_10", "mrr_at_10"}
