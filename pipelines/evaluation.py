"""What an evaluation measures: the slices, TFMA's configuration, the metrics and the verdict."""

import collections
import dataclasses
import math
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipelines import tasks
from pipelines.errors import InputError
from pipelines.predictions import Row

if TYPE_CHECKING:  # TFMA takes seconds to import, which --help should not cost.
    from tensorflow_model_analysis.proto import config_pb2

_MAX_SLICES_OF_A_COLUMN = 20
_LENGTH_BUCKETS = ((8, "1-8"), (16, "9-16"), (32, "17-32"), (64, "33-64"), (math.inf, "65+"))
# The features that every prediction has; an input column of the same name is renamed.
_OWN_FEATURES = ("row", "label_index", "probabilities", "label", "prediction", "length")

# Metrics that a threshold can be set on, with the Keras metric that TFMA computes.
METRICS = {
    "accuracy": "SparseCategoricalAccuracy",
    "cross_entropy": "SparseCategoricalCrossentropy",
}


@dataclasses.dataclass(frozen=True)
class Threshold:
    """What the model must reach to be blessed.

    Attributes:
      metric: a key of `METRICS`.
      value: the least accuracy, or the greatest cross entropy in nats. None, for accuracy only:
        more than the share of the commonest label.
    """

    metric: str = "accuracy"
    value: float | None = None


def check_thresholds(thresholds: Sequence[Threshold]) -> None:
    """Refuses thresholds that cannot be checked or reached.

    Raises:
      InputError: naming the flag.
    """
    for threshold in thresholds:
        if threshold.metric not in METRICS:
            raise InputError(
                f"--metric={threshold.metric} is not a metric of this task: choose one of "
                f"{', '.join(METRICS)}."
            )
        if threshold.value is None and threshold.metric != "accuracy":
            raise InputError(f"--metric={threshold.metric} has no threshold: add --threshold=.")
        greatest = 1 if threshold.metric == "accuracy" else math.inf
        if threshold.value is not None and not 0 <= threshold.value <= greatest:
            raise InputError(
                f"--threshold={threshold.value:g} cannot be reached by {threshold.metric}: "
                f"give a number from 0 {'to 1' if greatest == 1 else 'up'}."
            )


def length_bucket(example: tasks.Example) -> str:
    """Returns the bucket of an example's number of words, both texts of a pair together."""
    words = len(example.text.split()) + len((example.text_b or "").split())
    return next(name for most, name in _LENGTH_BUCKETS if words <= most)


def slice_title(name: str, value: str) -> str:
    """Returns how a slice is called; quotes show a value that begins or ends with a space."""
    return f"{name} = {value if value and value == value.strip() else repr(value)}"


def wilson_interval(correct: int, count: int) -> tuple[float, float]:
    """Returns the 95 % interval of a share (Wilson, 1927)."""
    z = 1.959964  # The normal distribution's 97.5 % quantile.
    share = correct / count
    centre = share + z * z / (2 * count)
    margin = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    scale = 1 + z * z / count
    return max(0.0, (centre - margin) / scale), min(1.0, (centre + margin) / scale)


def make_rows(examples: Sequence[tasks.Example], labels: Sequence[str]) -> list[Row]:
    """Returns what the pipeline needs of the examples, in their order."""
    columns = _slice_columns(examples)
    return [
        Row(
            number=number,
            text=example.text,
            text_b=example.text_b,
            label_index=labels.index(example.label),
            slices={
                "label": example.label,
                "length": length_bucket(example),
                **{feature: example.columns[name] for feature, name in columns.items()},
            },
        )
        for number, example in enumerate(examples)
    ]


def _slice_columns(examples: Sequence[tasks.Example]) -> dict[str, str]:
    """Returns feature name → column, for the columns with few enough values to slice by."""
    common = [name for name in examples[0].columns if all(name in e.columns for e in examples)]
    # A column with one value would repeat the overall metrics.
    sliceable = [
        name
        for name in common
        if 2 <= len({example.columns[name] for example in examples}) <= _MAX_SLICES_OF_A_COLUMN
    ]
    return {f"column {name}" if name in _OWN_FEATURES else name: name for name in sliceable}


def eval_config(
    thresholds: Sequence[Threshold],
    slice_features: Sequence[str],
    examples: Sequence[tasks.Example],
) -> "config_pb2.EvalConfig":
    """Returns TFMA's configuration: the metrics, the slices, and the thresholds overall."""
    from tensorflow_model_analysis.proto import config_pb2

    metrics = [
        config_pb2.MetricConfig(class_name="ExampleCount"),
        config_pb2.MetricConfig(
            class_name="MultiClassConfusionMatrixAtThresholds",
            # Threshold 0: the likeliest class counts, however unlikely it is.
            config='"name": "confusion_matrix", "thresholds": [0.0]',
        ),
    ]
    for name, class_name in METRICS.items():
        metric = config_pb2.MetricConfig(class_name=class_name, config=f'"name": "{name}"')
        for threshold in thresholds:
            if threshold.metric == name:
                # A plain `threshold` would be checked on every slice.
                metric.per_slice_thresholds.add(
                    slicing_specs=[config_pb2.SlicingSpec()],
                    threshold=_metric_threshold(threshold, examples),
                )
        metrics.append(metric)
    return config_pb2.EvalConfig(
        model_specs=[config_pb2.ModelSpec(label_key="label_index", prediction_key="probabilities")],
        metrics_specs=[config_pb2.MetricsSpec(metrics=metrics)],
        slicing_specs=[
            config_pb2.SlicingSpec(),
            *(config_pb2.SlicingSpec(feature_keys=[name]) for name in slice_features),
        ],
    )


def _metric_threshold(
    threshold: Threshold, examples: Sequence[tasks.Example]
) -> "config_pb2.MetricThreshold":
    import numpy as np
    from tensorflow_model_analysis.proto import config_pb2

    value = threshold.value
    if value is None:
        # Half an example more than the commonest label: TFMA's bound is inclusive.
        value = (_commonest(examples)[1] + 0.5) / len(examples)
    # The metrics are float32: 9 right of 10 is 0.899999976, which must reach 0.9.
    bound = {"value": float(np.float32(value))}
    side = "lower_bound" if threshold.metric == "accuracy" else "upper_bound"
    return config_pb2.MetricThreshold(
        value_threshold=config_pb2.GenericValueThreshold(**{side: bound})
    )


def _commonest(examples: Sequence[tasks.Example]) -> tuple[str, int]:
    """Returns the commonest label, the first by name of equals, and how often it occurs."""
    counts = collections.Counter(example.label for example in examples)
    return max(sorted(counts.items()), key=lambda item: item[1])


def collect_metrics(
    tfma_folder: pathlib.Path,
    examples: Sequence[tasks.Example],
    thresholds: Sequence[Threshold],
    labels: Sequence[str],
) -> dict[str, Any]:
    """Returns TFMA's metrics, the baseline and the verdict in plain types."""
    import tensorflow_model_analysis as tfma

    overall: dict[str, Any] = {}
    slices: dict[str, dict[str, Any]] = collections.defaultdict(dict)
    for metrics in tfma.load_metrics(str(tfma_folder)):
        values = _slice_metrics(metrics, len(labels))
        if not metrics.slice_key.single_slice_keys:
            overall = values
            continue
        key = metrics.slice_key.single_slice_keys[0]
        slices[key.column][key.bytes_value.decode()] = values
    if overall["example_count"] != len(examples):
        raise RuntimeError(f"{len(examples)} examples, but TFMA counted {overall['example_count']}")
    label, count = _commonest(examples)
    baseline = {"label": label, "accuracy": round(count / len(examples), 6)}
    validation = tfma.load_validation_result(str(tfma_folder))
    verdicts = [
        _verdict(threshold, overall, baseline, _failed(validation, threshold, examples))
        for threshold in thresholds
    ]
    return {
        "examples": len(examples),
        "baseline": baseline,
        "blessed": validation.validation_ok,
        "thresholds": verdicts,
        "overall": overall,
        "slices": {name: _in_order(name, slices[name], labels) for name in sorted(slices)},
    }


def _slice_metrics(metrics: Any, num_labels: int) -> dict[str, Any]:
    values = {item.key.name: item.value for item in metrics.metric_keys_and_values}
    # matrix[i][j]: examples of label i that were predicted as label j.
    matrix = [[0] * num_labels for _ in range(num_labels)]
    matrices = values["confusion_matrix"].multi_class_confusion_matrix_at_thresholds.matrices
    for entry in matrices[0].entries:
        count = round(entry.num_weighted_examples)
        matrix[entry.actual_class_id][entry.predicted_class_id] = count
    count = round(values["example_count"].double_value.value)
    correct = sum(matrix[i][i] for i in range(num_labels))
    return {
        "example_count": count,
        **{name: round(values[name].double_value.value, 6) for name in METRICS},
        "accuracy_interval_95": [round(end, 6) for end in wilson_interval(correct, count)],
        **_averages_over_labels(matrix),
        "confusion_matrix": matrix,
    }


def _averages_over_labels(matrix: Sequence[Sequence[int]]) -> dict[str, float]:
    """Returns macro F1 over the labels that occur, and balanced accuracy over the true ones."""
    recalls, f1_scores = [], []
    for i, row in enumerate(matrix):
        actual, predicted = sum(row), sum(other[i] for other in matrix)
        if actual:
            recalls.append(row[i] / actual)
        if actual or predicted:
            f1_scores.append(2 * row[i] / (actual + predicted))
    return {
        "balanced_accuracy": round(sum(recalls) / len(recalls), 6),
        "macro_f1": round(sum(f1_scores) / len(f1_scores), 6),
    }


def _failed(validation: Any, threshold: Threshold, examples: Sequence[tasks.Example]) -> bool:
    """Says whether TFMA's validator found that a threshold was missed."""
    bound = _metric_threshold(threshold, examples).value_threshold
    return any(
        failure.metric_key.name == threshold.metric
        and failure.metric_threshold.value_threshold == bound
        for part in validation.metric_validations_per_slice
        for failure in part.failures
    )


def _verdict(
    threshold: Threshold, overall: dict[str, Any], baseline: dict[str, Any], failed: bool
) -> dict[str, Any]:
    score = overall[threshold.metric]
    if threshold.value is None:
        bound, kind = baseline["accuracy"], "more than"
        meaning = f", the share of the commonest label {baseline['label']!r}"
    else:
        bound, meaning = threshold.value, ""
        kind = "at least" if threshold.metric == "accuracy" else "at most"
    name = threshold.metric.replace("_", " ")
    return {
        "metric": threshold.metric,
        "value": score,
        "required": kind,
        "threshold": bound,
        "passed": not failed,
        "reason": f"{name} {score:.4f} {'is not' if failed else 'is'} {kind} {bound:.4f}{meaning}",
    }


def _in_order(
    slice_name: str, slices: dict[str, Any], labels: Sequence[str]
) -> dict[str, dict[str, Any]]:
    order = [name for _, name in _LENGTH_BUCKETS] if slice_name == "length" else sorted(slices)
    if slice_name in ("label", "prediction"):
        order = list(labels)
    return {name: slices[name] for name in order if name in slices}
