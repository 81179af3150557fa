"""The two Beam pipelines of an evaluation: one makes the predictions, the other the metrics."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from beambert.pipelines.evaluation.predictions import Row
from beambert.pipelines.files.beam_files import delete_quietly
from beambert.pipelines.files.stored_values import StoredValue, store_values
from beambert.pipelines.jobs.running import describe_examples, run_job
from beambert.progress import ProgressTally

if TYPE_CHECKING:  # importing TFMA takes seconds, which --help avoids
    from apache_beam.options.pipeline_options import PipelineOptions
    from tensorflow_model_analysis.proto import config_pb2

_BATCH_SIZE = 64


PredictRows = Callable[[Sequence[Row]], list[bytes]]


class PredictBatch(beam.DoFn):
    """Turns batches of rows into serialized predictions."""

    def __init__(self, predictor: PredictRows, progress_folder: str | None):
        """Takes the predictor, and the folder of a `ProgressDisplay`, if there is one."""
        self._predictor = predictor
        self._progress_folder = progress_folder

    def setup(self) -> None:
        """Opens the worker's tally."""
        self._progress = ProgressTally(self._progress_folder)

    def process(self, rows: Sequence[Row]) -> Iterator[bytes]:
        """Predicts one batch."""
        yield from self._predictor(rows)
        self._progress.add(examples=len(rows))

    def finish_bundle(self) -> None:
        """Reports the last batches."""
        self._progress.flush()


def predict(
    predictor: PredictRows,
    rows: Sequence[Row],
    rows_path: str,
    folder: str,
    options: "PipelineOptions",
) -> None:
    """Writes the predictions of the rows as TFRecords to a folder.

    Args:
      predictor: function that makes the predictions of a batch.
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
            >> beam.ParDo(PredictBatch(predictor, progress_folder)).with_output_types(bytes)
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
            output=FileSystems.split(rows_path)[0],
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
