"""The parameters of a verification."""

import dataclasses

from beambert.config import Settings, setting

JSON_FILE = "verification.json"
# The report goes next to the records folder, since nothing is written into a finished folder.
OUTPUT_ENDING = "-verification"


@dataclasses.dataclass(frozen=True, kw_only=True)
class VerificationJob(Settings):
    """Records to verify, the settings of `beambert verify`."""

    inputs: tuple[str, ...] = setting(
        is_positional=True, metavar="DIR", help="records folder, or a pattern of record files"
    )
    vocab_file: str | None = setting(
        None, help="vocabulary of the records (default: vocab.txt next to them)"
    )
    tokenizer: str | None = setting(
        None,
        metavar="PATH",
        help="tokenizer.json of the records, or its folder (default: the one next to them)",
    )
    output: str | None = setting(
        None,
        metavar="DIR2",
        help=f"folder for {JSON_FILE} (default: DIR{OUTPUT_ENDING}; for a file "
        f"FILE{OUTPUT_ENDING} in the working folder)",
    )
