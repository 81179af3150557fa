"""`beambert data`: a corpus -> pre-training records, with Apache Beam."""

import argparse
import json
import sys
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from beambert.pipelines.corpus.flags import describe_reading
from beambert.pipelines.jobs.running import (
    beam_options,
    check_reachable,
    library_versions,
    plain_errors,
    run_job,
    works_here,
)
from beambert.pipelines.pretraining_data.flags import (
    build_parser,
    check_flags,
    default_num_shards,
    job_parameters,
    plan_lengths,
    text_options,
)
from beambert.pipelines.records.contract import INFO_FILE, STATISTICS_FILE, RecordsInfo
from beambert.pipelines.shared.console import duration, quiet_stderr, run_main
from beambert.pipelines.shared.loading import loading
from beambert.pipelines.wordpiece.vocabulary import Vocabulary

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import PipelineResult

    from beambert.pipelines.pretraining_data.finishing import Manifest
    from beambert.pipelines.pretraining_data.layout import Layout


def create_pretraining_data(
    flags: argparse.Namespace,
    options: "PipelineOptions",
    manifest: "Manifest",
    layout: "Layout",
    run: str,
    progress_folder: str | None,
) -> "PipelineResult":
    """Builds the pipeline and runs it to its end."""
    import apache_beam as beam

    from beambert.pipelines.corpus import transforms as transforms_transforms
    from beambert.pipelines.corpus.reading import ReadOptions
    from beambert.pipelines.pretraining_data import transforms
    from beambert.pipelines.pretraining_data.finishing import FinishFolders
    from beambert.pipelines.text.preparation import NEAR

    read_options = ReadOptions(flags.format, flags.text_column, progress_folder)
    with beam.Pipeline(options=options) as pipeline:
        tokenized = (
            pipeline
            | "Files" >> beam.Create(manifest.inputs)
            | "Split" >> beam.ParDo(transforms_transforms.SplitFiles(read_options))
            | "Spread" >> beam.Reshuffle()
            | "Tokenize"
            >> beam.ParDo(
                transforms.TokenizeParts(
                    manifest.vocabulary, read_options, text_options(flags), layout, run
                )
            ).with_outputs(
                transforms_transforms.COUNTS,
                transforms_transforms.REJECTS,
                transforms.BANDS,
                main="documents",
            )
        )
        # Every shard gets a file, also one that no document fell to.
        every_shard = [(key, b"") for key in range(layout.total_shards)]
        in_shards = [tokenized.documents, pipeline | "Shards" >> beam.Create(every_shard)]
        if flags.duplicates == NEAR:
            in_shards.append(
                tokenized[transforms.BANDS]
                | "Bands" >> beam.GroupByKey()
                | "FindNearDuplicates" >> beam.ParDo(transforms.FindNearDuplicates(layout))
            )
        shards = (
            in_shards
            | beam.Flatten()
            | beam.GroupByKey()
            | "WriteShards"
            >> beam.ParDo(
                transforms.WriteShard(
                    manifest.vocabulary, layout, flags.duplicates, progress_folder
                )
            )
        )
        (
            pipeline
            | "Once" >> beam.Create([None])
            | "Finish"
            >> beam.ParDo(
                FinishFolders(manifest, layout),
                beam.pvalue.AsIter(shards),
                beam.pvalue.AsIter(tokenized[transforms_transforms.COUNTS]),
                beam.pvalue.AsIter(tokenized[transforms_transforms.REJECTS]),
            )
        )
    return pipeline.result


def describe_progress(total_bytes: int, shards: int) -> Callable[[dict[str, int], float], str]:
    """Returns what makes the progress line of the counts and seconds so far.

    Reading comes first, then writing; a worker begins a shard before another's is done, so the
    time left shows after the first one.
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
    """Returns what a user wants to know of a finished records folder."""
    counts = info.counts
    documents = counts["documents"]
    dropped = sum(documents["dropped"].values()) + sum(documents["rejected"].values())
    size = sum(file["bytes"] for file in info.files)
    return (
        f"{folder}: {counts['instances']:,} instances in {len(info.files)} files "
        f"({size / 1e6:.1f} MB) from {documents['used']:,} of {documents['read']:,} documents "
        f"({dropped:,} dropped); {counts['is_next_share']:.2%} is next, "
        f"{counts['filled_share']:.1%} of positions filled, "
        f"{counts['unknown_share']:.3%} unknown tokens"
    )


def read_warnings(info: RecordsInfo, folder: str) -> list[str]:
    """Returns what a user should be warned of in a finished records folder."""
    from apache_beam.io.filesystems import FileSystems

    from beambert.pipelines.jobs.files import read_bytes
    from beambert.pipelines.records.figures import MadeWith, warn
    from beambert.pipelines.records.statistics import RecordStatistics

    found = json.loads(read_bytes(FileSystems.join(folder, STATISTICS_FILE), "--output"))
    made_with = MadeWith(
        info.parameters["masked_lm_prob"],
        info.parameters["dupe_factor"],
        info.counts["documents"]["used"],
        info.vocabulary["size"],
    )
    return warn(RecordStatistics.from_json(found["counts"]), {}, made_with)


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: what was given can't be used.
    """
    flags, beam_flags = build_parser().parse_known_args(list(argv))
    check_flags(flags)
    with loading():
        options = beam_options(beam_flags)
        from beambert.pipelines.jobs import files, input_files
        from beambert.pipelines.pretraining_data.finishing import Manifest
        from beambert.pipelines.pretraining_data.layout import Layout

        if works_here(options):
            import beambert.pipelines.records.decoding
            import beambert.pipelines.wordpiece.tokenization  # noqa: F401  (its import prints; do it now)
    check_reachable(options, input=flags.input, output=flags.output)
    inputs = input_files.match_inputs(flags.input)
    if flags.since:
        from beambert.pipelines.pretraining_data.since import new_inputs

        inputs = new_inputs(inputs, flags.since, flags.output)
        if not inputs:
            print(
                f"nothing new: every file of --input is in the records of {', '.join(flags.since)}"
            )
            return
    vocabulary = Vocabulary.parse(
        files.read_bytes(flags.vocab_file, "--vocab_file"), f"--vocab_file={flags.vocab_file}"
    )
    vocabulary.check_case(flags.do_lower_case)
    layout = Layout(
        flags.output,
        plan_lengths(flags),
        flags.num_shards or default_num_shards(inputs),
        flags.eval_fraction,
        flags.compression,
    )
    manifest = Manifest(
        parameters=job_parameters(flags, layout),
        vocabulary=vocabulary,
        inputs=inputs,
        versions=library_versions(),
        max_reject_fraction=flags.max_reject_fraction,
    )
    if flags.dry_run:
        show_estimate(flags, options, manifest, layout)
    else:
        run(flags, options, manifest, layout)


def show_estimate(
    flags: argparse.Namespace, options: "PipelineOptions", manifest: "Manifest", layout: "Layout"
) -> None:
    """Says what the records would be, and a job on Dataflow; makes and sends nothing.

    Raises:
      InputError: an input or an option can't be used.
    """
    from apache_beam.options.pipeline_options import StandardOptions, TestOptions

    from beambert.pipelines.corpus.reading import ReadOptions
    from beambert.pipelines.pretraining_data import dataflow_cost, estimate

    on_dataflow = options.view_as(StandardOptions).runner == "DataflowRunner"
    if on_dataflow:  # first: options that can't be used are told of at once
        workers = dataflow_cost.find_workers(options, flags.vcpu_hour_price)
        options.view_as(TestOptions).dry_run = True  # translates the pipeline and stops
        with quiet_stderr(), plain_errors():
            job = create_pretraining_data(flags, options, manifest, layout, "dry-run", None).job
    read_options = ReadOptions(flags.format, flags.text_column)
    found = estimate.estimate(
        manifest.inputs, manifest.vocabulary, read_options, text_options(flags), layout
    )
    print(estimate.describe(found, layout))
    if on_dataflow and found.used:
        seconds = found.seconds / found.share
        print(dataflow_cost.describe_graph(job.proto_pipeline))
        print(dataflow_cost.describe_cost(seconds, layout.total_shards, workers))


def run(
    flags: argparse.Namespace, options: "PipelineOptions", manifest: "Manifest", layout: "Layout"
) -> None:
    """Fills the folders, unless they are full, and says what is in them.

    Raises:
      InputError: a folder holds something else, or an input can't be used.
    """
    from apache_beam.io.filesystems import FileSystems

    from beambert.pipelines.jobs import files
    from beambert.pipelines.jobs.clock import describe_stages, stage_seconds
    from beambert.pipelines.pretraining_data.spills import spill_prefix
    from beambert.pipelines.storage.claims import TEMPORARY_PREFIX

    folders = layout.folders()
    if len(layout.lengths) > 1:
        lengths = {str(parameters.max_seq_length) for parameters in layout.lengths}
        files.refuse_others(layout.output, lengths)
    # Every folder is claimed before any is written to.
    is_finished = [files.claim_output(f.path, manifest.job(f)) for f in folders]
    if all(is_finished):
        print(f"{layout.output}: already finished by the same command, nothing to do")
    else:
        for folder, finished in zip(folders, is_finished, strict=True):
            if finished:
                files.reopen_output(folder.path, manifest.job(folder))
        total_bytes = sum(file.bytes for file in manifest.inputs)
        shards = layout.total_shards
        print(
            f"{len(manifest.inputs)} files, {total_bytes / 1e6:.1f} MB -> {shards} shards in "
            f"{layout.output}",
            flush=True,
        )
        run_name = uuid.uuid4().hex[:8]
        try:
            result = run_job(
                lambda folder: create_pretraining_data(
                    flags, options, manifest, layout, run_name, folder
                ),
                options,
                total_bytes,
                describe_progress(total_bytes, shards),
            )
        except BaseException:
            files.delete_prefixed(layout.output, spill_prefix(run_name))
            raise
        files.delete_prefixed(layout.output, TEMPORARY_PREFIX)
        if line := describe_stages(stage_seconds(result)):
            print(line)
    for folder in folders:
        path = FileSystems.join(folder.path, INFO_FILE)
        info = RecordsInfo.from_json(files.read_bytes(path, "--output").decode(), path)
        print(summarize(info, folder.path))
        for warning in read_warnings(info, folder.path):
            print(f"  warning: {warning}")


if __name__ == "__main__":
    sys.exit(run_main("data", main, sys.argv[1:]))
