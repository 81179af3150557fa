"""Answers the texts of files: claims the output, shows progress, writes the files of answers."""

import dataclasses
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import apache_beam as beam

from beambert.console import counted, duration, size
from beambert.errors import InputError
from beambert.pipelines.files import beam_files, input_files
from beambert.pipelines.jobs.running import check_reachable, run_job
from beambert.pipelines.jobs.written_counts import WriteCounts, take_counts
from beambert.pipelines.prediction import worker_folder
from beambert.pipelines.prediction.batches import (
    WHOLE_FILE,
    is_table,
    reading_of,
)
from beambert.pipelines.prediction.graph import Predict
from beambert.pipelines.prediction.job import LINE, PredictionJob
from beambert.pipelines.prediction.saved_models import Model, find_model
from beambert.pipelines.storage import claims, locks
from beambert.pipelines.storage.model_files import NOT_TO_USE, model_sha256
from beambert.pipelines.storage.tensorflow_files import local_folder
from beambert.progress import Describe, Pace

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

PART, REJECTS = "part", "rejects"
# Rejects that are whole files, or the rest of a file that cannot be read to its end.
FILES = "files"
INFO_FILE = "info.json"
# The flags behind the values that decide the answers.
FLAGS_OF = (
    {
        "model_sha256": "--model",
        "input": "--input",
        "text_columns": "--text_columns",
        "unit": "--unit",
        "encoding": "--encoding",
    },
)


def predict(job: PredictionJob, options: "PipelineOptions") -> dict[str, int]:
    """Writes the answers of a model; returns the numbers of `answers`, `rejects` and `files`.

    The `files` are those of the rejects that are whole files, or the rest of one.

    Raises:
      InputError: the model, a file or the output folder cannot be used.
    """
    with local_folder(job.model, NOT_TO_USE) as here:
        return _predict(dataclasses.replace(job, model=here), options)


def _predict(job: PredictionJob, options: "PipelineOptions") -> dict[str, int]:
    """Does the work of `predict` with a model on this machine."""
    model = find_model(job.model, trusts=job.trust_model)
    columns = reading_of(job, model).text_columns
    inputs = input_files.match_inputs(job.input)
    identity = {
        "model_sha256": model_sha256(job.model),
        "text_columns": list(columns),
        "unit": job.unit,
        "encoding": job.encoding,
        "input": [dataclasses.asdict(file) for file in inputs],
    }
    check_reachable(options, input=job.input, output=job.output)
    output = claims.absolute(job.output)
    with locks.folders_held([output], "--output"):
        return _answer(job, model, inputs, identity, output, options)


def _answer(
    job: PredictionJob,
    model: Model,
    inputs: Sequence[input_files.InputFile],
    identity: dict[str, Any],
    output: str,
    options: "PipelineOptions",
) -> dict[str, int]:
    if beam_files.claim_output(output, identity, FLAGS_OF):
        print(f"{output}: already finished by the same command, nothing to do")
        return json.loads(beam_files.read_bytes(f"{output}/{INFO_FILE}", "--output"))
    for prefix in (f"{PART}-", f"{REJECTS}-"):  # left by a run that was killed
        beam_files.delete_prefixed(output, prefix)
    total_bytes = sum(file.bytes for file in inputs)
    print(f"{counted(len(inputs), 'file')}, {size(total_bytes)} -> {output}", flush=True)
    if job.unit == LINE and not all(is_table(file.path) for file in inputs):
        print("each line of a text file is answered; --unit=file answers each file", flush=True)
    with worker_folder.worker_folder(options) as sent:
        reachable = worker_folder.send_model(model, sent)
        run_job(
            lambda pipeline, folder: write_answers(
                pipeline | Predict(job, folder, reachable), output
            ),
            options,
            describe_progress(total_bytes),
            total_bytes / 1e6,
            "MB",
            output=output,
        )
    remedy = "wait until nothing writes to it, then delete --output or choose another"
    input_files.check_unchanged(inputs, job.input, remedy)
    found = take_counts(output)
    files = found.get(FILES, 0)
    rejects = found.get(REJECTS, 0) + files
    counts = {"answers": found.get(PART, 0), "rejects": rejects, FILES: files}
    if not counts["answers"]:
        _refuse_nothing(job, output, counts["rejects"])
    beam_files.write_bytes(
        f"{output}/{INFO_FILE}", json.dumps(identity | counts, indent=1).encode()
    )
    beam_files.finish_output(output, identity)
    return counts


def _refuse_nothing(job: PredictionJob, output: str, rejects: int) -> None:
    """Refuses a prediction without answers, and makes its folder free for a corrected command.

    Raises:
      InputError: always, with the first reason.
    """
    reason = f"there is no text in {' '.join(job.input)}"
    if rejects:
        names = [name for name in beam_files.list_folder(output) if name.startswith(f"{REJECTS}-")]
        lines = (beam_files.read_bytes(f"{output}/{name}", "--output") for name in sorted(names))
        first = json.loads(next(filter(None, b"".join(lines).split(b"\n"))))
        reason = f"none of {rejects:,} rows could be answered ({first['reason']})"
    for prefix in (f"{PART}-", f"{REJECTS}-", claims.UNFINISHED_FILE):
        beam_files.delete_prefixed(output, prefix)
    raise InputError(f"--input: {reason}; correct the files or the flags")


def write_answers(answers: beam.PCollection[dict[str, Any]], output: str) -> None:
    """Adds the steps that write answers and rejects to separate files, and how many there are."""
    for name, is_reject in ((PART, False), (REJECTS, True)):
        _ = (
            answers
            | f"Choose {name}"
            >> beam.Filter(lambda row, is_reject=is_reject: ("reason" in row) == is_reject)
            | f"Text of {name}" >> beam.Map(lambda row: json.dumps(row, ensure_ascii=False))
            | f"Write {name}" >> beam.io.WriteToText(f"{output}/{name}", file_name_suffix=".jsonl")
        )
    _ = (
        answers
        | "Kinds" >> beam.Map(_kind_of)
        | "Count" >> beam.combiners.Count.PerElement()
        | "Counts" >> beam.combiners.ToDict()
        | "Write counts" >> WriteCounts(output)
    )


def _kind_of(row: dict[str, Any]) -> str:
    if "reason" not in row:
        return PART
    return FILES if row.get("line") == WHOLE_FILE else REJECTS


def describe_progress(total_bytes: int) -> Describe:
    """Returns a function that describes the progress of a prediction; see `ProgressDisplay`."""
    rows_pace, bytes_pace = Pace(), Pace()

    def describe(counts: dict[str, int], seconds: float) -> str:
        done = counts.get("bytes", 0)
        if not done:
            return ""
        rows = counts.get("rows", 0)  # The first file may have none.
        line = f"answering: {rows:,} rows, "
        if rate := rows_pace.of(rows, seconds):
            line += f"{rate:,.0f}/s, "
        line += f"{done / 1e6:.1f} of {total_bytes / 1e6:.1f} MB"
        if rate := bytes_pace.of(done, seconds):
            line += f", {duration((total_bytes - done) / rate)} left"
        return line

    return describe
