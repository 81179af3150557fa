"""`beambert vocab`: a corpus -> a WordPiece vocabulary, with Apache Beam."""

import argparse
import contextlib
import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from beambert.pipelines.corpus.flags import add_input_flags, describe_reading
from beambert.pipelines.jobs.running import (
    BEAM_HELP,
    beam_options,
    check_reachable,
    run_job,
    works_here,
)
from beambert.pipelines.shared.console import run_main
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.flags import FlagParser, check_minimum, check_shares, parse_bool
from beambert.pipelines.shared.loading import loading

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import PipelineResult

    from beambert.pipelines.jobs.input_files import InputFile

EXAMPLES = """examples:
  # as many tokens as the original release's uncased vocabulary
  beambert vocab --input 'wiki/*/wiki_*' 'books/*.txt' --output=vocab.txt

  # a small cased one
  beambert vocab --input=law.jsonl --output=vocab.txt --vocab_size=8000 --do_lower_case=False

Beside vocab.txt stands vocab.txt.json: the parameters, inputs and counts it was learned from.
"""


def build_parser() -> FlagParser:
    """Returns the command's flags."""
    parser = FlagParser(
        prog="beambert vocab",
        description="Learns a WordPiece vocabulary from a corpus.",
        examples=EXAMPLES + "\n" + BEAM_HELP,
    )
    add_input_flags(parser)
    add = parser.add_argument
    add("--output", required=True, metavar="FILE", help="vocab.txt to write")
    # The size of the original release's uncased English vocabulary.
    add("--vocab_size", type=int, default=30522, help="number of tokens (default: %(default)s)")
    add("--do_lower_case", type=parse_bool, default=True, help="False keeps case and accents")
    return parser


def create_vocabulary(
    flags: argparse.Namespace,
    options: "PipelineOptions",
    inputs: "list[InputFile]",
    job: dict[str, Any],
    progress_folder: str | None,
) -> "PipelineResult":
    """Builds the pipeline and runs it to its end."""
    import apache_beam as beam

    with loading():  # the learner comes with TensorFlow
        from beambert.pipelines.corpus import transforms as transforms_transforms
        from beambert.pipelines.corpus.reading import ReadOptions
        from beambert.pipelines.vocabulary_learning import learning, word_counts

    size, do_lower_case = flags.vocab_size, flags.do_lower_case
    most = learning.words_needed(size)
    read_options = ReadOptions(flags.format, flags.text_column, progress_folder)
    with beam.Pipeline(options=options) as pipeline:
        counted = (
            pipeline
            | "Files" >> beam.Create(inputs)
            | "Split" >> beam.ParDo(transforms_transforms.SplitFiles(read_options))
            | "Spread" >> beam.Reshuffle()
            | "CountWords"
            >> beam.ParDo(word_counts.CountWords(do_lower_case, read_options)).with_outputs(
                transforms_transforms.COUNTS, transforms_transforms.REJECTS, main="words"
            )
        )
        words = (
            counted.words
            | "Partition" >> beam.GroupByKey()
            | "SumPartition" >> beam.Map(word_counts.sum_partition, most)
            | "Sum" >> beam.CombineGlobally(learning.CorpusWords.merge, most)
        )
        characters = words | "Characters" >> beam.Map(
            learning.choose_characters, size, do_lower_case
        )
        uncovered = (
            counted.words
            | "Uncovered"
            >> beam.Map(word_counts.count_uncovered, beam.pvalue.AsSingleton(characters))
            | "SumUncovered" >> beam.CombineGlobally(sum)
        )
        learn = word_counts.LearnVocabulary(
            flags.output, size, do_lower_case, flags.max_reject_fraction, job
        )
        words | "Learn" >> beam.ParDo(
            learn,
            beam.pvalue.AsSingleton(characters),
            beam.pvalue.AsSingleton(uncovered),
            beam.pvalue.AsIter(counted[transforms_transforms.COUNTS]),
            beam.pvalue.AsIter(counted[transforms_transforms.REJECTS]),
        )
    return pipeline.result


def is_finished(output: str, job: dict[str, Any]) -> bool:
    """Whether the same job has written the output already.

    Raises:
      InputError: something else stands there.
    """
    from apache_beam.io.filesystems import FileSystems

    from beambert.pipelines.jobs.files import read_bytes
    from beambert.pipelines.vocabulary_learning.word_counts import job_file

    if not FileSystems.exists(output):
        return False
    if FileSystems.exists(job_file(output)):
        with contextlib.suppress(ValueError):  # a foreign or damaged file
            made_by = json.loads(read_bytes(job_file(output), "--output"))
            if isinstance(made_by, dict) and {n: made_by.get(n) for n in job} == job:
                return True
    raise InputError(
        f"--output={output}: already exists and was not made by this command with these inputs; "
        "choose another --output or delete it"
    )


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: what was given can't be used.
    """
    flags, beam_flags = build_parser().parse_known_args(list(argv))
    check_minimum(flags, 100, "vocab_size")
    check_shares(flags, "max_reject_fraction")
    with loading():
        options = beam_options(beam_flags)
        from beambert.pipelines.jobs import files, input_files

        if works_here(options):
            import beambert.pipelines.wordpiece.tokenization  # noqa: F401  (its import prints; do it now)
    check_reachable(options, input=flags.input, output=flags.output)
    inputs = input_files.match_inputs(flags.input)
    names = ("vocab_size", "do_lower_case", "format", "text_column")
    job = {
        "parameters": {name: getattr(flags, name) for name in names},
        "inputs": [dataclasses.asdict(file) for file in inputs],
    }
    if is_finished(flags.output, job):
        print(f"{flags.output}: already finished by the same command, nothing to do")
        return
    # A place that can't be written to is told of before anything is spent.
    files.write_bytes(f"{flags.output}.json", (json.dumps(job, indent=1) + "\n").encode())
    total_bytes = sum(file.bytes for file in inputs)
    print(f"{len(inputs)} files, {total_bytes / 1e6:.1f} MB -> {flags.output}", flush=True)

    def describe(counts: Counter[str], seconds: float) -> str:
        if counts.get("bytes", 0) < total_bytes:
            return describe_reading(counts, seconds, total_bytes)
        return f"learning {flags.vocab_size:,} word pieces, {seconds:.0f} s since the start"

    run_job(
        lambda folder: create_vocabulary(flags, options, inputs, job, folder),
        options,
        total_bytes,
        describe,
    )
    about = json.loads(files.read_bytes(f"{flags.output}.json", "--output"))
    counts = about["counts"]
    print(
        f"{flags.output}: {counts['tokens']:,} tokens from {counts['distinct_words']:,} words that "
        f"occur {counts['words']:,} times in {counts['documents']:,} documents; "
        f"{counts['words_with_rare_characters'] / counts['words']:.3%} have a character that is "
        "too rare for it"
    )


if __name__ == "__main__":
    sys.exit(run_main("vocab", main, sys.argv[1:]))
