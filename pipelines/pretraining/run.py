"""Runs a job that makes records: checks the output, shows the progress, sums up the result."""

import dataclasses
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from beambert import io
from beambert.console import Describe, counted, describe_bytes, duration, size
from beambert.errors import InputError
from beambert.folders import folders_held
from beambert.pipelines.corpus.reading import layout_notes, sample_files
from beambert.pipelines.corpus.sources import describe_changes
from beambert.pipelines.pretraining.graph import CreatePretrainingData, describe_dropped
from beambert.pipelines.pretraining.job import PretrainingDataJob
from beambert.pipelines.pretraining.layout import spill_prefix
from beambert.pipelines.pretraining.mixture import describe_sources, source_warnings
from beambert.pipelines.pretraining.plan import Plan, find_inputs, make_plan
from beambert.pipelines.records.contract import (
    COPY,
    INFO_FILE,
    OVERLAP,
    OVERLAPS_FILE,
    SOP,
    STATISTICS_FILE,
    RecordsInfo,
)
from beambert.pipelines.records.statistics import RecordStatistics, warn
from beambert.pipelines.running import (
    check_reachable,
    on_this_machine,
    path_for_workers,
    run_job,
    works_here,
)
from beambert.pipelines.text.languages import language_notes
from beambert.pipelines.text.preparation import SENTENCEX
from beambert.pipelines.text.sentences import divided_word_notes, segmenter_notes
from beambert.pipelines.tokenizers.text_warnings import warn_of_lost_marks
from beambert.process import loading, undone_at_end

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions


@on_this_machine
def create_pretraining_data(
    job: PretrainingDataJob, options: "PipelineOptions | None" = None
) -> None:
    """Makes the records folders, unless the same job has finished them, and prints a summary.

    Raises:
      InputError: a folder holds something else, or an input cannot be used.
    """
    plan = _plan(job, options)
    if plan is None:
        return
    with folders_held(plan.output_folders(), "--output") as lock:
        if plan.claim_folders():
            print(f"{job.output}: already finished by the same command, nothing to do")
        else:
            _run(plan, options, is_alone=lock.is_exclusive)
    training: dict[int, RecordsInfo] = {}
    for folder in plan.layout.folders():
        path = f"{folder.path}/{INFO_FILE}"
        info = RecordsInfo.from_json(io.read_bytes(path, "--output").decode(), path)
        print(summarize(info, folder.path, folder.is_eval))
        found = io.read_object(f"{folder.path}/{STATISTICS_FILE}", "counts", flag="--output")
        warnings = warn(RecordStatistics.from_json(found["counts"]), {}, info)
        for line in describe_sources(info.counts):
            print(line)
        if folder.is_eval:
            source = None if folder.source is None else plan.layout.sources[folder.source]
            of_length = training[folder.parameters.max_seq_length]
            for line in held_out_lines(of_length, info, job.eval_fraction, source):
                print(line)
        else:
            training[folder.parameters.max_seq_length] = info
            warnings += waste_warnings(info)
            warnings += source_warnings(info.counts, job.max_epochs_per_source)
        if folder == plan.layout.folders()[-1]:
            warnings += loss_warnings(info.counts["documents"])
        for warning in warnings:
            print(f"  warning: {warning}")


def estimate_pretraining_data(job: PretrainingDataJob, options: "PipelineOptions") -> None:
    """Prints an estimate of the records and of the time, without making any.

    Args:
      job: the records to estimate.
      options: Beam's options.

    Raises:
      InputError: an input or an option cannot be used.
    """
    plan = _plan(job, options)
    if plan is None:
        return
    total_bytes = sum(file.bytes for file in plan.inputs)
    print(f"{counted(len(plan.inputs), 'file')}, {size(total_bytes)}: sampling …", flush=True)
    with loading():
        from beambert.pipelines.pretraining.estimate import describe, estimate
    found = estimate(plan)
    for note in _notes(plan):
        print(note)
    print(describe(found, plan))


def _plan(job: PretrainingDataJob, options: "PipelineOptions") -> Plan | None:
    """Returns the plan of a job, or None with a message if there is no file to read."""
    job.check_given()
    of_sources = job.patterns if job.source else ()
    check_reachable(
        options,
        input=job.input,
        source=of_sources,
        decontaminate=job.decontaminate,
        sentence_model=[job.sentence_model] if job.sentence_model else (),
        output=job.output,
    )
    job = dataclasses.replace(job, output=path_for_workers(job.output, options))
    inputs = find_inputs(job)
    flag = "--source" if job.source else "--input"
    if job.since and not inputs:
        print(f"nothing new: all files of {flag} are in the records of {', '.join(job.since)}")
        return None
    if job.leave_out and not inputs:
        raise InputError(
            f"--leave_out={job.leave_out}: names all files of {flag}; take those to read out of it"
        )
    return make_plan(job, inputs)


def _notes(plan: Plan) -> list[str]:
    """Returns the lines that say what is assumed of the files, and what their text would lose."""
    inputs = plan.inputs
    options = plan.read_options()
    samples = sample_files(inputs, options)
    notes = [*plan.notes, *layout_notes(samples, options)]
    documents = [document for sample in samples for document in sample.documents]
    job, texts = plan.job, [document.text for document in documents]
    whole = [document for document in documents if not document.is_split]
    if job.sentences == SENTENCEX:
        silent = [document.text for document in whole if not document.language]
        notes += language_notes(silent, job.language)
    notes += divided_word_notes(whole)
    if job.language_column and not any(document.language for document in documents):
        notes.append(
            f"--language_column={job.language_column}: no document of a sample names its language "
            f"there; such documents are of --language={job.language}"
        )
    notes += segmenter_notes(texts, job.segmenter, job.hides_words)
    # `beambert vocab` has said it of its own vocabulary.
    if job.do_lower_case and not (job.tokenizer or io.exists(f"{job.vocab_file}.json")):
        notes += warn_of_lost_marks(texts)
    return notes


def _run(plan: Plan, options: "PipelineOptions", is_alone: bool) -> None:
    """Runs the pipeline, and prints the size of the input.

    Args:
      plan: plan of the job.
      options: Beam's options.
      is_alone: whether certainly no other command fills the folders. Only then is anything deleted
        in them if the job fails.
    """
    output, shards = plan.job.output, plan.layout.total_shards
    total_bytes = sum(file.bytes for file in plan.inputs)
    if works_here(options):
        with loading():  # its import prints; do it now
            import beambert.pipelines.records.reading  # noqa: F401

    def delete_spills() -> None:
        io.delete_prefixed(output, spill_prefix(plan.run))

    try:
        notes = _notes(plan)
        print(
            f"{counted(len(plan.inputs), 'file')}, {size(total_bytes)} -> "
            f"{counted(shards, 'shard')} in {output}",
            flush=True,
        )
        for note in notes:
            print(note, flush=True)
        with undone_at_end(delete_spills):
            run_job(
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


def describe_progress(total_bytes: int, shards: int) -> Describe:
    """Returns the function that makes the progress line from the counts and the seconds so far.

    The job first reads all documents and then writes the shards. The time left appears when the
    first shard is complete.
    """
    reading, seconds_read = describe_bytes("reading", "documents", total_bytes), 0.0

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


# The summary of a finished records folder: one line, and warnings.

# Prose in records of 32 tokens loses half of its pairs' tokens.
MOST_CUT = 0.75
# Of prose a fifth of such pairs is made of chunks of one sentence, of abstracts more than half.
MOST_FORCED = 0.35
# Small encoders learn from records of up to this many tokens, see docs/pretraining.md.
_LONGEST_OF_SMALL = 64


def summarize(info: RecordsInfo, folder: str, is_eval: bool) -> str:
    """Returns the line that sums up a finished records folder."""
    counts = info.counts
    documents = counts["documents"]
    elsewhere = documents.get("in_other_split", 0)
    left_out = describe_dropped(documents)
    if OVERLAP in documents["dropped"]:
        left_out += f", see {OVERLAPS_FILE}"
    if elsewhere:
        # Segments of a long document may be on both sides; it is counted where its first one is.
        where = "training" if is_eval else "what is held out"
        if is_eval and "source" in info.parameters:
            where = "training or in what is held out of other sources"
        left_out += f", {elsewhere:,} {'begins' if elsewhere == 1 else 'begin'} in {where}"
    stored = sum(file["bytes"] for file in info.files)
    cleaned = describe_changes("cleaned", documents.get("cleaned", {}))
    cleaned += describe_changes("replaced", documents.get("scrubbed", {}))
    return (
        f"{folder}: {counted(counts['instances'], 'instance')} in "
        f"{counted(len(info.files), 'file')} ({size(stored)}) "
        f"from {documents['used']:,} of {counted(documents['read'], 'document')} "
        f"({left_out}{cleaned}); "
        f"{_describe_instances(info)}, "
        f"{counts['unknown_share']:.3%} of the documents' tokens [UNK]"
    )


def _describe_instances(info: RecordsInfo) -> str:
    counts = info.counts
    filled = f"{counts['filled_share']:.1%} of the positions filled"
    if not info.has_label:
        return filled
    are = {SOP: "in order", COPY: "copies"}.get(info.parameters["pairs"], "next")
    return (
        f"{counts['is_next_share']:.2%} of the instances are {are}, {filled}, "
        f"{_cut_share(counts):.1%} of the pairs' tokens cut off to fit"
    )


def _cut_share(counts: Mapping[str, Any]) -> float:
    # An instance has three special tokens.
    kept = counts["filled_tokens"] - 3 * counts["instances"]
    cut = counts["truncated_tokens"]
    return cut / max(cut + kept, 1)


def waste_warnings(info: RecordsInfo) -> list[str]:
    """Returns the warnings about records for training that leave text out or repeat it."""
    parameters, warnings = info.parameters, []
    length, forced = parameters["max_seq_length"], info.counts.get("forced_random_next", 0)
    if info.has_label and forced > MOST_FORCED * max(1, info.counts["instances"]):
        warnings.append(
            f"{forced / info.counts['instances']:.1%} of the pairs have a random B because what "
            f"fits into {length} tokens is one sentence, so the labels say little; give "
            "--pairs=none, from which --objective=mlm and the recipes modern_… learn, or a "
            f"--max_seq_length of {max(_LONGEST_OF_SMALL, 2 * length)}"
        )
    if info.has_label and (share := _cut_share(info.counts)) > MOST_CUT:
        warnings.append(
            f"{share:.1%} of the pairs' tokens are cut off, as many sentences of this text are "
            f"longer than the records' {length} tokens; give --pairs=none, which cuts nothing "
            f"off, or a --max_seq_length of {max(_LONGEST_OF_SMALL, 2 * length)}; check --format"
        )
    if not info.has_label and not info.has_masks and (passes := parameters["dupe_factor"]) > 1:
        warnings.append(
            f"the {passes} passes over the text wrote nearly the same records, as they have no "
            "pairs and no masks; --dupe_factor=1 is enough"
        )
    return warnings


def loss_warnings(documents: Mapping[str, Any]) -> list[str]:
    """Returns the warning about a file of which more than half was lost, by info.json's counts."""
    if not (lost := documents.get("most_lost")):
        return []
    share = lost["removed_characters"] / max(1, lost["characters"])
    part = f" from byte {lost['byte']:,}" if lost["byte"] else ""
    of_all = f"{lost['lost']:,} of {counted(lost['documents'], 'document')}"
    return [
        f"{lost['file']}{part}: {of_all} dropped or rejected, {share:.0%} of the text removed; "
        "check the file, --format and the flags"
    ]


# A held-out share may differ from --eval_fraction by so much of it.
TOLERANCE = 0.25


def held_out_lines(
    training: RecordsInfo, held_out: RecordsInfo, eval_fraction: float, source: str | None = None
) -> list[str]:
    """Returns the line about the tokens that are held out, and a warning if they are too few.

    Args:
      training, held_out: info.json of the two splits, of the same length.
      eval_fraction: the share that was asked for.
      source: name of the only source of the held-out folder; None for all sources.
    """
    here, there = (info.counts for info in (held_out, training))
    names = list(here.get("sources", {})) if source is None else [source]
    tokens = {
        f"tokens of {name}": [each["sources"][name]["tokens"] for each in (here, there)]
        for name in names
        if source is not None or len(names) > 1
    }
    if source is None:
        tokens = {"tokens": [here["tokens"], there["tokens"]]} | tokens
    shares = {unit: out / (out + rest) for unit, (out, rest) in tokens.items() if out + rest}
    listed = ", ".join(f"{share:.2%} of the {unit}" for unit, share in shares.items())
    lines = [f"  held out: {listed} (--eval_fraction={eval_fraction:g})"]
    if any(abs(share - eval_fraction) > TOLERANCE * eval_fraction for share in shares.values()):
        lines.append(
            "  warning: the corpus is so small that single documents decide what is held out; "
            "raise --eval_fraction, or give more text"
        )
    return lines
