"""The parameters of embeddings of texts."""

import dataclasses
from typing import TYPE_CHECKING

from beambert.flags import settle_fields
from beambert.pipelines.corpus.encodings import DEFAULT_ENCODING, parse_encodings

if TYPE_CHECKING:
    from beambert.trainer.embedding.embedder import Embedder
    from beambert.trainer.embedding.writing import TextReading


@dataclasses.dataclass(frozen=True)
class EmbeddingJob:
    """The encoder, the texts and how they are embedded.

    Attributes:
      model: folder of an encoder or a fine-tuned model of this package, of Hugging Face or of
        sentence-transformers, or prefix of a TF1 checkpoint.
      input: patterns of the files to read; empty if a pipeline provides the texts.
      output: folder to make; empty if a pipeline takes the embeddings.
      text_column: column of the texts in tables, and in mappings.
      id_column: column of the identifiers in tables; "" for none.
      title_column: column of the titles in tables, which stand before the texts; "" for none.
      encoding: encodings of the files, see `corpus.encodings.parse_encodings`.
      unit: text of a plain text file, each `line` or the whole `file`.
      passage_words: greatest number of words of a passage of a file; 0 to leave texts whole.
      keep_text: whether the texts are written with their embeddings.
      pooling: `mean` or `cls`; None for what the folder says, or else mean.
      last_layers: number of last layers that are averaged; None for 1.
      normalize: whether embeddings have the length 1; None for what the folder says, or else not.
      prefix: what is put before each text; None for the folder's default prompt, or nothing.
      max_seq_length: greatest number of tokens of a text with [CLS] and [SEP]; None for what the
        folder says, or else what the encoder was trained on.

    Raises:
      InputError: the encoding is not known.
    """

    model: str
    input: tuple[str, ...] = ()
    output: str = ""
    text_column: str = "text"
    id_column: str = ""
    title_column: str = ""
    encoding: str = DEFAULT_ENCODING
    unit: str = "line"
    passage_words: int = 0
    keep_text: bool = True
    pooling: str | None = None
    last_layers: int | None = None
    normalize: bool | None = None
    prefix: str | None = None
    max_seq_length: int | None = None

    def __post_init__(self) -> None:
        """Raises InputError if an encoding is not known."""
        settle_fields(self)
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
