"""`beambert demo`: the whole path, from the documentation on this machine to a served model.

Every step is a command that works on your own files too; the demo prints it, runs it and times it.
Interrupted, the same command continues where it stopped.
"""

import argparse
import dataclasses
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.console import FlagParser, run_main
from pipelines.errors import InputError

STEPS_FILE = "steps.json"
REPORT_FILE = "report.html"
SUMMARY_FILE = "summary.txt"
EXIT_STATUS_OF_INTERRUPT = 128 + signal.SIGINT

# As in the paper, most updates are on short sequences; among so few tokens the tiny encoder soon
# begins to use a token's neighbours. What fits in five minutes on two cores.
SHORT_LENGTH, LONG_LENGTH = 32, 128
PRETRAINING_STEPS = 2500
PRETRAINING_BATCH_SIZE = 64
PRETRAINING_LEARNING_RATE = 1e-3
VOCABULARY_SIZE = 8000
# The task has 800 training examples of at most 60 words.
FINETUNING_EPOCHS = 6
FINETUNING_LEARNING_RATE = 5e-4
FINETUNING_LENGTH = 96
SENTENCE = "Computes the eigenvalues of a symmetric matrix and returns them in ascending order."


@dataclasses.dataclass(frozen=True)
class Command:
    """One step of the demo.

    Attributes:
      name: for the summary.
      module: that `python -m` runs.
      arguments: of the command.
      output: what it makes.
    """

    name: str
    module: str
    arguments: tuple[str, ...]
    output: Path

    @property
    def line(self) -> str:
        """The command as a person would type it."""
        program = "beambert" if self.module == "beambert" else f"python -m {self.module}"
        return f"{program} {shlex.join(self.arguments)}"


def plan(folder: Path) -> list[Command]:
    """Returns the steps whose arguments are known from the start."""
    corpus, vocabulary, records = folder / "corpus", folder / "vocab.txt", folder / "records"
    encoder, task = folder / "encoder", folder / "task"
    documents = f"--input={corpus}/*.jsonl"

    def beambert(name: str, output: Path, *arguments: str) -> Command:
        return Command(name, "beambert", arguments, output)

    def finetune(name: str, output: Path, *init: str) -> Command:
        return beambert(
            name,
            output,
            "finetune",
            "--task=classification",
            f"--data_dir={task}",
            *init,
            f"--model_dir={output}",
            f"--num_train_epochs={FINETUNING_EPOCHS}",
            f"--learning_rate={FINETUNING_LEARNING_RATE}",
            f"--max_seq_length={FINETUNING_LENGTH}",
        )

    return [
        Command("corpus", "demo.corpus", (f"--output={folder}",), corpus),
        beambert(
            "vocabulary",
            vocabulary,
            "vocab",
            documents,
            f"--output={vocabulary}",
            f"--vocab_size={VOCABULARY_SIZE}",
        ),
        beambert(
            "records",
            records,
            "data",
            documents,
            f"--vocab_file={vocabulary}",
            f"--output={records}",
            f"--max_seq_length={SHORT_LENGTH},{LONG_LENGTH}",
            "--dupe_factor=2",
            "--eval_fraction=0.02",
        ),
        beambert(
            "pre-training",
            encoder,
            "pretrain",
            f"--data={records / str(SHORT_LENGTH)}",
            f"--long_data={records / str(LONG_LENGTH)}",
            "--model=tiny",
            f"--model_dir={encoder}",
            f"--num_train_steps={PRETRAINING_STEPS}",
            f"--train_batch_size={PRETRAINING_BATCH_SIZE}",
            f"--learning_rate={PRETRAINING_LEARNING_RATE}",
            "--eval_steps=500",
        ),
        finetune("fine-tuning", folder / "classifier", f"--init={encoder}"),
        finetune(
            "fine-tuning, random weights",
            folder / "classifier-random",
            "--init=random",
            f"--model={encoder}/bert_config.json",
            f"--vocab_file={encoder}/vocab.txt",
        ),
    ]


def judge(folder: Path) -> list[Command]:
    """Returns the last steps: the bar is what random weights reach with the same budget."""
    bar = read_json(folder / "classifier-random" / "results.json")["accuracy"]
    evaluation, classifier = folder / "evaluation", folder / "classifier"
    return [
        Command(
            "evaluation",
            "beambert",
            (
                "evaluate",
                "--task=classification",
                f"--data_dir={folder / 'task'}",
                f"--model={classifier}",
                f"--output={evaluation}",
                "--metric=accuracy",
                f"--threshold={bar:.4f}",
            ),
            evaluation,
        ),
        Command(
            "export",
            "beambert",
            (
                "export",
                f"--model={classifier}",
                f"--output={folder / 'serving'}",
                f"--evaluation={evaluation}",
                f"--text={SENTENCE}",
            ),
            folder / "serving",
        ),
    ]


def read_json(path: Path) -> Any:
    """Reads a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


@dataclasses.dataclass(frozen=True)
class Done:
    """A step that is done.

    Attributes:
      command: what was run.
      seconds: how long it took.
      printed: its lines.
    """

    command: Command
    seconds: float
    printed: list[str]


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
        """Writes aside and renames, so that an interruption leaves what was there."""
        aside = self._path.with_name(f"{self._path.name}.tmp")
        aside.write_text(json.dumps(self._steps, indent=1), encoding="utf-8")
        aside.replace(self._path)


def _run(command: Command) -> list[str]:
    """Runs a command, passing on what it prints."""
    # The packages are found wherever the demo is started from.
    root = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    printed = []
    # Ctrl-C reaches the step too, which saves what it has; until it ends, what it says is read.
    previous = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        with subprocess.Popen(
            [sys.executable, "-m", command.module, *command.arguments],
            env=os.environ | {"PYTHONPATH": path},
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
        if command.name == "export" and not (folder / "evaluation" / "BLESSED").exists():
            print("\nThe evaluation did not bless the model, so it is not exported.")
        else:
            done.append(journal.run(command))

    from demo.report import render_html, render_text
    from demo.summary import gather

    summary = gather(folder, done)
    text = render_text(summary)
    (folder / REPORT_FILE).write_text(render_html(summary), encoding="utf-8")
    (folder / SUMMARY_FILE).write_text(text, encoding="utf-8")
    print(f"\n{text}\nThe same with curves: {folder / REPORT_FILE}")


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a step failed.
    """
    parser = FlagParser(
        prog="beambert demo",
        description="Runs the whole path on the documentation of the installed packages.",
        epilog="example:\n  beambert demo --output=demo-output\n\n"
        "Takes up to ten minutes on two cores. Interrupted, the same command continues.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--output", default="demo-output", metavar="DIR", help="default: %(default)s"
    )
    flags = parser.parse_args(list(argv))
    run_demo(Path(flags.output))


if __name__ == "__main__":
    sys.exit(run_main("demo", main, sys.argv[1:]))
