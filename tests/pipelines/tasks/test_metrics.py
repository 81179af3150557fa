"""The metrics against scikit-learn (golden values, see make_golden_metrics.py) and SciPy.

The models of words are those of scikit-learn 1.9.1 with the settings that their module names.
"""

import itertools
import json
import math
import pathlib

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.errors import InputError
from beambert.pipelines.tasks import metrics, words
from beambert.pipelines.tasks.classification import loss_weights
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.metrics import (
    best_by_vectors,
    random_order_scores,
    relevance_scores,
    retrieval_scores,
    text_id,
)
from beambert.pipelines.tasks.table_task import TextExample
from beambert.pipelines.tasks.tagging import TaggedExample
from beambert.trainer.retrieval.judging import evaluate

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


def test_balanced_weights_are_those_of_scikit_learn():
    """Its compute_class_weight("balanced", …) gives 0.625, 1.25 and 1.66666667 here."""
    label_ids = np.array([0] * 8 + [1] * 4 + [3] * 3)
    weights = loss_weights("balanced", ["a", "b", "never", "d"], label_ids)
    expected = [0.625] * 8 + [1.25] * 4 + [1.66666667] * 3
    np.testing.assert_allclose(weights, expected, rtol=1e-6)
    assert weights.dtype == np.float32
    assert weights.mean() == pytest.approx(1)


def test_balanced_weights_of_several_labels_are_those_of_the_rarer_side():
    """PyTorch's example: 100 positive and 300 negative examples have the weight 3."""
    label_ids = np.zeros((400, 2), np.float32)
    label_ids[:100, 0] = 1
    weights = loss_weights("balanced", ["a", "never"], label_ids)
    assert weights.shape == label_ids.shape
    assert set(weights[:100, 0]) == {3.0}
    assert set(weights[100:, 0]) == set(weights[:, 1]) == {1.0}


def test_weights_by_label():
    weights = loss_weights({"b": 4.0}, ["a", "b"], np.array([0, 1, 1]))
    assert weights.tolist() == [1, 4, 4]
    with pytest.raises(InputError, match="--class_weights: 'c' is not a label of the training"):
        loss_weights({"c": 4.0}, ["a", "b"], np.array([0, 1, 1]))


def ids_of(rows):
    return np.array([[text_id(text) for text in row] for row in rows], np.int64)


def unit_vectors(shape, seed):
    vectors = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def rows():
    """Queries of which some have two right texts, and texts that several queries must find."""
    random = np.random.default_rng(1)
    return [(f"q{random.integers(40)}", f"d{random.integers(30)}") for _ in range(60)]


def test_rankings_are_those_of_all_cosines(rows):
    by_text = {text: unit_vectors(8, text_id(text) % 2**32) for row in rows for text in row}
    vectors = np.array([[3.0 * by_text[text] for text in row] for row in rows])
    found = best_by_vectors(ids_of(rows), vectors)
    documents = {text for _, text in rows}
    for (query, _), ranked in zip(rows, found.tolist(), strict=True):
        cosine = {text: by_text[query] @ by_text[text] for text in documents}
        expected = sorted(documents, key=cosine.get, reverse=True)[:10]
        assert ranked == [text_id(text) for text in expected]


def test_measures_equal_those_of_runs(rows):
    """`measures.evaluate` equals trec_eval; the mean here is over rows, and there over queries."""
    ids = ids_of(rows)
    documents = sorted({text for _, text in rows})
    random = np.random.default_rng(2)
    ranked = {query: list(random.permutation(documents)[:10]) for query, _ in rows}
    lists = [[text_id(text) for text in ranked[query]] for query, _ in rows]
    scores = retrieval_scores(ids, lists)
    judgments = {query: {} for query, _ in rows}
    for query, text in rows:
        judgments[query][text] = 1
    for query in judgments:
        run = {query: {text: -float(rank) for rank, text in enumerate(ranked[query])}}
        expected = evaluate({query: judgments[query]}, run, [10])
        row = next(number for number, (asked, _) in enumerate(rows) if asked == query)
        assert scores["ndcg_at_10"][row] == pytest.approx(expected["nDCG@10"])
        assert scores["mrr_at_10"][row] == pytest.approx(expected["MRR@10"])
        assert scores["recall_at_10"][row] == pytest.approx(expected["Recall@10"])


def test_a_query_does_not_find_itself():
    ids = ids_of([("a", "b"), ("b", "a"), ("c", "d")])
    vectors = unit_vectors((3, 2, 4), 3)
    vectors[1] = vectors[0, ::-1]
    found = best_by_vectors(ids, vectors)
    assert text_id("a") not in found[0, :2]
    assert text_id("b") not in found[1, :2]


def test_hard_negatives_can_be_found():
    ids = ids_of([("a", "b", "n"), ("c", "d", "o")])
    vectors = np.array([[[1, 0], [0.5, 1], [1, 0.1]], [[0, 1], [0, 1], [1, 1]]], np.float32)
    assert best_by_vectors(ids, vectors)[0, 0] == text_id("n")


def test_relevance_is_that_of_runs():
    """Beside `measures.evaluate`, whose graded gains equal trec_eval's."""
    random = np.random.default_rng(6)
    queries = np.array([text_id(f"q{number}") for number in random.integers(0, 12, 150)])
    labels, scores = random.integers(0, 3, 150) / 2, random.permutation(150).astype(float)
    labels[queries == queries[0]] = 0  # a query without a relevant candidate
    found = relevance_scores(queries, labels, scores)
    judgments, run = {}, {}
    for number, (query, label, score) in enumerate(zip(queries, labels, scores, strict=True)):
        judgments.setdefault(str(query), {})[str(number)] = int(2 * label)
        run.setdefault(str(query), {})[str(number)] = score
    expected = evaluate(judgments, run, [10])
    assert len(found["ndcg_at_10"]) == len(set(queries)) - 1
    assert found["ndcg_at_10"].mean() == pytest.approx(expected["nDCG@10"])
    assert found["mrr_at_10"].mean() == pytest.approx(expected["MRR@10"])


def test_equal_scores_do_not_help():
    queries, labels = np.zeros(4, np.int64), np.array([1.0, 0.0, 0.0, 0.0])
    assert relevance_scores(queries, labels, np.ones(4))["mrr_at_10"] == [1 / 4]


def test_a_random_order_is_the_mean_over_all_orders():
    """Of five candidates and of one; and beyond ten candidates that of many draws."""
    labels = np.array([1.0, 0.0, 0.25, 0.0, -1.0])
    ones = np.zeros(5, np.int64)
    all_orders = [np.array(order, float) for order in itertools.permutations(range(5))]
    assert_means(ones, labels, all_orders, 1e-9)
    random = np.random.default_rng(5)
    queries = np.repeat([0, 1, 2, 3, 4], [24, 1, 13, 2, 4])
    labels = random.integers(0, 4, len(queries)) / 3 * (random.random(len(queries)) < 0.5)
    labels[queries == 4], labels[queries == 1], labels[queries == 3] = 0.0, 1.0, (0.5, 0.0)
    draws = [random.random(len(queries)) for _ in range(4000)]
    assert len(random_order_scores(queries, labels)["mrr_at_10"]) == 4
    # Four times the greatest standard error of a mean of numbers from 0 to 1.
    assert_means(queries, labels, draws, 4 * 0.5 / 4000**0.5)


def assert_means(queries, labels, orders, tolerance):
    drawn = [relevance_scores(queries, labels, scores) for scores in orders]
    for name, found in random_order_scores(queries, labels).items():
        expected = np.mean([each[name] for each in drawn], axis=0)
        np.testing.assert_allclose(found, expected, atol=tolerance)


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
