"""The steps of the demonstration, each of which is a command."""

import dataclasses
import json
import shlex
from pathlib import Path
from typing import Any

from beambert.pipelines.storage.model_files import CONFIG_FILE, RESULTS_FILE
from beambert.pipelines.tokenizers.vocabulary import VOCABULARY_FILE

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
SENTENCE = "Computes the eigenvalues of a symmetric matrix and returns them in ascending order."


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
      printed: lines that the step printed.
    """

    command: DemoStep
    seconds: float
    printed: list[str]


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
                f"--text={SENTENCE}",
            ),
            folder / "serving",
        ),
    ]


def read_json(path: Path) -> Any:
    """Returns the content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))
