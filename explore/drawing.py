"""The drawings of the page as HTML: tokens and bars. Pure.

Every string goes through `report.text` or `html.escape`, so none is ever read as HTML.
"""

from collections.abc import Sequence
from typing import NamedTuple

from beambert.report import Html, tag

# The kinds of a token's box. Each has a colour and a word, since not everybody sees colours.
PLAIN, SPECIAL, MASKED, OTHER, SAME, IN_A, IN_B, UNKNOWN = (
    *("plain", "special", "masked", "other", "same", "in-a", "in-b", "unknown"),
)

STYLE = """
.bb { color: var(--body-text-color, inherit); overflow-wrap: anywhere; }
.bb .pieces { display: flex; flex-wrap: wrap; align-items: flex-start; gap: .35rem 0;
  margin: .5rem 0; }
.bb .piece { display: inline-flex; flex-direction: column; align-items: center; margin-left: .35rem;
  padding: .1rem .4rem; border: 1px solid #5d6675; border-radius: .35rem; background: #ffffff;
  color: #14171c; line-height: 1.3; max-width: 100%; }
.bb .piece.joined { margin-left: 0; border-left: 3px dotted #5d6675; border-top-left-radius: 0;
  border-bottom-left-radius: 0; }
.bb .piece small { font-size: .72rem; color: #2b313c; max-width: 11rem; text-align: center; }
.bb .piece.special { background: #e3e6eb; } .bb .piece.masked { background: #bcd9fb; }
.bb .piece.other { background: #ffd9a8; } .bb .piece.same { background: #c3ecd0; }
.bb .piece.in-a { background: #e3eefc; } .bb .piece.in-b { background: #fdebd6; }
.bb .piece.unknown { background: #f6c4c4; } .bb .piece.chosen { outline: 3px solid #14171c; }
.bb table { border-collapse: collapse; margin: .6rem 0; } .bb .wide { overflow-x: auto; }
.bb th, .bb td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #8a8f98;
  vertical-align: top; color: inherit; }
.bb th, .bb td.number, .bb td:first-child { overflow-wrap: normal; }
.bb td.number, .bb th.number { text-align: right; font-variant-numeric: tabular-nums; }
.bb .bars { min-width: 17rem; max-width: 40rem; }
.bb .bars div { display: grid; grid-template-columns: 6.5rem 1fr 3.5rem;
  gap: .4rem; align-items: center; font-size: .85rem; }
.bb .bars i { display: block; height: .65rem; background: #8a8f98; border-radius: .2rem; }
.bb .bars div.right i { background: #2e9e5b; }
.bb .key { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1rem; margin: .3rem 0;
  padding: 0; font-size: .85rem; } .bb .key .piece { margin: 0; width: 1.1rem;
  height: .85rem; vertical-align: middle; }
.bb .said { margin: .5rem 0; padding: .5rem .8rem; border-left: .3rem solid #4c8bd6;
  background: var(--background-fill-secondary, var(--card)); }
.bb .wrong { border-left-color: #b3261e; } .bb h1 { font-size: 1.4rem; margin: 0; }
.bb h3 { font-size: 1.05rem; margin: 1rem 0 .3rem; }
.bb .error { border: 1px solid #8a8f98; border-radius: .35rem; padding: .4rem .8rem;
  margin: .6rem 0; white-space: pre-line; } .bb .error p { margin: .2rem 0; }
@media (max-width: 600px) { .bb .piece small { max-width: 5.5rem; } }
.bb mark { background: #ffe08a; color: #14171c; padding: 0 .1rem; }
"""


class Piece(NamedTuple):
    """A token in a box.

    Attributes:
      token: the token.
      kind: kind of the box, such as `MASKED`.
      under: text below the token.
      is_chosen: whether the box has a frame.
    """

    token: str
    kind: str = PLAIN
    under: str = ""
    is_chosen: bool = False


def whole(*parts: object) -> Html:
    """Returns parts as one piece of HTML with the page's style."""
    return tag("div", *parts, kind="bb")


def said(*parts: object, is_wrong: bool = False) -> Html:
    """Returns a highlighted message."""
    return tag("p", *parts, kind="said wrong" if is_wrong else "said")


def refused(error: Exception) -> Html:
    """Returns the message of an error as HTML."""
    return whole(said(str(error), is_wrong=True))


def pieces(tokens: Sequence[Piece]) -> Html:
    """Returns tokens in boxes. The pieces of a word touch each other."""
    boxes = []
    for piece in tokens:
        kind = f"piece {piece.kind}"
        kind += " joined" if piece.token.startswith("##") else ""
        kind += " chosen" if piece.is_chosen else ""
        under = tag("small", piece.under) if piece.under else ""
        boxes.append(tag("span", tag("b", piece.token), under, kind=kind))
    return tag("div", *boxes, kind="pieces")


def key(*meanings: tuple[str, str]) -> Html:
    """Returns the legend of the colours of boxes, from (kind, meaning)."""
    boxes = (
        tag("li", Html(f'<i class="piece {kind}" aria-hidden="true"></i>'), " ", said_of)
        for kind, said_of in meanings
    )
    return tag("ul", *boxes, kind="key")


def bars(answers: Sequence[tuple[str, float]], right: str | None = None) -> Html:
    """Returns names with bars of shares; the right one is green and has a check mark.

    Args:
      answers: names and shares.
      right: name of the right answer, if there is one.
    """
    rows = []
    for name, share in answers:
        is_right = name == right
        bar = Html(f'<i style="width:{100 * min(max(share, 0.0), 1.0):.1f}%"></i>')
        label = f"✓ {name}" if is_right else name
        rows.append(
            tag(
                "div",
                tag("span", label),
                tag("span", bar),
                tag("span", f"{share:.1%}"),
                kind="right" if is_right else "",
            )
        )
    return tag("div", *rows, kind="bars")
