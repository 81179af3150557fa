"""The official metrics and their intervals as a metric of TensorFlow Model Analysis."""

import dataclasses
import json
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import apache_beam as beam
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.metrics import metric_types
from tensorflow_model_analysis.proto import config_pb2

from beambert.pipelines.evaluation.measures import Measures, Requirement, intervals, slice_feature
from beambert.pipelines.tasks.declarations import kind_of
from beambert.pipelines.tasks.task import Record

_COUNT, _LOW, _HIGH = "example_count", "_low_95", "_high_95"
# Ending of a metric whose value is 1 if another metric says nothing about the slice.
_UNDEFINED = "_undefined"


def _key(name: str) -> metric_types.MetricKey:
    # The thresholds of a MetricsSpec refer to keys without example weights.
    return metric_types.MetricKey(name, example_weighted=None)


class OfficialScores(metric_types.Metric):
    """The scores of a slice with the ends of their intervals, and the number of examples."""

    def __init__(
        self, kind: str, names: Sequence[str], positive: int, name: str = "official_scores"
    ) -> None:
        """Takes the kind of the task, names of metrics and the id of the class for F1."""
        super().__init__(_computations, kind=kind, names=names, positive=positive, name=name)


metric_types.register_metric(OfficialScores)


def _computations(
    kind: str, names: Sequence[str], positive: int, name: str
) -> metric_types.MetricComputations:
    features = metric_types.FeaturePreprocessor(
        ["row", *kind_of(kind).OUTCOMES.FEATURES], include_default_inputs=False
    )
    ends = [f"{one_name}{end}" for one_name in names for end in (_LOW, _HIGH, _UNDEFINED)]
    return [
        metric_types.MetricComputation(
            keys=[_key(each) for each in (_COUNT, *names, *ends)],
            preprocessors=[features],
            combiner=_ScoreRecords(kind, names, positive),
        )
    ]


class _ScoreRecords(beam.CombineFn):
    """Collects the records of a slice, as correlations and intervals need all of them at once."""

    def __init__(self, kind: str, names: Sequence[str], positive: int) -> None:
        self._kind, self._names, self._positive = kind, tuple(names), positive

    def create_accumulator(self) -> list[Record]:
        return []

    def add_input(
        self, accumulator: list[Record], element: metric_types.StandardMetricInputs
    ) -> list[Record]:
        accumulator.append(element.features)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[Record]]) -> list[Record]:
        return [record for records in accumulators for record in records]

    def extract_output(self, accumulator: list[Record]) -> dict[metric_types.MetricKey, float]:
        # Beam's order differs from run to run; the bootstrap needs a fixed one.
        records = sorted(accumulator, key=lambda record: record["row"][0])
        outcomes = kind_of(self._kind).OUTCOMES.of_records(records)
        found = {_COUNT: float(len(records)), **outcomes.scores(self._names, self._positive)}
        for name, (low, high) in intervals(outcomes, self._names, self._positive).items():
            found |= {f"{name}{_LOW}": low, f"{name}{_HIGH}": high}
            found[f"{name}{_UNDEFINED}"] = float(name in outcomes.undefined())
        return {_key(name): value for name, value in found.items()}


def eval_config(
    measures: Measures,
    requirements: Sequence[Requirement],
    slicings: Iterable[str],
) -> config_pb2.EvalConfig:
    """Returns TFMA's configuration: the metrics, the slices, and the bounds over all examples."""
    scores = config_pb2.MetricConfig(
        class_name=OfficialScores.__name__,
        module=__name__,
        config=json.dumps(dataclasses.asdict(measures)),
    )
    spec = config_pb2.MetricsSpec(metrics=[scores])
    for requirement in requirements:
        # A plain `threshold` would be checked on every slice.
        spec.per_slice_thresholds[requirement.metric].thresholds.add(
            slicing_specs=[config_pb2.SlicingSpec()],
            threshold=config_pb2.MetricThreshold(value_threshold=requirement.to_tfma()),
        )
    return config_pb2.EvalConfig(
        # The metric reads the predictions from the records itself.
        model_specs=[config_pb2.ModelSpec()],
        metrics_specs=[spec],
        slicing_specs=[
            config_pb2.SlicingSpec(),
            *(config_pb2.SlicingSpec(feature_keys=[slice_feature(name)]) for name in slicings),
        ],
    )


def load_scores(
    folder: pathlib.Path, names: Sequence[str], slicings: Iterable[str]
) -> dict[tuple[str, str] | None, dict[str, Any]]:
    """Reads the scores that TFMA wrote.

    Returns:
      (slicing, value), or None for all examples, -> `example_count`, the scores by name and
      `intervals_95`, each rounded to six places. A metric that says nothing about a slice is None
      there, and so is its interval.
    """
    found: dict[tuple[str, str] | None, dict[str, Any]] = {}
    names_of = {slice_feature(name): name for name in slicings}
    for metrics in tfma.load_metrics(str(folder)):
        values = {
            item.key.name: item.value.double_value.value for item in metrics.metric_keys_and_values
        }
        keys = metrics.slice_key.single_slice_keys
        told = {name for name in names if not (keys and values[f"{name}{_UNDEFINED}"])}
        found[(names_of[keys[0].column], keys[0].bytes_value.decode()) if keys else None] = {
            _COUNT: round(values[_COUNT]),
            **{name: round(values[name], 6) if name in told else None for name in names},
            "intervals_95": {
                name: [round(values[f"{name}{end}"], 6) for end in (_LOW, _HIGH)]
                if name in told
                else None
                for name in names
            },
        }
    return found


def load_failures(folder: pathlib.Path) -> list[Any]:
    """Reads the missed thresholds that TFMA found, as its ValidationFailures."""
    validation = tfma.load_validation_result(str(folder))
    return [
        failure for part in validation.metric_validations_per_slice for failure in part.failures
    ]
