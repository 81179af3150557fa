"""The command `beambert compare`."""

import dataclasses
import functools
from collections.abc import Sequence

from beambert.config import Settings, read_settings, setting, settings_parser
from beambert.io import check_folder
from beambert.process import loading

EXAMPLES = """examples:
  # the settings that differ and the results, as a table
  beambert compare encoder other-encoder

A training that goes on, or was interrupted, is compared as far as it is. TensorBoard shows the
curves: tensorboard --logdir_spec=one:encoder,other:other-encoder
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison(Settings):
    """The settings of `compare`."""

    runs: tuple[str, ...] = setting(
        is_positional=True,
        metavar="RUN",
        help="two model folders of `beambert pretrain` or `finetune`, or more",
    )


build_parser = functools.partial(
    settings_parser,
    Comparison,
    "compare",
    "Compares trainings: the settings that differ, and the results.",
    EXAMPLES,
)


def main(argv: Sequence[str]) -> None:
    """Runs `compare`.

    Raises:
      InputError: a folder is no model folder.
    """
    flags = read_settings(Comparison, build_parser().parse_args(list(argv)))
    for run in flags.runs:
        check_folder(run, run)
    with loading():
        from beambert.trainer.comparing import compare, describe
    print(describe(compare(flags.runs)))
