"""`beambert data` makes pre-training records of a corpus, with Apache Beam."""

import dataclasses
import functools
from collections.abc import Sequence

from beambert.config import read_settings, setting, settings_parser
from beambert.pipelines.pretraining.job import PretrainingDataJob
from beambert.pipelines.running import BEAM_HELP, beam_options
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """Settings of the command that are not the job's."""

    dry_run: bool = setting(
        False,
        help="read a sample, estimate instances, bytes and time, and write nothing; ignores "
        "--duplicates",
    )


build_parser = functools.partial(
    settings_parser,
    (PretrainingDataJob, Trial),
    "data",
    "Turns a corpus into BERT pre-training records (TFRecord shards).",
    EXAMPLES + "\n" + BEAM_HELP,
)


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a flag or an input cannot be used.
    """
    parser = build_parser()
    flags, beam_flags = parser.parse_known_args(argv)
    job = read_settings(PretrainingDataJob, flags)
    with loading():
        options = beam_options(beam_flags, parser.flags)
        from beambert.pipelines.pretraining import run
    if flags.dry_run:
        run.estimate_pretraining_data(job, options)
    else:
        run.create_pretraining_data(job, options)
