"""The parameters of embeddings of texts."""

import dataclasses
from typing import TYPE_CHECKING

from beambert.config import check_settings, setting
from beambert.pipelines.corpus.encodings import encoding_setting, parse_encodings

if TYPE_CHECKING:
    from beambert.trainer.embedding.embedder import Embedder
    from beambert.trainer.embedding.writing import TextReading


@dataclasses.dataclass(frozen=True)
class EmbeddingJob:
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
    keep_text: bool = setting(True, help="whether the texts are written with their embeddings")
    pooling: str | None = setting(
        None,
        choices=("mean", "cls"),
        help="what is taken of a text's tokens: their mean, or [CLS] (default: what the folder "
        "says, or else mean)",
    )
    last_layers: int | None = setting(
        None, metavar="N", help="number of last layers that are averaged (default: 1)"
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
        check_settings(self)
        parse_encodings(self.encoding)

    def open(self) -> "Embedder":
        """Opens the encoder.

        Raises:
          InputError: it cannot be read, or has not as many layers or positions.
        """
        from beambert.trainer.embedding.embedder import open_embedder, with_settings

        return with_settings(
            open_embedder(self.model),
            self.pooling,
            self.last_layers,
            self.normalize,
            self.prefix,
            self.max_seq_length,
        )

    @property
    def reading(self) -> "TextReading":
        """How the files are read."""
        from beambert.trainer.embedding.writing import TextReading

        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(TextReading)}
        return TextReading(**given)
