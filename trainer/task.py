"""The trainer's commands by Vertex AI's convention: `python -m beambert.trainer.task COMMAND …`."""

import sys
from collections.abc import Sequence

from beambert.commands import COMMANDS

# These commands run on a machine without Apache Beam.
TRAINER_COMMANDS = {name: command for name, command in COMMANDS.items() if not command.needs_beam}


def main(argv: Sequence[str]) -> int:
    """Runs a command and returns its exit status."""
    usage = f"usage: python -m beambert.trainer.task {{{','.join(TRAINER_COMMANDS)}}} …"
    if argv and argv[0] in ("-h", "--help"):
        print(usage)
        return 0
    if not argv or argv[0] not in TRAINER_COMMANDS:
        print(usage, file=sys.stderr)
        return 2
    return TRAINER_COMMANDS[argv[0]].run(argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
