"""`beambert data` makes pre-training records of a corpus, with Apache Beam."""

import argparse
from collections.abc import Sequence

from beambert.errors import InputError
from beambert.flags import FlagGroup, FlagParser, parse_bool, read_job
from beambert.pipelines.corpus.sources import add_input_flags
from beambert.pipelines.pretraining.instances import CORPUS, MASKS, PAIRS, SOURCE
from beambert.pipelines.pretraining.job import PretrainingDataJob
from beambert.pipelines.records.contract import EVAL_FOLDER
from beambert.pipelines.running import BEAM_HELP, beam_options
from beambert.pipelines.text.preparation import add_text_flags
from beambert.pipelines.text.sentences import SEGMENTERS
from beambert.pipelines.tokenizers.folders import add_tokenizer_flags
from beambert.process import loading

EXAMPLES = """examples:
  # Wikipedia from WikiExtractor, with the vocabulary and parameters of BERT's original release
  beambert data --input='wiki/*/wiki_*' --vocab_file=vocab.txt --output=records

  # several formats at once, with 2 % of the documents held out in records/eval
  beambert data --input 'books/*.txt' 'more.jsonl' 'enwiki-pages-articles-multistream.xml.bz2' \\
      --vocab_file=vocab.txt --output=records --eval_fraction=0.02

  # both sequence lengths of the BERT paper in one run: records/128 and records/512
  beambert data --input='wiki/*/wiki_*' --vocab_file=vocab.txt --output=records \\
      --max_seq_length=128,512

  # another kind of tokenizer, such as RoBERTa's: a folder that has a tokenizer.json, or that file
  beambert data --input='wiki/*/wiki_*' --tokenizer=roberta-base --output=records --pairs=none

  # several languages, which a column names; Chinese and Thai words are hidden as a whole
  beambert data --input='web/*.parquet' --language_column=language --tokenizer=xlm-roberta-base \\
      --masks=whole_word --segmenter=icu --output=records

  # two sources: 30 % of the tokens are of books, which are gone over at most 20 times
  beambert data --source=wiki='wiki/*/wiki_*' --source=books='books/*.txt,more.jsonl' \\
      --weights=wiki=0.7,books=0.3 --max_epochs_per_source=20 --eval_fraction=0.02 \\
      --vocab_file=vocab.txt --output=records

  # only new files; estimate the size and time of the job without running it
  beambert data --input='gs://bucket/text/*' --since='gs://bucket/records/*' \\
      --vocab_file=vocab.txt --output=gs://bucket/records/2 --dry_run
"""


def build_parser() -> FlagParser:
    """Returns the parser of the command's flags."""
    parser = FlagParser(
        prog="beambert data",
        description="Turns a corpus into BERT pre-training records (TFRecord shards).",
        examples=EXAMPLES + "\n" + BEAM_HELP,
    )
    add_input_flags(parser, is_required=False)
    _add_source_flags(parser)
    add_text_flags(parser.add_argument_group("text"))
    _add_instance_flags(parser.add_argument_group("instances"))
    _add_output_flags(parser.add_argument_group("output"))
    return parser


def _add_source_flags(parser: FlagParser) -> None:
    add = parser.add_argument
    add(
        "--source",
        action="append",
        default=[],
        metavar="NAME=GLOB[,GLOB]",
        help="in place of --input: a source of the text and its files; give the flag once for each "
        f"source. A pair is of one source, and each has held-out records in DIR/{EVAL_FOLDER}/NAME",
    )
    add(
        "--weights",
        default="",
        metavar="NAME=SHARE[,NAME=SHARE]",
        help="share of the records' tokens that each --source has; they add up to 1. A source is "
        "gone over more often, or less, than --dupe_factor says, and the records have as many "
        "tokens as without this flag",
    )
    add(
        "--temperature",
        type=float,
        metavar="EXPONENT",
        help="in place of --weights: shares proportional to the tokens of each --source to the "
        "power of this number; 1: as they are; 0.7: multilingual BERT; 0.3: XLM-R; 0: equal shares",
    )
    add(
        "--max_epochs_per_source",
        type=float,
        metavar="N",
        help="greatest number of passes over a --source, at least --dupe_factor; what it then "
        "lacks of its share the other sources have",
    )
    add(
        "--since",
        nargs="+",
        action="extend",
        default=[],
        metavar="GLOB",
        help="records folders of earlier runs, whose input files are left out",
    )
    add(
        "--leave_out",
        default="",
        metavar="FILE",
        help="text file with the paths of input files to leave out, one a line",
    )


def _add_instance_flags(group: FlagGroup) -> None:
    add, defaults = group.add_argument, PretrainingDataJob
    add_tokenizer_flags(group)
    add(
        "--max_seq_length",
        type=parse_integers,
        default=defaults.max_seq_length,
        metavar="N[,N]",
        help=f"number of tokens in an instance; several numbers make one folder each, DIR/N "
        f"(default: {defaults.max_seq_length[0]})",
    )
    add(
        "--masks",
        choices=MASKS,
        default=defaults.masks,
        help="static: masked tokens in the records, other ones in each pass; whole_word: the same "
        "with all pieces of a word or none; span: spans of whole words, 3.8 words long in the "
        "mean, as SpanBERT has them; none: records of the text alone, for which `beambert "
        "pretrain` draws the masks (default: %(default)s)",
    )
    add(
        "--segmenter",
        choices=SEGMENTERS,
        default=defaults.segmenter,
        help="how --masks=whole_word and span find words in scripts without spaces, which the "
        "tokens do not show; icu: Chinese, Japanese, Thai, Lao, Khmer, Burmese; sudachi: Japanese, "
        "better (default: none; needs beambert[segmenters])",
    )
    add(
        "--max_predictions_per_seq",
        type=parse_integers,
        metavar="N[,N]",
        help="greatest number of masked tokens in an instance, one for each length (default: "
        "max_seq_length * masked_lm_prob, rounded up)",
    )
    for name, meaning in (
        ("masked_lm_prob", "share of the tokens to mask"),
        (
            "short_seq_prob",
            "share of the documents whose instances are made shorter than max_seq_length; none "
            "with --pairs=none",
        ),
    ):
        text = f"{meaning} (default: %(default)s)"
        add(f"--{name}", type=float, default=getattr(defaults, name), help=text)
    add(
        "--dupe_factor",
        type=int,
        default=defaults.dupe_factor,
        help="number of passes over the corpus, each with other pairs and masks (default: "
        "%(default)s)",
    )
    add(
        "--do_whole_word_mask",
        type=parse_bool,
        default=defaults.do_whole_word_mask,
        help="the original script's flag for --masks=whole_word (default: %(default)s)",
    )
    add(
        "--pairs",
        choices=PAIRS,
        default=defaults.pairs,
        help="rules for pairs and masks; next: half of the pairs are "
        "next sentences, and [UNK] and other special tokens are neither predicted nor put in place "
        "of a masked token; reference: the rules of the original script, including its flaws; "
        "none: no pairs and no label, but full sentences of one or more documents, as RoBERTa has "
        "them; sop: half of the pairs are in order and half swapped, as ALBERT has them; copy: a "
        "text and a noisy copy of it, or of another text (default: %(default)s)",
    )
    add(
        "--random_next",
        choices=[CORPUS, SOURCE],
        default=defaults.random_next,
        help="where the B of a random next pair comes from; corpus: any other document; source: "
        "another document of the same --source or pattern of --input, so that the topic alone does "
        "not tell (default: source with --source, else corpus)",
    )
    add(
        "--random_seed",
        type=int,
        default=defaults.random_seed,
        help="seed of all random choices (default: %(default)s)",
    )


def _add_output_flags(group: FlagGroup) -> None:
    add = group.add_argument
    add("--output", required=True, metavar="DIR", help="records folder to write")
    add(
        "--num_shards",
        type=int,
        help="number of files to write (default: one per 8 MB of text; beyond 34 GB shards grow to "
        "64 MB)",
    )
    add(
        "--eval_fraction",
        type=float,
        default=0.0,
        help=f"share of the text to hold out in DIR/{EVAL_FOLDER} (default: 0); of a long document "
        "a part is held out",
    )
    add(
        "--compression",
        choices=["none", "gzip"],
        default="none",
        help="compression of the files; gzip: a third of the size, but slower to write and read "
        "(default: %(default)s)",
    )
    add(
        "--shuffle",
        choices=["auto", "runner", "files"],
        default=PretrainingDataJob.shuffle,
        help="how tokenized documents reach their shard, with the same records either way; runner: "
        "through the runner's shuffle; files: through temporary files in --output, for runners "
        "that keep what they shuffle in memory; auto: runner on Dataflow, Flink and Spark, files "
        "elsewhere (default: %(default)s)",
    )
    add(
        "--dry_run",
        action="store_true",
        help="read a sample, estimate instances, bytes and time, and write nothing; ignores "
        "--duplicates",
    )


def parse_integers(text: str) -> tuple[int, ...]:
    """Returns the integers in a text with commas between them.

    Raises:
      ArgumentTypeError: the text is no such list; argparse names the flag.
    """
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError as error:
        message = f"{text!r} is neither an integer nor several integers with commas between them"
        raise argparse.ArgumentTypeError(message) from error


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a flag or an input cannot be used.
    """
    parser = build_parser()
    flags, beam_flags = parser.parse_known_args(argv)
    job = read_job(PretrainingDataJob, flags)
    if not job.patterns:
        raise InputError("--input: missing; name the files to read, or give --source")
    with loading():
        options = beam_options(beam_flags, parser.flags)
        from beambert.pipelines.pretraining import run
    if flags.dry_run:
        run.estimate_pretraining_data(job, options)
    else:
        run.create_pretraining_data(job, options)
