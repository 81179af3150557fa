"""What a model must reach to be blessed, and whether it does."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.tasks.metrics import METRICS

if TYPE_CHECKING:  # TFMA takes seconds to import, which --help should not cost.
    from tensorflow_model_analysis.proto import config_pb2, validation_result_pb2

# Differences this small are of the arithmetic: 0.1 + 0.2 reaches 0.3 and is not more than it.
_ROUNDING = 1e-12


@dataclasses.dataclass(frozen=True)
class Threshold:
    """What the user asks for.

    Attributes:
      metric: one of the evaluation's.
      value: the least value, or the greatest of a metric that is better when less. None: better
        than the best constant answer.
    """

    metric: str
    value: float | None = None


@dataclasses.dataclass(frozen=True)
class Requirement:
    """A bound on a metric over all examples.

    Attributes:
      metric: its name.
      threshold: the bound.
      strict: whether the bound itself is not enough.
      meaning: what the bound is, or nothing.
    """

    metric: str
    threshold: float
    strict: bool = False
    meaning: str = ""

    @property
    def relation(self) -> str:
        """How a good score stands to the bound."""
        great = METRICS[self.metric].greater_is_better
        if self.strict:
            return "more than" if great else "less than"
        return "at least" if great else "at most"

    def to_tfma(self) -> "config_pb2.GenericValueThreshold":
        """Returns the bound as TFMA has it, which is inclusive."""
        from tensorflow_model_analysis.proto import config_pb2

        great = METRICS[self.metric].greater_is_better
        side = "lower_bound" if great else "upper_bound"
        better = _ROUNDING if great else -_ROUNDING
        value = self.threshold + (better if self.strict else -better)
        return config_pb2.GenericValueThreshold(**{side: {"value": value}})

    def verdict(
        self, score: float, failures: Sequence["validation_result_pb2.ValidationFailure"]
    ) -> dict[str, Any]:
        """Returns what metrics.json says of it, from the failures that TFMA found."""
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
    """Returns both numbers to four places, or six where four would show them as equal."""
    short, long = ((f"{score:.{places}f}", f"{bound:.{places}f}") for places in (4, 6))
    return long if short[0] == short[1] and long[0] != long[1] else short


def check_thresholds(thresholds: Sequence[Threshold], names: Sequence[str]) -> None:
    """Refuses thresholds that cannot be checked or reached.

    Raises:
      InputError: naming the flag.
    """
    for threshold in thresholds:
        if threshold.metric not in names:
            raise InputError(
                f"--metric={threshold.metric} is not a metric of this task: choose one of "
                f"{', '.join(names)}."
            )
        metric = METRICS[threshold.metric]
        if threshold.value is not None and not metric.least <= threshold.value <= metric.greatest:
            upper = "up" if metric.greatest == float("inf") else f"to {metric.greatest:g}"
            raise InputError(
                f"--threshold={threshold.value:g} cannot be reached by {threshold.metric}: "
                f"give a number from {metric.least:g} {upper}."
            )


def of_thresholds(
    thresholds: Sequence[Threshold], constants: Mapping[str, Mapping[str, Any]]
) -> list[Requirement]:
    """Returns what the user's thresholds require.

    Args:
      thresholds: checked.
      constants: metric -> the `answer` and `score` of the best constant answer.
    """
    found = []
    for threshold in thresholds:
        if threshold.value is not None:
            found.append(Requirement(threshold.metric, threshold.value))
            continue
        constant = constants[threshold.metric]
        meaning = f", which always answering {constant['answer']!r} gives"
        found.append(Requirement(threshold.metric, constant["score"], True, meaning))
    return found


def of_baseline(metric: str, score: float, min_change: float) -> Requirement:
    """Returns that a metric is better than the baseline's by so much, or at least not worse."""
    sign = 1 if METRICS[metric].greater_is_better else -1
    meaning = f", the baseline's {score:.4f}"
    if min_change:
        meaning += f" {'plus' if min_change > 0 else 'less'} {abs(min_change):g}"
    return Requirement(metric, score + sign * min_change, meaning=meaning)
