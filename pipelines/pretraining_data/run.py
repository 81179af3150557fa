"""Runs a job that makes records: checks the output, shows the progress, sums up the result."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import StandardOptions

from beambert.pipelines.corpus.flags import describe_cleaning, describe_reading
from beambert.pipelines.jobs import files
from beambert.pipelines.jobs.clock import describe_stages, stage_seconds
from beambert.pipelines.jobs.running import check_reachable, run_job, translate_job, works_here
from beambert.pipelines.pretraining_data import dataflow_cost
from beambert.pipelines.pretraining_data.finishing import describe_dropped
from beambert.pipelines.pretraining_data.graph import CreatePretrainingData
from beambert.pipelines.pretraining_data.job import PretrainingDataJob
from beambert.pipelines.pretraining_data.plan import Plan, find_inputs, make_plan
from beambert.pipelines.pretraining_data.spills import spill_prefix
from beambert.pipelines.pretraining_data.split_shares import (
    describe_shares,
    held_out_shares,
    share_warning,
)
from beambert.pipelines.records.contract import INFO_FILE, STATISTICS_FILE, RecordsInfo
from beambert.pipelines.records.figures import MadeWith, warn
from beambert.pipelines.records.statistics import RecordStatistics
from beambert.pipelines.shared.console import duration
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.loading import loading
from beambert.pipelines.storage import locks

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions


def create_pretraining_data(job: PretrainingDataJob, options: "PipelineOptions") -> None:
    """Makes the records folders, unless the same job has finished them, and prints a summary.

    Raises:
      InputError: a folder holds something else, or an input cannot be used.
    """
    plan = _plan(job, options)
    if plan is None:
        return
    with locks.folders_held(plan.output_folders(), "--output"):
        if plan.claim_folders():
            print(f"{job.output}: already finished by the same command, nothing to do")
        else:
            _run(plan, options)
    training: dict[int, RecordsInfo] = {}
    for folder in plan.layout.folders():
        path = FileSystems.join(folder.path, INFO_FILE)
        info = RecordsInfo.from_json(files.read_bytes(path, "--output").decode(), path)
        print(summarize(info, folder.path))
        warnings = read_warnings(info, folder.path)
        if folder.is_eval:
            shares = held_out_shares(training[folder.parameters.max_seq_length], info)
            print(describe_shares(shares, job.eval_fraction))
            warnings += filter(None, [share_warning(shares, job.eval_fraction)])
        else:
            training[folder.parameters.max_seq_length] = info
        for warning in warnings:
            print(f"  warning: {warning}")


def estimate_pretraining_data(
    job: PretrainingDataJob, options: "PipelineOptions", vcpu_hour_price: float | None
) -> None:
    """Prints an estimate of the records and of a job on Dataflow, without making or sending any.

    Args:
      job: the records to estimate.
      options: Beam's options.
      vcpu_hour_price: price in dollars of a vCPU hour on Dataflow; None for the list price.

    Raises:
      InputError: an input or an option cannot be used.
    """
    plan = _plan(job, options)
    if plan is None:
        return
    on_dataflow = options.view_as(StandardOptions).runner == "DataflowRunner"
    if on_dataflow:  # This comes first, so that unusable options are refused at once.
        workers = dataflow_cost.find_workers(options, vcpu_hour_price)
        translated = translate_job(
            lambda pipeline, _: pipeline | CreatePretrainingData(job, plan=plan), options
        )
    with loading():  # it imports TensorFlow
        from beambert.pipelines.pretraining_data import estimate
    found = estimate.estimate(
        plan.manifest.inputs,
        plan.manifest.vocabulary,
        plan.read_options(),
        plan.text_options,
        plan.layout,
    )
    for note in plan.notes:
        print(note)
    print(estimate.describe(found, plan.layout))
    if on_dataflow and found.used:
        seconds = found.seconds / found.share
        print(dataflow_cost.describe_graph(translated.job.proto_pipeline))
        print(dataflow_cost.describe_cost(seconds, plan.layout.total_shards, workers))


def _plan(job: PretrainingDataJob, options: "PipelineOptions") -> Plan | None:
    """Returns the plan of a job, or None with a message if there is no file to read."""
    check_reachable(options, input=job.input, output=job.output)
    inputs = find_inputs(job)
    if job.since and not inputs:
        print(f"nothing new: all files of --input are in the records of {', '.join(job.since)}")
        return None
    if job.leave_out and not inputs:
        raise InputError(
            f"--leave_out={job.leave_out}: names all files of --input; take those to read out of it"
        )
    return make_plan(job, inputs)


def _run(plan: Plan, options: "PipelineOptions") -> None:
    """Runs the pipeline, and prints the size of the input and the time by stage."""
    output, shards = plan.layout.output, plan.layout.total_shards
    total_bytes = sum(file.bytes for file in plan.manifest.inputs)
    print(
        f"{len(plan.manifest.inputs)} files, {total_bytes / 1e6:.1f} MB -> {shards} shards in "
        f"{output}",
        flush=True,
    )
    for note in plan.notes:
        print(note, flush=True)
    if works_here(options):
        with loading():  # their import prints; do it now
            import beambert.pipelines.records.decoding
            import beambert.pipelines.wordpiece.tokenization  # noqa: F401
    try:
        result = run_job(
            lambda pipeline, folder: pipeline | CreatePretrainingData(plan.job, folder, plan),
            options,
            describe_progress(total_bytes, shards),
            total_bytes / 1e6,
            "MB",
        )
    except BaseException as error:
        files.delete_prefixed(output, spill_prefix(plan.run))
        if isinstance(error, InputError):
            plan.release_folders()
        raise
    if line := describe_stages(stage_seconds(result)):
        print(line)


def describe_progress(total_bytes: int, shards: int) -> Callable[[dict[str, int], float], str]:
    """Returns the function that makes the progress line from the counts and the seconds so far.

    The job first reads all documents and then writes the shards. The time left appears when the
    first shard is complete.
    """
    seconds_read = 0.0

    def describe(counts: dict[str, int], seconds: float) -> str:
        nonlocal seconds_read
        if not counts.get("instances"):
            seconds_read = seconds
            return describe_reading(counts, seconds, total_bytes)
        done, rate = counts.get("shards", 0), counts["instances"] / (seconds - seconds_read)
        line = f"writing: {counts['instances']:,} instances, {rate:,.0f}/s"
        line += f", {done} of {shards} shards"
        if done:
            left = (seconds - seconds_read) * (shards - done) / done
            line += f", {duration(left)} left"
        return line

    return describe


def summarize(info: RecordsInfo, folder: str) -> str:
    """Returns the line that sums up a finished records folder."""
    counts = info.counts
    documents = counts["documents"]
    size = sum(file["bytes"] for file in info.files)
    cleaned = describe_cleaning(documents.get("cleaned", {}))
    return (
        f"{folder}: {counts['instances']:,} instances in {len(info.files)} files "
        f"({size / 1e6:.1f} MB) from {documents['used']:,} of {documents['read']:,} documents "
        f"({describe_dropped(documents)}{cleaned}); "
        f"{counts['is_next_share']:.2%} of the instances is next, "
        f"{counts['filled_share']:.1%} of the positions filled, "
        f"{counts['unknown_share']:.3%} of the tokens [UNK]"
    )


def read_warnings(info: RecordsInfo, folder: str) -> list[str]:
    """Returns the warnings about a finished records folder."""
    found = json.loads(files.read_bytes(FileSystems.join(folder, STATISTICS_FILE), "--output"))
    made_with = MadeWith(
        info.parameters["masked_lm_prob"],
        info.parameters["dupe_factor"],
        info.counts["documents"]["used"],
        info.vocabulary["size"],
        info.parameters["pairs"],
    )
    return warn(RecordStatistics.from_json(found["counts"]), {}, made_with)
