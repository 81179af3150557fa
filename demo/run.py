"""`beambert demo`: runs all steps, from the documentation on this machine to a served model.

Every step is a command that also works on your own files. The demo prints, runs and times it. The
same command continues an interrupted demo.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from beambert.console import run_main
from beambert.demo.steps import DemoStep, Done, judge, plan, read_json
from beambert.errors import InputError
from beambert.flags import FlagParser
from beambert.interrupts import passed_on
from beambert.pipelines.storage import locks
from beambert.pipelines.storage.claims import BLESSED, refusal

STEPS_FILE = "steps.json"
REPORT_FILE = "report.html"
SUMMARY_FILE = "summary.txt"

EXAMPLES = """example:
  beambert demo --output=demo-output

The demo takes up to ten minutes on two cores. The same command continues an interrupted demo.
"""


class Journal:
    """The record of the finished steps, kept in a file for restarts."""

    def __init__(self, folder: Path):
        """Reads the record of an earlier run, if there is one."""
        self._path = folder / STEPS_FILE
        self._steps = read_json(self._path) if self._path.exists() else {}

    def run(self, command: DemoStep) -> Done:
        """Runs a step unless it is done.

        Raises:
          InputError: the step failed, after printing its own message.
        """
        print(f"\n$ {command.line}", flush=True)
        if command.line in self._steps and command.output.exists():
            print(f"{command.output}: already done")
        else:
            started = time.monotonic()
            printed = _run(command)
            seconds = time.monotonic() - started
            self._steps[command.line] = {"seconds": round(seconds, 1), "printed": printed}
            self._write()
        return Done(command, **self._steps[command.line])

    def _write(self) -> None:
        """Writes the record as a whole, so that an interruption cannot damage it."""
        from beambert.pipelines.files.beam_files import write_bytes

        write_bytes(str(self._path), json.dumps(self._steps, indent=1).encode())


def _run(command: DemoStep) -> list[str]:
    """Runs a command, prints its output and returns the lines."""
    printed = []
    with (
        subprocess.Popen(
            [sys.executable, "-P", "-m", command.module, *command.arguments],
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        ) as process,
        passed_on(process.terminate),
    ):
        # A step that is interrupted saves its state. Its output is read until it ends.
        for line in process.stdout:
            print(line, end="", flush=True)
            printed.append(line.rstrip("\n"))
    if process.returncode:
        raise InputError(
            f"{command.name}: the step failed; correct the error above and run the demo again"
        )
    return printed


def run_demo(folder: Path) -> None:
    """Runs every step, then writes the summary.

    Raises:
      InputError: a step failed.
    """
    with locks.folders_held([str(folder)], "--output"):
        _run_steps(folder)


def _run_steps(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refusal(f"--output={folder}", "made", error.strerror, "name a folder") from error
    journal = Journal(folder)
    done = [journal.run(command) for command in plan(folder)]
    for command in judge(folder):
        if command.name == "export" and not (folder / "evaluation" / BLESSED).exists():
            print("\nnot exported: the evaluation did not bless the model")
        else:
            done.append(journal.run(command))

    from beambert.demo.report import render_html, render_text
    from beambert.demo.summary import gather

    summary = gather(folder, done)
    text = render_text(summary)
    (folder / REPORT_FILE).write_text(render_html(summary), encoding="utf-8")
    (folder / SUMMARY_FILE).write_text(text, encoding="utf-8")
    print(f"\n{text}\nreport with curves: {folder / REPORT_FILE}")


def build_parser() -> FlagParser:
    """Returns the parser of the command's flags."""
    parser = FlagParser(
        prog="beambert demo",
        description="Runs all steps on the documentation of the installed packages.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "--output",
        default="demo-output",
        metavar="DIR",
        help="output folder (default: %(default)s)",
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
