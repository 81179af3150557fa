"""The flags of `beambert data`, and what they ask for."""

import argparse
import dataclasses
import math
from typing import TYPE_CHECKING, Any

from beambert.pipelines.corpus.flags import add_input_flags
from beambert.pipelines.instances.masking import LONGEST_SEQUENCE
from beambert.pipelines.instances.parameters import BALANCED, REFERENCE, InstanceParameters
from beambert.pipelines.jobs.running import BEAM_HELP
from beambert.pipelines.records.contract import EVAL_FOLDER
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.flags import FlagParser, check_minimum, check_shares, parse_bool
from beambert.pipelines.text.flags import add_text_flags

if TYPE_CHECKING:
    from beambert.pipelines.jobs.input_files import InputFile
    from beambert.pipelines.pretraining_data.layout import Layout
    from beambert.pipelines.text.preparation import TextOptions

# Text that makes one shard where --num_shards isn't given. At dupe_factor 10 its records are
# about 120 MB, within the 100 to 200 MB that TensorFlow's input guide advises for a file.
TEXT_BYTES_PER_SHARD = 8 << 20
# Of tokens: an A and a B of two each, and some.
SHORTEST_SEQUENCE = 8
# What text usually compresses by; only the number of shards hangs on it.
COMPRESSION_RATIO = 3.5

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
    defaults = InstanceParameters()
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
        default=[defaults.max_seq_length],
        metavar="N[,N]",
        help=f"tokens of an instance (default: {defaults.max_seq_length}); several make a folder "
        "each, DIR/N",
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


def parse_integers(text: str) -> list[int]:
    """Reads integers with commas between them, for argparse's `type=`."""
    try:
        return [int(number) for number in text.split(",")]
    except ValueError as error:
        message = f"{text!r} is not a number, nor several with commas"
        raise argparse.ArgumentTypeError(message) from error


def check_flags(flags: argparse.Namespace) -> None:
    """Refuses values that can't work.

    Raises:
      InputError: naming the flag.
    """
    check_minimum(flags, 0, "random_seed", "min_document_characters")
    for length in flags.max_seq_length:
        if not SHORTEST_SEQUENCE <= length <= LONGEST_SEQUENCE:
            raise InputError(
                f"--max_seq_length={length}: must be from {SHORTEST_SEQUENCE} to {LONGEST_SEQUENCE}"
            )
    if len(set(flags.max_seq_length)) < len(flags.max_seq_length):
        raise InputError("--max_seq_length: names a length twice; name each once")
    predictions = flags.max_predictions_per_seq
    if predictions and len(predictions) != len(flags.max_seq_length):
        raise InputError(
            f"--max_predictions_per_seq: has {len(predictions)} numbers, --max_seq_length "
            f"{len(flags.max_seq_length)}; give one for each, or none for the default"
        )
    for number in predictions or []:
        if number < 1:
            raise InputError(f"--max_predictions_per_seq={number}: must be at least 1")
    check_minimum(flags, 1, "dupe_factor", "num_shards")
    check_shares(flags, "masked_lm_prob", "short_seq_prob", "eval_fraction", "max_reject_fraction")


def plan_lengths(flags: argparse.Namespace) -> tuple[InstanceParameters, ...]:
    """Returns the parameters of every sequence length."""
    predictions = flags.max_predictions_per_seq or [
        max(1, math.ceil(length * flags.masked_lm_prob)) for length in flags.max_seq_length
    ]
    names = [field.name for field in dataclasses.fields(InstanceParameters)]
    same = {n: getattr(flags, n) for n in names if not isinstance(getattr(flags, n), list)}
    same.pop("max_predictions_per_seq", None)
    return tuple(
        InstanceParameters(max_seq_length=length, max_predictions_per_seq=most, **same)
        for length, most in zip(flags.max_seq_length, predictions, strict=True)
    )


def default_num_shards(inputs: "list[InputFile]") -> int:
    """Returns the number of shards that suits the amount of text."""
    text = sum(file.bytes * (COMPRESSION_RATIO if file.is_compressed else 1) for file in inputs)
    return max(1, math.ceil(text / TEXT_BYTES_PER_SHARD))


def text_options(flags: argparse.Namespace) -> "TextOptions":
    """Returns how documents become sentences and tokens."""
    from beambert.pipelines.text.filters import FilterSettings
    from beambert.pipelines.text.preparation import TextOptions

    filters = FilterSettings(flags.min_document_characters, flags.quality_filter)
    return TextOptions(
        flags.do_lower_case, flags.language, flags.sentences, filters, flags.duplicates
    )


def job_parameters(flags: argparse.Namespace, layout: "Layout") -> dict[str, Any]:
    """Returns the flags that shape the records, but for those of `InstanceParameters`."""
    names = ("do_lower_case", "eval_fraction", "format", "text_column", "language", "sentences")
    names += ("min_document_characters", "quality_filter", "duplicates", "compression")
    return {name: getattr(flags, name) for name in names} | {"num_shards": layout.num_shards}
