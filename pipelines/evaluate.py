"""`beambert evaluate`: evaluates a fine-tuned model on a task by slice, and decides its blessing.

    beambert evaluate --task=sst-2 --data_dir=glue/SST-2 --model=models/sst-2 \
        --output=evaluation/sst-2 --metric=accuracy --threshold=0.8

A Beam pipeline predicts every example with the model's SavedModel and keeps the predictions as
TFRecords; TensorFlow Model Analysis (TFMA) reads those, computes the metrics of every slice and
checks the thresholds. The output folder holds

    predictions/            tf.Examples with labels, predictions and slices
    tfma/                   results of TFMA, which `tfma.load_eval_result` reads
    official/               for SQuAD: predictions.json, nbest_predictions.json, null_odds.json
    metrics.json            overall, by slice, by words alone, baseline and verdict
    report.html             the same as a page, with the worst errors
    mistakes.jsonl          all errors, the worst first, each with its slices
    BLESSED or NOT_BLESSED  the marker, written last, with the reasons
"""

import argparse
import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from beambert import flags
from beambert.config import add_settings, read_settings, setting
from beambert.errors import InputError
from beambert.folders import BLESSED, NOT_BLESSED, REPORT_FILE
from beambert.io import FINETUNE, check_folder
from beambert.pipelines import running
from beambert.pipelines.evaluation.measures import Threshold, without_model, words_note
from beambert.pipelines.task_jobs import EvaluationJob
from beambert.pipelines.tasks.flags import TaskSettings, task_of
from beambert.pipelines.tasks.metrics import METRICS
from beambert.pipelines.tasks.task import Task
from beambert.process import loading

# Exit status for a model that is not blessed, with --exit_status.
STATUS_OF_REFUSAL = 3
EXAMPLES = """examples:
  # the dev split of SST-2, with a threshold on the accuracy
  beambert evaluate --task=sst-2 --data_dir=glue/SST-2 --model=models/sst-2 \\
      --output=evaluation/sst-2 --metric=accuracy --threshold=0.8

  # a new model against the one that serves
  beambert evaluate --task=sst-2 --data_dir=glue/SST-2 --model=models/new \\
      --output=evaluation/new --baseline=evaluation/sst-2

  # a step of a build, which fails unless the model is blessed; few slices are computed sooner
  beambert evaluate --task=sst-2 --data_dir=glue/SST-2 --model=models/sst-2 \\
      --output=evaluation/sst-2 --threshold=0.8 --slices=label --exit_status
"""


@dataclasses.dataclass(frozen=True)
class _Settings:
    """What the command does besides the evaluation."""

    exit_status: bool = setting(
        False,
        help=f"end with status {STATUS_OF_REFUSAL} if the model is not blessed, for scripts",
    )


def build_parser() -> flags.FlagParser:
    """Returns the command's own flags; all others are Beam's."""
    parser = flags.FlagParser(
        prog="beambert evaluate",
        description="Evaluates a fine-tuned model on a task, overall and by slice, and blesses it "
        "if it meets all thresholds.",
        examples=EXAMPLES + "\n" + running.BEAM_HELP,
    )
    add_settings(parser, TaskSettings)
    parser.add_argument(
        "--metric",
        action="append",
        help="metric of a threshold (default: the task's first metric); may be given several "
        "times, each with its --threshold",
    )
    parser.add_argument(
        "--threshold",
        action="append",
        type=float,
        help="least value that is blessed, or greatest value of an error (default: better than "
        "the best constant answer)",
    )
    add_settings(parser, EvaluationJob)
    add_settings(parser, _Settings)
    return parser


def _thresholds(
    task: Task, names: list[str] | None, values: list[float] | None
) -> tuple[Threshold, ...]:
    names = names or [task.metrics[0]]
    padded: list[float | None] = list(values or [None] * len(names))
    if len(names) != len(padded):
        raise InputError(
            f"--metric: is given {len(names)} times but --threshold {len(padded)} times; give "
            "each metric its threshold"
        )
    if len(set(names)) != len(names):
        raise InputError("--metric: names the same metric twice; give each metric once")
    return tuple(Threshold(name, value) for name, value in zip(names, padded, strict=True))


def parse(argv: Sequence[str]) -> tuple[EvaluationJob, list[str]]:
    """Returns the evaluation that the flags ask for, and Beam's flags.

    Raises:
      InputError: a flag has a value that cannot be used.
    """
    arguments, beam_flags = build_parser().parse_known_args(argv)
    return _job_of(arguments), beam_flags


def _job_of(arguments: argparse.Namespace) -> EvaluationJob:
    task = task_of(arguments)
    thresholds = _thresholds(task, arguments.metric, arguments.threshold)
    return read_settings(EvaluationJob, arguments, task=task, thresholds=thresholds)


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a flag, a file or a folder cannot be used.
      SystemExit: the model is not blessed, and --exit_status is given.
    """
    parser = build_parser()
    arguments, beam_flags = parser.parse_known_args(argv)
    job = _job_of(arguments)
    check_folder(job.model, f"--model={job.model}", FINETUNE)
    with running.quiet_libraries(), loading():
        options = running.beam_options(beam_flags, parser.flags)
        from beambert.pipelines.evaluation.run import evaluate
    metrics = evaluate(job, options)
    print(summary(metrics, job.output))
    if arguments.exit_status and not metrics["blessed"]:
        raise SystemExit(STATUS_OF_REFUSAL)


def summary(metrics: dict[str, Any], output: str) -> str:
    """Returns the metrics over all examples and the verdict, as the command prints them."""
    overall, first = metrics["overall"], metrics["metrics"][0]
    lines = []
    for name in metrics["metrics"]:
        low, high = overall["intervals_95"][name]
        title = METRICS[name].title
        lines.append(f"{title} {overall[name]:.4f}, 95 % interval {low:.4f} to {high:.4f}")
    constant = metrics["constant_answers"][first]
    lines.append(f"{METRICS[first].title} {constant['score']:.4f} by {without_model(constant)}")
    verdict = BLESSED if metrics["blessed"] else NOT_BLESSED
    lines += [
        f"{verdict}: {threshold['reason']}"
        if threshold["passed"] == metrics["blessed"]
        else f"  but {threshold['reason']}"
        for threshold in metrics["thresholds"]
    ]
    if note := words_note(metrics):
        lines.append(f"  but {note}")
    return "\n".join([*lines, f"Slices and errors: {os.path.join(output, REPORT_FILE)}"])
