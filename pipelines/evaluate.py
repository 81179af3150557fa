"""Evaluates a fine-tuned model on a task, by slice, and blesses it or does not.

    python -m pipelines.evaluate --task=sst-2 --data_dir=glue/SST-2 --model=models/sst-2 \
        --output=evaluation/sst-2 --metric=accuracy --threshold=0.8

One Beam pipeline predicts every example with the model's SavedModel, keeps the predictions as
TFRecords and hands them to TensorFlow Model Analysis (TFMA), which computes the metrics of every
slice and checks the thresholds. The output folder holds

    predictions/            tf.Examples: row, label, probabilities and the slices of every example
    tfma/                   what TFMA wrote; `tfma.load_eval_result` reads it
    metrics.json            overall, by slice, baseline and verdict
    report.html             the same to read, with plots and the worst errors
    BLESSED or NOT_BLESSED  written last, holds the reasons
"""

import contextlib
import json
import logging
import os
import pathlib
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pipelines import console, evaluation, jobs, predictions, tasks
from pipelines.errors import InputError
from pipelines.evaluation import METRICS, Threshold, slice_title
from pipelines.predictions import Mistake, Model, Predictor, Row, local_path
from pipelines.weights import weights_sha256

if TYPE_CHECKING:  # Beam takes seconds to import, which --help should not cost.
    from apache_beam.options.pipeline_options import PipelineOptions

KIND = "beambert evaluation"
BLESSED = "BLESSED"
NOT_BLESSED = "NOT_BLESSED"
# Where the results are made; another name than the marker file of the other commands.
_WORK_FOLDER = "_unfinished_evaluation"
_RESULTS = ("predictions", "tfma", "metrics.json", "report.html")

_BATCH_SIZE = 64


def evaluate(
    task_name: str,
    data_dir: str,
    model_dir: str,
    output: str,
    split: str = "dev",
    thresholds: Sequence[Threshold] = (Threshold(),),
    pipeline_flags: Sequence[str] = (),
) -> dict[str, Any]:
    """Evaluates a model and writes the output folder.

    Args:
      task_name: a key of `tasks.TASKS`.
      data_dir: the folder of the task's files.
      model_dir: a folder with `saved_model/` and `labels.txt`.
      output: a folder that does not exist, is empty, or holds an earlier evaluation.
      split: which file of the task to evaluate on.
      thresholds: what to reach; all of them must hold.
      pipeline_flags: Beam's flags. Without `--runner`, the pipeline runs in this process.

    Returns:
      What metrics.json holds.

    Raises:
      InputError: something given cannot be used. An earlier evaluation in `output` is then as it
        was.
    """
    task = tasks.find_task(task_name)
    folder = _checked_output(output)
    evaluation.check_thresholds(thresholds)
    model = predictions.find_model(model_dir)
    examples = _read_labelled_examples(task, data_dir, split, model)
    with _quiet_libraries():
        options = jobs.beam_options(pipeline_flags)
        predictions.check_signature(model, examples[0].text_b is not None)
        print(f"Evaluating {model_dir} on {len(examples):,} examples of {task.name} …", flush=True)
        weights = weights_sha256(model_dir)
        unfinished = _make_work_folder(folder)
        _run_pipeline(model, examples, thresholds, unfinished, options)
        predicted = predictions.read_predictions(unfinished / "predictions")
        predictions.check_predictions(predicted, len(examples), model)
        metrics = {
            "kind": KIND,
            "task": task.name,
            "split": split,
            "data_dir": str(data_dir),
            "model": os.path.abspath(model_dir),
            "weights_sha256": weights,
            "labels": list(model.labels),
            **evaluation.collect_metrics(unfinished / "tfma", examples, thresholds, model.labels),
        }
    _write_results(unfinished, metrics, predictions.worst_mistakes(predicted, examples))
    _publish(folder, metrics)
    return metrics


def _checked_output(output: str) -> pathlib.Path:
    folder = pathlib.Path(local_path(output, "--output"))
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--output={output} is a file: name a folder.")
    names = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    foreign = names - {*_RESULTS, BLESSED, NOT_BLESSED, _WORK_FOLDER}
    if foreign or (names and _WORK_FOLDER not in names and not _is_evaluation(folder)):
        raise InputError(
            f"--output={output} already holds something else ({min(foreign or names)}): choose "
            "another folder or delete it."
        )
    return folder


def _make_work_folder(output: pathlib.Path) -> pathlib.Path:
    folder = output / _WORK_FOLDER
    try:
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
    except OSError as error:
        raise InputError(
            f"--output={output} cannot be written ({error.strerror}): choose another folder."
        ) from error
    return folder


def _is_evaluation(folder: pathlib.Path) -> bool:
    try:
        return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))["kind"] == KIND
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _read_labelled_examples(
    task: tasks.Task, data_dir: str, split: str, model: Model
) -> list[tasks.Example]:
    if task.labels is not None and set(task.labels) != set(model.labels):
        raise InputError(
            f"--model has the labels {', '.join(model.labels)} but task {task.name} has "
            f"{', '.join(task.labels)}: name a model that was fine-tuned on {task.name}."
        )
    examples = tasks.read_examples(task, local_path(data_dir, "--data_dir"), split, model.labels)
    if any(example.label is None for example in examples):
        raise InputError(
            f"{tasks.split_path(task, data_dir, split)} has no labels to compare with: choose "
            "another --split."
        )
    return examples


def _run_pipeline(
    model: Model,
    examples: Sequence[tasks.Example],
    thresholds: Sequence[Threshold],
    folder: pathlib.Path,
    options: "PipelineOptions",
) -> None:
    """Writes `predictions/` and `tfma/` under a folder."""
    import apache_beam as beam
    import tensorflow_model_analysis as tfma
    from tfx_bsl.tfxio import tf_example_record

    rows = evaluation.make_rows(examples, model.labels)
    slice_features = [*rows[0].slices, "prediction"]
    config = evaluation.eval_config(thresholds, slice_features, examples)
    record_batches = tf_example_record.TFExampleBeamRecord(
        physical_format="predictions",
        telemetry_descriptors=["BeamBERT"],
        raw_record_column_name=tfma.ARROW_INPUT_COLUMN,
    )
    with beam.Pipeline(options=options) as pipeline:
        predicted = (
            pipeline
            | "Batches" >> beam.Create(_batches(rows))
            | "Spread" >> beam.Reshuffle()
            | "Predict" >> beam.FlatMap(Predictor(str(model.path))).with_output_types(bytes)
        )
        _ = predicted | "WritePredictions" >> beam.io.WriteToTFRecord(
            str(folder / "predictions" / "part"), file_name_suffix=".tfrecord"
        )
        _ = (
            predicted
            | "ToRecordBatches" >> record_batches.BeamSource()
            | "Analyse"
            >> tfma.ExtractEvaluateAndWriteResults(
                eval_config=config, output_path=str(folder / "tfma")
            )
        )


def _batches(rows: Sequence[Row]) -> list[list[Row]]:
    # Rows of like length together, so that a batch has little padding.
    by_length = sorted(rows, key=lambda row: len(row.text) + len(row.text_b or ""))
    return [by_length[i : i + _BATCH_SIZE] for i in range(0, len(by_length), _BATCH_SIZE)]


def _write_results(
    folder: pathlib.Path, metrics: dict[str, Any], mistakes: Sequence[Mistake]
) -> None:
    from pipelines import evaluation_report

    text = json.dumps(metrics, indent=2, ensure_ascii=False) + "\n"
    (folder / "metrics.json").write_text(text, encoding="utf-8")
    page = evaluation_report.render(metrics, mistakes)
    (folder / "report.html").write_text(page, encoding="utf-8")


def _publish(folder: pathlib.Path, metrics: dict[str, Any]) -> None:
    """Puts the new results in place of the old ones; the marker is last."""
    for marker in (BLESSED, NOT_BLESSED):
        (folder / marker).unlink(missing_ok=True)
    for name in _RESULTS:
        if (folder / name).is_dir():
            shutil.rmtree(folder / name)
        os.replace(folder / _WORK_FOLDER / name, folder / name)
    shutil.rmtree(folder / _WORK_FOLDER)
    reasons = "".join(verdict["reason"] + "\n" for verdict in metrics["thresholds"])
    marker = BLESSED if metrics["blessed"] else NOT_BLESSED
    (folder / marker).write_text(reasons, encoding="utf-8")


@contextlib.contextmanager
def _quiet_libraries() -> Iterator[None]:
    """Imports TensorFlow and TFMA and keeps their notices from the user's screen."""
    levels = {name: logging.getLogger(name).level for name in ("tensorflow", "absl", "apache_beam")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with console.quiet_stderr():
            import tensorflow_model_analysis  # noqa: F401
        for name in levels:
            logging.getLogger(name).setLevel(logging.ERROR)
        try:
            yield
        finally:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)


def summary(metrics: dict[str, Any], output: str) -> str:
    """Returns the table and the verdict that the command prints."""
    heading = f"{'':<32}{'examples':>9}{'accuracy':>10}{'95 % interval':>18}{'cross entropy':>15}"
    lines = [heading, _summary_line("overall", metrics["overall"])]
    for name, slices in metrics["slices"].items():
        lines += [_summary_line(slice_title(name, value), p) for value, p in slices.items()]
    baseline = metrics["baseline"]
    always = f"always {baseline['label']!r} (baseline)"
    lines += [f"{always:<32.32}{metrics['examples']:>9}{baseline['accuracy']:>10.4f}", ""]
    verdict = BLESSED if metrics["blessed"] else NOT_BLESSED
    lines += [
        f"{verdict}: {threshold['reason']}"
        if threshold["passed"] == metrics["blessed"]
        else f"  but {threshold['reason']}"
        for threshold in metrics["thresholds"]
    ]
    return "\n".join([*lines, f"Report: {pathlib.Path(output) / 'report.html'}"])


def _summary_line(name: str, part: dict[str, Any]) -> str:
    low, high = part["accuracy_interval_95"]
    return (
        f"{name:<32.32}{part['example_count']:>9}{part['accuracy']:>10.4f}"
        f"{f'{low:.4f} - {high:.4f}':>18}{part['cross_entropy']:>15.4f}"
    )


def _parser() -> console.FlagParser:
    parser = console.FlagParser(
        prog="beambert evaluate",
        description="Evaluates a fine-tuned model on a task, overall and by slice, and blesses "
        "it or does not. Any Beam flag may follow; without --runner it runs in this process.",
        epilog="example: beambert evaluate --task=sst-2 --data_dir=glue/SST-2 "
        "--model=models/sst-2 --output=evaluation/sst-2 --metric=accuracy --threshold=0.8",
        allow_abbrev=False,
    )
    parser.add_argument("--task", required=True, help=f"one of {', '.join(tasks.TASKS)}")
    parser.add_argument("--data_dir", required=True, help="the folder of the task's files")
    parser.add_argument("--model", required=True, help="a folder that `finetune` finished")
    parser.add_argument("--output", required=True, help="a new folder, or an earlier evaluation")
    parser.add_argument("--split", default="dev", help="dev (default), train or test")
    parser.add_argument(
        "--metric",
        action="append",
        help=f"what a threshold is on, one of {', '.join(METRICS)} (default accuracy); may be "
        "given several times, each with its --threshold",
    )
    parser.add_argument(
        "--threshold",
        action="append",
        type=float,
        help="the least accuracy or greatest cross entropy that is blessed (default: more "
        "accuracy than always guessing the commonest label)",
    )
    return parser


def _thresholds(metrics: list[str] | None, values: list[float] | None) -> tuple[Threshold, ...]:
    metrics = metrics or ["accuracy"]
    padded: list[float | None] = list(values or [None] * len(metrics))
    if len(metrics) != len(padded):
        raise InputError(
            f"--metric is given {len(metrics)} times but --threshold {len(padded)} times: give "
            "each metric its threshold."
        )
    if len(set(metrics)) != len(metrics):
        raise InputError("--metric names the same metric twice: give each metric once.")
    return tuple(Threshold(name, value) for name, value in zip(metrics, padded, strict=True))


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: something given cannot be used.
    """
    arguments, pipeline_flags = _parser().parse_known_args(argv)
    metrics = evaluate(
        arguments.task,
        arguments.data_dir,
        arguments.model,
        arguments.output,
        arguments.split,
        _thresholds(arguments.metric, arguments.threshold),
        pipeline_flags,
    )
    print(summary(metrics, arguments.output))


if __name__ == "__main__":
    sys.exit(console.run_main("evaluate", main, sys.argv[1:]))
