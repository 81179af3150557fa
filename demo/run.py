"""`beambert demo`: the whole path, from the documentation on this machine to a served model.

Every step is a command that works on your own files too; the demo prints it, runs it and times it.
Interrupted, the same command continues where it stopped.
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from beambert.demo.steps import Command, Done, judge, plan, read_json
from beambert.pipelines.shared.console import run_main
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.flags import FlagParser
from beambert.pipelines.storage.claims import BLESSED

STEPS_FILE = "steps.json"
REPORT_FILE = "report.html"
SUMMARY_FILE = "summary.txt"
EXIT_STATUS_OF_INTERRUPT = 128 + signal.SIGINT

EXAMPLES = """example:
  beambert demo --output=demo-output

Takes up to ten minutes on two cores. Interrupted, the same command continues.
"""


class Journal:
    """Which steps are done; a file, so that a restart knows."""

    def __init__(self, folder: Path):
        """Reads what an earlier run left."""
        self._path = folder / STEPS_FILE
        self._steps = read_json(self._path) if self._path.exists() else {}

    def run(self, command: Command) -> Done:
        """Runs a step unless it is done.

        Raises:
          InputError: it failed; its own message stands above.
        """
        print(f"\n$ {command.line}", flush=True)
        if command.line in self._steps and command.output.exists():
            print(f"{command.output}: done already")
        else:
            started = time.monotonic()
            printed = _run(command)
            seconds = time.monotonic() - started
            self._steps[command.line] = {"seconds": round(seconds, 1), "printed": printed}
            self._write()
        return Done(command, **self._steps[command.line])

    def _write(self) -> None:
        """Writes whole or not at all, so that an interruption leaves what was there."""
        from beambert.pipelines.jobs.files import write_bytes

        write_bytes(str(self._path), json.dumps(self._steps, indent=1).encode())


def _run(command: Command) -> list[str]:
    """Runs a command, passing on what it prints."""
    printed = []
    # Ctrl-C reaches the step too, which saves what it has; until it ends, what it says is read.
    previous = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        with subprocess.Popen(
            [sys.executable, "-m", command.module, *command.arguments],
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        ) as process:
            for line in process.stdout:
                print(line, end="", flush=True)
                printed.append(line.rstrip("\n"))
    finally:
        signal.signal(signal.SIGINT, previous)
    if process.returncode in (EXIT_STATUS_OF_INTERRUPT, -signal.SIGINT):
        raise KeyboardInterrupt
    if process.returncode:
        raise InputError(f"the step {command.name!r} failed; mend it and run the demo again")
    return printed


def run_demo(folder: Path) -> None:
    """Runs every step, then writes the summary.

    Raises:
      InputError: a step failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    journal = Journal(folder)
    done = [journal.run(command) for command in plan(folder)]
    for command in judge(folder):
        if command.name == "export" and not (folder / "evaluation" / BLESSED).exists():
            print("\nThe evaluation did not bless the model, so it is not exported.")
        else:
            done.append(journal.run(command))

    from beambert.demo.report import render_html, render_text
    from beambert.demo.summary import gather

    summary = gather(folder, done)
    text = render_text(summary)
    (folder / REPORT_FILE).write_text(render_html(summary), encoding="utf-8")
    (folder / SUMMARY_FILE).write_text(text, encoding="utf-8")
    print(f"\n{text}\nThe same with curves: {folder / REPORT_FILE}")


def build_parser() -> FlagParser:
    """Returns the command's flags."""
    parser = FlagParser(
        prog="beambert demo",
        description="Runs the whole path on the documentation of the installed packages.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "--output", default="demo-output", metavar="DIR", help="default: %(default)s"
    )
    return parser


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a step failed.
    """
    run_demo(Path(build_parser().parse_args(list(argv)).output))


if __name__ == "__main__":
    sys.exit(run_main("demo", main, sys.argv[1:]))
