"""Runs a verification: shows progress, writes the report and prints a summary."""

import dataclasses
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from apache_beam.io.filesystems import FileSystems

from beambert.console import counted, size
from beambert.pipelines.files.beam_files import delete_quietly, read_bytes, write_bytes
from beambert.pipelines.jobs.running import check_reachable, path_for_workers, run_job
from beambert.pipelines.storage import locks
from beambert.pipelines.verification.found_folders import FoundFolder, find_folders
from beambert.pipelines.verification.graph import VerifyRecords
from beambert.pipelines.verification.job import JSON_FILE, PAGE_FILE, VerificationJob
from beambert.pipelines.verification.output import choose_output
from beambert.pipelines.verification.report import figure_rows, plural, render, sample_lines
from beambert.progress import Describe, describe_bytes

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

# Number of characters that the console shows of a segment.
SEGMENT_CHARACTERS = 150


def verify_records(job: VerificationJob, options: "PipelineOptions") -> dict[str, Any]:
    """Verifies records, writes the report and prints a summary.

    Returns:
      the content of verification.json.

    Raises:
      InputError: an input or the output cannot be used.
    """
    inputs = tuple(path_for_workers(path, options) for path in job.inputs)
    folders = find_folders(inputs, job.vocab_file, job.tokenizer)
    output = path_for_workers(choose_output(job.inputs, job.output), options)
    check_reachable(options, inputs=job.inputs, output=output)
    job = dataclasses.replace(job, inputs=inputs, output=output)
    report, page = (FileSystems.join(output, name) for name in (JSON_FILE, PAGE_FILE))
    with locks.folders_held([output], "--output"):
        return _verify(job, folders, report, page, options)


def _verify(
    job: VerificationJob,
    folders: Sequence[FoundFolder],
    report: str,
    page: str,
    options: "PipelineOptions",
) -> dict[str, Any]:
    delete_quietly([report, page])  # if this run fails, an earlier report must not be left
    total_bytes = sum(size for folder in folders for size in folder.files.values())
    count = sum(len(folder.files) for folder in folders)
    print(f"{counted(count, 'file')}, {size(total_bytes)}", flush=True)
    run_job(
        lambda pipeline, folder: pipeline | VerifyRecords(job, folder, folders),
        options,
        describe_progress(total_bytes),
        total_bytes / 1e6,
        "MB",
        output=FileSystems.split(report)[0],
    )
    result = json.loads(read_bytes(report, "--output"))
    write_bytes(page, render(result).encode())
    print(summarize(result))
    print(f"Report: {page}")
    return result


def describe_progress(total_bytes: int) -> Describe:
    """Returns a function that describes the progress of a verification; see `describe_bytes`."""
    return describe_bytes("verifying", "instances", total_bytes)


def summarize(result: dict[str, Any]) -> str:
    """Returns the lines that the command prints about verification.json."""
    lines = []
    for folder in result["folders"]:
        lines += _folder_lines(folder)
        lines += [f"  FAULT    {text}" for text in folder["faults"]]
        lines += [f"  warning  {text}" for text in folder["warnings"]]
        lines += [f"  not checked: {text}" for text in folder["not_checked"]]
    # The console shows the records of one folder, and the page those of all.
    if folder := next((folder for folder in result["folders"] if folder["sample"]), None):
        labels = folder["figures"]["labels"]
        lines += sample_lines(folder["sample"], labels, SEGMENT_CHARACTERS)
    if result["hashes_sampled"] < 1:
        lines.append(
            f"repeats are counted in a sample of {result['hashes_sampled']:.2%} of the texts"
        )
    verdict = f"{plural(result['faults'], 'fault')}, {plural(result['warnings'], 'warning')}"
    return "\n".join([*lines, verdict])


def _folder_lines(folder: dict[str, Any]) -> list[str]:
    stored = sum(file["bytes"] for file in folder["files"])
    records = sum(file["instances"] for file in folder["files"])
    files = plural(len(folder["files"]), "file")
    heading = f"{folder['path']}: {plural(records, 'instance')} in {files} ({size(stored)})"
    found = folder["figures"]
    if not found:
        return [heading]
    return [heading, *(f"  {name:<25}{value}" for name, value in figure_rows(found))]
