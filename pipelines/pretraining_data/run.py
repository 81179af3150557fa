"""Runs a job that makes records: checks the output, shows the progress, sums up the result."""

import dataclasses
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import StandardOptions

from beambert import locks, storage
from beambert.console import Describe, counted, duration, size
from beambert.errors import InputError
from beambert.pipelines.corpus.reading import sample_documents
from beambert.pipelines.corpus.sources import describe_reading
from beambert.pipelines.input_files import describe_links
from beambert.pipelines.metrics import describe_stages
from beambert.pipelines.pretraining_data import dataflow_cost
from beambert.pipelines.pretraining_data.graph import CreatePretrainingData
from beambert.pipelines.pretraining_data.job import PretrainingDataJob
from beambert.pipelines.pretraining_data.plan import Plan, find_inputs, make_plan
from beambert.pipelines.pretraining_data.shuffle import spill_prefix
from beambert.pipelines.pretraining_data.source_shares import describe_sources, source_warnings
from beambert.pipelines.pretraining_data.split_shares import (
    describe_shares,
    held_out_shares,
    share_warning,
)
from beambert.pipelines.pretraining_data.summary import read_warnings, summarize, waste_warnings
from beambert.pipelines.records.contract import INFO_FILE, RecordsInfo
from beambert.pipelines.running import (
    check_reachable,
    fit_processes,
    path_for_workers,
    run_job,
    translate_job,
    works_here,
)
from beambert.pipelines.text.languages import language_notes
from beambert.pipelines.text.preparation import LINE
from beambert.pipelines.text.sentences import divided_word_notes, segmenter_notes
from beambert.pipelines.tokenizers.text_warnings import warn_of_lost_marks
from beambert.process import loading, undone_at_end

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
    with locks.folders_held(plan.output_folders(), "--output") as lock:
        if plan.claim_folders():
            print(f"{job.output}: already finished by the same command, nothing to do")
        else:
            _run(plan, options, is_alone=lock.is_exclusive)
    training: dict[int, RecordsInfo] = {}
    for folder in plan.layout.folders():
        path = FileSystems.join(folder.path, INFO_FILE)
        info = RecordsInfo.from_json(storage.read_bytes(path, "--output").decode(), path)
        print(summarize(info, folder.path, folder.is_eval))
        warnings = read_warnings(info, folder.path)
        for line in describe_sources(info.counts):
            print(line)
        if folder.is_eval:
            source = None if folder.source is None else plan.layout.sources[folder.source]
            shares = held_out_shares(training[folder.parameters.max_seq_length], info, source)
            print(describe_shares(shares, job.eval_fraction))
            warnings += filter(None, [share_warning(shares, job.eval_fraction)])
        else:
            training[folder.parameters.max_seq_length] = info
            warnings += waste_warnings(info)
            warnings += source_warnings(info.counts, job.max_epochs_per_source)
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
    total_bytes = sum(file.bytes for file in plan.inputs)
    print(f"{counted(len(plan.inputs), 'file')}, {size(total_bytes)}: sampling …", flush=True)
    with loading():  # it imports TensorFlow
        from beambert.pipelines.pretraining_data import estimate
    options_of_text = {
        "vocabulary": plan.manifest.vocabulary,
        "read_options": plan.read_options(),
        "text_options": plan.text_options,
        "layout": plan.layout,
        "evaluation": plan.evaluation,
    }
    sources: Mapping[str, Any] = {}
    mixture = plan.manifest.mixture
    if mixture:
        found, sources = estimate.estimate_sources(
            plan.inputs_by_source(), mixture, **options_of_text
        )
    else:
        found = estimate.estimate(plan.inputs, **options_of_text)
    for note in _notes(plan):
        print(note)
    print(estimate.describe(found, plan.layout))
    for line in describe_sources({"sources": sources}):
        print(line)
    for warning in source_warnings({"sources": sources}, job.max_epochs_per_source):
        print(f"  warning: {warning}")
    if on_dataflow and found.used:
        job_size = estimate.job_size(
            found,
            1 / found.share,
            total_bytes,
            len(plan.inputs),
            plan.layout.total_shards,
            plan.layout.record_files,
            measures_sources=bool(mixture and mixture.needs_sizes),
        )
        print(dataflow_cost.describe_graph(translated.job.proto_pipeline))
        print(dataflow_cost.describe_cost(job_size, workers))


def _plan(job: PretrainingDataJob, options: "PipelineOptions") -> Plan | None:
    """Returns the plan of a job, or None with a message if there is no file to read."""
    of_sources = job.patterns if job.source else ()
    check_reachable(
        options,
        input=job.input,
        source=of_sources,
        decontaminate=job.decontaminate,
        output=job.output,
    )
    job = dataclasses.replace(job, output=path_for_workers(job.output, options))
    everything, inputs = find_inputs(job)
    flag = "--source" if job.source else "--input"
    if job.since and not inputs:
        print(f"nothing new: all files of {flag} are in the records of {', '.join(job.since)}")
        return None
    if job.leave_out and not inputs:
        raise InputError(
            f"--leave_out={job.leave_out}: names all files of {flag}; take those to read out of it"
        )
    return make_plan(job, everything, inputs)


def _notes(plan: Plan) -> list[str]:
    """Returns the lines that say what is assumed of the files, and what their text would lose."""
    inputs = plan.inputs
    notes = [*plan.notes, *describe_links(inputs)]
    documents = sample_documents(inputs, plan.read_options())
    job, texts = plan.job, [document.text for document in documents]
    if job.sentences != LINE:
        whole = [document for document in documents if not document.is_split]
        silent = [document.text for document in whole if not document.language]
        notes += language_notes(silent, job.language)
        notes += divided_word_notes(document.text for document in whole)
    if job.language_column and not any(document.language for document in documents):
        notes.append(
            f"--language_column={job.language_column}: no document of a sample names its language "
            f"there; such documents are of --language={job.language}"
        )
    notes += segmenter_notes(texts, job.segmenter, job.hides_words)
    if job.do_lower_case and not job.tokenizer:
        notes += warn_of_lost_marks(texts)
    return notes


def _run(plan: Plan, options: "PipelineOptions", is_alone: bool) -> None:
    """Runs the pipeline, and prints the size of the input and the time by stage.

    Args:
      plan: plan of the job.
      options: Beam's options.
      is_alone: whether certainly no other command fills the folders. Only then is anything deleted
        in them if the job fails.
    """
    output, shards = plan.layout.output, plan.layout.total_shards
    total_bytes = sum(file.bytes for file in plan.inputs)
    options, note = fit_processes(options, total_bytes)
    if works_here(options):
        with loading():  # their import prints; do it now
            import beambert.pipelines.records.reading
            import beambert.pipelines.tokenizers.encoding  # noqa: F401

    def delete_spills() -> None:
        storage.delete_prefixed(output, spill_prefix(plan.run))

    try:
        notes = [*filter(None, [note]), *_notes(plan)]
        print(
            f"{counted(len(plan.inputs), 'file')}, {size(total_bytes)} -> "
            f"{counted(shards, 'shard')} in {output}",
            flush=True,
        )
        for note in notes:
            print(note, flush=True)
        with undone_at_end(delete_spills):
            stages = run_job(
                lambda pipeline, folder: pipeline | CreatePretrainingData(plan.job, folder, plan),
                options,
                describe_progress(total_bytes, shards),
                total_bytes / 1e6,
                "MB",
            )
    except BaseException as error:
        delete_spills()
        if isinstance(error, InputError):
            if is_alone:
                plan.release_folders()
            else:
                print(
                    f"{output}: stays as it is, since another command may be at work there; delete "
                    "it before you give other flags",
                    file=sys.stderr,
                )
        raise
    if line := describe_stages(stages):
        print(line)


def describe_progress(total_bytes: int, shards: int) -> Describe:
    """Returns the function that makes the progress line from the counts and the seconds so far.

    The job first reads all documents and then writes the shards. The time left appears when the
    first shard is complete.
    """
    reading, seconds_read = describe_reading(total_bytes), 0.0

    def describe(counts: dict[str, int], seconds: float) -> str:
        nonlocal seconds_read
        if not counts.get("instances"):
            seconds_read = seconds
            return reading(counts, seconds)
        done, rate = counts.get("shards", 0), counts["instances"] / (seconds - seconds_read)
        line = f"writing: {counted(counts['instances'], 'instance')}, {rate:,.0f}/s"
        line += f", {done} of {counted(shards, 'shard')}"
        if done:
            left = (seconds - seconds_read) * (shards - done) / done
            line += f", {duration(left)} left"
        return line

    return describe
