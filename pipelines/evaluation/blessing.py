"""The requirements that a model must meet to be blessed, and their verdicts."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beambert.errors import InputError
from beambert.pipelines.tasks.metrics import METRICS

if TYPE_CHECKING:  # importing TFMA takes seconds, which --help avoids
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
    answer = constant["answer"]
    return f"always answering {answer!r}" if constant.get("is_constant", True) else answer


def of_baseline(metric: str, score: float, min_change: float) -> Requirement:
    """Returns the requirement that a metric is better than the baseline's by `min_change`."""
    sign = 1 if METRICS[metric].greater_is_better else -1
    meaning = f", the baseline's {score:.4f}"
    if min_change:
        meaning += f" {'plus' if min_change > 0 else 'less'} {abs(min_change):g}"
    return Requirement(metric, score + sign * min_change, meaning=meaning)
