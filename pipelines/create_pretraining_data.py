"""`beambert data`: a corpus -> pre-training records, with Apache Beam."""

import argparse
import sys
from collections.abc import Sequence

from beambert.pipelines.corpus.flags import add_input_flags
from beambert.pipelines.instances.parameters import BALANCED, REFERENCE
from beambert.pipelines.jobs.running import BEAM_HELP, beam_options
from beambert.pipelines.pretraining_data.job import PretrainingDataJob
from beambert.pipelines.records.contract import EVAL_FOLDER
from beambert.pipelines.shared.console import run_main
from beambert.pipelines.shared.flags import FlagParser, parse_bool, read_job
from beambert.pipelines.shared.loading import loading
from beambert.pipelines.text.flags import add_text_flags

EXAMPLES = """examples:
  # Wikipedia as WikiExtractor writes it, the original release's vocabulary and parameters
  beambert data --input='wiki/*/wiki_*' --vocab_file=vocab.txt --output=records

  # a dump and two sorts of books, 2 % of the documents held out in records/eval
  beambert data --input 'books/*.txt' 'more.jsonl' 'enwiki-pages-articles-multistream.xml.bz2' \\
      --vocab_file=vocab.txt --output=records --eval_fraction=0.02

  # both lengths of the paper in one pass over the text: records/128 and records/512
  beambert data --input='wiki/*/wiki_*' --vocab_file=vocab.txt --output=records \\
      --max_seq_length=128,512

  # only what came since; how large, how long and at what cost, before it is made
  beambert data --input='gs://bucket/text/*' --since='gs://bucket/records/*' \\
      --vocab_file=vocab.txt --output=gs://bucket/records/2 --dry_run \\
      --runner=DataflowRunner --project=P --region=R --temp_location=gs://bucket/tmp \\
      --machine_type=n2-standard-4 --max_num_workers=50
"""


def build_parser() -> FlagParser:
    """Returns the command's flags."""
    defaults = PretrainingDataJob
    parser = FlagParser(
        prog="beambert data",
        description="Turns a corpus into BERT pre-training records (TFRecord shards).",
        examples=EXAMPLES + "\n" + BEAM_HELP,
    )
    add_input_flags(parser)
    parser.add_argument(
        "--since",
        nargs="+",
        default=[],
        metavar="GLOB",
        help="records folders of earlier runs: leave out the files that they were made from",
    )
    text = parser.add_argument_group("text")
    add_text_flags(text)
    instances = parser.add_argument_group("instances")
    add = instances.add_argument
    add("--vocab_file", required=True, help="WordPiece vocabulary, one token a line")
    add("--do_lower_case", type=parse_bool, default=True, help="True for uncased vocabularies")
    add(
        "--max_seq_length",
        type=parse_integers,
        default=defaults.max_seq_length,
        metavar="N[,N]",
        help=f"tokens of an instance (default: {defaults.max_seq_length[0]}); several make a "
        "folder each, DIR/N",
    )
    add(
        "--max_predictions_per_seq",
        type=parse_integers,
        metavar="N[,N]",
        help="one for each length (default: max_seq_length * masked_lm_prob, rounded up)",
    )
    for name in ("masked_lm_prob", "short_seq_prob"):
        add(f"--{name}", type=float, default=getattr(defaults, name), help="default: %(default)s")
    add(
        "--dupe_factor",
        type=int,
        default=defaults.dupe_factor,
        help="passes over the corpus, each with other pairs and masks (default: %(default)s)",
    )
    add(
        "--do_whole_word_mask",
        type=parse_bool,
        default=defaults.do_whole_word_mask,
        help="hide all pieces of a word or none (default: %(default)s)",
    )
    add(
        "--pairs",
        choices=[BALANCED, REFERENCE],
        default=defaults.pairs,
        help="balanced: half are next sentences, [UNK] is not predicted, nothing special replaces "
        "a token; reference: as the original script, flaws and all (default: %(default)s)",
    )
    add("--random_seed", type=int, default=defaults.random_seed, help="default: %(default)s")
    output = parser.add_argument_group("output")
    add = output.add_argument
    add("--output", required=True, metavar="DIR", help="records folder to make")
    add("--num_shards", type=int, help="files to write (default: one for 8 MB of text)")
    add(
        "--eval_fraction",
        type=float,
        default=0.0,
        help=f"share of the documents to hold out in DIR/{EVAL_FOLDER} (default: 0)",
    )
    add(
        "--compression",
        choices=["none", "gzip"],
        default="none",
        help="gzip: a third of the size, but slower to write and read (default: none)",
    )
    add(
        "--dry_run",
        action="store_true",
        help="read a sample, estimate instances, bytes and time, and write nothing; takes no "
        "account of --duplicates. With --runner=DataflowRunner also its steps and cost; nothing is "
        "sent",
    )
    add(
        "--vcpu_hour_price",
        type=float,
        metavar="DOLLARS",
        help="of Dataflow, for --dry_run (default: the list price of the machine)",
    )
    return parser


def parse_integers(text: str) -> tuple[int, ...]:
    """Reads integers with commas between them, for argparse's `type=`."""
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError as error:
        message = f"{text!r} is not a number, nor several with commas"
        raise argparse.ArgumentTypeError(message) from error


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: what was given can't be used.
    """
    flags, beam_flags = build_parser().parse_known_args(list(argv))
    job = read_job(PretrainingDataJob, flags)
    with loading():
        options = beam_options(beam_flags)
        from beambert.pipelines.pretraining_data import run
    if flags.dry_run:
        run.estimate_pretraining_data(job, options, flags.vcpu_hour_price)
    else:
        run.create_pretraining_data(job, options)


if __name__ == "__main__":
    sys.exit(run_main("data", main, sys.argv[1:]))
