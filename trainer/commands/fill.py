"""The command `beambert fill`."""

from collections.abc import Sequence

from beambert.console import counted
from beambert.errors import InputError
from beambert.flags import FlagParser
from beambert.process import loading
from beambert.trainer.commands.flags import add_asking_flags
from beambert.trainer.weights.given_path import check_weights

EXAMPLES = """examples:
  beambert fill --model=encoder 'The capital of France is [MASK].'

  # a text on each line of a file -> a JSON object on each line of another
  beambert fill --model=encoder --input=questions.txt --top=10 --output=answers.jsonl

Each [MASK] is one piece of the vocabulary, and is answered while the others stay masks.
"""


def build_parser() -> FlagParser:
    """Returns the parser of the flags of `fill`."""
    parser = FlagParser(
        prog="beambert fill",
        description="Asks an encoder what stands at each [MASK] of a text.",
        examples=EXAMPLES,
    )
    add_asking_flags(parser, texts="text with [MASK] in it", results="the answers")
    parser.add_argument(
        "--top",
        type=int,
        default=5,
        help="number of answers for each [MASK] (default: %(default)s)",
    )
    return parser


def main(argv: Sequence[str]) -> None:
    """Runs `fill`.

    Raises:
      InputError: a flag, the encoder or a text cannot be used.
    """
    flags = build_parser().parse_args(list(argv))
    if flags.top < 1:
        raise InputError(f"--top={flags.top}: must be 1 or more")
    check_weights(flags.model, "--model")
    with loading():
        from beambert.trainer.asking import fill
        from beambert.trainer.commands.texts import (
            check_output,
            given_texts,
            show_progress,
            write_lines,
        )
    check_output(flags.output)
    texts = given_texts(flags.texts, flags.input)
    if flags.output:
        found = fill(flags.model, texts, flags.top, show_progress("texts"))
        write_lines(
            flags.output,
            (
                {
                    "text": filled.text,
                    "answers": [
                        [{"token": token, "probability": p} for token, p in answers]
                        for answers in filled.answers
                    ],
                }
                for filled in found
            ),
        )
        print(f"{flags.output}: answers to {counted(len(found), 'text')}")
        return
    for filled in fill(flags.model, texts, flags.top):
        print(filled.text)
        for number, answers in enumerate(filled.answers, start=1):
            if len(filled.answers) > 1:
                print(f"  [MASK] {number}")
            for token, probability in answers:
                print(f"  {probability:6.1%}  {token}")
