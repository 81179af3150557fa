"""The flags of the commands that read a corpus, and their progress line."""

from collections.abc import Mapping

from beambert.flags import FlagGroup
from beambert.progress import Describe, describe_bytes


def add_input_flags(parser: FlagGroup, *, is_required: bool = True) -> None:
    """Adds the flags for the input files and their format.

    Args:
      parser: parser of a command.
      is_required: whether there is no other flag for the files than --input.
    """
    # Only the commands that read a corpus have to load its formats.
    from beambert.pipelines.corpus.formats import AUTO, CHOICES

    parser.add_argument(
        "--input",
        nargs="+",
        action="extend",
        default=[],
        required=is_required,
        metavar="GLOB",
        help="files to read, which may be compressed (.gz, .bz2, .zst)",
    )
    parser.add_argument(
        "--format",
        default=AUTO,
        choices=[AUTO, *CHOICES],
        help="format of the files (default: auto)",
    )
    parser.add_argument(
        "--text_column",
        default="text",
        help="column of JSON Lines, Parquet, CSV and TSV that holds the documents (default: text)",
    )
    parser.add_argument(
        "--encoding",
        default="auto",
        metavar="NAME",
        help="encoding of text that is not UTF-8, such as windows-1252 (default: auto, which takes "
        "what the files of a folder show, and rejects text where nothing is certain)",
    )
    parser.add_argument(
        "--max_reject_fraction",
        type=float,
        default=0.0,
        help="share of the documents that may be unreadable before the job fails (default: 0)",
    )


def describe_reading(total_bytes: int) -> Describe:
    """Returns a function that describes the progress of reading a corpus; see `describe_bytes`."""
    return describe_bytes("reading", "documents", total_bytes)


def describe_cleaning(cleaned: Mapping[str, int]) -> str:
    """Returns the part of a summary about the remains that were removed, by reason; "" if none."""
    counts = (f"{name.replace('_', ' ')} {count:,}" for name, count in cleaned.items())
    return f"; cleaned: {', '.join(counts)}" if cleaned else ""
