"""The command `beambert compare`."""

from collections.abc import Sequence

from beambert.flags import FlagParser
from beambert.process import loading
from beambert.storage import check_folder

EXAMPLES = """examples:
  # the settings that differ and the results, as a table
  beambert compare encoder other-encoder

  # the same and the curves on a page, comparison/compare.html
  beambert compare --output=comparison encoder other-encoder gs://bucket/third-encoder

A training that goes on, or was interrupted, is compared as far as it is.
"""


def build_parser() -> FlagParser:
    """Returns the parser of the flags of `compare`."""
    parser = FlagParser(
        prog="beambert compare",
        description="Compares trainings: the settings that differ, the results, the curves.",
        examples=EXAMPLES,
    )
    # argparse would say that one is enough.
    parser.usage = "%(prog)s [-h] [--output DIR] RUN RUN [RUN ...]"
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="model folder of `beambert pretrain` or `finetune`"
    )
    parser.add_argument(
        "--output", metavar="DIR", help="folder that gets compare.html, a page with the curves"
    )
    return parser


def main(argv: Sequence[str]) -> None:
    """Runs `compare`.

    Raises:
      InputError: a folder is no model folder, or the page cannot be written.
    """
    flags = build_parser().parse_args(list(argv))
    for run in flags.runs:
        check_folder(run, run)
    with loading():
        from beambert.trainer.comparing import PAGE_FILE, compare, describe
    print(describe(compare(flags.runs, flags.output)))
    if flags.output:
        print(f"\nReport: {flags.output.rstrip('/')}/{PAGE_FILE}")
