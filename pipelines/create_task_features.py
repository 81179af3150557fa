"""`beambert features`: the files of a task -> features to fine-tune on, with Apache Beam."""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from beambert.pipelines.jobs.running import (
    BEAM_HELP,
    beam_options,
    check_reachable,
    library_versions,
    run_job,
    works_here,
)
from beambert.pipelines.records.contract import INFO_FILE
from beambert.pipelines.shared.console import duration, run_main
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.flags import FlagParser, parse_bool
from beambert.pipelines.shared.loading import loading
from beambert.pipelines.tasks.declarations import (
    DEFAULT_LENGTH,
    DEFAULT_SPAN_LENGTH,
    SHORTEST_LENGTH,
    SPAN,
)
from beambert.pipelines.tasks.flags import add_task_flags, task_of
from beambert.pipelines.wordpiece.vocabulary import Vocabulary

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import PipelineResult

    from beambert.pipelines.features.job import FeatureJob, Shard

EXAMPLES = f"""examples:
  # GLUE's SST-2, with the vocabulary of the encoder that is to be fine-tuned
  beambert features --task=sst-2 --data_dir=glue/SST-2 --vocab_file=encoder/vocab.txt \\
      --output=sst-2-features

  # SQuAD, on two processes
  beambert features --task=squad2.0 --data_dir=squad --vocab_file=encoder/vocab.txt \\
      --output=squad-features --direct_num_workers=2 --direct_running_mode=multi_processing

`beambert finetune --features=` takes them. {BEAM_HELP}"""


def build_parser() -> FlagParser:
    """Returns the command's flags."""
    parser = FlagParser(
        prog="beambert features",
        description="Makes the features of a task: of train, dev and the test files that are "
        "there, TFRecords with a schema.",
        examples=EXAMPLES,
    )
    add_task_flags(parser)
    add = parser.add_argument
    add("--vocab_file", required=True, help="the encoder's vocab.txt")
    add("--do_lower_case", type=parse_bool, default=True, help="default: True")
    add(
        "--max_seq_length",
        type=int,
        help=f"most tokens of a sequence (default: {DEFAULT_LENGTH}; {DEFAULT_SPAN_LENGTH} for "
        "questions)",
    )
    add("--output", required=True, metavar="DIR", help="features folder to make")
    return parser


def create_task_features(
    job: "FeatureJob",
    shards: Sequence["Shard"],
    options: "PipelineOptions",
    progress_folder: str | None,
) -> "PipelineResult":
    """Builds the pipeline and runs it to its end."""
    import apache_beam as beam

    from beambert.pipelines.features.transforms import FinishFeatures, WriteFeatures

    with beam.Pipeline(options=options) as pipeline:
        reports = (
            pipeline
            | "Shards" >> beam.Create(shards)
            | "Spread" >> beam.Reshuffle()
            | "Write" >> beam.ParDo(WriteFeatures(job, progress_folder))
        )
        (
            pipeline
            | "Once" >> beam.Create([None])
            | "Finish" >> beam.ParDo(FinishFeatures(job), beam.pvalue.AsIter(reports))
        )
    return pipeline.result


def describe_progress(total: int) -> Callable[[dict[str, int], float], str]:
    """Returns what makes the progress line of the counts and seconds so far."""

    def describe(counts: dict[str, int], seconds: float) -> str:
        done = counts.get("examples", 0)
        if not done:
            return ""
        left = duration(seconds * (total - done) / done)
        return f"{done:,} of {total:,} examples, {done / seconds:,.0f}/s, {left} left"

    return describe


def _length(flags: argparse.Namespace, kind: str) -> int:
    if flags.max_seq_length is None:
        return DEFAULT_SPAN_LENGTH if kind == SPAN else DEFAULT_LENGTH
    if flags.max_seq_length < SHORTEST_LENGTH:
        raise InputError(
            f"--max_seq_length={flags.max_seq_length}: must be at least {SHORTEST_LENGTH}"
        )
    return flags.max_seq_length


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: what was given can't be used.
    """
    flags, beam_flags = build_parser().parse_known_args(list(argv))
    task = task_of(flags)
    length = _length(flags, task.kind)
    with loading():
        options = beam_options(beam_flags)
        from beambert.pipelines.features.job import make_job, make_shards, read_inputs
        from beambert.pipelines.jobs import files

        if works_here(options):
            import beambert.pipelines.features.encoding  # noqa: F401  (its import prints; do it now)
    check_reachable(options, output=flags.output)
    vocabulary = Vocabulary.parse(
        files.read_bytes(flags.vocab_file, "--vocab_file"), f"--vocab_file={flags.vocab_file}"
    )
    vocabulary.check_case(flags.do_lower_case)
    inputs = read_inputs(task, flags.data_dir, flags.skip_bad_rows)
    output = files.absolute(flags.output)
    job = make_job(
        task, inputs, vocabulary, flags.do_lower_case, length, output, library_versions()
    )
    if files.claim_output(output, job.identity()):
        print(f"{output}: already finished by the same command, nothing to do")
    else:
        for sentence in inputs.sentences:
            print(f"left out: {sentence}" if task.kind != SPAN else sentence)
        examples = sum(len(of) for of in inputs.examples.values())
        total_bytes = sum(path.stat().st_size for path in inputs.files.values())
        run_job(
            lambda folder: create_task_features(job, make_shards(inputs), options, folder),
            options,
            total_bytes,
            describe_progress(examples),
        )
    print(_summarize(output))


def _summarize(output: str) -> str:
    """Returns what a user wants to know of a finished features folder."""
    from beambert.pipelines.features.contract import LOST_TOKENS, FeaturesInfo
    from beambert.pipelines.jobs import files

    path = f"{output}/{INFO_FILE}"
    info = FeaturesInfo.from_json(files.read_bytes(path, "--output").decode(), path)
    lines = [output]
    for split, of in info.splits.items():
        lines.append(
            f"  {split}: {of['used']:,} of {of['read']:,} examples, {of['sequences']:,} sequences, "
            f"{of['tokens'] / of['sequences']:.1f} tokens each; "
            f"{of[LOST_TOKENS]:,} lost tokens"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(run_main("features", main, sys.argv[1:]))
