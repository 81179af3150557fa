"""Runs a job that makes features: claims the output, shows progress, prints a summary."""

import dataclasses
from typing import TYPE_CHECKING

from apache_beam.io.filesystems import FileSystems

from beambert.loading import loading
from beambert.pipelines.features.contract import FLAGS_OF, LOST_TOKENS, FeaturesInfo
from beambert.pipelines.features.graph import EXAMPLES_FILE, CreateTaskFeatures, plan_features
from beambert.pipelines.features.job import FeaturesJob, FeaturesPlan
from beambert.pipelines.files import beam_files
from beambert.pipelines.jobs.running import (
    check_reachable,
    describe_examples,
    path_for_workers,
    run_job,
    works_here,
)
from beambert.pipelines.records.contract import INFO_FILE
from beambert.pipelines.storage import locks
from beambert.pipelines.tasks.splits import TaskSplits

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions


def create_task_features(job: FeaturesJob, options: "PipelineOptions") -> None:
    """Makes the features folder, unless it is finished already, and prints a summary.

    Raises:
      InputError: the folder holds something else, or a file cannot be used.
    """
    check_reachable(options, output=job.output)
    job = dataclasses.replace(job, output=path_for_workers(job.output, options))
    plan, inputs = plan_features(job)
    with locks.folders_held([plan.output], "--output"):
        if beam_files.claim_output(plan.output, plan.identity(), FLAGS_OF):
            print(f"{plan.output}: already finished by the same command, nothing to do")
        else:
            _run(plan, inputs, job, options)
    print(summarize(plan.output))


def _run(
    plan: FeaturesPlan, inputs: TaskSplits, job: FeaturesJob, options: "PipelineOptions"
) -> None:
    for sentence in inputs.notes:
        print(sentence)
    if works_here(options):
        with loading():  # its import prints, so it happens here
            import beambert.pipelines.features.encoding  # noqa: F401
    try:
        run_job(
            lambda pipeline, folder: pipeline | CreateTaskFeatures(job, folder, (plan, inputs)),
            options,
            describe_examples(sum(len(example) for example in inputs.examples.values())),
            sum(path.stat().st_size for path in inputs.files.values()) / 1e6,
            "MB",
            output=plan.output,
        )
    except BaseException:
        beam_files.delete_quietly([FileSystems.join(plan.output, EXAMPLES_FILE)])
        raise


def summarize(output: str) -> str:
    """Returns a summary of a finished features folder: examples, sequences and tokens by split."""
    path = f"{output}/{INFO_FILE}"
    info = FeaturesInfo.from_json(beam_files.read_bytes(path, "--output").decode(), path)
    lines = [output]
    for split, counts in info.splits.items():
        lines.append(
            f"  {split}: {counts['used']:,} of {counts['read']:,} examples, "
            f"{counts['sequences']:,} sequences, "
            f"{counts['tokens'] / counts['sequences']:.1f} tokens each; "
            f"{counts[LOST_TOKENS]:,} sequences lost tokens"
        )
    return "\n".join(lines)
