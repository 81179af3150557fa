"""Embeddings of texts: their parameters, and the command `beambert embed`."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from beambert.config import REQUIRED, read_settings, setting, settings_parser
from beambert.pipelines.corpus.encodings import encoding_setting, parse_encodings
from beambert.process import loading
from beambert.trainer.loop.config import EngineSettings
from beambert.trainer.loop.engine import choose_engine
from beambert.trainer.weights.given_path import check_weights

if TYPE_CHECKING:
    from beambert.trainer.embedding.embedder import Embedder


@dataclasses.dataclass(frozen=True)
class EmbeddingJob(EngineSettings):
    """The encoder, the texts and how they are embedded.

    In a pipeline that provides the texts and takes the embeddings, `input` and `output` are empty.

    Raises:
      InputError: a value cannot be used.
    """

    model: str = setting(
        metavar="DIR",
        help="model of `beambert pretrain` or `finetune`, a folder of Hugging Face or "
        "sentence-transformers, or a TF1 checkpoint",
    )
    input: tuple[str, ...] = setting(
        (),
        metavar="GLOB",
        help="files with a text on each line, or tables (.csv, .tsv, .jsonl)",
    )
    output: str = setting("", metavar="DIR", help="folder to make")
    text_column: str = setting("text", metavar="NAME", help="column of the texts in tables")
    id_column: str = setting("", metavar="NAME", help="column that identifies a row of a table")
    title_column: str = setting(
        "",
        metavar="NAME",
        help="column of the titles in tables, which stand before the texts",
    )
    encoding: str = encoding_setting()
    unit: str = setting(
        "line",
        choices=("line", "file"),
        help="text of a plain text file: each line, or the whole file",
    )
    passage_words: int = setting(
        0,
        minimum=0,
        metavar="N",
        help="divide texts into passages of at most this many words (default: 0, which leaves them "
        "whole)",
    )
    pooling: str | None = setting(
        None,
        choices=("mean", "cls"),
        help="what is taken of a text's tokens: their mean, or [CLS] (default: what the folder "
        "says, or else mean)",
    )
    normalize: bool | None = setting(
        None,
        help="whether embeddings are scaled to the length 1 (default: what the folder says, or "
        "else False)",
    )
    prefix: str | None = setting(
        None,
        help="what is put before each text (default: what the folder says, or else nothing)",
    )
    max_seq_length: int | None = setting(
        None,
        metavar="N",
        help="greatest number of tokens of a text, with [CLS] and [SEP] (default: what the folder "
        "says, or else what the encoder was trained on)",
    )

    def __post_init__(self) -> None:
        """Checks the values."""
        super().__post_init__()
        parse_encodings(self.encoding)

    def open(self) -> "Embedder":
        """Opens the encoder.

        Raises:
          InputError: it cannot be read, or has not as many positions.
        """
        with loading():
            choose_engine(self)
            from beambert.trainer.embedding.embedder import open_embedder, with_settings

        return with_settings(
            open_embedder(self.model),
            self.pooling,
            self.normalize,
            self.prefix,
            self.max_seq_length,
        )


EXAMPLES = """examples:
  # a text on each line -> Parquet files with an embedding of each
  beambert embed --model=encoder --input='texts/*.txt' --output=embeddings

  # a folder of sentence-transformers, with the pooling and the length that it names
  beambert embed --model=all-MiniLM-L6-v2 --input=texts.txt --output=embeddings

  # a column of tables, with the column that identifies a row
  beambert embed --model=encoder --input 'news/*.csv' 'more.jsonl' --text_column=body \\
      --id_column=number --output=embeddings

  # vectors of the length 1, of texts behind a prefix
  beambert embed --model=encoder --input=texts.txt --normalize=True \\
      --prefix='query: ' --output=embeddings

The columns of the output are file, line, start (the first character of a passage in its text), id,
text and embedding, a list of fixed size of float32. The texts stand in the order of the files. A
text that is longer than the model reads is cut at its end, and counted. Every row is checked before
the first is embedded. An interrupted command continues with the first file part-*.parquet that is
missing.

This process does the work. On many machines, the transform `beambert.Embed` does it in a pipeline.
"""


build_parser = functools.partial(
    settings_parser,
    EmbeddingJob,
    "embed",
    "Makes an embedding of each text of some files with an encoder.",
    EXAMPLES,
    {"input": REQUIRED, "output": REQUIRED},
)


def main(argv: Sequence[str]) -> None:
    """Runs `embed`.

    Raises:
      InputError: a flag, the model, a file or the output folder cannot be used.
    """
    job = read_settings(EmbeddingJob, build_parser().parse_args(list(argv)))
    check_weights(job.model, "--model")
    # TensorFlow, whose import takes seconds, comes after the flags.
    with loading():
        from beambert.trainer.embedding.writing import embed_files
    embed_files(job)
