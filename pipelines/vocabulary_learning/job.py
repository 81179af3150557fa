"""What a vocabulary job is asked for."""

import dataclasses

from beambert.pipelines.shared.flags import check_minimum, check_shares


@dataclasses.dataclass(frozen=True)
class VocabularyJob:
    """A vocabulary to learn.

    Attributes:
      output: vocab.txt to write; the parameters and counts go into a file beside it.
      input: patterns of the files to read; none where a pipeline gives the documents.
      vocab_size: number of tokens. The default is that of the original release's uncased English
        vocabulary.
      do_lower_case: whether upper case and accents are lost.
      format: a key of `formats.READERS`, "parquet", or "auto".
      text_column: column of JSON Lines and Parquet.
      max_reject_fraction: share of the documents that may be unreadable.

    Raises:
      InputError: a value that can't work.
    """

    output: str
    input: tuple[str, ...] = ()
    vocab_size: int = 30522
    do_lower_case: bool = True
    format: str = "auto"
    text_column: str = "text"
    max_reject_fraction: float = 0.0

    def __post_init__(self) -> None:
        """Checks the values."""
        check_minimum(self, 100, "vocab_size")
        check_shares(self, "max_reject_fraction")
