"""The trainer's commands by Vertex AI's convention: `python -m beambert.trainer.task COMMAND …`."""

import sys
from collections.abc import Sequence

from beambert.pipelines.shared.console import run_main
from beambert.trainer.commands.export import export_main
from beambert.trainer.commands.finetune import finetune_main
from beambert.trainer.commands.glue import glue_main
from beambert.trainer.commands.pretrain import pretrain_main

COMMANDS = {
    "pretrain": pretrain_main,
    "finetune": finetune_main,
    "glue": glue_main,
    "export": export_main,
}


def main(argv: Sequence[str]) -> int:
    """Dispatches to a command; returns its exit status."""
    usage = f"usage: python -m beambert.trainer.task {{{','.join(COMMANDS)}}} …"
    if argv and argv[0] in ("-h", "--help"):
        print(usage)
        return 0
    if not argv or argv[0] not in COMMANDS:
        print(usage, file=sys.stderr)
        return 2
    return run_main(argv[0], COMMANDS[argv[0]], argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
