"""What vectors find, beside sorted lists, and the measures beside those of trec_eval's rules."""

import itertools

import numpy as np
import pytest

from beambert.pipelines.tasks.ranking import (
    best_by_vectors,
    commonest,
    random_order_scores,
    relevance_scores,
    retrieval_scores,
    text_id,
)
from beambert.trainer.retrieval.judging import evaluate


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


def test_the_commonest_texts_come_first(rows):
    counts = {}
    for _, text in rows:
        counts[text_id(text)] = counts.get(text_id(text), 0) + 1
    found = commonest(ids_of(rows))
    assert [counts[text] for text in found] == sorted(counts.values(), reverse=True)[:10]


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
