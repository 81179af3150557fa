"""The command `beambert score`."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from beambert.config import add_settings, check_settings, read_settings, setting
from beambert.console import counted
from beambert.errors import InputError
from beambert.flags import FlagParser
from beambert.process import loading
from beambert.trainer.weights.given_path import ASKED_MODEL, check_weights

if TYPE_CHECKING:
    from beambert.trainer.asking import TextScore

EXAMPLES = """examples:
  # how likely each text is: pseudo-log-likelihood and pseudo-perplexity
  beambert score --model=encoder 'The river is long.' 'The river long is.'

  # the probability that the second text follows the first
  beambert score --model=encoder 'It has rained.' 'The street is wet.' --next

  # a text on each line, or with --next a pair with a tab between -> a JSON object on each line
  beambert score --model=encoder --input=texts.txt --output=scores.jsonl

  # the loss of each character, by which encoders of different vocabularies compare
  beambert score --model=encoder --whole_words --input=texts.txt --output=scores.jsonl

Each token of a text is masked once, so a text costs as many passes as it has tokens. Perplexities
of encoders with different vocabularies cannot be compared.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scoring:
    """The settings of `score`."""

    texts: tuple[str, ...] = setting(
        (), is_positional=True, metavar="TEXT", help="text; with --next two of them"
    )
    model: str = setting(metavar="DIR", help=ASKED_MODEL)
    input: str | None = setting(None, metavar="FILE", help="UTF-8 file with a text on each line")
    output: str | None = setting(
        None, metavar="FILE", help="file that gets the scores as JSON (default: the console)"
    )
    next: bool = setting(False, help="score next sentence prediction instead of texts")
    whole_words: bool = setting(
        False,
        help="mask those pieces of a word that follow, too, so that none gives away another that "
        "comes before it",
    )

    def __post_init__(self) -> None:
        """Checks the values."""
        check_settings(self)
        if self.whole_words and self.next:
            raise InputError("--whole_words: has no effect on --next; leave it out")


def build_parser() -> FlagParser:
    """Returns the parser of the flags of `score`."""
    parser = FlagParser(
        prog="beambert score",
        description="Asks an encoder how likely texts are, or whether one follows another.",
        examples=EXAMPLES,
    )
    add_settings(parser, Scoring)
    return parser


def main(argv: Sequence[str]) -> None:
    """Runs `score`.

    Raises:
      InputError: a flag, the encoder or a text cannot be used.
    """
    flags = read_settings(Scoring, build_parser().parse_args(list(argv)))
    check_weights(flags.model, "--model")
    with loading():
        from beambert.trainer.asking import no_report, score, score_next
        from beambert.trainer.commands.texts import (
            check_output,
            given_texts,
            show_progress,
            write_lines,
        )
    check_output(flags.output)
    texts = given_texts(flags.texts, flags.input)
    report = show_progress("pairs" if flags.next else "tokens") if flags.output else no_report
    if flags.next:
        pairs = _pairs(texts, flags.input)
        found = score_next(flags.model, pairs, report)
        rows = [
            {"first": first, "second": second, "next": probability}
            for (first, second), probability in zip(pairs, found, strict=True)
        ]
        lines = [f"{row['next']:6.1%}  {row['first']} | {row['second']}" for row in rows]
    else:
        scores = score(flags.model, texts, report, flags.whole_words)
        rows = [_row(each) for each in scores]
        lines = [
            f"{each.pseudo_log_likelihood:10.2f}  {each.pseudo_perplexity:10.2f}  {each.text}"
            for each in scores
        ]
        lines.insert(0, f"{'likelihood':>10}  {'perplexity':>10}  text")
    if not flags.output:
        print("\n".join(lines))
        return
    write_lines(flags.output, rows)
    what = counted(len(rows), "pair" if flags.next else "text")
    print(f"{flags.output}: scores of {what}{'' if flags.next else _in_all(scores)}")


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


def _pairs(texts: Sequence[str], path: str | None) -> list[tuple[str, str]]:
    """Returns the pairs of texts that are given one after the other, or of a file's lines."""
    if path is None:
        if len(texts) != 2:
            raise InputError(f"--next: needs two texts, got {len(texts)}; give a pair")
        return [(texts[0], texts[1])]
    pairs = []
    for number, line in enumerate(texts, start=1):
        parts = line.split("\t")
        if len(parts) != 2:
            raise InputError(
                f"--input={path}, text {number}: has {len(parts)} parts; put a tab between the two "
                "texts of a pair"
            )
        pairs.append((parts[0], parts[1]))
    return pairs
