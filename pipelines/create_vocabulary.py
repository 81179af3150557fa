"""`beambert vocab` learns a vocabulary or a tokenizer from a corpus, with Apache Beam."""

import functools
from collections.abc import Sequence

from beambert.config import read_settings, settings_parser
from beambert.pipelines.running import BEAM_HELP, beam_options
from beambert.pipelines.vocabulary_learning.job import VocabularyJob
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


build_parser = functools.partial(
    settings_parser,
    VocabularyJob,
    "vocab",
    "Learns a WordPiece vocabulary, or a tokenizer of another kind, from a corpus.",
    EXAMPLES + "\n" + BEAM_HELP,
)


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a flag or an input cannot be used.
    """
    parser = build_parser()
    flags, beam_flags = parser.parse_known_args(argv)
    job = read_settings(VocabularyJob, flags)
    with loading():
        options = beam_options(beam_flags, parser.flags)
        from beambert.pipelines.vocabulary_learning.run import learn_vocabulary
    learn_vocabulary(job, options)
