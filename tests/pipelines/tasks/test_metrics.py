"""The metrics against scikit-learn (golden values, see make_golden_metrics.py) and SciPy."""

import json
import math
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.pipelines.tasks import metrics

CASES = json.loads((pathlib.Path(__file__).parents[2] / "golden" / "metrics.json").read_text())
NUMBERS = st.floats(-1e6, 1e6).map(lambda number: round(number, 3))


@pytest.mark.parametrize("case", CASES)
def test_classification_equals_scikit_learn(case):
    """Two, three and seven classes, and cases where one side is constant."""
    found = metrics.scores(
        list(case["scores"]),
        case["labels"],
        case["predictions"],
        probabilities=np.array(case["probabilities"]),
    )
    # Written probabilities are rounded, and scikit-learn wants them to sum to 1.
    assert found == pytest.approx(case["scores"], abs=1e-5)
    assert found["matthews_correlation"] == pytest.approx(
        case["scores"]["matthews_correlation"], abs=1e-12
    )
    for positive, expected in case["f1_of"].items():
        found = metrics.scores(["f1"], case["labels"], case["predictions"], positive=int(positive))
        assert found == {"f1": pytest.approx(expected, abs=1e-12)}


def test_cases_are_not_all_alike():
    """The golden file has good and bad predictions, and zeros."""
    correlations = {round(case["scores"]["matthews_correlation"], 1) for case in CASES}
    assert len(correlations) > 4 and 0 in correlations


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=40))
def test_correlations_equal_scipy(pairs):
    """Also with ties and with a constant side, where SciPy gives no number and this 0."""
    labels, predictions = np.array(pairs).T
    found = metrics.scores(["pearson", "spearman", "mean_squared_error"], labels, predictions)
    if np.ptp(labels) == 0 or np.ptp(predictions) == 0:
        assert found["pearson"] == found["spearman"] == 0
    else:
        spearman = scipy.stats.spearmanr(labels, predictions).statistic
        assert found["spearman"] == pytest.approx(spearman, abs=1e-9)
        pearson = scipy.stats.pearsonr(labels, predictions).statistic
        assert found["pearson"] == pytest.approx(pearson, abs=1e-6)
    squares = [(label - prediction) ** 2 for label, prediction in pairs]
    assert found["mean_squared_error"] == pytest.approx(math.fsum(squares) / len(squares))


def test_ties_share_their_mean_rank():
    """Many equal labels, as STS-B has them."""
    generator = np.random.default_rng(2)
    labels = generator.integers(0, 6, 500) / 1.25
    predictions = (labels + generator.normal(size=500)).round(1)
    expected = scipy.stats.spearmanr(labels, predictions).statistic
    assert metrics.scores(["spearman"], labels, predictions)["spearman"] == pytest.approx(expected)
    assert 0.5 < expected < 0.9


def test_equal_predictions_are_no_correlation():
    """The mean of 0.1s is not 0.1, which must not look like a spread."""
    labels = np.arange(10.0)
    assert metrics.scores(["pearson"], labels, np.full(10, 0.1)) == {"pearson": 0.0}
    assert metrics.scores(["pearson"], labels * 1e-200, labels * 1e200) == {
        "pearson": pytest.approx(1.0)
    }


def test_a_certain_error_is_not_infinite():
    """A probability of 0 counts as float32's epsilon."""
    probabilities = np.array([[1.0, 0.0], [1.0, 0.0]], np.float32)
    found = metrics.scores(["cross_entropy"], [1, 0], [0, 0], probabilities=probabilities)
    assert found["cross_entropy"] == pytest.approx(-math.log(2.0**-23) / 2)


@pytest.mark.parametrize(
    ("names", "labels", "predictions", "message"),
    [
        (["entity_f1"], [0], [0], "entity_f1 is not a metric of labels"),
        (["accuracy"], [], [], "labels"),
        (["accuracy"], [0, 1], [0], "labels"),
        (["cross_entropy"], [0], [0], "needs probabilities"),
    ],
)
def test_what_cannot_be_computed_is_refused(names, labels, predictions, message):
    """Callers get an error, not a number."""
    with pytest.raises(ValueError, match=message):
        metrics.scores(names, labels, predictions)


def test_the_best_and_the_worst_predictions_reach_the_ends_of_a_metric():
    """A threshold between them can be reached, and none beyond."""
    labels = np.array([0, 1, 1, 0])
    elsewhere = ("entity", "exact", "squad", "micro", "ndcg", "mrr", "recall")
    names = [name for name in metrics.METRICS if not name.startswith(elsewhere)]
    best, worst = (
        metrics.scores(names, labels, found, probabilities=np.eye(2)[found])
        for found in (labels, 1 - labels)
    )
    for name in names:
        metric = metrics.METRICS[name]
        assert metric.greater_is_better is (best[name] > worst[name])
        ends = [best[name], worst[name]][:: -1 if metric.greater_is_better else 1]
        assert ends[0] == pytest.approx(metric.least)
        assert ends[1] == pytest.approx(metric.greatest) or metric.greatest == math.inf
    assert metrics.METRICS["cross_entropy"].greatest == math.inf
    assert metrics.METRICS["mean_squared_error"].greatest == math.inf


def test_numpy_alone_is_needed():
    """Where a model is trained, SciPy may be absent."""
    code = (
        "import sys; from beambert.pipelines.tasks import metrics, tagging\n"
        "assert not {'scipy', 'tensorflow', 'apache_beam'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
