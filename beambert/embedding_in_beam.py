"""The Beam transform that embeds texts with an encoder."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.ml.inference.base import ModelHandler, RunInference

from beambert.embedding import EmbeddingJob
from beambert.io import absolute
from beambert.pipelines.running import check_reachable_from
from beambert.trainer.embedding.embedder import Embedder
from beambert.trainer.embedding.writing import EMBEDDING

# Number of texts that are sorted by length and divided into batches at once.
SORTED_TEXTS = 1024
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
