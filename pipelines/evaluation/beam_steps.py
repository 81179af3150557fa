"""The two Beam pipelines of an evaluation: examples -> predictions, predictions -> metrics."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import apache_beam as beam

from beambert.pipelines.evaluation.predictions import Row
from beambert.pipelines.jobs.running import describe_examples, run_job
from beambert.pipelines.shared.progress import ProgressTally

if TYPE_CHECKING:  # TFMA takes seconds to import, which --help should not cost.
    from apache_beam.options.pipeline_options import PipelineOptions
    from tensorflow_model_analysis.proto import config_pb2

_BATCH_SIZE = 64


Predictor = Callable[[Sequence[Row]], list[bytes]]


class PredictBatch(beam.DoFn):
    """Batch of rows -> their predictions, serialized."""

    def __init__(self, predictor: Predictor, progress_folder: str | None):
        """Takes what every worker needs."""
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
        """Tells of the last batches."""
        self._progress.flush()


def predict(
    predictor: Predictor, rows: Sequence[Row], folder: str, options: "PipelineOptions"
) -> None:
    """Writes the predictions of the rows as TFRecords to a folder.

    Raises:
      InputError: whichever a worker raised.
    """

    def build(pipeline: beam.Pipeline, progress_folder: str | None) -> None:
        _ = (
            pipeline
            | "Batches" >> beam.Create(_batches(rows))
            | "Spread" >> beam.Reshuffle()
            | "Predict"
            >> beam.ParDo(PredictBatch(predictor, progress_folder)).with_output_types(bytes)
            | "Write" >> beam.io.WriteToTFRecord(f"{folder}/part", file_name_suffix=".tfrecord")
        )

    run_job(build, options, describe_examples(len(rows)), len(rows), "examples")


def analyse(
    config: "config_pb2.EvalConfig",
    predictions: str,
    folder: str,
    options: "PipelineOptions",
    examples: int,
) -> None:
    """Has TFMA read the predictions of so many examples and write its results to a folder.

    Raises:
      InputError: whichever a worker raised.
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

    run_job(build, options, describe, examples, "examples")


def _batches(rows: Sequence[Row]) -> list[list[Row]]:
    # Rows of like length together, so that a batch has little padding.
    by_length = sorted(rows, key=lambda row: row.characters)
    return [by_length[i : i + _BATCH_SIZE] for i in range(0, len(by_length), _BATCH_SIZE)]
