"""The metrics of tasks, from labels and predictions as arrays, and those of rankings.

The values equal those of scikit-learn and SciPy, which the GLUE tasks are scored with, but need
only NumPy. A correlation is 0 here if all predictions or all labels are the same; those libraries
return not-a-number then. Shape suffixes: N examples, S sequences of an example, H components of a
vector."""

import collections
import dataclasses
import hashlib
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Smaller probabilities are raised to this one, so that a single error with probability 0 does not
# make the mean infinite. It is the machine epsilon of float32, as in scikit-learn's log_loss.
LEAST_PROBABILITY = float(np.finfo(np.float32).eps)


@dataclasses.dataclass(frozen=True)
class Metric:
    """The title and the range of a metric.

    Attributes:
      title: its name in reports.
      least: least value that it can have.
      greatest: greatest value that it can have.
      greater_is_better: whether better models have greater values.
    """

    title: str
    least: float = 0.0
    greatest: float = 1.0
    greater_is_better: bool = True


# All metrics that a task can name. `scores` computes them except those of entities (see
# `tagging`), of several labels (see `multi_label`), of answers to questions, which are means over
# the questions, and of rankings.
METRICS: dict[str, Metric] = {
    "accuracy": Metric("accuracy"),
    "f1": Metric("F1"),
    "micro_f1": Metric("micro F1"),
    "macro_f1": Metric("macro F1"),
    "matthews_correlation": Metric("Matthews correlation", least=-1.0),
    "pearson": Metric("Pearson", least=-1.0),
    "spearman": Metric("Spearman", least=-1.0),
    "mean_squared_error": Metric("mean squared error", greatest=math.inf, greater_is_better=False),
    "cross_entropy": Metric("cross entropy", greatest=math.inf, greater_is_better=False),
    "entity_precision": Metric("entity precision"),
    "entity_recall": Metric("entity recall"),
    "entity_f1": Metric("entity F1"),
    "exact_match": Metric("exact match"),
    "squad_f1": Metric("SQuAD F1"),
    "ndcg_at_10": Metric("nDCG@10"),
    "mrr_at_10": Metric("MRR@10"),
    "recall_at_10": Metric("Recall@10"),
}
# Metrics that compare classes. Of examples of one class they say less than the accuracy: the F1
# of the other classes is 0 or missing.
OF_SEVERAL_CLASSES = frozenset({"f1", "macro_f1", "matthews_correlation"})


def scores(
    names: Sequence[str],
    labels: ArrayLike,
    predictions: ArrayLike,
    *,
    probabilities: ArrayLike | None = None,
    positive: int = 1,
) -> dict[str, float]:
    """Returns metrics by name.

    Args:
      names: keys of `METRICS`.
      labels: true class ids, or numbers for a regression, [examples].
      predictions: predicted class ids or numbers, [examples].
      probabilities: probabilities of the classes, [examples, classes]; cross_entropy needs them.
      positive: id of the class whose F1 is computed.
    """
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    found = {}
    for name in names:
        if name == "cross_entropy":
            found[name] = cross_entropy(labels, np.asarray(probabilities))
        elif name == "f1":
            found[name] = f1(labels, predictions, positive)
        else:
            found[name] = _OF_LABELS_AND_PREDICTIONS[name](labels, predictions)
    return found


def accuracy(labels: NDArray, predictions: NDArray) -> float:
    """Returns the share of the predictions that equal their labels."""
    return float(np.mean(labels == predictions))


def f1(labels: NDArray, predictions: NDArray, positive: int = 1) -> float:
    """Returns the F1 of one class; 0 if it occurs neither as label nor as prediction."""
    correct = np.sum((labels == positive) & (predictions == positive))
    occurrences = np.sum(labels == positive) + np.sum(predictions == positive)
    return float(2 * correct / occurrences) if occurrences else 0.0


def macro_f1(labels: NDArray, predictions: NDArray) -> float:
    """Returns the mean F1 of the classes that occur among the labels or the predictions."""
    actual, predicted, correct = _class_counts(labels, predictions)
    return float(np.mean(2 * correct / (actual + predicted)))


def matthews_correlation(labels: NDArray, predictions: NDArray) -> float:
    """Returns the correlation coefficient of Matthews (1975), for any number of classes.

    For more than two classes it is the R_K statistic of Gorodkin (2004). It is 0 if all labels or
    all predictions are the same.
    """
    actual, predicted, correct = _class_counts(labels, predictions)
    count = len(labels)
    covariance = correct.sum() * count - actual @ predicted
    variances = (count**2 - actual @ actual) * (count**2 - predicted @ predicted)
    return float(covariance / math.sqrt(variances)) if variances else 0.0


def pearson(labels: NDArray, predictions: NDArray) -> float:
    """Returns Pearson's correlation coefficient; 0 if either side is constant."""
    a, b = _standardized(labels), _standardized(predictions)
    return float(np.clip(a @ b, -1.0, 1.0))


def spearman(labels: NDArray, predictions: NDArray) -> float:
    """Returns Spearman's rank correlation coefficient; equal values share their mean rank."""
    return pearson(_ranks(labels), _ranks(predictions))


def mean_squared_error(labels: NDArray, predictions: NDArray) -> float:
    """Returns the mean of the squared differences."""
    return float(np.mean((labels.astype(float) - predictions.astype(float)) ** 2))


def cross_entropy(labels: NDArray, probabilities: NDArray) -> float:
    """Returns the mean negative logarithm of the labels' probabilities, in nats.

    Args:
      labels: [examples] class ids.
      probabilities: [examples, classes].
    """
    of_label = probabilities[np.arange(len(labels)), labels].astype(float)
    return float(np.mean(-np.log(np.maximum(of_label, LEAST_PROBABILITY))))


def _class_counts(labels: NDArray, predictions: NDArray) -> list[NDArray[np.float64]]:
    """Returns how often each class is the label, the prediction, and both at once."""
    count = len(labels)
    classes, ids = np.unique(np.concatenate([labels, predictions]), return_inverse=True)
    actual, predicted = ids[:count], ids[count:]
    return [
        np.bincount(some, minlength=len(classes)).astype(float)
        for some in (actual, predicted, actual[actual == predicted])
    ]


def precision_recall_f1(
    true: NDArray, predicted: NDArray, correct: NDArray
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Returns precision, recall and F1 of counts; each is 0 if it would divide by 0."""
    return _share(correct, predicted), _share(correct, true), _share(2 * correct, true + predicted)


def _share(part: NDArray, whole: NDArray) -> NDArray[np.float64]:
    return np.where(whole > 0, part / np.maximum(whole, 1), 0.0)


def scores_by_name(names: Sequence[str], counts: NDArray[np.int64]) -> dict[str, dict[str, float]]:
    """Returns name -> counts, precision, recall and F1, rounded, for reports.

    Args:
      names: names of labels or of types of entities.
      counts: how often each is true, predicted, and both, [names, 3].
    """
    scores = np.round(np.stack(precision_recall_f1(*counts.T), axis=1), 6)
    keys = ("true", "predicted", "correct", "precision", "recall", "f1")
    rows = zip(names, counts.tolist(), scores.tolist(), strict=True)
    return {name: dict(zip(keys, of_name + shares, strict=True)) for name, of_name, shares in rows}


def _standardized(values: NDArray) -> NDArray[np.float64]:
    """Returns the deviations from the mean, scaled to norm 1; zeros if all values are equal."""
    values = values.astype(float)
    if np.ptp(values) == 0:  # The mean may differ from them by rounding.
        return np.zeros_like(values)
    deviations = values - values.mean()
    deviations /= np.abs(deviations).max()  # This keeps the squares from underflow and overflow.
    return deviations / np.linalg.norm(deviations)


def _ranks(values: NDArray) -> NDArray[np.float64]:
    _, positions, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[positions]


_OF_LABELS_AND_PREDICTIONS: dict[str, Callable[[NDArray, NDArray], float]] = {
    "accuracy": accuracy,
    "macro_f1": macro_f1,
    "matthews_correlation": matthews_correlation,
    "pearson": pearson,
    "spearman": spearman,
    "mean_squared_error": mean_squared_error,
}


# Number of ranks that count in the metrics of a task.
DEPTH = 10
# Number of queries whose cosines are computed at once.
_QUERIES_AT_A_TIME = 512


def text_id(text: str) -> int:
    """Returns the same number for equal texts, int64; other texts have it by a rare chance only."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def ndcg(grades: Sequence[float], judged: Sequence[float], depth: int) -> float:
    """Returns the normalized discounted cumulative gain (Järvelin and Kekäläinen 2002).

    The gain of a document is its grade, and its discount the binary logarithm of its rank plus 1.

    Args:
      grades: grades of the ranked documents, the best rank first; negative ones count as 0.
      judged: grades of all documents that were judged.
      depth: number of ranks that count.
    """
    ideal = _ideal_gain(judged, depth)
    return _gain(grades[:depth]) / ideal if ideal else 0.0


def _ideal_gain(judged: Sequence[float], depth: int) -> float:
    return _gain(sorted(judged, reverse=True)[:depth])


def _gain(grades: Sequence[float]) -> float:
    return sum(max(grade, 0) / math.log2(rank + 1) for rank, grade in enumerate(grades, start=1))


def reciprocal_rank(grades: Sequence[float], judged: Sequence[float], depth: int) -> float:
    """Returns 1 divided by the rank of the first relevant document; 0 without one."""
    ranks = (rank for rank, grade in enumerate(grades[:depth], start=1) if grade > 0)
    return 1 / next(ranks, math.inf)


def average_precision(grades: Sequence[int], judged: Sequence[int], depth: int) -> float:
    """Returns the mean over all relevant documents of the precision at their ranks, or 0."""
    found, total = 0, 0.0
    for rank, grade in enumerate(grades[:depth], start=1):
        if grade > 0:
            found += 1
            total += found / rank
    return total / relevant(judged) if found else 0.0


def recall(grades: Sequence[int], judged: Sequence[int], depth: int) -> float:
    """Returns the share of the relevant documents that have one of the first ranks."""
    return relevant(grades[:depth]) / relevant(judged) if relevant(judged) else 0.0


def relevant(grades: Sequence[float]) -> int:
    """Returns the number of grades above 0."""
    return sum(grade > 0 for grade in grades)


# Name of a metric -> measure of one query.
_MEASURES = {"ndcg_at_10": ndcg, "mrr_at_10": reciprocal_rank, "recall_at_10": recall}


def commonest(text_ids_NS: NDArray[np.int64]) -> list[int]:
    """Returns the texts that most queries must find: the best ranking that no query changes."""
    counts = collections.Counter(text_ids_NS[:, 1].tolist())
    return sorted(counts, key=lambda text: (-counts[text], text))[:DEPTH]


def best_by_vectors(
    text_ids_NS: NDArray[np.int64], vectors_NSH: NDArray[np.float32]
) -> NDArray[np.int64]:
    """Returns the texts with the greatest cosines for each row's query, int64 [N, at most DEPTH].

    Args:
      text_ids_NS: see `best_of`.
      vectors_NSH: the vectors of the texts.
    """
    lengths = np.linalg.norm(vectors_NSH, axis=-1, keepdims=True)
    vectors_NSH = vectors_NSH / np.maximum(lengths, 1e-12)
    flat = vectors_NSH[:, 1:].reshape(-1, vectors_NSH.shape[-1])

    def cosines(some: slice, places: NDArray[np.int64]) -> NDArray[np.float32]:
        return vectors_NSH[some, 0] @ flat[places].T

    return best_of(text_ids_NS, cosines, _QUERIES_AT_A_TIME)


def best_of(
    text_ids_NS: NDArray[np.int64],
    scores_of: Callable[[slice, NDArray[np.int64]], NDArray[np.float32]],
    rows_at_a_time: int,
) -> NDArray[np.int64]:
    """Returns the texts with the greatest scores for each row's query, int64 [N, at most DEPTH].

    The texts that can be found are all texts of the rows but the queries, each once. A query cannot
    find its own text. Of equal scores the first text comes first.

    Args:
      text_ids_NS: id of each text: the query, the text that it must find, and others.
      scores_of: function from some rows, and the places of texts in the flattened `[:, 1:]`, to the
        scores of those texts for the queries of those rows.
      rows_at_a_time: number of rows that it gets at most.
    """
    _, places = np.unique(text_ids_NS[:, 1:], return_index=True)
    places.sort()
    ids = text_ids_NS[:, 1:].ravel()[places]
    found = []
    for start in range(0, len(text_ids_NS), rows_at_a_time):
        some = slice(start, start + rows_at_a_time)
        scores = scores_of(some, places)
        right = text_ids_NS[some, 1, None]
        is_itself = (ids == text_ids_NS[some, 0, None]) & (ids != right)
        scores[is_itself] = -np.inf
        found.append(ids[np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]])
    return np.concatenate(found)


def retrieval_scores(
    text_ids_NS: NDArray[np.int64], ranked: Sequence[Sequence[int]]
) -> dict[str, NDArray[np.float64]]:
    """Returns the metrics of each row, float64 [N]; a query in several rows counts in each.

    Args:
      text_ids_NS: see `best_by_vectors`.
      ranked: the texts that each row's query found, the best first.
    """
    # The texts that a query must find may stand in several rows.
    right: dict[int, set[int]] = collections.defaultdict(set)
    for query, answer in text_ids_NS[:, :2].tolist():
        right[query].add(answer)
    found: dict[str, list[float]] = {name: [] for name in _MEASURES}
    for query, of_row in zip(text_ids_NS[:, 0].tolist(), ranked, strict=True):
        grades, judged = [int(text in right[query]) for text in of_row], [1] * len(right[query])
        for name, measure in _MEASURES.items():
            found[name].append(measure(grades, judged, DEPTH))
    return {name: np.array(values) for name, values in found.items()}


def relevance_scores(
    queries: NDArray[np.int64], labels: NDArray[np.float64], scores: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """Returns nDCG and MRR of each query whose candidates are ranked by scores, float64 [queries].

    A query none of whose candidates is relevant is left out. Of equal scores the candidate with the
    smaller label comes first, so that no order of the rows helps.

    Args:
      queries: id of the query of each candidate, [n].
      labels: relevance of the candidates; those above 0 are relevant.
      scores: what they are ranked by, the greatest first.
    """
    order = np.lexsort((labels, -scores))
    ranked = _by_query(queries[order], labels[order])
    measures = {"ndcg_at_10": ndcg, "mrr_at_10": reciprocal_rank}
    return {
        name: np.array([measure(grades, grades, DEPTH) for grades in ranked])
        for name, measure in measures.items()
    }


def random_order_scores(
    queries: NDArray[np.int64], labels: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """Returns the means of `relevance_scores` over all orders of a query's candidates.

    Every candidate is as likely to have a rank as any other, so that the mean gain of a rank is
    that of all candidates. The first relevant one has a rank if no earlier one is relevant and one
    of those that are left is.

    Args:
      queries, labels: see `relevance_scores`.
    """
    found: dict[str, list[float]] = {"ndcg_at_10": [], "mrr_at_10": []}
    for grades in _by_query(queries, labels):
        mean = sum(max(grade, 0) for grade in grades) / len(grades)
        same = [mean] * len(grades)
        found["ndcg_at_10"].append(_gain(same[:DEPTH]) / _ideal_gain(grades, DEPTH))
        reciprocal, none_before = 0.0, 1.0
        for rank in range(1, min(DEPTH, len(grades)) + 1):
            share = relevant(grades) / (len(grades) - rank + 1)
            reciprocal += none_before * share / rank
            none_before *= 1 - share
        found["mrr_at_10"].append(reciprocal)
    return {name: np.array(values) for name, values in found.items()}


def _by_query(queries: NDArray[np.int64], labels: NDArray[np.float64]) -> list[list[float]]:
    """Returns the labels of each query that has a relevant candidate, in their order."""
    order = np.argsort(queries, kind="stable")
    ends = np.flatnonzero(np.diff(queries[order])) + 1
    grades = (part.tolist() for part in np.split(labels[order], ends))
    return [each for each in grades if any(grade > 0 for grade in each)]
