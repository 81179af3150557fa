"""The command `beambert glue`."""

import dataclasses
from collections.abc import Sequence

from beambert.config import add_settings, setting
from beambert.errors import InputError
from beambert.flags import FlagParser
from beambert.pipelines.tasks.declarations import GLUE_TASKS, find_task
from beambert.pipelines.tasks.flags import TaskSettings
from beambert.process import leave_chips_to_children, loading
from beambert.trainer.commands.finetune import add_training_flags, check_values

EXAMPLES = """examples:
  # run the whole benchmark on an encoder of `beambert pretrain`
  beambert glue --data_dir=glue --init=encoder --output=glue-results
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class GlueSettings:
    """The settings of `glue`, besides those of its fine-tunings."""

    data_dir: str = setting(metavar="DIR", help="folder that holds CoLA, SST-2 and so on")
    tasks: tuple[str, ...] = setting(
        GLUE_TASKS,
        parse=lambda text: tuple(find_task(name).name for name in text.split(",")),
        metavar="A,B,…",
        help="tasks to run (default: all)",
    )
    output: str = setting(
        metavar="DIR", help="folder for a model folder of each task, and glue.json"
    )


def build_parser() -> FlagParser:
    """Returns the parser of the flags of `glue`."""
    parser = FlagParser(
        prog="beambert glue",
        description="Fine-tunes an encoder on every task of GLUE whose data is present, prints the "
        "table of dev results.",
        examples=EXAMPLES,
    )
    add_settings(parser, GlueSettings)
    skipped = {field.name for field in dataclasses.fields(TaskSettings)} - {"skip_bad_rows"}
    add_settings(parser, TaskSettings, leave_out=skipped)
    add_training_flags(parser)
    return parser


def main(argv: Sequence[str]) -> None:
    """Runs `glue`.

    Raises:
      InputError: a flag or a file cannot be used.
    """
    flags = build_parser().parse_args(list(argv))
    not_glue = [name for name in flags.tasks if name not in GLUE_TASKS]
    if not_glue:
        raise InputError(f"--tasks={not_glue[0]}: not a task of GLUE; use `beambert finetune`")
    own = FlagParser(add_help=False)
    add_settings(own, GlueSettings)
    _, of_training = own.parse_known_args(list(argv))
    check_values([f"--task={flags.tasks[0]}", "--data_dir=data", "--model_dir=model", *of_training])
    leave_chips_to_children()
    with loading():
        from beambert.trainer.finetuning import glue
    given = flags.data_dir, flags.tasks, flags.output.rstrip("/")
    glue.run(*given, of_training, flags.skip_bad_rows)
