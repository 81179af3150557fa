"""The parameters of a verification."""

import dataclasses

from beambert.flags import settle_fields

JSON_FILE = "verification.json"
PAGE_FILE = "verification.html"
# The report goes next to the records folder, since nothing is written into a finished folder.
OUTPUT_ENDING = "-verification"


@dataclasses.dataclass(frozen=True)
class VerificationJob:
    """Records to verify.

    Attributes:
      inputs: records folders, or patterns of record files.
      output: folder for the report; None takes one next to the records folder, or, for a file,
        one in the working folder.
      vocab_file, tokenizer: vocabulary or tokenizer of the records; None takes that next to them.
    """

    inputs: tuple[str, ...]
    output: str | None = None
    vocab_file: str | None = None
    tokenizer: str | None = None

    def __post_init__(self) -> None:
        """Accepts single values and paths."""
        settle_fields(self)
