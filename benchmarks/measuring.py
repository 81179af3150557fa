"""Shared code of the benchmarks: flags, timing in turns, running commands, writing results."""

import json
import os
import pathlib
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from beambert.errors import InputError
from beambert.flags import FlagParser

# Learning rate and batch size for small encoders, from the original release's README.
SMALL_ENCODER = ("--learning_rate=3e-4", "--train_batch_size=32")


def flag_parser(name: str, documentation: str) -> FlagParser:
    """Returns the parser of a benchmark's flags.

    Args:
      name: name of the benchmark's module.
      documentation: docstring of the module, for --help: a question, then examples.
    """
    question, _, rest = documentation.partition("\n")
    parser = FlagParser(
        prog=f"python -m benchmarks.{name}",
        description=question,
        examples=f"examples:\n{rest.strip(chr(10))}",
    )
    return parser


def add_results_flag(parser: FlagParser) -> None:
    """Adds --results, for a benchmark that has no output folder."""
    parser.add_argument("--results", metavar="FILE", help="file that also gets the printed JSON")


def run(main: Callable[[Sequence[str]], None]) -> None:
    """Runs a benchmark's `main` with this process's flags; an `InputError` becomes one line."""
    # TensorFlow would log the devices it finds before any result is printed.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        main(sys.argv[1:])
    except InputError as error:
        sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: {error}")


def median_seconds(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Returns the seconds that each call takes, the median of its turns.

    The calls take turns, so that other work on the machine slows all of them alike. The first turn
    does not count, since it compiles.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for repeat in range(repeats + 1):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            if repeat:
                seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(times) for name, times in seconds.items()}


def beambert(*arguments: str) -> None:
    """Runs a command of this project; its output goes to stderr.

    Raises:
      InputError: the command failed.
    """
    command = [sys.executable, "-m", "beambert", *arguments]
    if subprocess.run(command, check=False, stdout=sys.stderr).returncode:
        raise InputError(f"{arguments[0]}: `beambert {arguments[0]}` failed; see its message above")


def write_results(
    path: str | os.PathLike | None, parser: FlagParser, argv: Sequence[str], result: object
) -> str:
    """Returns a result as JSON, with the command that made it and the machine.

    Args:
      path: file that also gets the JSON; None for none.
      parser: parser of the benchmark.
      argv: flags of the benchmark.
      result: figures that were measured.
    """
    cores = len(os.sched_getaffinity(0))
    about = {
        "made_by": f"{parser.prog} {shlex.join(argv)}".rstrip(),
        "machine": f"{platform.machine()}, cores: {cores}, Python {platform.python_version()}",
        "result": result,
    }
    text = json.dumps(about, indent=1)
    if path:
        pathlib.Path(path).write_text(f"{text}\n", encoding="utf-8")
    return text
