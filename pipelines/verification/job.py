"""What a verification is asked for."""

import dataclasses

JSON_FILE = "verification.json"
PAGE_FILE = "verification.html"
# Beside the records, never in them: nothing is written into a finished folder.
OUTPUT_ENDING = "-verification"


@dataclasses.dataclass(frozen=True)
class VerificationJob:
    """Records to verify.

    Attributes:
      inputs: records folders, or patterns of record files.
      output: folder for the report; None for one beside the only records folder.
      vocab_file: vocabulary of the records; None for the one beside them.
    """

    inputs: tuple[str, ...]
    output: str | None = None
    vocab_file: str | None = None
