"""Evaluates a fine-tuned model on a task, by slice, and blesses it or does not.

    python -m pipelines.evaluate --task=sst-2 --data_dir=glue/SST-2 --model=models/sst-2 \
        --output=evaluation/sst-2 --metric=accuracy --threshold=0.8

A Beam pipeline predicts every example with the model's SavedModel and keeps the predictions as
TFRecords; TensorFlow Model Analysis (TFMA) reads those, computes the metrics of every slice and
checks the thresholds. The output folder holds

    predictions/            tf.Examples: what was asked, what was answered, the slices
    tfma/                   what TFMA wrote; `tfma.load_eval_result` reads it
    official/               of SQuAD: predictions.json, nbest_predictions.json, null_odds.json
    metrics.json            overall, by slice, baseline and verdict
    report.html             the same to read, with plots and the worst errors
    BLESSED or NOT_BLESSED  written last, holds the reasons
"""

import contextlib
import hashlib
import json
import math
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines import (
    blessing,
    console,
    evaluation,
    evaluation_folder,
    evaluation_pipelines,
    jobs,
    mistakes,
    models,
    predictions,
    worker_folder,
)
from pipelines.baseline import open_baseline
from pipelines.blessing import Threshold
from pipelines.errors import InputError
from pipelines.evaluation_folder import BLESSED, NOT_BLESSED, OFFICIAL
from pipelines.evaluation_job import EvaluationJob, read_labelled
from pipelines.examples import Example
from pipelines.metrics import METRICS
from pipelines.mistakes import Mistake
from pipelines.outcomes import OUTCOMES, Outcomes
from pipelines.slices import slice_title
from pipelines.span_predictions import INPUTS as SPAN_INPUTS
from pipelines.span_predictions import SIGNATURE as SPAN_SIGNATURE
from pipelines.span_predictions import SpanPredictor, predictions_of
from pipelines.squad import Question
from pipelines.squad_scoring import score
from pipelines.task_flags import add_task_flags, task_of
from pipelines.tasks import SPAN, Task
from pipelines.weights import weights_sha256


def evaluate(job: EvaluationJob, pipeline_flags: Sequence[str] = ()) -> dict[str, Any]:
    """Evaluates a model and writes the output folder.

    Args:
      job: what is asked for.
      pipeline_flags: Beam's flags. Without `--runner`, the pipelines run in this process.

    Returns:
      What metrics.json holds.

    Raises:
      InputError: something given cannot be used. An earlier evaluation in `output` is then as it
        was.
    """
    with jobs.plain_errors():
        return _evaluate(job, pipeline_flags)


def _evaluate(job: EvaluationJob, pipeline_flags: Sequence[str]) -> dict[str, Any]:
    task = job.task
    folder = evaluation_folder.check_output(job.output)
    model = models.find_model(job.model, task.kind)
    examples = read_labelled(job, model.labels)
    data_sha256 = hashlib.sha256(job.data_file().read_bytes()).hexdigest()
    with evaluation_pipelines.quiet_libraries(), contextlib.ExitStack() as stack:
        from pipelines import evaluation_metric

        options = jobs.beam_options(pipeline_flags)
        _check_model(model, task, examples)
        measures = evaluation.measures_of(task, model.labels)
        baseline = (
            open_baseline(job.baseline, task, data_sha256, len(examples)) if job.baseline else None
        )
        print(f"Evaluating {job.model} on {len(examples):,} examples of {task.name} …", flush=True)
        weights = weights_sha256(job.model)
        unfinished = evaluation_folder.make_work_folder(folder)
        rows, orders = predictions.make_rows(task, examples, model.labels)
        sent = stack.enter_context(worker_folder.worker_folder(options))
        predictor = _predictor(worker_folder.send_model(model, sent), task)
        place = sent or str(unfinished)
        evaluation_pipelines.predict(predictor, rows, f"{place}/predictions", options)
        worker_folder.fetch(sent, "predictions", unfinished)
        records = predictions.read_records(unfinished / "predictions")
        predictions.check_records(task.kind, records, len(examples), model)
        outcomes = OUTCOMES[task.kind].of_records(records)
        constants = evaluation.constant_answers(outcomes, measures, model.labels)
        requirements = blessing.of_thresholds(job.thresholds, constants)
        if baseline:
            requirements.append(baseline.requirement(measures.names[0], job.min_change))
        config = evaluation_metric.eval_config(measures, requirements, orders)
        evaluation_pipelines.analyse(config, f"{place}/predictions", f"{place}/tfma", options)
        worker_folder.fetch(sent, "tfma", unfinished)
        scores = evaluation_metric.load_scores(unfinished / "tfma", measures.names)
        failures = evaluation_metric.load_failures(unfinished / "tfma")
    if scores[None]["example_count"] != len(examples):
        raise RuntimeError(f"{len(examples)} examples, but TFMA counted {scores[None]}")
    verdicts = [
        requirement.verdict(scores[None][requirement.metric], failures)
        for requirement in requirements
    ]
    if failures and all(verdict["passed"] for verdict in verdicts):
        raise RuntimeError(f"TFMA found what nobody asked for: {failures}")
    metrics = {
        "kind": evaluation_folder.KIND,
        "task": task.name,
        "task_kind": task.kind,
        "split": job.split,
        "data_dir": str(job.data_dir),
        "data_sha256": data_sha256,
        "model": os.path.abspath(job.model),
        "weights_sha256": weights,
        "labels": list(model.labels),
        "metrics": list(measures.names),
        "examples": len(examples),
        "constant_answers": constants,
        "baseline": baseline.describe(measures, outcomes) if baseline else None,
        "blessed": all(verdict["passed"] for verdict in verdicts),
        "thresholds": verdicts,
        "overall": scores[None],
        "slices": evaluation.by_slice(scores, orders),
        "details": evaluation.details(outcomes),
    }
    if task.kind == SPAN:
        found = predictions_of(examples, records, task.allows_no_answer)
        official = score(examples, found.answers, task.allows_no_answer, found.null_odds or None)
        metrics["details"]["official"] = official.metrics
        _write_texts(unfinished / OFFICIAL, found.files())
    worst = mistakes.worst_mistakes(task.kind, records, examples)
    _write_results(unfinished, metrics, outcomes, worst)
    evaluation_folder.publish(folder, metrics)
    return metrics


def _check_model(model: models.Model, task: Task, examples: Sequence[Example | Question]) -> None:
    if task.kind == SPAN:
        models.check_signature(model, task.kind, SPAN_INPUTS, SPAN_SIGNATURE)
        models.check_task(model, task.name)
    else:
        models.check_signature(model, task.kind, predictions.model_inputs(examples[0]))


def _predictor(model: models.Model, task: Task) -> predictions.Predictor | SpanPredictor:
    if task.kind == SPAN:
        return SpanPredictor(model, task.allows_no_answer)
    return predictions.Predictor(task.kind, model)


def _write_results(
    folder: pathlib.Path, metrics: dict[str, Any], outcomes: Outcomes, worst: Sequence[Mistake]
) -> None:
    from pipelines import evaluation_report

    page = evaluation_report.render(metrics, outcomes, worst)
    text = json.dumps(metrics, indent=2, ensure_ascii=False) + "\n"
    _write_texts(folder, {"metrics.json": text, "report.html": page})


def _write_texts(folder: pathlib.Path, texts: Mapping[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def summary(metrics: dict[str, Any], output: str) -> str:
    """Returns the table and the verdict that the command prints."""
    names = metrics["metrics"]
    widths = {name: max(10, len(METRICS[name].title) + 2) for name in names}
    titles = [f"{METRICS[name].title:>{width}}" for name, width in widths.items()]
    titles.insert(1, f"{'95 % interval':>20}")
    lines = [f"{'':<32}{'examples':>9}" + "".join(titles)]
    lines.append(_summary_line("overall", metrics["overall"], widths))
    for name, parts in metrics["slices"].items():
        lines += [_summary_line(slice_title(name, v), part, widths) for v, part in parts.items()]
    constant = metrics["constant_answers"][names[0]]
    always = f"always {constant['answer']!r}"
    score = f"{constant['score']:>{widths[names[0]]}.4f}"
    lines += [f"{always:<32.32}{metrics['examples']:>9}{score}", ""]
    verdict = BLESSED if metrics["blessed"] else NOT_BLESSED
    lines += [
        f"{verdict}: {threshold['reason']}"
        if threshold["passed"] == metrics["blessed"]
        else f"  but {threshold['reason']}"
        for threshold in metrics["thresholds"]
    ]
    return "\n".join([*lines, f"Report: {pathlib.Path(output) / 'report.html'}"])


def _summary_line(name: str, part: dict[str, Any], widths: dict[str, int]) -> str:
    scores = [f"{part[name]:>{width}.4f}" for name, width in widths.items()]
    low, high = part["intervals_95"][next(iter(widths))]
    scores.insert(1, f"{f'{low:.4f} - {high:.4f}':>20}")
    return f"{name:<32.32}{part['example_count']:>9}" + "".join(scores)


def build_parser() -> console.FlagParser:
    """Returns the command's own flags; all others are Beam's."""
    parser = console.FlagParser(
        prog="beambert evaluate",
        description="Evaluates a fine-tuned model on a task, overall and by slice, and blesses "
        "it or does not. Any Beam flag may follow; without --runner it runs in this process.",
        epilog="example: beambert evaluate --task=sst-2 --data_dir=glue/SST-2 "
        "--model=models/sst-2 --output=evaluation/sst-2 --metric=accuracy --threshold=0.8",
        allow_abbrev=False,
    )
    add_task_flags(parser)
    parser.add_argument("--model", required=True, help="a folder that `finetune` finished")
    parser.add_argument("--output", required=True, help="a new folder, or an earlier evaluation")
    parser.add_argument("--split", default="dev", help="dev (default), train or test")
    parser.add_argument(
        "--metric",
        action="append",
        help="what a threshold is on (default: the task's first metric); may be given several "
        "times, each with its --threshold",
    )
    parser.add_argument(
        "--threshold",
        action="append",
        type=float,
        help="the least value that is blessed, or the greatest of an error (default: better than "
        "the best constant answer)",
    )
    parser.add_argument(
        "--baseline",
        help="an earlier evaluation on the same file, of the model that serves: the new one must "
        "not be worse by the task's first metric",
    )
    parser.add_argument(
        "--min_change", type=float, help="how much better than the baseline's it must be (0)"
    )
    return parser


def _thresholds(
    task: Task, names: list[str] | None, values: list[float] | None
) -> tuple[Threshold, ...]:
    names = names or [task.metrics[0]]
    padded: list[float | None] = list(values or [None] * len(names))
    if len(names) != len(padded):
        raise InputError(
            f"--metric is given {len(names)} times but --threshold {len(padded)} times: give "
            "each metric its threshold."
        )
    if len(set(names)) != len(names):
        raise InputError("--metric names the same metric twice: give each metric once.")
    return tuple(Threshold(name, value) for name, value in zip(names, padded, strict=True))


def parse(argv: Sequence[str]) -> tuple[EvaluationJob, list[str]]:
    """Returns what is asked for, and Beam's flags.

    Raises:
      InputError: a flag says what can't be.
    """
    arguments, pipeline_flags = build_parser().parse_known_args(argv)
    if arguments.min_change is not None and not arguments.baseline:
        raise InputError("--min_change compares with a baseline: add --baseline=, or leave it out.")
    if not math.isfinite(arguments.min_change or 0.0):
        raise InputError(f"--min_change={arguments.min_change}: give a number, as 0.01.")
    task = task_of(arguments)
    thresholds = _thresholds(task, arguments.metric, arguments.threshold)
    blessing.check_thresholds(thresholds, evaluation.metric_names(task))
    job = EvaluationJob(
        task,
        arguments.data_dir,
        arguments.model,
        arguments.output,
        arguments.split,
        thresholds,
        arguments.baseline,
        arguments.min_change or 0.0,
        arguments.skip_bad_rows,
    )
    return job, pipeline_flags


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: something given cannot be used.
    """
    job, pipeline_flags = parse(argv)
    print(summary(evaluate(job, pipeline_flags), job.output))


if __name__ == "__main__":
    sys.exit(console.run_main("evaluate", main, sys.argv[1:]))
