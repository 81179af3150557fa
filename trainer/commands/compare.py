"""The command `beambert compare`."""

from collections.abc import Sequence

from beambert.flags import FlagParser
from beambert.process import loading
from beambert.storage import check_folder

EXAMPLES = """examples:
  # the settings that differ and the results, as a table
  beambert compare encoder other-encoder

A training that goes on, or was interrupted, is compared as far as it is. TensorBoard shows the
curves: tensorboard --logdir_spec=one:encoder,other:other-encoder
"""


def build_parser() -> FlagParser:
    """Returns the parser of the flags of `compare`."""
    parser = FlagParser(
        prog="beambert compare",
        description="Compares trainings: the settings that differ, and the results.",
        examples=EXAMPLES,
    )
    # argparse would say that one is enough.
    parser.usage = "%(prog)s [-h] RUN RUN [RUN ...]"
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="model folder of `beambert pretrain` or `finetune`"
    )
    return parser


def main(argv: Sequence[str]) -> None:
    """Runs `compare`.

    Raises:
      InputError: a folder is no model folder.
    """
    flags = build_parser().parse_args(list(argv))
    for run in flags.runs:
        check_folder(run, run)
    with loading():
        from beambert.trainer.comparing import compare, describe
    print(describe(compare(flags.runs)))
