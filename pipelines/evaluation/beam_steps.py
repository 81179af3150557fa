"""The two Beam pipelines of an evaluation: examples -> predictions, predictions -> metrics."""

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from beambert.pipelines.evaluation.predictions import Row
from beambert.pipelines.shared.loading import loading

if TYPE_CHECKING:  # Beam and TFMA take seconds to import, which --help should not cost.
    from apache_beam.options.pipeline_options import PipelineOptions
    from tensorflow_model_analysis.proto import config_pb2

_BATCH_SIZE = 64


def predict(
    predictor: Callable[[Sequence[Row]], list[bytes]],
    rows: Sequence[Row],
    folder: str,
    options: "PipelineOptions",
) -> None:
    """Writes the predictions of the rows as TFRecords to a folder."""
    import apache_beam as beam

    with beam.Pipeline(options=options) as pipeline:
        _ = (
            pipeline
            | "Batches" >> beam.Create(_batches(rows))
            | "Spread" >> beam.Reshuffle()
            | "Predict" >> beam.FlatMap(predictor).with_output_types(bytes)
            | "Write" >> beam.io.WriteToTFRecord(f"{folder}/part", file_name_suffix=".tfrecord")
        )


def analyse(
    config: "config_pb2.EvalConfig",
    predictions: str,
    folder: str,
    options: "PipelineOptions",
) -> None:
    """Has TFMA read the predictions and write its results to a folder."""
    import apache_beam as beam
    import tensorflow_model_analysis as tfma
    from tfx_bsl.tfxio import tf_example_record

    records = tf_example_record.TFExampleRecord(
        file_pattern=f"{predictions}/*",
        telemetry_descriptors=["BeamBERT"],
        raw_record_column_name=tfma.ARROW_INPUT_COLUMN,
    )
    with beam.Pipeline(options=options) as pipeline:
        _ = (
            pipeline
            | "Read" >> records.BeamSource()
            | "Analyse"
            >> tfma.ExtractEvaluateAndWriteResults(eval_config=config, output_path=folder)
        )


def _batches(rows: Sequence[Row]) -> list[list[Row]]:
    # Rows of like length together, so that a batch has little padding.
    by_length = sorted(rows, key=lambda row: row.characters)
    return [by_length[i : i + _BATCH_SIZE] for i in range(0, len(by_length), _BATCH_SIZE)]


@contextlib.contextmanager
def quiet_libraries() -> Iterator[None]:
    """Imports TensorFlow and TFMA and keeps their notices from the user's screen."""
    levels = {name: logging.getLogger(name).level for name in ("tensorflow", "absl", "apache_beam")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with loading():
            import tensorflow_model_analysis  # noqa: F401
        for name in levels:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)
