"""Evaluates a model: makes its predictions, scores them, writes the report and the blessing."""

import contextlib
import dataclasses
import json
import pathlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beambert import io
from beambert.errors import InputError
from beambert.folders import (
    BLESSED,
    METRICS_FILE,
    MISTAKES_FILE,
    NOT_BLESSED,
    REPORT_FILE,
    claimed,
)
from beambert.io import local_copy, parse_object
from beambert.model_files import NOT_TO_USE, model_sha256, weights_sha256
from beambert.pipelines import running
from beambert.pipelines.evaluation import measures, predictions
from beambert.pipelines.evaluation.measures import (
    OFFICIAL,
    Measures,
    changes,
    constant_answers,
    measures_of,
    of_baseline,
    words_note,
)
from beambert.pipelines.running import on_this_machine, plain_errors
from beambert.pipelines.task_jobs import EvaluationJob
from beambert.pipelines.tasks.find_model import find_model
from beambert.pipelines.tasks.reading import has_split, read_file
from beambert.pipelines.tasks.saved_models import Model, send_model, worker_folder
from beambert.pipelines.tasks.task import (
    PREDICTIONS_FOLDER,
    TRAIN,
    Example,
    Outcomes,
    Record,
    Row,
    Task,
)

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

# File from which workers read the rows, while they predict.
ROWS_FILE = "rows"
KIND = "beambert evaluation"
MARKERS = (BLESSED, NOT_BLESSED)
TFMA_FOLDER = "tfma"
# Fields of a task that say how its file is read, which not every kind has.
_READING = (
    *("text_columns", "label_column", "choice_columns", "labels", "label_separator", "encoding"),
)
_RESULTS = (
    *(METRICS_FILE, PREDICTIONS_FOLDER, OFFICIAL, TFMA_FOLDER),
    *(REPORT_FILE, MISTAKES_FILE),
)


def read_metrics(folder: str) -> dict[str, Any] | None:
    """Returns the metrics.json of an evaluation; None if the folder holds none.

    Raises:
      InputError: the file cannot be read.
    """
    path = f"{folder}/{METRICS_FILE}"
    if not io.exists(path):
        return None
    try:
        metrics = parse_object(io.read_bytes(path))
    except ValueError:
        return None
    return metrics if metrics.get("kind") == KIND else None


def _publish(made: pathlib.Path, output: str, metrics: dict[str, Any]) -> None:
    """Writes the results into the claimed folder; the blessing is written last.

    Raises:
      InputError: the results cannot be written.
    """
    for name in _RESULTS:
        if (made / name).exists():
            io.move(str(made / name), f"{output}/{name}")
    # A model that is refused may have reached other thresholds, which are no reason to refuse it.
    reasons = "".join(
        f"{verdict['reason']}\n"
        for verdict in metrics["thresholds"]
        if verdict["passed"] == metrics["blessed"]
    )
    if note := words_note(metrics):
        reasons += f"but {note}\n" if metrics["blessed"] else f"{note}\n"
    marker = BLESSED if metrics["blessed"] else NOT_BLESSED
    io.write_bytes(f"{output}/{marker}", reasons.encode())


def open_baseline(
    path: str, task: Task, data_sha256: str, examples: int
) -> tuple[dict[str, Any], Outcomes]:
    """Returns the metrics.json of an earlier evaluation, and the outcomes of its predictions.

    Args:
      path: its folder, on this machine.
      task: task of the new evaluation.
      data_sha256: SHA-256 of the file that the new evaluation reads.
      examples: number of examples in the new evaluation.

    Raises:
      InputError: the folder holds no finished evaluation, or one on another task or on other
        examples.
    """
    folder = pathlib.Path(path)
    metrics = read_metrics(path)
    if metrics is None or not any((folder / marker).exists() for marker in MARKERS):
        raise InputError(
            f"--baseline={path}: holds no finished evaluation; name the --output of `beambert "
            "evaluate` of the model to compare with"
        )
    if metrics["task"] != task.name:
        raise InputError(
            f"--baseline={path}: evaluated the task {metrics['task']}, not {task.name}; name an "
            f"evaluation on {task.name}"
        )
    if (metrics.get("data_sha256"), metrics["examples"]) != (data_sha256, examples):
        raise InputError(
            f"--baseline={path}: evaluated other examples than these; evaluate that model "
            f"({metrics['model']}) on the same file first"
        )
    try:
        records = predictions.read_records(folder / PREDICTIONS_FOLDER)
    except Exception as error:  # from TensorFlow if a file is damaged, an OSError if it is missing
        raise InputError(
            f"--baseline={path}: its predictions cannot be read; evaluate that model "
            f"({metrics['model']}) again"
        ) from error
    if len(records) != examples:
        raise InputError(
            f"--baseline={path}: has {len(records)} predictions for {examples} examples; evaluate "
            f"that model ({metrics['model']}) again"
        )
    return metrics, task.OUTCOMES.of_records(records)


def read_labelled(job: EvaluationJob, labels: Sequence[str], data_dir: str) -> list[Example]:
    """Reads the examples of the split, which must have labels; prints notes on the file.

    Args:
      job: the evaluation, with a local folder of data.
      labels: labels of the model.
      data_dir: what the notes call this folder.

    Raises:
      InputError: `reading.read_file` refuses the file, it has no labels, or the task has other
        labels than the model.
    """
    task, file = job.task, job.data_file()
    if task.labels is not None and set(task.labels) != set(labels):
        raise InputError(
            f"--model: has the labels {', '.join(labels)} but task {task.name} has "
            f"{', '.join(task.labels)}; name a model that was fine-tuned on {task.name}"
        )
    read = read_file(task, job.data_dir, job.split, labels or None, job.skip_bad_rows)
    for sentence in (*read.bad_rows, *read.notes):
        print(str(sentence).replace(job.data_dir, data_dir))
    if any(example.truth is None for example in read.examples):
        raise InputError(f"{file}: has no labels to compare with; choose another --split")
    task.check_choices(file, read.examples, labels)
    return list(read.examples)


def by_words(
    job: EvaluationJob, examples: Sequence[Example], labels: Sequence[str]
) -> Outcomes | None:
    """Returns the outcomes of the task's model of words, learned from the train file.

    None if the kind has none, if there is no train file that fits the model, or if it is the file
    that is evaluated.

    Args:
      job: the evaluation, with a local folder of data.
      examples: the examples that are evaluated.
      labels: labels of the model.
    """
    task = job.task
    if not task.BY_WORDS or job.split == TRAIN or not has_split(task, job.data_dir, TRAIN):
        return None
    with contextlib.suppress(InputError):
        train = read_file(task, job.data_dir, TRAIN, labels or None, True, to_learn=True).examples
        return task.by_words(train, examples, labels)
    return None


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
        if self.sent:
            io.copy(f"{self.sent}/{name}", str(self.unfinished / name))
        return self.unfinished / name


@on_this_machine
def evaluate(job: EvaluationJob, options: "PipelineOptions | None" = None) -> dict[str, Any]:
    """Evaluates a model and writes the output folder.

    Args:
      job: the evaluation.
      options: options of the Beam pipelines.

    Returns:
      The content of metrics.json.

    Raises:
      InputError: the data, the model, the baseline or the output folder cannot be used.
    """
    job = dataclasses.replace(job, output=job.output.rstrip("/") or "/")
    with plain_errors(), contextlib.ExitStack() as stack:
        copies = {
            "data_dir": stack.enter_context(local_copy(job.data_dir)),
            "model": stack.enter_context(local_copy(job.model, NOT_TO_USE)),
        }
        if job.baseline:
            copies["baseline"] = stack.enter_context(local_copy(job.baseline))
        here = dataclasses.replace(job, **copies)
        model = find_model(here.model, job.task.kind, job.trust_model)
        old = job.baseline and (read_metrics(here.baseline) or {})
        identity = {
            "task": job.task.name,
            **{name: getattr(job.task, name, None) for name in _READING},
            "split": job.split,
            "skip_bad_rows": job.skip_bad_rows,
            "data_sha256": io.sha256_of(str(here.data_file())),
            "model_sha256": model_sha256(here.model),
            "thresholds": [f"{each.metric}={each.value}" for each in job.thresholds],
            "slices": job.slices,
            "baseline": old and [old.get("model_sha256"), old.get("data_sha256")],
            "min_change": job.min_change,
        }
        with claimed(job.output, identity) as folder:
            if folder.is_finished:
                print(f"{job.output}: already finished by the same command, nothing to do")
                return folder.read_json(METRICS_FILE)
            return _evaluate(job, here, model, identity, options, stack)


def _evaluate(
    job: EvaluationJob,
    here: EvaluationJob,
    model: Model,
    identity: Mapping[str, Any],
    options: "PipelineOptions",
    stack: contextlib.ExitStack,
) -> dict[str, Any]:
    """Does the work of `evaluate`.

    Args:
      job: the evaluation with the folders that the user named, for messages and metrics.json.
      here: the same evaluation with folders on this machine.
      model: the model.
      identity: what decides the results.
      options: options of the Beam pipelines.
      stack: stack of temporary folders, which are deleted at the end of the command.
    """
    task = job.task
    labels, scored = model.labels, measures_of(task, model.labels)
    examples = read_labelled(here, labels, job.data_dir)
    data_sha256, baseline = identity["data_sha256"], None
    with running.quiet_libraries():
        task.check_model(model, examples[0])
        if here.baseline:
            old, before = open_baseline(here.baseline, task, data_sha256, len(examples))
    rows, orders = predictions.make_rows(task, examples, labels, job.slices)
    print(f"Evaluating {job.model} on {len(examples):,} examples of {task.name} …", flush=True)
    # The model may be the next one when the results are written.
    weights = weights_sha256(here.model)
    # Beam and TFMA would read the user's path as a pattern.
    unfinished = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
    place = _Place(unfinished, stack.enter_context(worker_folder(options)), options)
    with running.quiet_libraries():
        records = _predict(task, model, rows, place)
        outcomes = task.OUTCOMES.of_records(records)
        constants = constant_answers(outcomes, scored, labels)
        requirements = measures.of_thresholds(job.thresholds, constants)
        if here.baseline:
            first, of_old = scored.names[0], measures_of(task, old["labels"])
            least = of_old.scores(before)[first]
            requirements.append(of_baseline(first, least, job.min_change or 0.0))
            baseline = {
                "evaluation": io.absolute(job.baseline),
                **{name: old[name] for name in ("model", "weights_sha256")},
                **changes(before, of_old, outcomes, scored),
            }
        scores, verdicts = _analyse(scored, requirements, orders, place, len(examples))
        words = by_words(here, examples, labels)
    metrics = {
        "kind": KIND,
        "task": task.name,
        "task_kind": task.kind,
        "split": job.split,
        "data_dir": str(job.data_dir),
        "data_sha256": data_sha256,
        "model": io.absolute(job.model),
        "weights_sha256": weights,
        "model_sha256": identity["model_sha256"],
        "labels": list(labels),
        "metrics": list(scored.names),
        "examples": len(examples),
        "constant_answers": constants,
        "words": words and {"model": task.BY_WORDS, **changes(words, scored, outcomes, scored)},
        "baseline": baseline,
        "blessed": all(verdict["passed"] for verdict in verdicts),
        "thresholds": verdicts,
        "overall": scores[None],
        # The values that occur, in the order of reports.
        "slices": {
            name: {value: scores[name, value] for value in orders[name] if (name, value) in scores}
            for name in sorted(orders)
        },
        "details": outcomes.details(labels),
    }
    if official := task.official(examples, records):
        metrics["details"][OFFICIAL], texts = official
        _write_texts(unfinished / OFFICIAL, texts)
    from beambert.pipelines.evaluation.report import render, to_json_lines, worst_mistakes

    worst = worst_mistakes(task.kind, records, examples, orders)
    texts = {
        METRICS_FILE: json.dumps(metrics, indent=2, ensure_ascii=False) + "\n",
        REPORT_FILE: render(metrics, worst),
        MISTAKES_FILE: to_json_lines(worst),
    }
    _write_texts(unfinished, texts)
    _publish(unfinished, job.output, metrics)
    return metrics


def _predict(task: Task, model: Model, rows: Sequence[Row], place: _Place) -> list[Record]:
    """Lets Beam predict all rows, and returns the records of the predictions, checked.

    Raises:
      InputError: the model's answers cannot be used.
    """
    folder, rows_path = place.of_workers(task.FOLDER), place.of_workers(ROWS_FILE)
    sent = send_model(model, place.sent)
    predictions.predict(task, sent, rows, rows_path, folder, place.options)
    records = predictions.read_records(place.fetched(task.FOLDER))
    if task.FOLDER != PREDICTIONS_FOLDER:
        shutil.rmtree(place.unfinished / task.FOLDER)
        records = task.completed(model, rows, records)
        predictions.write_records(records, place.of_workers(PREDICTIONS_FOLDER))
        place.fetched(PREDICTIONS_FOLDER)
    predictions.check_records(task.kind, records, len(rows), model)
    return records


def _analyse(
    scored: Measures,
    requirements: Sequence[measures.Requirement],
    orders: Mapping[str, Sequence[str]],
    place: _Place,
    count: int,
) -> tuple[dict[tuple[str, str] | None, dict[str, Any]], list[dict[str, Any]]]:
    """Lets TFMA score the predictions; returns the scores by slice, and the verdicts."""
    from beambert.pipelines.evaluation import tfma_metric

    predictions.analyse(
        tfma_metric.eval_config(scored, requirements, orders),
        place.of_workers(PREDICTIONS_FOLDER),
        place.of_workers(TFMA_FOLDER),
        place.options,
        count,
    )
    folder = place.fetched(TFMA_FOLDER)
    scores = tfma_metric.load_scores(folder, scored.names, orders)
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


def _write_texts(folder: pathlib.Path, texts: Mapping[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
