"""`beambert demo`: runs all steps, from the documentation on this machine to a served model.

Every step is a command that also works on your own files. The demo prints, runs and times it. The
same command continues an interrupted demo.
"""

import dataclasses
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from beambert import locks
from beambert.config import add_settings, setting
from beambert.console import duration
from beambert.errors import InputError
from beambert.flags import FlagParser
from beambert.folders import BLESSED, NOT_BLESSED, REPORT_FILE
from beambert.model_files import CONFIG_FILE, RESULTS_FILE
from beambert.pipelines.tokenizers.vocabulary import VOCABULARY_FILE
from beambert.process import passed_on
from beambert.storage import refusal, write_bytes

# As in the paper, most steps are on short sequences. On these, the tiny encoder soon learns to use
# the neighbours of a token. The pre-training takes five minutes on two cores.
SHORT_LENGTH, LONG_LENGTH = 32, 128
PRETRAINING_STEPS = 2500
PRETRAINING_BATCH_SIZE = 64
PRETRAINING_LEARNING_RATE = 1e-3
VOCABULARY_SIZE = 8000
# These suit the task, which has 800 training examples of at most 60 words.
FINETUNING_EPOCHS = 6
FINETUNING_LEARNING_RATE = 5e-4
FINETUNING_LENGTH = 96


@dataclasses.dataclass(frozen=True)
class DemoStep:
    """One step of the demo.

    Attributes:
      name: name of the step in the summary.
      module: Python module to run.
      arguments: arguments of the command.
      output: file or folder that the step makes.
    """

    name: str
    module: str
    arguments: tuple[str, ...]
    output: Path

    @property
    def line(self) -> str:
        """The command line of the step."""
        program = "beambert" if self.module == "beambert" else f"python -m {self.module}"
        return f"{program} {shlex.join(self.arguments)}"


@dataclasses.dataclass(frozen=True)
class Done:
    """A finished step.

    Attributes:
      command: command of the step.
      seconds: time that the step took.
    """

    command: DemoStep
    seconds: float


def plan(folder: Path) -> list[DemoStep]:
    """Returns the steps up to fine-tuning."""
    corpus, vocabulary, records = folder / "corpus", folder / VOCABULARY_FILE, folder / "records"
    encoder, task = folder / "encoder", folder / "task"
    documents = f"--input={corpus}/*.jsonl"

    def beambert(name: str, output: Path, *arguments: str) -> DemoStep:
        return DemoStep(name, "beambert", arguments, output)

    def finetune(name: str, output: Path, *init: str) -> DemoStep:
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
            "--early_stopping=False",
        )

    return [
        DemoStep("corpus", "beambert.demo.corpus", (f"--output={folder}",), corpus),
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
            f"--model={encoder}/{CONFIG_FILE}",
            f"--vocab_file={encoder}/{VOCABULARY_FILE}",
        ),
    ]


def judge(folder: Path) -> list[DemoStep]:
    """Returns the last steps; the threshold is the accuracy from random weights."""
    bar = read_json(folder / "classifier-random" / RESULTS_FILE)["accuracy"]
    evaluation, classifier = folder / "evaluation", folder / "classifier"
    return [
        DemoStep(
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
        DemoStep(
            "export",
            "beambert",
            (
                "export",
                f"--model={classifier}",
                f"--output={folder / 'serving'}",
                f"--evaluation={evaluation}",
            ),
            folder / "serving",
        ),
    ]


def read_json(path: Path) -> Any:
    """Returns the content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


STEPS_FILE = "steps.json"
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
            _run(command)
            self._steps[command.line] = round(time.monotonic() - started, 1)
            # Written as a whole, so that an interruption cannot damage it.
            write_bytes(str(self._path), json.dumps(self._steps, indent=1).encode())
        return Done(command, self._steps[command.line])


def _run(command: DemoStep) -> None:
    """Runs a command to its end; one that is interrupted saves its state first."""
    arguments = [sys.executable, "-P", "-m", command.module, *command.arguments]
    with subprocess.Popen(arguments) as process, passed_on(process.terminate):
        process.wait()
    if process.returncode:
        raise InputError(
            f"{command.name}: the step failed; correct the error above and run the demo again"
        )


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

    text = summarize(folder, done)
    (folder / SUMMARY_FILE).write_text(text, encoding="utf-8")
    print(f"\n{text}\nreport of the evaluation: {folder / 'evaluation' / REPORT_FILE}")


def summarize(folder: Path, done: Sequence[Done]) -> str:
    """Returns the main results and the times of the steps, for a terminal.

    Args:
      folder: folder of the demonstration.
      done: the finished steps, in their order.
    """
    found = read_json(folder / "encoder" / RESULTS_FILE)
    # From the pre-trained encoder, and from random weights.
    tuned = ("classifier", "classifier-random")
    pretrained, random = (read_json(folder / name / RESULTS_FILE) for name in tuned)
    is_blessed = (folder / "evaluation" / BLESSED).exists()
    of_long = f"of {LONG_LENGTH} tokens"
    tables = {
        "Results": [
            (
                f"held-out masked-token accuracy, {of_long}",
                f"{found['masked_lm_accuracy']:.1%}",
                f"always the most common token: {found['commonest_token_accuracy']:.1%}",
            ),
            (
                f"held-out next-sentence accuracy, {of_long}",
                f"{found['next_sentence_accuracy']:.1%}",
                "always the same answer: about 50.0%",
            ),
            (
                "task accuracy, pre-trained",
                f"{pretrained['accuracy']:.1%}",
                f"from random weights: {random['accuracy']:.1%}; "
                f"always one class: {pretrained['baseline_accuracy']:.1%}",
            ),
            ("evaluation", BLESSED if is_blessed else NOT_BLESSED, ""),
        ],
        "Steps": [
            (step.command.name, duration(step.seconds), str(step.command.output)) for step in done
        ],
    }
    lines = []
    for title, rows in tables.items():
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        padded = ("  " + "  ".join(map(str.ljust, row, widths)) for row in rows)
        lines += ["", title, *(line.rstrip() for line in padded)]
    return "\n".join(lines[1:]) + "\n"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DemoJob:
    """A demonstration. Its fields are the flags of `beambert demo`."""

    output: str = setting("demo-output", metavar="DIR", help="output folder")


def build_parser() -> FlagParser:
    """Returns the parser of the command's flags."""
    parser = FlagParser(
        prog="beambert demo",
        description="Runs all steps on the documentation of the installed packages.",
        examples=EXAMPLES,
    )
    add_settings(parser, DemoJob)
    return parser


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a step failed.
    """
    run_demo(Path(build_parser().parse_args(list(argv)).output))
