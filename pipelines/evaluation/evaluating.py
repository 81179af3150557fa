"""Evaluates a model: makes its predictions, scores them, writes the report and the blessing."""

import contextlib
import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beambert.pipelines.evaluation import beam_steps, blessing, mistakes, predictions
from beambert.pipelines.evaluation import folder as evaluation_folder
from beambert.pipelines.evaluation.baseline import open_baseline
from beambert.pipelines.evaluation.folder import (
    OFFICIAL,
    PREDICTIONS_FOLDER,
    TFMA_FOLDER,
)
from beambert.pipelines.evaluation.job import EvaluationJob, read_labelled
from beambert.pipelines.evaluation.measures import by_slice, constant_answers, details, measures_of
from beambert.pipelines.evaluation.outcomes import OUTCOMES, Outcomes
from beambert.pipelines.evaluation.records import Mistake
from beambert.pipelines.evaluation.span_predictions import PREDICTORS
from beambert.pipelines.jobs import running
from beambert.pipelines.prediction import saved_models, worker_folder
from beambert.pipelines.storage import claims, locks
from beambert.pipelines.storage.claims import METRICS_FILE, REPORT_FILE
from beambert.pipelines.storage.tensorflow_files import local_folder
from beambert.pipelines.storage.weights import NOT_TO_USE, weights_sha256

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions


def evaluate(job: EvaluationJob, options: "PipelineOptions") -> dict[str, Any]:
    """Evaluates a model and writes the output folder.

    Args:
      job: the evaluation.
      options: options of the Beam pipelines.

    Returns:
      The content of metrics.json.

    Raises:
      InputError: the data, the model, the baseline or the output folder cannot be used. An earlier
        evaluation in `output` is left unchanged.
    """
    job = dataclasses.replace(job, output=job.output.rstrip("/") or "/")
    with running.plain_errors():
        evaluation_folder.check_output(job.output)
        with (
            locks.folders_held([job.output], "--output"),
            _on_this_machine(job) as here,
            contextlib.ExitStack() as stack,
        ):
            return _evaluate(job, here, options, stack)


@contextlib.contextmanager
def _on_this_machine(job: EvaluationJob) -> Iterator[EvaluationJob]:
    """Yields the job with copies on this machine of the folders that it reads.

    Raises:
      InputError: a folder cannot be copied.
    """
    with contextlib.ExitStack() as stack:
        here = {
            "data_dir": stack.enter_context(local_folder(job.data_dir)),
            "model": stack.enter_context(local_folder(job.model, NOT_TO_USE)),
        }
        if job.baseline:
            here["baseline"] = stack.enter_context(local_folder(job.baseline))
        yield dataclasses.replace(job, **here)


def _evaluate(
    job: EvaluationJob,
    here: EvaluationJob,
    options: "PipelineOptions",
    stack: contextlib.ExitStack,
) -> dict[str, Any]:
    """Does the work of `evaluate`.

    Args:
      job: the evaluation with the folders that the user named, for messages and metrics.json.
      here: the same evaluation with folders on this machine.
      options: options of the Beam pipelines.
      stack: stack of temporary folders, which are deleted at the end of the command.
    """
    task = job.task
    model = saved_models.find_model(here.model, task.kind)
    examples = read_labelled(
        here, model.labels, lambda text: print(str(text).replace(here.data_dir, job.data_dir))
    )
    data_sha256 = hashlib.sha256(here.data_file().read_bytes()).hexdigest()
    with running.quiet_libraries():
        from beambert.pipelines.evaluation import tfma_metric

        PREDICTORS[task.kind].check_model(task, model, examples[0])
        measures = measures_of(task, model.labels)
        baseline = None
        if here.baseline:
            found = open_baseline(here.baseline, task, data_sha256, len(examples))
            baseline = dataclasses.replace(found, folder=job.baseline)
        print(f"Evaluating {job.model} on {len(examples):,} examples of {task.name} …", flush=True)
        weights = weights_sha256(here.model)
        unfinished = stack.enter_context(evaluation_folder.work_folder(job.output))
        rows, orders = predictions.make_rows(task, examples, model.labels)
        sent = stack.enter_context(worker_folder.worker_folder(options))
        predictor = PREDICTORS[task.kind].of_task(task, worker_folder.send_model(model, sent))
        place = sent or str(unfinished)
        beam_steps.predict(predictor, rows, f"{place}/{PREDICTIONS_FOLDER}", options)
        worker_folder.fetch(sent, PREDICTIONS_FOLDER, unfinished)
        records = predictions.read_records(unfinished / PREDICTIONS_FOLDER)
        predictions.check_records(task.kind, records, len(examples), model)
        outcomes = OUTCOMES[task.kind].of_records(records)
        constants = constant_answers(outcomes, measures, model.labels)
        requirements = blessing.of_thresholds(job.thresholds, constants)
        if baseline:
            requirements.append(baseline.requirement(measures.names[0], job.min_change))
        config = tfma_metric.eval_config(measures, requirements, orders)
        beam_steps.analyse(
            config,
            f"{place}/{PREDICTIONS_FOLDER}",
            f"{place}/{TFMA_FOLDER}",
            options,
            len(examples),
        )
        worker_folder.fetch(sent, TFMA_FOLDER, unfinished)
        scores = tfma_metric.load_scores(unfinished / TFMA_FOLDER, measures.names)
        failures = tfma_metric.load_failures(unfinished / TFMA_FOLDER)
    if scores[None]["example_count"] != len(examples):
        raise RuntimeError(f"{len(examples)} examples, but TFMA counted {scores[None]}")
    verdicts = [
        requirement.verdict(scores[None][requirement.metric], failures)
        for requirement in requirements
    ]
    if failures and all(verdict["passed"] for verdict in verdicts):
        raise RuntimeError(f"TFMA reports missed thresholds that were not set: {failures}")
    metrics = {
        "kind": evaluation_folder.KIND,
        "task": task.name,
        "task_kind": task.kind,
        "split": job.split,
        "data_dir": str(job.data_dir),
        "data_sha256": data_sha256,
        "model": claims.absolute(job.model),
        "weights_sha256": weights,
        "labels": list(model.labels),
        "metrics": list(measures.names),
        "examples": len(examples),
        "constant_answers": constants,
        "baseline": baseline.describe(measures, outcomes) if baseline else None,
        "blessed": all(verdict["passed"] for verdict in verdicts),
        "thresholds": verdicts,
        "overall": scores[None],
        "slices": by_slice(scores, orders),
        "details": details(outcomes),
    }
    if official := predictor.official(task, examples, records):
        metrics["details"]["official"], texts = official
        _write_texts(unfinished / OFFICIAL, texts)
    worst = mistakes.worst_mistakes(task.kind, records, examples)
    _write_results(unfinished, metrics, outcomes, worst)
    evaluation_folder.publish(unfinished, job.output, metrics)
    return metrics


def _write_results(
    folder: pathlib.Path, metrics: dict[str, Any], outcomes: Outcomes, worst: Sequence[Mistake]
) -> None:
    from beambert.pipelines.evaluation import report

    page = report.render(metrics, outcomes, worst)
    text = json.dumps(metrics, indent=2, ensure_ascii=False) + "\n"
    _write_texts(folder, {METRICS_FILE: text, REPORT_FILE: page})


def _write_texts(folder: pathlib.Path, texts: Mapping[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
