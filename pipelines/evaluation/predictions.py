"""Makes records of a fine-tuned SavedModel's predictions on examples; see `records`."""

import pathlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.utils import shared

from beambert.console import ProgressTally
from beambert.io import delete_quietly
from beambert.pipelines.evaluation.measures import (
    PREDICTION,
    check_names,
    slice_feature,
    slicings,
)
from beambert.pipelines.input_files import StoredValue, store_values
from beambert.pipelines.running import describe_examples, run_job
from beambert.pipelines.tasks.declarations import kind_of
from beambert.pipelines.tasks.saved_models import Model, load
from beambert.pipelines.tasks.task import Example, Record, Row, Task, encode_record

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions
    from tensorflow_model_analysis.proto import config_pb2

_BATCH_SIZE = 64


def make_rows(
    task: Task,
    examples: Sequence[Example],
    labels: Sequence[str],
    named: Sequence[str] | None = None,
) -> tuple[list[Row], dict[str, tuple[str, ...]]]:
    """Returns the rows of the examples, and slicing -> its values in the order of reports.

    Args:
      task: the task.
      examples: examples with labels.
      labels: labels in index order.
      named: names of the slicings that the user wants; None for all.

    Raises:
      InputError: there is no slicing of a name.
    """
    found = slicings(task.kind, examples, labels, named)
    rows = []
    for number, example in enumerate(examples):
        record: dict[str, list[Any]] = {"row": [number], **task.truth_of(example, labels)}
        record |= {
            slice_feature(name): [values[number].encode()] for name, (values, _) in found.items()
        }
        rows.append(Row(example, record))
    orders = {name: order for name, (_, order) in found.items()}
    order = task.predictions(labels)
    if order:
        orders[PREDICTION] = order
    if named is not None:
        check_names(named, list(orders))
        orders = {name: order for name, order in orders.items() if name in named}
    return rows, orders


def write_records(records: Sequence[Record], folder: str) -> None:
    """Writes records to a folder, on any file system that TensorFlow knows."""
    import tensorflow as tf

    tf.io.gfile.makedirs(folder)
    with tf.io.TFRecordWriter(f"{folder}/part-00000-of-00001.tfrecord") as file:
        for record in records:
            file.write(encode_record(record))


def read_records(folder: pathlib.Path) -> list[Record]:
    """Reads the records of a folder in the order of their rows."""
    import tensorflow as tf

    files = [str(path) for path in sorted(folder.iterdir())]
    records = []
    for serialized in tf.data.TFRecordDataset(files).as_numpy_iterator():
        features = tf.train.Example.FromString(serialized).features.feature
        records.append(
            {
                name: list(getattr(feature, feature.WhichOneof("kind")).value)
                for name, feature in features.items()
            }
        )
    return sorted(records, key=lambda record: record["row"][0])


def check_records(kind: str, records: Sequence[Record], count: int, model: Model) -> None:
    """Checks that each example has one prediction and that the predictions are valid.

    Raises:
      InputError: the model's numbers are not finite, or its answers do not fit labels.txt.
      RuntimeError: predictions are missing.
    """
    if [record["row"][0] for record in records] != list(range(count)):
        raise RuntimeError(f"{count} examples gave {len(records)} predictions")
    for record in records:
        kind_of(kind).check_record(record, model)


class PredictBatch(beam.DoFn):
    """Turns batches of rows into serialized tf.Examples with the model's predictions.

    The threads of a worker process share one loaded model.
    """

    def __init__(self, task: Task, model: Model, progress_folder: str | None):
        """Takes the task, the SavedModel, and the folder of a `ProgressDisplay`, if any."""
        self._task, self._model = task, model
        self._progress_folder = progress_folder
        self._shared = shared.Shared()

    def setup(self) -> None:
        """Opens the worker's tally."""
        self._progress = ProgressTally(self._progress_folder)

    def process(self, rows: Sequence[Row]) -> Iterator[bytes]:
        """Predicts one batch."""
        loaded = self._shared.acquire(lambda: load(self._model))
        for row, record in zip(rows, self._task.predict(self._model, loaded, rows), strict=True):
            yield encode_record({**row.record, **record})
        self._progress.add(examples=len(rows))

    def finish_bundle(self) -> None:
        """Reports the last batches."""
        self._progress.flush()


def predict(
    task: Task,
    model: Model,
    rows: Sequence[Row],
    rows_path: str,
    folder: str,
    options: "PipelineOptions",
) -> None:
    """Writes the predictions of the rows as TFRecords to a folder.

    Args:
      task: the task.
      model: the SavedModel.
      rows: the rows.
      rows_path: path of a file to make, from which the workers read the rows. It is deleted.
      folder: folder to write to.
      options: options of the Beam pipeline.

    Raises:
      InputError: a worker raised it.
    """

    def build(pipeline: beam.Pipeline, progress_folder: str | None) -> None:
        _ = (
            pipeline
            | "Batches" >> beam.Create(places)
            | "Spread" >> beam.Reshuffle()
            | "Rows" >> beam.Map(StoredValue.read)
            | "Predict"
            >> beam.ParDo(PredictBatch(task, model, progress_folder)).with_output_types(bytes)
            | "Write" >> beam.io.WriteToTFRecord(f"{folder}/part", file_name_suffix=".tfrecord")
        )

    places = store_values(rows_path, _batches(rows))
    try:
        run_job(
            build,
            options,
            describe_examples(len(rows)),
            len(rows),
            "examples",
            "predicted",
        )
    finally:
        delete_quietly([rows_path])


def analyse(
    config: "config_pb2.EvalConfig",
    predictions: str,
    folder: str,
    options: "PipelineOptions",
    examples: int,
) -> None:
    """Lets TFMA read the predictions and write its results to a folder.

    Args:
      config: configuration of TFMA.
      predictions: folder of the predictions.
      folder: folder to write to.
      options: options of the Beam pipeline.
      examples: number of examples, for the progress line.

    Raises:
      InputError: a worker raised it.
    """
    import tensorflow_model_analysis as tfma
    from tfx_bsl.tfxio import tf_example_record

    records = tf_example_record.TFExampleRecord(
        file_pattern=f"{predictions}/*",
        telemetry_descriptors=["BeamBERT"],
        raw_record_column_name=tfma.ARROW_INPUT_COLUMN,
    )

    def build(pipeline: beam.Pipeline, _: str | None) -> None:
        _ = (
            pipeline
            | "Read" >> records.BeamSource()
            | "Analyse"
            >> tfma.ExtractEvaluateAndWriteResults(eval_config=config, output_path=folder)
        )

    def describe(_: dict[str, int], seconds: float) -> str:
        return f"computing the metrics of {examples:,} examples, {seconds:.0f} s so far"

    run_job(build, options, describe, examples, "examples", "scored")


def _batches(rows: Sequence[Row]) -> list[list[Row]]:
    # Rows are sorted by length, so that batches have little padding.
    by_length = sorted(rows, key=lambda row: row.characters)
    return [by_length[i : i + _BATCH_SIZE] for i in range(0, len(by_length), _BATCH_SIZE)]
