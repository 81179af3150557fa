"""The Beam transform that answers texts with a fine-tuned model."""

from collections.abc import Iterator, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.ml.inference.base import RunInference

from beambert.pipelines.files.input_files import InputFile, match_inputs
from beambert.pipelines.jobs.running import SHUFFLING_RUNNERS, check_reachable_from
from beambert.pipelines.prediction.batches import (
    InputRow,
    RowReading,
    SavedModelHandler,
    read_rows,
    reading_of,
    row_of,
)
from beambert.pipelines.prediction.job import PredictionJob
from beambert.pipelines.prediction.saved_models import Model, find_model_anywhere
from beambert.pipelines.storage.claims import absolute
from beambert.progress import ProgressTally


@beam.typehints.with_input_types(str | Mapping[str, str])
@beam.typehints.with_output_types(dict[str, Any])
class Predict(beam.PTransform):
    """Answers texts with a fine-tuned model.

    It takes texts or, for models of several texts, mappings from column names to texts. At the
    beginning of a pipeline it reads the files of the job instead. It yields a dictionary for each
    text: the text (or its file and line) with the answer, or with the `reason` why there is none.
    The model's folder may be on gs://. Workers must have access to it.

    Example:
      >>> import apache_beam as beam
      >>> from beambert.pipelines.transforms import Predict, PredictionJob
      >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
      ...     answers = (
      ...         pipeline
      ...         | beam.Create(["so good"])
      ...         | Predict(PredictionJob("model"))
      ...         | beam.Map(lambda answer: print(answer["text"], "->", answer["label"]))
      ...     )
      so good -> positive
    """

    def __init__(
        self,
        job: PredictionJob,
        progress_folder: str | None = None,
        model: Model | None = None,
    ):
        """Checks the model and lists the files to read.

        Args:
          job: the texts to answer and the model.
          progress_folder: folder of a `ProgressDisplay`, if there is one.
          model: result of `find_model_anywhere` for the job, if it was called before.

        Raises:
          InputError: the model cannot be used, or a pattern matches no file.
        """
        super().__init__()
        self._model = model or find_model_anywhere(absolute(job.model), job.trust_model)
        self._inputs = match_inputs(job.input)
        self._reading = reading_of(job, self._model)
        self._progress_folder = progress_folder

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns of the model's texts; a text that is no mapping belongs to the first."""
        return tuple(self._reading.text_columns)

    # Beam takes no union as a hint, but it takes the beginning of a pipeline for any collection.
    def expand(
        self, texts: beam.PCollection[str | Mapping[str, str]]
    ) -> beam.PCollection[dict[str, Any]]:
        """Adds the steps.

        Raises:
          InputError: workers don't see the model or the files.
        """
        model, begins = self._model, isinstance(texts, beam.pvalue.PBegin)
        check_reachable_from(
            texts.pipeline,
            model=model.sent_to or str(model.path),
            input=[file.path for file in self._inputs] if begins else (),
        )
        if begins:
            rows = (
                texts
                | "Files" >> beam.Create(self._inputs)
                | "Spread" >> beam.Reshuffle()
                | "Read" >> beam.ParDo(ReadRows(self._reading, self._progress_folder))
            )
            # Reading a file is one worker's work, answering its rows is not. Other runners would
            # hold all rows in memory.
            if type(texts.pipeline.runner).__name__ in SHUFFLING_RUNNERS:
                rows |= "SpreadRows" >> beam.Reshuffle()
        else:
            rows = texts | "Read" >> beam.Map(row_of, self._reading)
        answers = (
            rows
            | "Rows" >> beam.Filter(lambda row: isinstance(row, InputRow))
            | "Answer" >> RunInference(SavedModelHandler(self._model, self._reading.kind))
        )
        rejects = rows | "Rejects" >> beam.Filter(lambda row: not isinstance(row, InputRow))
        return (answers, rejects) | beam.Flatten()


class ReadRows(beam.DoFn):
    """Reads the rows of each file; yields a dictionary for a row that cannot be read."""

    def __init__(self, reading: RowReading, progress_folder: str | None):
        """Takes how to read, and the folder of a `ProgressDisplay`, if there is one."""
        self._reading = reading
        self._progress_folder = progress_folder

    def setup(self) -> None:
        """Opens the worker's tally."""
        self._progress = ProgressTally(self._progress_folder)

    def process(self, file: InputFile) -> Iterator[InputRow | dict[str, Any]]:
        """Reads one file."""
        yield from read_rows(file, self._reading, self._progress)

    def finish_bundle(self) -> None:
        """Reports the last rows."""
        self._progress.flush()
