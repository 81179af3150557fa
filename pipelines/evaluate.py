"""Evaluates a fine-tuned model on a task, by slice, and blesses it or does not.

    python -m pipelines.evaluate --task=sst-2 --data_dir=glue/SST-2 --model=models/sst-2 \
        --output=evaluation/sst-2 --metric=accuracy --threshold=0.8

One Beam pipeline predicts every example with the model's SavedModel, keeps the predictions as
TFRecords and hands them to TensorFlow Model Analysis (TFMA), which computes the metrics of every
slice and checks the thresholds. The output folder holds

    predictions/            tf.Examples: row, label, probabilities and the slices of every example
    tfma/                   what TFMA wrote; `tfma.load_eval_result` reads it
    metrics.json            overall, by slice, baseline and verdict
    report.html             the same to read, with plots and the worst errors
    BLESSED or NOT_BLESSED  written last, holds the reasons
"""

import argparse
import collections
import contextlib
import dataclasses
import json
import logging
import math
import os
import pathlib
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pipelines import console, jobs, tasks
from pipelines.errors import InputError

if TYPE_CHECKING:  # Beam and TensorFlow take seconds to import, which --help should not cost.
    from apache_beam.options.pipeline_options import PipelineOptions
    from tensorflow_model_analysis.proto import config_pb2

KIND = "beambert evaluation"
BLESSED = "BLESSED"
NOT_BLESSED = "NOT_BLESSED"
_UNFINISHED = "_UNFINISHED"
_RESULTS = ("predictions", "tfma", "metrics.json", "report.html")

_BATCH_SIZE = 64
_MAX_SLICES_OF_A_COLUMN = 20
_LENGTH_BUCKETS = ((8, "1-8"), (16, "9-16"), (32, "17-32"), (64, "33-64"), (math.inf, "65+"))
_MISTAKES_TO_SHOW = 20
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


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A wrongly classified example, with the probability that the model gave its answer."""

    example: tasks.Example
    prediction: str
    probability: float


@dataclasses.dataclass(frozen=True)
class Model:
    """A SavedModel and the names of its outputs in order."""

    path: pathlib.Path
    labels: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Row:
    """What the pipeline needs of an example.

    Attributes:
      number: its position in the file, from 0.
      text: the text, or the first of a pair.
      text_b: the second text of a pair, or None.
      label_index: its label's position in labels.txt.
      slices: its value of every feature to slice by, but for the prediction.
    """

    number: int
    text: str
    text_b: str | None
    label_index: int
    slices: dict[str, str]


@dataclasses.dataclass(frozen=True)
class Prediction:
    """A record of `predictions/`."""

    row: int
    label: str
    prediction: str
    probabilities: tuple[float, ...]


def evaluate(
    task_name: str,
    data_dir: str,
    model_dir: str,
    output: str,
    split: str = "dev",
    thresholds: Sequence[Threshold] = (Threshold(),),
    pipeline_flags: Sequence[str] = (),
) -> dict[str, Any]:
    """Evaluates a model and writes the output folder.

    Args:
      task_name: a key of `tasks.TASKS`.
      data_dir: the folder of the task's files.
      model_dir: a folder with `saved_model/` and `labels.txt`.
      output: a folder that does not exist, is empty, or holds an earlier evaluation.
      split: which file of the task to evaluate on.
      thresholds: what to reach; all of them must hold.
      pipeline_flags: Beam's flags. Without `--runner`, the pipeline runs in this process.

    Returns:
      What metrics.json holds.

    Raises:
      InputError: something given cannot be used. An earlier evaluation in `output` is then as it
        was.
    """
    task = tasks.find_task(task_name)
    folder = _checked_output(output)
    _check_thresholds(thresholds)
    model = _find_model(model_dir)
    examples = _read_labelled_examples(task, data_dir, split, model)
    with _quiet_libraries():
        options = jobs.beam_options(pipeline_flags)
        _check_signature(model, examples[0].text_b is not None)
        print(f"Evaluating {model_dir} on {len(examples):,} examples of {task.name} …", flush=True)
        unfinished = folder / _UNFINISHED
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        _run_pipeline(model, examples, thresholds, unfinished, options)
        predictions = _read_predictions(unfinished / "predictions")
        check_predictions(predictions, len(examples), model)
        metrics = {
            "kind": KIND,
            "task": task.name,
            "split": split,
            "data_dir": str(data_dir),
            "model": str(model_dir),
            "labels": list(model.labels),
            **_collect_metrics(unfinished / "tfma", examples, thresholds, model.labels),
        }
    _write_results(unfinished, metrics, _worst_mistakes(predictions, examples))
    _publish(folder, metrics)
    return metrics


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


# What the user gave.


def _checked_output(output: str) -> pathlib.Path:
    folder = pathlib.Path(_local(output, "--output"))
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--output={output} is a file: name a folder.")
    names = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    foreign = names - {*_RESULTS, BLESSED, NOT_BLESSED, _UNFINISHED}
    if foreign or (names and _UNFINISHED not in names and not _is_evaluation(folder)):
        raise InputError(
            f"--output={output} already holds something else ({min(foreign or names)}): choose "
            "another folder or delete it."
        )
    return folder


def _is_evaluation(folder: pathlib.Path) -> bool:
    try:
        return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))["kind"] == KIND
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _local(path: str, flag: str) -> str:
    if "://" in path:
        raise InputError(f"{flag}={path} is not a local path: copy the folder to this machine.")
    return path


def _check_thresholds(thresholds: Sequence[Threshold]) -> None:
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


def _find_model(model_dir: str) -> Model:
    folder = pathlib.Path(_local(model_dir, "--model"))
    candidates = (folder / "saved_model", folder)
    path = next((path for path in candidates if (path / "saved_model.pb").is_file()), None)
    if path is None:
        raise InputError(
            f"--model={model_dir} has no saved_model/saved_model.pb: name a folder that "
            "`beambert finetune` finished."
        )
    labels_file = (path.parent if path != folder else folder) / "labels.txt"
    if not labels_file.is_file():
        raise InputError(
            f"--model={model_dir} has no {labels_file.name}: write the labels there, one a line, "
            "in the order of the model's outputs."
        )
    labels = tuple(labels_file.read_text(encoding="utf-8").removesuffix("\n").split("\n"))
    if len(labels) < 2 or len(set(labels)) != len(labels) or "" in labels:
        raise InputError(
            f"{labels_file} does not list two or more different labels: write one a line, in the "
            "order of the model's outputs."
        )
    return Model(path, labels)


def _read_labelled_examples(
    task: tasks.Task, data_dir: str, split: str, model: Model
) -> list[tasks.Example]:
    if task.labels is not None and set(task.labels) != set(model.labels):
        raise InputError(
            f"--model has the labels {', '.join(model.labels)} but task {task.name} has "
            f"{', '.join(task.labels)}: name a model that was fine-tuned on {task.name}."
        )
    examples = tasks.read_examples(task, _local(data_dir, "--data_dir"), split, model.labels)
    if any(example.label is None for example in examples):
        raise InputError(
            f"{tasks.split_path(task, data_dir, split)} has no labels to compare with: choose "
            "another --split."
        )
    return examples


def _check_signature(model: Model, pairs: bool) -> None:
    """Compares what the SavedModel takes and gives with what this task needs."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    file = model.path / "saved_model.pb"
    try:
        contents = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    except DecodeError as error:
        raise InputError(f"{file} is damaged: export the model again.") from error
    signature = contents.meta_graphs[0].signature_def["serving_default"]
    wanted_inputs = {"text", "text_b"} if pairs else {"text"}
    if set(signature.inputs) != wanted_inputs:
        raise InputError(
            f"--model={model.path} takes {', '.join(sorted(signature.inputs)) or 'nothing'} but "
            f"the task gives {' and '.join(sorted(wanted_inputs))}: name a model that was "
            "fine-tuned on this task."
        )
    missing = {"label", "probabilities"} - set(signature.outputs)
    if missing:
        raise InputError(
            f"--model={model.path} gives no {' and no '.join(sorted(missing))}: export it with "
            "`beambert finetune` or `beambert export`."
        )
    shape = [dimension.size for dimension in signature.outputs["probabilities"].tensor_shape.dim]
    if len(shape) != 2 or shape[1] not in (-1, len(model.labels)):
        raise InputError(
            f"--model={model.path} gives probabilities of shape {shape} but labels.txt has "
            f"{len(model.labels)} labels: put the model's own labels.txt beside it."
        )


# The pipeline.


def _run_pipeline(
    model: Model,
    examples: Sequence[tasks.Example],
    thresholds: Sequence[Threshold],
    folder: pathlib.Path,
    options: "PipelineOptions",
) -> None:
    """Writes `predictions/` and `tfma/` under a folder."""
    import apache_beam as beam
    import tensorflow_model_analysis as tfma
    from tfx_bsl.tfxio import tf_example_record

    rows = _rows(examples, model.labels)
    slice_features = [*rows[0].slices, "prediction"]
    config = _eval_config(thresholds, slice_features, examples)
    record_batches = tf_example_record.TFExampleBeamRecord(
        physical_format="predictions",
        telemetry_descriptors=["BeamBERT"],
        raw_record_column_name=tfma.ARROW_INPUT_COLUMN,
    )
    with beam.Pipeline(options=options) as pipeline:
        predictions = (
            pipeline
            | "Batches" >> beam.Create(_batches(rows))
            | "Spread" >> beam.Reshuffle()
            | "Predict" >> beam.FlatMap(Predictor(str(model.path))).with_output_types(bytes)
        )
        _ = predictions | "WritePredictions" >> beam.io.WriteToTFRecord(
            str(folder / "predictions" / "part"), file_name_suffix=".tfrecord"
        )
        _ = (
            predictions
            | "ToRecordBatches" >> record_batches.BeamSource()
            | "Analyse"
            >> tfma.ExtractEvaluateAndWriteResults(
                eval_config=config, output_path=str(folder / "tfma")
            )
        )


class Predictor:
    """Turns a batch of rows into serialized tf.Examples with the model's predictions.

    The model is loaded once in a worker process, whatever the number of its threads.
    """

    def __init__(self, model_path: str) -> None:
        """Remembers which SavedModel to load."""
        from apache_beam.utils import shared

        self._model_path = model_path
        self._shared = shared.Shared()

    def __call__(self, rows: Sequence[Row]) -> list[bytes]:
        """Returns one serialized tf.Example for each row."""
        import tensorflow as tf

        model = self._shared.acquire(self._load)
        inputs = {"text": tf.constant([row.text for row in rows])}
        if rows[0].text_b is not None:
            inputs["text_b"] = tf.constant([row.text_b for row in rows])
        outputs = model.signatures["serving_default"](**inputs)
        predicted = outputs["label"].numpy()
        probabilities = outputs["probabilities"].numpy()
        return [
            _encode(row, name, row_probabilities)
            for row, name, row_probabilities in zip(rows, predicted, probabilities, strict=True)
        ]

    def _load(self) -> Any:
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  (registers the tokenizer's operations)

        return tf.saved_model.load(self._model_path)


def _encode(row: Row, prediction: bytes, probabilities: Sequence[float]) -> bytes:
    import tensorflow as tf

    def bytes_feature(value: bytes) -> tf.train.Feature:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

    def integer_feature(value: int) -> tf.train.Feature:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))

    features = {
        "row": integer_feature(row.number),
        "label_index": integer_feature(row.label_index),
        "probabilities": tf.train.Feature(float_list=tf.train.FloatList(value=probabilities)),
        "prediction": bytes_feature(prediction),
        **{name: bytes_feature(value.encode()) for name, value in row.slices.items()},
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return example.SerializeToString(deterministic=True)


def _rows(examples: Sequence[tasks.Example], labels: Sequence[str]) -> list[Row]:
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


def _batches(rows: Sequence[Row]) -> list[list[Row]]:
    # Rows of like length together, so that a batch has little padding.
    by_length = sorted(rows, key=lambda row: len(row.text) + len(row.text_b or ""))
    return [by_length[i : i + _BATCH_SIZE] for i in range(0, len(by_length), _BATCH_SIZE)]


def _eval_config(
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


# What the pipeline made.


def _read_predictions(folder: pathlib.Path) -> list[Prediction]:
    import tensorflow as tf

    files = [str(path) for path in sorted(folder.iterdir())]
    predictions = []
    for record in tf.data.TFRecordDataset(files).as_numpy_iterator():
        feature = tf.train.Example.FromString(record).features.feature
        predictions.append(
            Prediction(
                row=feature["row"].int64_list.value[0],
                label=feature["label"].bytes_list.value[0].decode(),
                prediction=feature["prediction"].bytes_list.value[0].decode(),
                probabilities=tuple(feature["probabilities"].float_list.value),
            )
        )
    return sorted(predictions, key=lambda prediction: prediction.row)


def check_predictions(predictions: Sequence[Prediction], count: int, model: Model) -> None:
    """Checks that there is one prediction an example and that it agrees with the labels.

    Raises:
      InputError: the model's probabilities are not numbers, or its own answer is not the label
        that labels.txt has in the place of the greatest probability.
    """
    if [prediction.row for prediction in predictions] != list(range(count)):
        raise RuntimeError(f"{count} examples gave {len(predictions)} predictions")
    for prediction in predictions:
        if not all(math.isfinite(probability) for probability in prediction.probabilities):
            raise InputError(
                f"--model={model.path} gives probabilities that are not numbers: fine-tune it "
                "again, with a lower learning rate."
            )
        likeliest = max(prediction.probabilities)
        if prediction.prediction not in model.labels or (
            prediction.probabilities[model.labels.index(prediction.prediction)] < likeliest
        ):
            raise InputError(
                f"--model={model.path} answers {prediction.prediction!r}, which is not the "
                "likeliest line of labels.txt: put the model's own labels.txt beside it."
            )


def _collect_metrics(
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


def _worst_mistakes(
    predictions: Sequence[Prediction], examples: Sequence[tasks.Example]
) -> list[Mistake]:
    """Returns the mistakes that the model was surest of."""
    mistakes = [
        Mistake(examples[p.row], p.prediction, max(p.probabilities))
        for p in predictions
        if p.prediction != p.label
    ]
    return sorted(mistakes, key=lambda mistake: -mistake.probability)[:_MISTAKES_TO_SHOW]


# The output folder.


def _write_results(
    folder: pathlib.Path, metrics: dict[str, Any], mistakes: Sequence[Mistake]
) -> None:
    from pipelines import evaluation_report

    text = json.dumps(metrics, indent=2, ensure_ascii=False) + "\n"
    (folder / "metrics.json").write_text(text, encoding="utf-8")
    page = evaluation_report.render(metrics, mistakes)
    (folder / "report.html").write_text(page, encoding="utf-8")


def _publish(folder: pathlib.Path, metrics: dict[str, Any]) -> None:
    """Puts the new results in place of the old ones; the marker is last."""
    for marker in (BLESSED, NOT_BLESSED):
        (folder / marker).unlink(missing_ok=True)
    for name in _RESULTS:
        if (folder / name).is_dir():
            shutil.rmtree(folder / name)
        os.replace(folder / _UNFINISHED / name, folder / name)
    shutil.rmtree(folder / _UNFINISHED)
    reasons = "".join(verdict["reason"] + "\n" for verdict in metrics["thresholds"])
    marker = BLESSED if metrics["blessed"] else NOT_BLESSED
    (folder / marker).write_text(reasons, encoding="utf-8")


# The command.


@contextlib.contextmanager
def _quiet_libraries() -> Iterator[None]:
    """Imports TensorFlow and TFMA and keeps their notices from the user's screen."""
    levels = {name: logging.getLogger(name).level for name in ("tensorflow", "absl", "apache_beam")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with console.quiet_stderr():
            import tensorflow_model_analysis  # noqa: F401
        for name in levels:
            logging.getLogger(name).setLevel(logging.ERROR)
        try:
            yield
        finally:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)


def summary(metrics: dict[str, Any], output: str) -> str:
    """Returns the table and the verdict that the command prints."""
    heading = f"{'':<32}{'examples':>9}{'accuracy':>10}{'95 % interval':>18}{'cross entropy':>15}"
    lines = [heading, _summary_line("overall", metrics["overall"])]
    for name, slices in metrics["slices"].items():
        lines += [_summary_line(slice_title(name, value), p) for value, p in slices.items()]
    baseline = metrics["baseline"]
    always = f"always {baseline['label']!r} (baseline)"
    lines += [f"{always:<32.32}{metrics['examples']:>9}{baseline['accuracy']:>10.4f}", ""]
    verdict = BLESSED if metrics["blessed"] else NOT_BLESSED
    lines += [
        f"{verdict}: {threshold['reason']}"
        if threshold["passed"] == metrics["blessed"]
        else f"  but {threshold['reason']}"
        for threshold in metrics["thresholds"]
    ]
    return "\n".join([*lines, f"Report: {pathlib.Path(output) / 'report.html'}"])


def _summary_line(name: str, part: dict[str, Any]) -> str:
    low, high = part["accuracy_interval_95"]
    return (
        f"{name:<32.32}{part['example_count']:>9}{part['accuracy']:>10.4f}"
        f"{f'{low:.4f} - {high:.4f}':>18}{part['cross_entropy']:>15.4f}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="beambert evaluate",
        description="Evaluates a fine-tuned model on a task, overall and by slice, and blesses "
        "it or does not. Any Beam flag may follow; without --runner it runs in this process.",
        epilog="example: beambert evaluate --task=sst-2 --data_dir=glue/SST-2 "
        "--model=models/sst-2 --output=evaluation/sst-2 --metric=accuracy --threshold=0.8",
        allow_abbrev=False,
    )
    parser.add_argument("--task", required=True, help=f"one of {', '.join(tasks.TASKS)}")
    parser.add_argument("--data_dir", required=True, help="the folder of the task's files")
    parser.add_argument("--model", required=True, help="a folder that `finetune` finished")
    parser.add_argument("--output", required=True, help="a new folder, or an earlier evaluation")
    parser.add_argument("--split", default="dev", help="dev (default), train or test")
    parser.add_argument(
        "--metric",
        action="append",
        help=f"what a threshold is on, one of {', '.join(METRICS)} (default accuracy); may be "
        "given several times, each with its --threshold",
    )
    parser.add_argument(
        "--threshold",
        action="append",
        type=float,
        help="the least accuracy or greatest cross entropy that is blessed (default: more "
        "accuracy than always guessing the commonest label)",
    )
    return parser


def _thresholds(metrics: list[str] | None, values: list[float] | None) -> tuple[Threshold, ...]:
    metrics = metrics or ["accuracy"]
    padded: list[float | None] = list(values or [None] * len(metrics))
    if len(metrics) != len(padded):
        raise InputError(
            f"--metric is given {len(metrics)} times but --threshold {len(padded)} times: give "
            "each metric its threshold."
        )
    if len(set(metrics)) != len(metrics):
        raise InputError("--metric names the same metric twice: give each metric once.")
    return tuple(Threshold(name, value) for name, value in zip(metrics, padded, strict=True))


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: something given cannot be used.
    """
    arguments, pipeline_flags = _parser().parse_known_args(argv)
    metrics = evaluate(
        arguments.task,
        arguments.data_dir,
        arguments.model,
        arguments.output,
        arguments.split,
        _thresholds(arguments.metric, arguments.threshold),
        pipeline_flags,
    )
    print(summary(metrics, arguments.output))


if __name__ == "__main__":
    # Imported by name, because workers in other processes cannot find the classes of __main__.
    from pipelines import evaluate as command

    sys.exit(console.run_main("evaluate", command.main, sys.argv[1:]))
