"""How long do commands take on next to nothing, where their start is nearly all of the time?

  # the floor, which is the import of the libraries, and each command
  python -m benchmarks.start_up

  # beside another checkout, in turns
  python -m benchmarks.start_up --against=../older --results=start_up.json

  # the first commands only
  python -m benchmarks.start_up --last=data

Each command gets its processor seconds, which other work on the machine changes less, and its
seconds on the clock; both are medians. Processor seconds are those of all threads and processes.
"""

import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from beambert.errors import InputError
from benchmarks import measuring

ROOT = pathlib.Path(__file__).parents[1]
LIBRARIES = ("tensorflow", "apache_beam", "apache_beam, tensorflow")
TEXT = "A river begins in the north. It passes the city.\n\n" * 200
TABLE = "sentence\tlabel\n" + "a fine river\t1\na poor city\t0\n" * 8


def write_inputs(folder: pathlib.Path) -> None:
    """Writes the text and the task that the commands read."""
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    (folder / "task").mkdir()
    for split in ("train", "dev"):
        (folder / "task" / f"{split}.tsv").write_text(TABLE, encoding="utf-8")


def commands_of(folder: pathlib.PurePath) -> dict[str, list[str]]:
    """Returns the command lines by title; each one's inputs are made by those before it."""
    vocabulary, records, model = (f"{folder}/{name}" for name in ("vocab.txt", "records", "model"))
    of_text = [f"--input={folder}/text.txt"]
    of_task = ["--task=sst-2", f"--data_dir={folder}/task"]
    with_vocabulary = [f"--vocab_file={vocabulary}", "--max_seq_length=32"]
    return {
        "--help": ["--help"],
        "data --help": ["data", "--help"],
        "pretrain --help": ["pretrain", "--help"],
        "vocab": ["vocab", *of_text, f"--output={vocabulary}", "--vocab_size=100"],
        "data": ["data", *of_text, *with_vocabulary, f"--output={records}", "--num_shards=1"],
        "verify": ["verify", records],
        "pretrain": [
            *["pretrain", f"--data={records}", f"--model_dir={folder}/encoder", "--model=tiny"],
            *["--num_train_steps=1", "--train_batch_size=2"],
        ],
        "features": ["features", *of_task, *with_vocabulary, f"--output={folder}/features"],
        "finetune": [
            *["finetune", *of_task, f"--init={folder}/encoder", f"--model_dir={model}"],
            *["--num_train_epochs=1", "--train_batch_size=16", "--max_seq_length=32"],
        ],
        "predict": ["predict", f"--model={model}", *of_text, f"--output={folder}/answers"],
    }


def measure(command: Sequence[str], checkout: pathlib.Path) -> tuple[float, float]:
    """Returns the processor seconds and the seconds on the clock of a command.

    Raises:
      InputError: it failed.
    """
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [sys.executable, *command],
        check=False,
        capture_output=True,
        text=True,
        cwd=checkout,
        env=environment,
    )
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - started
    if done.returncode:
        raise InputError(f"{checkout}: `{' '.join(command)}` failed: {done.stderr.strip()}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, seconds


def main(argv: Sequence[str]) -> None:
    """Measures and prints.

    Raises:
      InputError: a command failed.
    """
    parser = measuring.flag_parser("start_up", __doc__)
    parser.add_argument("--against", metavar="DIR", help="another checkout")
    parser.add_argument(
        "--last",
        metavar="COMMAND",
        default="predict",
        choices=tuple(commands_of(pathlib.PurePath())),
        help="last command to measure; each reads what those before it made (default: %(default)s)",
    )
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    measuring.add_results_flag(parser)
    flags = parser.parse_args(list(argv))
    checkouts = {"here": ROOT}
    if flags.against:
        checkouts["against"] = pathlib.Path(flags.against).resolve()
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}

    def note(title: str, side: str, command: Sequence[str]) -> None:
        found.setdefault(title, {}).setdefault(side, []).append(measure(command, checkouts[side]))

    for _ in range(flags.rounds):
        for libraries in LIBRARIES:
            note(f"import {libraries}", "here", ["-c", f"import {libraries}"])
        with tempfile.TemporaryDirectory() as work:
            lines = {}
            for side in checkouts:
                (folder := pathlib.Path(work, side)).mkdir()
                write_inputs(folder)
                lines[side] = commands_of(folder)
            titles = list(lines["here"])
            for title in titles[: titles.index(flags.last) + 1]:
                for side in checkouts:
                    note(title, side, ["-m", "beambert", *lines[side][title]])
    print(measuring.write_results(flags.results, parser, argv, _medians(found)))


def _medians(
    found: dict[str, dict[str, list[tuple[float, float]]]],
) -> dict[str, dict[str, dict[str, float]]]:
    """Returns the medians of each title and side."""
    names = ("processor_seconds", "seconds")
    return {
        title: {
            side: {
                name: round(statistics.median(values), 2)
                for name, values in zip(names, zip(*runs, strict=True), strict=True)
            }
            for side, runs in sides.items()
        }
        for title, sides in found.items()
    }


if __name__ == "__main__":
    measuring.run(main)
