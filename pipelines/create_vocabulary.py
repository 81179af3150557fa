"""`beambert vocab` learns a vocabulary or a tokenizer from a corpus, with Apache Beam."""

from collections.abc import Sequence

from beambert.errors import InputError
from beambert.flags import FlagParser, parse_bool, read_job
from beambert.pipelines.corpus.sources import add_input_flags
from beambert.pipelines.running import BEAM_HELP, beam_options
from beambert.pipelines.vocabulary_learning.job import KINDS, WORDPIECE, VocabularyJob
from beambert.process import loading

EXAMPLES = """examples:
  # an uncased vocabulary of the same size as that of BERT's original release
  beambert vocab --input 'wiki/*/wiki_*' 'books/*.txt' --output=vocab.txt

  # a small cased vocabulary
  beambert vocab --input=law.jsonl --output=vocab.txt --vocab_size=8000 --do_lower_case=False

  # the text of the sources that `beambert data` mixes
  beambert vocab --source=wiki='wiki/*/wiki_*' --source=law=law.jsonl --output=vocab.txt

  # Google's vocabulary with the 1,000 pieces that save most tokens of the text
  beambert vocab --input=law.jsonl --extend=bert-base-uncased --add=1000 --output=law-vocab.txt

  # Japanese: tokens for 99.95 % of all characters, as SentencePiece advises
  beambert vocab --input=ja.jsonl --output=vocab.txt --do_lower_case=False \\
      --character_coverage=0.9995

  # a byte-level BPE as RoBERTa has, instead of word pieces
  beambert vocab --input=law.jsonl --kind=bpe --vocab_size=32000 --output=tokenizer/tokenizer.json

The file vocab.txt.json next to vocab.txt has its parameters, inputs and counts.
"""


def build_parser() -> FlagParser:
    """Returns the parser of the command's flags."""
    parser = FlagParser(
        prog="beambert vocab",
        description="Learns a WordPiece vocabulary, or a tokenizer of another kind, from a corpus.",
        examples=EXAMPLES + "\n" + BEAM_HELP,
    )
    add_input_flags(parser, is_required=False)
    add = parser.add_argument
    add(
        "--source",
        action="append",
        default=[],
        metavar="NAME=GLOB[,GLOB]",
        help="instead of --input: a source of the text and its files, as `beambert data` takes "
        "them; give the flag once for each source. All text counts as often as it occurs",
    )
    add(
        "--output",
        required=True,
        metavar="FILE",
        help="file to write: a vocabulary with one token a line; for other kinds a tokenizer.json",
    )
    add(
        "--kind",
        choices=KINDS,
        default=WORDPIECE,
        help="wordpiece: BERT's word pieces; bpe: byte-level BPE, as RoBERTa and ModernBERT have "
        "it; unigram: as ALBERT and XLM-R have it (default: %(default)s)",
    )
    default = VocabularyJob.vocab_size
    add("--vocab_size", type=int, default=default, help="number of tokens (default: %(default)s)")
    add(
        "--character_coverage",
        type=float,
        metavar="SHARE",
        help="share of all characters in the text that tokens spell, such as 0.9995 for Chinese "
        "and Japanese and 1 for alphabets; rarer ones become [UNK] (default: all that are as "
        "frequent as the last word, and at least a thirtieth of the tokens; for unigram: all)",
    )
    add(
        "--extend",
        metavar="PATH",
        help="vocab.txt, or folder of a model that has one, to add pieces to: its tokens keep "
        "their ids, so that `beambert pretrain --init` can go on from that model",
    )
    add(
        "--add",
        type=int,
        metavar="N",
        help="with --extend: number of new pieces, those that save most tokens of the text",
    )
    add(
        "--add_pieces",
        metavar="FILE",
        help="with --extend: list of the new pieces, one a line, instead of --add",
    )
    add(
        "--do_lower_case",
        type=parse_bool,
        help="False keeps case and accents (default: True for word pieces, else False)",
    )
    return parser


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a flag or an input cannot be used.
    """
    parser = build_parser()
    flags, beam_flags = parser.parse_known_args(argv)
    job = read_job(VocabularyJob, flags)
    if not job.patterns:
        raise InputError("--input: missing; name the files to read, or give --source")
    with loading():  # The learner loads TensorFlow.
        options = beam_options(beam_flags, parser.flags)
        from beambert.pipelines.vocabulary_learning.run import create_vocabulary
    create_vocabulary(job, options)
