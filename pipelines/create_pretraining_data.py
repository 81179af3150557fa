"""`beambert data`: a corpus -> pre-training records, with Apache Beam."""

import argparse
import dataclasses
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipelines.console import FlagParser, parse_bool, quiet_stderr, run_main
from pipelines.errors import InputError
from pipelines.jobs import (
    BEAM_HELP,
    add_input_flags,
    beam_options,
    check_minimum,
    check_shares,
    describe_reading,
    is_local,
    library_versions,
    run_job,
)
from pipelines.masking import LONGEST_SEQUENCE
from pipelines.records import EVAL_FOLDER, INFO_FILE, RecordsInfo, Vocabulary
from pipelines.shards import InstanceParameters

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

    from pipelines.files import InputFile
    from pipelines.manifest import Manifest
    from pipelines.transforms import Split

# Text that makes one shard where --num_shards isn't given. At dupe_factor 10 its records are
# about 120 MB, within the 100 to 200 MB that TensorFlow's input guide advises for a file.
TEXT_BYTES_PER_SHARD = 8 << 20
# What text usually compresses by; only the number of shards hangs on it.
COMPRESSION_RATIO = 3.5

EPILOG = """examples:
  # Wikipedia as WikiExtractor writes it, the original release's vocabulary and parameters
  beambert data --input='wiki/*/wiki_*' --vocab_file=vocab.txt --output=records

  # two sorts of files, 2 % of the documents held out in records/eval
  beambert data --input 'books/*.txt' 'wiki.jsonl' --vocab_file=vocab.txt --output=records \\
      --eval_fraction=0.02
"""


def build_parser() -> argparse.ArgumentParser:
    """Returns the command's flags."""
    defaults = InstanceParameters()
    parser = FlagParser(
        prog="beambert data",
        description="Turns a corpus into BERT pre-training records (TFRecord shards).",
        epilog=EPILOG + "\n" + BEAM_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add_input_flags(parser)
    add("--vocab_file", required=True, help="WordPiece vocabulary, one token a line")
    add("--output", required=True, metavar="DIR", help="records folder to make")
    add("--max_seq_length", type=int, default=defaults.max_seq_length, help="default: %(default)s")
    add(
        "--max_predictions_per_seq",
        type=int,
        default=defaults.max_predictions_per_seq,
        help="default: %(default)s; about max_seq_length * masked_lm_prob",
    )
    for name in ("masked_lm_prob", "short_seq_prob"):
        add(f"--{name}", type=float, default=getattr(defaults, name), help="default: %(default)s")
    add(
        "--dupe_factor",
        type=int,
        default=defaults.dupe_factor,
        help="passes over the corpus, each with other pairs and masks (default: %(default)s)",
    )
    add("--do_lower_case", type=parse_bool, default=True, help="True for uncased vocabularies")
    add(
        "--do_whole_word_mask",
        type=parse_bool,
        default=defaults.do_whole_word_mask,
        help="hide all pieces of a word or none (default: %(default)s)",
    )
    add("--random_seed", type=int, default=defaults.random_seed, help="default: %(default)s")
    add("--num_shards", type=int, help="files to write (default: one for 8 MB of text)")
    add(
        "--eval_fraction",
        type=float,
        default=0.0,
        help=f"share of the documents to hold out in DIR/{EVAL_FOLDER} (default: 0)",
    )
    add("--language", default="en", help="of the text, for the sentence splitter (default: en)")
    return parser


def check_flags(flags: argparse.Namespace) -> None:
    """Refuses values that can't work.

    Raises:
      InputError: naming the flag.
    """
    check_minimum(flags, 8, "max_seq_length")
    check_minimum(flags, 0, "random_seed")
    if flags.max_seq_length > LONGEST_SEQUENCE:
        raise InputError(f"--max_seq_length={flags.max_seq_length}: at most {LONGEST_SEQUENCE}")
    check_minimum(flags, 1, "max_predictions_per_seq", "dupe_factor", "num_shards")
    check_shares(
        flags, "masked_lm_prob", "short_seq_prob", "eval_fraction", "max_reject_fraction"
    )


def default_num_shards(inputs: "list[InputFile]") -> int:
    """Returns the number of shards that suits the amount of text."""
    text = sum(file.bytes * (COMPRESSION_RATIO if file.is_compressed else 1) for file in inputs)
    return max(1, math.ceil(text / TEXT_BYTES_PER_SHARD))


def plan_splits(output: str, num_shards: int, eval_fraction: float) -> "list[Split]":
    """Returns the folder of the training records and, if any, that of the held-out ones."""
    from pipelines.transforms import Split

    splits = [Split(output, 0, num_shards)]
    if eval_fraction:
        eval_shards = max(1, math.ceil(num_shards * eval_fraction))
        splits.append(Split(f"{output.rstrip('/')}/{EVAL_FOLDER}", num_shards, eval_shards))
    return splits


def create_pretraining_data(
    flags: argparse.Namespace,
    options: "PipelineOptions",
    manifest: "Manifest",
    splits: "list[Split]",
    progress_folder: str | None,
) -> None:
    """Builds the pipeline and runs it to its end."""
    import apache_beam as beam

    from pipelines import transforms
    from pipelines.manifest import FinishFolders

    parameters = InstanceParameters(
        **{f.name: getattr(flags, f.name) for f in dataclasses.fields(InstanceParameters)}
    )
    read_options = transforms.ReadOptions(flags.format, flags.language, progress_folder)
    train, evaluation = splits[0], splits[1] if len(splits) > 1 else None
    total_shards = sum(split.num_shards for split in splits)
    nothing = transforms.CompactDocuments.empty().pack()
    with beam.Pipeline(options=options) as pipeline:
        tokenized = (
            pipeline
            | "Files" >> beam.Create(manifest.inputs)
            | "Spread" >> beam.Reshuffle()
            | "Tokenize"
            >> beam.ParDo(
                transforms.TokenizeFiles(
                    manifest.vocabulary,
                    flags.do_lower_case,
                    read_options,
                    train,
                    evaluation,
                    flags.eval_fraction,
                )
            ).with_outputs(transforms.COUNTS, transforms.REJECTS, main="documents")
        )
        # Every shard gets a file, also one that no document fell to.
        empty_shards = [(key, nothing) for key in range(total_shards)]
        every_shard = pipeline | "Shards" >> beam.Create(empty_shards)
        shards = (
            (tokenized.documents, every_shard)
            | beam.Flatten()
            | beam.GroupByKey()
            | "WriteShards"
            >> beam.ParDo(
                transforms.WriteShard(manifest.vocabulary, parameters, splits, progress_folder)
            )
        )
        (
            pipeline
            | "Once" >> beam.Create([None])
            | "Finish"
            >> beam.ParDo(
                FinishFolders(manifest, splits),
                beam.pvalue.AsIter(shards),
                beam.pvalue.AsIter(tokenized[transforms.COUNTS]),
                beam.pvalue.AsIter(tokenized[transforms.REJECTS]),
            )
        )


def describe_progress(counts: dict[str, int], seconds: float, total_bytes: int, shards: int) -> str:
    """Returns the progress line: reading first, then writing."""
    if not counts.get("instances"):
        return describe_reading(counts, seconds, total_bytes)
    return (
        f"writing records: {counts['instances']:,} instances, "
        f"{counts.get('shards', 0)} of {shards} shards"
    )


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


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: what was given can't be used.
    """
    flags, beam_flags = build_parser().parse_known_args(list(argv))
    check_flags(flags)
    with quiet_stderr():
        options = beam_options(beam_flags)
        from apache_beam.io.filesystems import FileSystems

        from pipelines import files
        from pipelines.manifest import Manifest

        if is_local(options):
            import pipelines.encoding
            import pipelines.tokenization  # noqa: F401  (its import prints; do it now)
    inputs = files.match_inputs(flags.input)
    vocabulary = Vocabulary.parse(
        files.read_bytes(flags.vocab_file, "--vocab_file"), f"--vocab_file={flags.vocab_file}"
    )
    vocabulary.check_case(flags.do_lower_case)
    num_shards = flags.num_shards or default_num_shards(inputs)
    splits = plan_splits(flags.output, num_shards, flags.eval_fraction)
    manifest = Manifest(
        parameters=job_parameters(flags, num_shards),
        vocabulary=vocabulary,
        inputs=inputs,
        versions=library_versions(),
        max_reject_fraction=flags.max_reject_fraction,
    )
    # Every folder is claimed before any is written to.
    is_finished = [files.claim_output(split.folder, manifest.job()) for split in splits]
    if all(is_finished):
        print(f"{flags.output}: already finished by the same command, nothing to do")
    else:
        for split, finished in zip(splits, is_finished, strict=True):
            if finished:
                files.reopen_output(split.folder, manifest.job())
        total_bytes = sum(file.bytes for file in inputs)
        shards = sum(split.num_shards for split in splits)
        megabytes = f"{total_bytes / 1e6:.1f} MB"
        print(f"{len(inputs)} files, {megabytes} -> {shards} shards in {flags.output}", flush=True)
        run_job(
            lambda folder: create_pretraining_data(flags, options, manifest, splits, folder),
            options,
            total_bytes,
            lambda counts, seconds: describe_progress(counts, seconds, total_bytes, shards),
        )
    for split in splits:
        path = FileSystems.join(split.folder, INFO_FILE)
        info = RecordsInfo.from_json(files.read_bytes(path, "--output").decode(), path)
        print(summarize(info, split.folder))


def job_parameters(flags: argparse.Namespace, num_shards: int) -> dict[str, Any]:
    """Returns the flags that shape the records."""
    names = [f.name for f in dataclasses.fields(InstanceParameters)]
    names += ["do_lower_case", "eval_fraction", "format", "language"]
    return {name: getattr(flags, name) for name in names} | {"num_shards": num_shards}


if __name__ == "__main__":
    sys.exit(run_main("data", main, sys.argv[1:]))
