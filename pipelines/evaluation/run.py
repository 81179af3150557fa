"""Evaluates a model: makes its predictions, scores them, writes the report and the blessing."""

import contextlib
import dataclasses
import json
import pathlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beambert.pipelines.evaluation import blessing, graph, lookup, mistakes, predictions
from beambert.pipelines.evaluation import folder as evaluation_folder
from beambert.pipelines.evaluation.baseline import Baseline, open_baseline
from beambert.pipelines.evaluation.folder import (
    OFFICIAL,
    PREDICTIONS_FOLDER,
    TFMA_FOLDER,
)
from beambert.pipelines.evaluation.job import EvaluationJob, read_labelled
from beambert.pipelines.evaluation.measures import (
    Measures,
    by_slice,
    constant_answers,
    details,
    measures_of,
)
from beambert.pipelines.evaluation.outcomes import OUTCOMES, Outcomes, Record
from beambert.pipelines.evaluation.predictors import PREDICTORS
from beambert.pipelines.evaluation.records import Mistake
from beambert.pipelines.jobs import running
from beambert.pipelines.jobs.engine_errors import plain_errors
from beambert.pipelines.prediction import saved_models, worker_folder
from beambert.pipelines.storage import claims, locks
from beambert.pipelines.storage.claims import METRICS_FILE, MISTAKES_FILE, REPORT_FILE
from beambert.pipelines.storage.model_files import NOT_TO_USE, model_sha256, weights_sha256
from beambert.pipelines.storage.tensorflow_files import local_folder
from beambert.pipelines.tasks.files import sha256_of
from beambert.pipelines.tasks.task import Task

# File from which workers read the rows, while they predict.
ROWS_FILE = "rows"

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
    with plain_errors():
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


@dataclasses.dataclass(frozen=True)
class _Subject:
    """What is evaluated, read and checked.

    Attributes:
      model: the SavedModel.
      weights_sha256: SHA-256 of its weights.
      model_sha256: SHA-256 of all its files, for which the blessing holds.
      examples: examples with labels.
      data_sha256: SHA-256 of their file.
      measures: metrics of the task.
      others: name -> outcomes of answers that the training file gives without a model.
      baseline: the model to compare with; None without one.
    """

    model: saved_models.Model
    weights_sha256: str
    model_sha256: str
    examples: Sequence[Any]
    data_sha256: str
    measures: Measures
    others: Mapping[str, Outcomes]
    baseline: Baseline | None


@dataclasses.dataclass(frozen=True)
class _Place:
    """The folders of a running evaluation, and the options of its Beam pipelines.

    Attributes:
      unfinished: folder on this machine where the results are made.
      sent: folder that workers on other machines reach; None if there are none.
      options: options of the Beam pipelines.
    """

    unfinished: pathlib.Path
    sent: str | None
    options: "PipelineOptions"

    def of_workers(self, name: str) -> str:
        """Returns the folder of a name to which the workers write."""
        return f"{self.sent or self.unfinished}/{name}"

    def fetched(self, name: str) -> pathlib.Path:
        """Returns the same folder on this machine, after the workers have written it."""
        worker_folder.fetch(self.sent, name, self.unfinished)
        return self.unfinished / name


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
    subject = _read(job, here)
    examples, labels = subject.examples, subject.model.labels
    rows, orders = predictions.make_rows(task, examples, labels, job.slices)
    print(f"Evaluating {job.model} on {len(examples):,} examples of {task.name} …", flush=True)
    unfinished = stack.enter_context(evaluation_folder.work_folder(job.output))
    sent = stack.enter_context(worker_folder.worker_folder(options))
    place = _Place(unfinished, sent, options)
    with running.quiet_libraries():
        predictor = PREDICTORS[task.kind].of_task(
            task, worker_folder.send_model(subject.model, place.sent)
        )
        records = _predict(subject, predictor, rows, place, task)
        outcomes = OUTCOMES[task.kind].of_records(records)
        constants = constant_answers(outcomes, subject.measures, labels, subject.others)
        requirements = blessing.of_thresholds(job.thresholds, constants)
        if subject.baseline:
            first = subject.measures.names[0]
            requirements.append(subject.baseline.requirement(first, job.min_change))
        scores, verdicts = _analyse(subject, requirements, orders, place)
    metrics = {
        **_describe(job, subject),
        "constant_answers": constants,
        "baseline": subject.baseline.describe(subject.measures, outcomes)
        if subject.baseline
        else None,
        "blessed": all(verdict["passed"] for verdict in verdicts),
        "thresholds": verdicts,
        "overall": scores[None],
        "slices": by_slice(scores, orders),
        "details": details(outcomes, labels),
    }
    if official := predictor.official(task, examples, records):
        metrics["details"][OFFICIAL], texts = official
        _write_texts(unfinished / OFFICIAL, texts)
    worst = mistakes.worst_mistakes(task.kind, records, examples, orders)
    _write_results(unfinished, metrics, outcomes, worst)
    evaluation_folder.publish(unfinished, job.output, metrics)
    return metrics


def _read(job: EvaluationJob, here: EvaluationJob) -> _Subject:
    """Reads and checks the model, the examples and the baseline of an evaluation.

    Raises:
      InputError: one of them cannot be used.
    """
    task = job.task
    model = saved_models.find_model(here.model, task.kind, job.trust_model)
    examples = read_labelled(
        here, model.labels, lambda text: print(str(text).replace(here.data_dir, job.data_dir))
    )
    data_sha256 = sha256_of(here.data_file())
    with running.quiet_libraries():
        PREDICTORS[task.kind].check_model(task, model, examples[0])
        baseline = None
        if here.baseline:
            found = open_baseline(here.baseline, task, data_sha256, len(examples))
            baseline = dataclasses.replace(found, folder=job.baseline)
        return _Subject(
            model,
            weights_sha256(here.model),
            model_sha256(here.model),
            examples,
            data_sha256,
            measures_of(task, model.labels),
            lookup.answers_of_train(here, examples),
            baseline,
        )


def _predict(
    subject: _Subject,
    predictor: predictions.Predictor,
    rows: Sequence[predictions.Row],
    place: _Place,
    task: Task,
) -> list[Record]:
    """Lets Beam predict all rows, and returns the records of the predictions, checked.

    Raises:
      InputError: the model's answers cannot be used.
    """
    folder, rows_path = place.of_workers(predictor.FOLDER), place.of_workers(ROWS_FILE)
    graph.predict(predictor, rows, rows_path, folder, place.options)
    records = predictions.read_records(place.fetched(predictor.FOLDER))
    if predictor.FOLDER != PREDICTIONS_FOLDER:
        shutil.rmtree(place.unfinished / predictor.FOLDER)
        records = predictor.completed(rows, records)
        predictions.write_records(records, place.of_workers(PREDICTIONS_FOLDER))
        place.fetched(PREDICTIONS_FOLDER)
    predictions.check_records(task.kind, records, len(rows), subject.model)
    return records


def _analyse(
    subject: _Subject,
    requirements: Sequence[blessing.Requirement],
    orders: Mapping[str, Sequence[str]],
    place: _Place,
) -> tuple[dict[tuple[str, str] | None, dict[str, Any]], list[dict[str, Any]]]:
    """Lets TFMA score the predictions; returns the scores by slice, and the verdicts."""
    from beambert.pipelines.evaluation import tfma_metric

    count = len(subject.examples)
    graph.analyse(
        tfma_metric.eval_config(subject.measures, requirements, orders),
        place.of_workers(PREDICTIONS_FOLDER),
        place.of_workers(TFMA_FOLDER),
        place.options,
        count,
    )
    folder = place.fetched(TFMA_FOLDER)
    scores = tfma_metric.load_scores(folder, subject.measures.names)
    failures = tfma_metric.load_failures(folder)
    if scores[None]["example_count"] != count:
        raise RuntimeError(f"{count} examples, but TFMA counted {scores[None]}")
    verdicts = [
        requirement.verdict(scores[None][requirement.metric], failures)
        for requirement in requirements
    ]
    if failures and all(verdict["passed"] for verdict in verdicts):
        raise RuntimeError(f"TFMA reports missed thresholds that were not set: {failures}")
    return scores, verdicts


def _describe(job: EvaluationJob, subject: _Subject) -> dict[str, Any]:
    """Returns what was evaluated, as metrics.json begins."""
    return {
        "kind": evaluation_folder.KIND,
        "task": job.task.name,
        "task_kind": job.task.kind,
        "split": job.split,
        "data_dir": str(job.data_dir),
        "data_sha256": subject.data_sha256,
        "model": claims.absolute(job.model),
        "weights_sha256": subject.weights_sha256,
        "model_sha256": subject.model_sha256,
        "labels": list(subject.model.labels),
        "metrics": list(subject.measures.names),
        "examples": len(subject.examples),
    }


def _write_results(
    folder: pathlib.Path, metrics: dict[str, Any], outcomes: Outcomes, worst: Sequence[Mistake]
) -> None:
    from beambert.pipelines.evaluation import report

    page = report.render(metrics, outcomes, worst)
    text = json.dumps(metrics, indent=2, ensure_ascii=False) + "\n"
    errors = mistakes.to_json_lines(worst)
    _write_texts(folder, {METRICS_FILE: text, REPORT_FILE: page, MISTAKES_FILE: errors})


def _write_texts(folder: pathlib.Path, texts: Mapping[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
