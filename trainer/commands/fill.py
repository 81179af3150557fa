"""The command `beambert fill`."""

import dataclasses
import functools
from collections.abc import Sequence

from beambert.config import read_settings, setting, settings_parser
from beambert.console import counted, show_progress
from beambert.process import loading
from beambert.trainer.commands.texts import Asking, write_lines

EXAMPLES = """examples:
  beambert fill --model=encoder 'The capital of France is [MASK].'

  # a text on each line of a file -> a JSON object on each line of another
  beambert fill --model=encoder --input=questions.txt --top=10 --output=answers.jsonl

Each [MASK] is one piece of the vocabulary, and is answered while the others stay masks.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Filling(Asking):
    """The settings of `fill`."""

    top: int = setting(5, minimum=1, metavar="N", help="number of answers for each [MASK]")


build_parser = functools.partial(
    settings_parser,
    Filling,
    "fill",
    "Asks an encoder what stands at each [MASK] of a text.",
    EXAMPLES,
)


def main(argv: Sequence[str]) -> None:
    """Runs `fill`.

    Raises:
      InputError: a flag, the encoder or a text cannot be used.
    """
    flags = read_settings(Filling, build_parser().parse_args(list(argv)))
    with loading():
        texts = flags.open_texts()
        from beambert.trainer.asking import fill
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
