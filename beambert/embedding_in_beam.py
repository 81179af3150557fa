"""The Beam transforms that embed texts with an encoder."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.ml.inference.base import ModelHandler, RunInference
from apache_beam.utils.shared import Shared

from beambert.console import ProgressTally
from beambert.embedding import EmbeddingJob
from beambert.errors import InputError
from beambert.pipelines.metrics import Total, add_counts, total_of
from beambert.pipelines.running import check_reachable_from
from beambert.storage import absolute
from beambert.trainer.embedding.embedder import Embedder
from beambert.trainer.embedding.writing import EMBEDDING, Work, write_parts

# Number of texts that are sorted by length and divided into batches at once.
SORTED_TEXTS = 1024
# Greatest number of segments of parts. A file is read again for each segment that begins in it.
MOST_STRETCHES = 256
Row = Mapping[str, Any]


@beam.typehints.with_input_types(str | Mapping[str, Any])
@beam.typehints.with_output_types(dict[str, Any])
class Embed(beam.PTransform):
    """Embeds texts with an encoder.

    It takes texts, or mappings with the text in the column `job.text_column`. It yields a
    dictionary for each text: its columns with its `embedding`, float32 [hidden size], or with the
    `reason` why there is none. The model's folder may be on gs://. Workers must have access to it.

    Example:
      >>> import apache_beam as beam
      >>> from beambert import Embed, EmbeddingJob
      >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
      ...     embeddings = (
      ...         pipeline
      ...         | beam.Create(["a river"])
      ...         | Embed(EmbeddingJob("encoder", pooling="cls"))
      ...         | beam.Map(lambda row: print(row["text"], "->", row["embedding"].shape))
      ...     )
      a river -> (16,)
    """

    def __init__(self, job: EmbeddingJob):
        """Checks the model.

        Args:
          job: the encoder and how it embeds; of what says how files are read, only the name of the
            column counts.

        Raises:
          InputError: the model cannot be used.
        """
        super().__init__()
        self._job = dataclasses.replace(job, model=absolute(job.model))
        self._job.open()

    # Beam takes no union as a hint, see `Predict`.
    def expand(
        self, texts: beam.PCollection[str | Mapping[str, Any]]
    ) -> beam.PCollection[dict[str, Any]]:
        """Adds the steps.

        Raises:
          InputError: workers don't see the model.
        """
        check_reachable_from(texts.pipeline, model=self._job.model)
        rows = texts | "Read" >> beam.Map(row_of, self._job.text_column)
        embedded = (
            rows
            | "Rows" >> beam.Filter(lambda row: "reason" not in row)
            | "Embed" >> RunInference(EmbedderHandler(self._job))
        )
        rejects = rows | "Rejects" >> beam.Filter(lambda row: "reason" in row)
        return (embedded, rejects) | beam.Flatten()


def row_of(text: str | Row, column: str) -> dict[str, Any]:
    """Returns the columns of a text, or these with the reason against it."""
    row = {column: text} if isinstance(text, str) else dict(text)
    found = row.get(column)
    if isinstance(found, str) and found.strip():
        return row
    if isinstance(found, str):
        what = f"has an empty {column!r}; fill it in"
    elif column in row:
        what = f"has no text in {column!r}; write one"
    else:
        what = f"has no column {column!r} (it has {', '.join(row) or 'none'}); name another"
    return row | {"reason": f"a row: {what}"}


class EmbedderHandler(ModelHandler):
    """Embeds batches of rows; each worker process opens the encoder once."""

    def __init__(self, job: EmbeddingJob):
        """Takes the encoder and how it embeds."""
        super().__init__()
        self._job = job

    def load_model(self) -> Embedder:
        """Opens the encoder."""
        return self._job.open()

    def run_inference(
        self, batch: Sequence[Row], model: Embedder, inference_args: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Returns the columns of each row with its embedding."""
        vectors, _ = model.embed([row[self._job.text_column] for row in batch])
        return [dict(row) | {EMBEDDING: vector} for row, vector in zip(batch, vectors, strict=True)]

    def batch_elements_kwargs(self) -> dict[str, int]:
        """Returns the size of a batch, of which the encoder makes several by length."""
        return {"min_batch_size": SORTED_TEXTS, "max_batch_size": SORTED_TEXTS}


class WriteEmbeddings(beam.PTransform):
    """Writes the parts of a work that are missing; yields the numbers of `texts` and of `cut` ones.

    Every file is counted, and each of its rows looked at, before the first text is embedded. Which
    worker makes a part does not change its file.
    """

    def __init__(self, job: EmbeddingJob, work: Work, progress_folder: str | None = None):
        """Takes what is to be done.

        Args:
          job: the encoder, where workers can read it, and how it embeds.
          work: the texts and the folder.
          progress_folder: folder of a `ProgressDisplay`, if there is one.
        """
        super().__init__()
        self._job = job
        self._work = work
        self._progress_folder = progress_folder

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[dict[str, int]]:
        """Adds the steps."""
        counts = (
            begin
            | "Files" >> beam.Create(range(len(self._work.paths)))
            | "Spread files" >> beam.Reshuffle()
            | "Count" >> beam.ParDo(CountTexts(self._work, self._progress_folder))
        )
        of_files = total_of(counts, "Counts", add_counts)
        cut = (
            begin
            | "Start" >> beam.Create([None])
            | "Divide" >> beam.FlatMap(_divide, self._work, of_files)
            | "Spread parts" >> beam.Reshuffle()
            | "Embed"
            >> beam.ParDo(EmbedParts(self._job, self._work, self._progress_folder), of_files)
        )
        return (
            (counts | "Texts" >> beam.Map(_texts), cut)
            | beam.Flatten()
            | "Sum" >> beam.CombineGlobally(Total(add_counts))
        )


def _divide(_: None, work: Work, counts: Mapping[int, int]) -> Iterator[range]:
    """Yields segments of the numbers of the parts."""
    parts = work.parts(_in_order(counts))
    size = -(-len(parts) // MOST_STRETCHES)
    for start in range(0, len(parts), size):
        yield parts[start : start + size]


def _in_order(counts: Mapping[int, int]) -> list[int]:
    return [counts[number] for number in range(len(counts))]


def _texts(counts: Mapping[int, int]) -> dict[str, int]:
    return {"texts": sum(counts.values())}


class CountTexts(beam.DoFn):
    """Looks at all texts of a file; yields its number and theirs."""

    def __init__(self, work: Work, progress_folder: str | None):
        """Takes the texts, and the folder of a `ProgressDisplay`, if there is one."""
        self._work = work
        self._progress_folder = progress_folder

    def setup(self) -> None:
        """Opens the worker's tally."""
        self._progress = ProgressTally(self._progress_folder)

    def process(self, number: int) -> Iterator[dict[int, int]]:
        """Counts the texts of one file."""
        try:
            count = self._work.count(number)
        except InputError as error:
            # Beam passes on an error as text, in which the command looks for this class by name.
            raise InputError(str(error)) from error
        self._progress.add(found=count)
        yield {number: count}

    def finish_bundle(self) -> None:
        """Reports the last texts."""
        self._progress.flush()


class EmbedParts(beam.DoFn):
    """Writes segments of parts; yields how many of their texts were cut."""

    def __init__(self, job: EmbeddingJob, work: Work, progress_folder: str | None):
        """Takes the encoder, the texts, and the folder of a `ProgressDisplay`, if there is one."""
        self._job = job
        self._work = work
        self._progress_folder = progress_folder
        self._shared = Shared()

    def setup(self) -> None:
        """Opens the encoder, once in each worker process, and the worker's tally."""
        self._embedder = self._shared.acquire(self._job.open)
        self._progress = ProgressTally(self._progress_folder)

    def process(self, numbers: range, counts: Mapping[int, int]) -> Iterator[dict[str, int]]:
        """Writes the parts of a segment that are missing."""
        told = 0

        def report(done: int, _: int) -> None:
            nonlocal told
            self._progress.add(texts=done - told)
            told = done

        cut = write_parts(self._embedder, self._work, _in_order(counts), numbers, report)
        yield {"cut": cut}

    def finish_bundle(self) -> None:
        """Reports the last texts."""
        self._progress.flush()
