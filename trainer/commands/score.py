"""The command `beambert score`."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from beambert.config import read_settings, setting, settings_parser
from beambert.console import counted
from beambert.errors import one_line
from beambert.process import loading
from beambert.trainer.loop.config import EngineSettings
from beambert.trainer.loop.engine import choose_engine
from beambert.trainer.weights.given_path import ASKED_MODEL, check_weights

if TYPE_CHECKING:
    from beambert.trainer.asking import TextScore

EXAMPLES = """examples:
  # how likely each text is: pseudo-log-likelihood and pseudo-perplexity
  beambert score --model=encoder 'The river is long.' 'The river long is.'

  # a text on each line -> a JSON object on each line
  beambert score --model=encoder --input=texts.txt --output=scores.jsonl

  # the loss of each character, by which encoders of different vocabularies compare
  beambert score --model=encoder --whole_words --input=texts.txt --output=scores.jsonl

Each token of a text is masked once, so a text costs as many passes as it has tokens. Perplexities
of encoders with different vocabularies cannot be compared.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scoring(EngineSettings):
    """The settings of `score`."""

    texts: tuple[str, ...] = setting((), is_positional=True, metavar="TEXT", help="text")
    model: str = setting(metavar="DIR", help=ASKED_MODEL)
    input: str | None = setting(None, metavar="FILE", help="UTF-8 file with a text on each line")
    output: str | None = setting(
        None, metavar="FILE", help="file that gets the scores as JSON (default: the console)"
    )
    whole_words: bool = setting(
        False,
        help="mask those pieces of a word that follow, too, so that none gives away another that "
        "comes before it",
    )


build_parser = functools.partial(
    settings_parser,
    Scoring,
    "score",
    "Asks an encoder how likely texts are.",
    EXAMPLES,
)


def main(argv: Sequence[str]) -> None:
    """Runs `score`.

    Raises:
      InputError: a flag, the encoder or a text cannot be used.
    """
    flags = read_settings(Scoring, build_parser().parse_args(list(argv)))
    check_weights(flags.model, "--model")
    with loading():
        choose_engine(flags)
        from beambert.trainer.asking import no_report, score
        from beambert.trainer.commands.texts import (
            check_output,
            given_texts,
            show_progress,
            write_lines,
        )
    check_output(flags.output)
    texts = given_texts(flags.texts, flags.input)
    report = show_progress("tokens") if flags.output else no_report
    scores = score(flags.model, texts, report, flags.whole_words)
    rows = [_row(each) for each in scores]
    lines = [
        f"{each.pseudo_log_likelihood:10.2f}  {each.pseudo_perplexity:10.2f}  {one_line(each.text)}"
        for each in scores
    ]
    lines.insert(0, f"{'likelihood':>10}  {'perplexity':>10}  text")
    if not flags.output:
        print("\n".join(lines))
        return
    write_lines(flags.output, rows)
    print(f"{flags.output}: scores of {counted(len(rows), 'text')}{_in_all(scores)}")


def _in_all(scores: "Sequence[TextScore]") -> str:
    characters = sum(each.characters for each in scores)
    if not characters:
        return ""
    loss = -sum(each.pseudo_log_likelihood for each in scores) / characters
    return f", {loss:.4f} nats a character"


def _row(score: "TextScore") -> dict[str, object]:
    return {
        "text": score.text,
        "tokens": score.tokens,
        "unknown": score.unknown,
        "pseudo_log_likelihood": score.pseudo_log_likelihood,
        "pseudo_perplexity": score.pseudo_perplexity,
        "characters": score.characters,
        "loss_per_character": score.loss_per_character,
    }
