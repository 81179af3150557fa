"""The metrics that an evaluation reports, and the bounds that a model must reach."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from beambert.errors import InputError
from beambert.pipelines.tasks.declarations import kind_of
from beambert.pipelines.tasks.metrics import METRICS
from beambert.pipelines.tasks.task import (
    LABEL,
    LENGTH,
    PREDICTION,
    Example,
    Outcomes,
    Slices,
    Task,
    words_in,
)

if TYPE_CHECKING:
    from tensorflow_model_analysis.proto import config_pb2, validation_result_pb2


# Smaller differences are rounding errors: 0.1 + 0.2 is at least 0.3, and not more than 0.3.
_ROUNDING = 1e-12


@dataclasses.dataclass(frozen=True)
class Threshold:
    """A threshold on a metric, as the user gives it.

    Attributes:
      metric: name of the metric.
      value: least value that is blessed, or greatest value for metrics where less is better. None
        means better than the best answer without a model.
    """

    metric: str
    value: float | None = None


@dataclasses.dataclass(frozen=True)
class Requirement:
    """A bound on a metric over all examples.

    Attributes:
      metric: name of the metric.
      threshold: the bound.
      strict: whether a score must be better than the bound rather than equal to it.
      meaning: explanation of the bound that follows its number in the verdict; may be "".
    """

    metric: str
    threshold: float
    strict: bool = False
    meaning: str = ""

    @property
    def relation(self) -> str:
        """The relation of a sufficient score to the bound, in words."""
        great = METRICS[self.metric].greater_is_better
        if self.strict:
            return "more than" if great else "less than"
        return "at least" if great else "at most"

    def to_tfma(self) -> "config_pb2.GenericValueThreshold":
        """Returns the bound as a threshold of TFMA, which a score may equal."""
        from tensorflow_model_analysis.proto import config_pb2

        great = METRICS[self.metric].greater_is_better
        side = "lower_bound" if great else "upper_bound"
        better = _ROUNDING if great else -_ROUNDING
        value = self.threshold + (better if self.strict else -better)
        return config_pb2.GenericValueThreshold(**{side: {"value": value}})

    def verdict(
        self, score: float, failures: Sequence["validation_result_pb2.ValidationFailure"]
    ) -> dict[str, Any]:
        """Returns the verdict for metrics.json.

        Args:
          score: score of the model.
          failures: the missed thresholds that TFMA found.
        """
        bound = self.to_tfma()
        failed = any(
            failure.metric_key.name == self.metric
            and failure.metric_threshold.value_threshold == bound
            for failure in failures
        )
        title = METRICS[self.metric].title
        shown, bound_shown = _told_apart(score, self.threshold)
        return {
            "metric": self.metric,
            "value": score,
            "required": self.relation,
            "threshold": round(self.threshold, 6),
            "passed": not failed,
            "reason": f"{title} {shown} {'is not' if failed else 'is'} {self.relation} "
            f"{bound_shown}{self.meaning}",
        }


def _told_apart(score: float, bound: float) -> tuple[str, str]:
    """Returns both numbers with four decimal places, or six if four would show them as equal."""
    short, long = ((f"{score:.{places}f}", f"{bound:.{places}f}") for places in (4, 6))
    return long if short[0] == short[1] and long[0] != long[1] else short


def check_thresholds(thresholds: Sequence[Threshold], names: Sequence[str]) -> None:
    """Refuses thresholds that cannot be checked or reached.

    Raises:
      InputError: a threshold is wrong; the message names the flag.
    """
    for threshold in thresholds:
        if threshold.metric not in names:
            raise InputError(
                f"--metric={threshold.metric}: not a metric of this task; choose one of "
                f"{', '.join(names)}"
            )
        metric = METRICS[threshold.metric]
        if threshold.value is not None and not metric.least <= threshold.value <= metric.greatest:
            upper = "up" if metric.greatest == float("inf") else f"to {metric.greatest:g}"
            raise InputError(
                f"--threshold={threshold.value:g}: cannot be reached by {threshold.metric}; "
                f"give a number from {metric.least:g} {upper}"
            )


def of_thresholds(
    thresholds: Sequence[Threshold], constants: Mapping[str, Mapping[str, Any]]
) -> list[Requirement]:
    """Returns the requirements of the user's thresholds.

    Args:
      thresholds: thresholds that `check_thresholds` accepted.
      constants: metric -> the best answer without a model, see `measures.constant_answers`.
    """
    found = []
    for threshold in thresholds:
        if threshold.value is not None:
            found.append(Requirement(threshold.metric, threshold.value))
            continue
        constant = constants[threshold.metric]
        meaning = f", which {without_model(constant)} gives"
        found.append(Requirement(threshold.metric, constant["score"], True, meaning))
    return found


def without_model(constant: Mapping[str, Any]) -> str:
    """Returns in words how an answer is given without a model, see `measures.constant_answers`."""
    return f"always answering {constant['answer']!r}"


def of_baseline(metric: str, score: float, min_change: float) -> Requirement:
    """Returns the requirement that a metric is better than the baseline's by `min_change`."""
    sign = 1 if METRICS[metric].greater_is_better else -1
    meaning = f", the baseline's {score:.4f}"
    if min_change:
        meaning += f" {'plus' if min_change > 0 else 'less'} {abs(min_change):g}"
    return Requirement(metric, score + sign * min_change, meaning=meaning)


# Folder of the files that an official scorer reads, for the tasks that have one.
OFFICIAL = "official"
# Numbers of bootstrap samples. They are large enough that other samples would move the ends only by
# a small part of the interval. More than 10,000 examples get fewer, as their intervals are narrow.
_MOST_RESAMPLES, _LEAST_RESAMPLES = 1000, 200
_ROWS_TO_DRAW = 10_000_000
_SEED = 1
# The 97.5 % quantile of the normal distribution.
_Z = 1.959964
# Greatest numbers of values of a column that makes slices by itself, and of one that is named. Each
# slice has its own bootstrap, which takes time.
MOST_VALUES, MOST_VALUES_IF_NAMED = 20, 200
_LENGTH_BUCKETS = (
    *((8, "1-8"), (16, "9-16"), (32, "17-32"), (64, "33-64"), (128, "65-128"), (256, "129-256")),
    (math.inf, "257+"),
)


@dataclasses.dataclass(frozen=True)
class Measures:
    """The metrics by which the outcomes of a task are scored.

    Attributes:
      kind: kind of the task.
      names: names of the metrics, the task's own first.
      positive: id of the class whose F1 is computed.
    """

    kind: str
    names: tuple[str, ...]
    positive: int

    def scores(self, outcomes: Outcomes) -> dict[str, float]:
        """Returns name -> value of all metrics."""
        return outcomes.scores(self.names, self.positive)


def metric_names(task: Task) -> tuple[str, ...]:
    """Returns the names of the metrics of an evaluation, the task's own first."""
    return tuple(dict.fromkeys([*task.metrics, *task.OUTCOMES.METRICS]))


def measures_of(task: Task, labels: Sequence[str]) -> Measures:
    """Returns the metrics of a task; F1 is that of its positive label, or else of the second."""
    return Measures(task.kind, metric_names(task), task.positive_index(labels))


def constant_answers(
    outcomes: Outcomes, measures: Measures, labels: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Returns, for each metric, the best `answer` without a model and its `score`.

    Args:
      outcomes: outcomes of the model; those of constant answers follow from their truths.
      measures: the metrics.
      labels: labels in index order.
    """
    candidates = [(answer, measures.scores(constant)) for answer, constant in outcomes.constants()]
    found = {}
    for name in measures.names:
        sign = 1 if METRICS[name].greater_is_better else -1
        answer, scores = max(candidates, key=lambda candidate: sign * candidate[1][name])
        found[name] = {"answer": outcomes.written(answer, labels), "score": scores[name]}
    return found


def written(score: float | None) -> str:
    """Returns a score with four decimals; "-" for None."""
    return "-" if score is None else f"{score:.4f}"


def intervals(
    outcomes: Outcomes, names: Sequence[str], positive: int
) -> dict[str, tuple[float, float]]:
    """Returns the 95 % interval of each metric; (0, 0) if there are no outcomes."""
    if not len(outcomes):
        return dict.fromkeys(names, (0.0, 0.0))
    found = {}
    shares = [name for name in names if name in outcomes.SHARES]
    for name, score in outcomes.scores(shares, positive).items():
        found[name] = wilson_interval(score, len(outcomes))
    others = [name for name in names if name not in outcomes.SHARES]
    if others:
        drawn = [outcomes.take(rows).scores(others, positive) for rows in _resamples(len(outcomes))]
        for name in others:
            found[name] = _percentiles([scores[name] for scores in drawn])
    return found


def change_interval(
    old: Outcomes, new: Outcomes, name: str, positive: tuple[int, int]
) -> tuple[float, float]:
    """Returns the 95 % interval of the change in a metric from old to new outcomes.

    Args:
      old: old outcomes of some examples.
      new: new outcomes of the same examples in the same order; both are resampled together.
      name: name of the metric.
      positive: ids of the class whose F1 is computed, in the old and in the new outcomes.
    """
    return _percentiles(
        [
            new.take(rows).scores([name], positive[1])[name]
            - old.take(rows).scores([name], positive[0])[name]
            for rows in _resamples(len(new))
        ]
    )


def changes(old: Outcomes, of_old: Measures, new: Outcomes, of_new: Measures) -> dict[str, Any]:
    """Returns the scores of old outcomes, and how much greater those of new ones are, rounded.

    Args:
      old: old outcomes of some examples.
      of_old: the metrics by which they are scored.
      new: new outcomes of the same examples in the same order.
      of_new: the metrics by which these are scored.
    """
    scores, by_new = of_old.scores(old), of_new.scores(new)
    ends = change_interval(old, new, of_new.names[0], (of_old.positive, of_new.positive))
    return {
        "scores": {name: round(score, 6) for name, score in scores.items()},
        "changes": {name: round(by_new[name] - scores[name], 6) for name in scores},
        # That of the first metric.
        "change_interval_95": [round(end, 6) for end in ends],
    }


def words_note(metrics: Mapping[str, Any]) -> str:
    """Returns a sentence if the model of words is as good as the model, else "".

    Args:
      metrics: content of metrics.json.
    """
    words, first = metrics["words"], metrics["metrics"][0]
    title, sign = METRICS[first].title, 1 if METRICS[first].greater_is_better else -1
    if words is None or sign * words["changes"][first] > 0:
        return ""
    score = words["scores"][first]
    return f"{words['model']} on the train file gives {title} {score:.4f} in seconds"


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """Returns the 95 % interval of a share of `count` examples (Wilson, 1927)."""
    centre = share + _Z * _Z / (2 * count)
    margin = _Z * math.sqrt(share * (1 - share) / count + _Z * _Z / (4 * count * count))
    scale = 1 + _Z * _Z / count
    return max(0.0, (centre - margin) / scale), min(1.0, (centre + margin) / scale)


def _resamples(count: int) -> Iterator[NDArray[np.int64]]:
    generator = np.random.default_rng(_SEED)
    for _ in range(max(_LEAST_RESAMPLES, min(_MOST_RESAMPLES, _ROWS_TO_DRAW // count))):
        yield generator.integers(0, count, count)


def _percentiles(drawn: Sequence[float]) -> tuple[float, float]:
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)


def slice_feature(name: str) -> str:
    """Returns the name of the feature of a record that holds its value in a slicing."""
    return name if name == PREDICTION else f"slice {name}"


def slicings(
    kind: str,
    examples: Sequence[Example],
    labels: Sequence[str],
    named: Sequence[str] | None = None,
) -> dict[str, Slices]:
    """Returns name -> slicing of examples, except that by prediction, which is not known yet.

    Args:
      kind: kind of the task.
      examples: examples with labels.
      labels: labels in index order.
      named: names of the slicings that the user wants; None for all.
    """
    most = MOST_VALUES if named is None else MOST_VALUES_IF_NAMED
    queries = [kind_of(kind).query(example) for example in examples]
    # The words of a query count alone, as its candidates are in one slice.
    lengths = tuple(
        length_bucket(words_in(example) if query is None else len(query.split()))
        for example, query in zip(examples, queries, strict=True)
    )
    found = {LENGTH: (lengths, tuple(name for _, name in _LENGTH_BUCKETS))}
    by_label = kind_of(kind).label_slices(examples, labels)
    if by_label:
        found[LABEL] = by_label
    common = [name for name in examples[0].columns if all(name in e.columns for e in examples)]
    for column in common:
        values = tuple(example.columns[column] for example in examples)
        # A slice with some of a query's candidates alone would have another ranking.
        tears = None not in queries and len({*zip(queries, values, strict=True)}) > len({*queries})
        # A column with one value would repeat the overall metrics.
        if 2 <= len(set(values)) <= most and not tears:
            name = f"column {column}" if column in (LENGTH, LABEL, PREDICTION) else column
            found[name] = values, tuple(sorted(set(values)))
    return found


def check_names(named: Sequence[str], found: Sequence[str]) -> None:
    """Refuses names of slicings that there are not.

    Args:
      named: names that the user wants.
      found: names of all slicings.

    Raises:
      InputError: one is not among them.
    """
    for name in named:
        if name not in found:
            raise InputError(
                f"--slices={','.join(named)}: {name!r} is none of the slices of this file, which "
                f"are {', '.join(found)}; name one of them (a column that is named needs 2 to "
                f"{MOST_VALUES_IF_NAMED} values, and one for each query of a reranking)"
            )


def length_bucket(words: int) -> str:
    """Returns the bucket of a number of words."""
    return next(name for most, name in _LENGTH_BUCKETS if words <= most)


def slice_title(name: str, value: str) -> str:
    """Returns the title of a slice; a value that begins or ends with a space is quoted."""
    return f"{name} = {value if value and value == value.strip() else repr(value)}"
