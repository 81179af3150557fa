"""The parameters of a vocabulary job."""

import dataclasses

from beambert.pipelines.shared.flags import check_minimum, check_shares


@dataclasses.dataclass(frozen=True)
class VocabularyJob:
    """A vocabulary to learn.

    Attributes:
      output: path of the vocab.txt to write; the parameters and counts go into a file beside it.
      input: patterns of the files to read; none if a pipeline provides the documents.
      vocab_size: number of tokens. The default is that of the original release's uncased English
        vocabulary.
      do_lower_case: True to lower-case the text and strip its accents.
      format: format of the files, a key of `formats.FORMATS` or `formats.AUTO`.
      text_column: column of JSON Lines and Parquet that holds the documents.
      encoding: encoding of text that isn't UTF-8, or "auto".
      max_reject_fraction: share of the documents that may be unreadable.

    Raises:
      InputError: a value is out of range.
    """

    output: str
    input: tuple[str, ...] = ()
    vocab_size: int = 30522
    do_lower_case: bool = True
    format: str = "auto"
    text_column: str = "text"
    encoding: str = "auto"
    max_reject_fraction: float = 0.0

    def __post_init__(self) -> None:
        """Checks the values."""
        check_minimum(self, 100, "vocab_size")
        check_shares(self, "max_reject_fraction")
