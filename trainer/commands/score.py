"""The command `beambert score`."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from beambert.config import read_settings, setting, settings_parser
from beambert.console import counted, no_report, show_progress
from beambert.process import loading
from beambert.trainer.commands.texts import Asking, write_lines

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

# The fields of a line of the output.
_FIELDS = (
    *("text", "tokens", "unknown", "pseudo_log_likelihood", "pseudo_perplexity"),
    *("characters", "loss_per_character"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scoring(Asking):
    """The settings of `score`."""

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
    with loading():
        texts = flags.open_texts()
        from beambert.trainer.asking import score
    report = show_progress("tokens") if flags.output else no_report
    scores = score(flags.model, texts, report, flags.whole_words)
    if not flags.output:
        print(f"{'likelihood':>10}  {'perplexity':>10}  text")
        for each in scores:
            numbers = f"{each.pseudo_log_likelihood:10.2f}  {each.pseudo_perplexity:10.2f}"
            print(f"{numbers}  {each.text}")
        return
    write_lines(flags.output, ({name: getattr(each, name) for name in _FIELDS} for each in scores))
    print(f"{flags.output}: scores of {counted(len(scores), 'text')}{_in_all(scores)}")


def _in_all(scores: "Sequence[TextScore]") -> str:
    characters = sum(each.characters for each in scores)
    if not characters:
        return ""
    loss = -sum(each.pseudo_log_likelihood for each in scores) / characters
    return f", {loss:.4f} nats a character"
