"""`beambert vocab`: a corpus -> a WordPiece vocabulary, with Apache Beam."""

import sys
from collections.abc import Sequence

from beambert.pipelines.corpus.flags import add_input_flags
from beambert.pipelines.jobs.running import BEAM_HELP, beam_options
from beambert.pipelines.shared.console import run_main
from beambert.pipelines.shared.flags import FlagParser, parse_bool, read_job
from beambert.pipelines.shared.loading import loading
from beambert.pipelines.vocabulary_learning.job import VocabularyJob

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
    default = VocabularyJob.vocab_size
    add("--vocab_size", type=int, default=default, help="number of tokens (default: %(default)s)")
    add("--do_lower_case", type=parse_bool, default=True, help="False keeps case and accents")
    return parser


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: what was given can't be used.
    """
    flags, beam_flags = build_parser().parse_known_args(list(argv))
    job = read_job(VocabularyJob, flags)
    with loading():  # the learner comes with TensorFlow
        options = beam_options(beam_flags)
        from beambert.pipelines.vocabulary_learning.run import create_vocabulary
    create_vocabulary(job, options)


if __name__ == "__main__":
    sys.exit(run_main("vocab", main, sys.argv[1:]))
