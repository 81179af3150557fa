"""The HTML of report pages. A report is one file that needs nothing but a browser.

The functions below build a page and escape every text that isn't `Html`. Plots are inline SVG.
"""

import html
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

# Colours of plots, legible on a light and on a dark page, and the size of a plot in pixels.
COLOURS, PLOT_SIZE = ("#4c8bd6", "#d9822b"), (480, 280)
# States of a result, each with a colour.
GOOD, BAD = "good", "bad"

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #667085; --paper: #ffffff;
  --card: #f5f7fa; --line: #dde2ea; --bar: #4c8bd6; --good: #1a7f45; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #98a2b3; --paper: #14171c;
  --card: #1d2128; --line: #333a45; --good: #58c98a; --bad: #f08a83; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 64rem; color: var(--ink);
  background: var(--paper); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
h1, h2, p, li, code { overflow-wrap: anywhere; } p { margin: .4rem 0; }
.soft { color: var(--soft); } code { font-size: .85em; }
.good { --state: var(--good); } .bad { --state: var(--bad); }
.verdict { margin: 1rem 0; padding: .8rem 1rem; border-left: .4rem solid var(--state);
  background: var(--card); border-radius: .3rem; }
.verdict strong { color: var(--state); }
.verdict ul { margin: .4rem 0; padding-left: 1.2rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .6rem;
  margin: .8rem 0; }
.card { background: var(--card); border-radius: .4rem; padding: .7rem .9rem; }
.card b { display: block; font-size: 1.3rem; color: var(--state, inherit);
  overflow-wrap: anywhere; }
.card span { display: block; color: var(--soft); font-size: .85rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .95rem; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top; } th { font-weight: 600; font-size: .85rem; color: var(--soft); }
td.number, th.number { text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
td.text { min-width: 14rem; overflow-wrap: anywhere; white-space: pre-wrap; }
td.short { min-width: 8.5rem; overflow-wrap: anywhere; white-space: pre-wrap; }
td.name { min-width: 8rem; }
@media (min-width: 40rem) { td.name { min-width: 13rem; } }
td.bar { min-width: 7rem; width: 30%; } td.bar i { display: block; height: .7rem;
  margin-top: .4rem; background: var(--bar); border-radius: .2rem; }
figure { margin: .8rem 0; max-width: 100%; } figcaption { color: var(--soft); font-size: .9rem; }
svg { max-width: 100%; height: auto; display: block; }
details { margin: .8rem 0; } summary { cursor: pointer; color: var(--soft); }
"""


class Html(str):
    """Text that is HTML already; the functions of this module escape all other text."""

    __slots__ = ()


class Card(NamedTuple):
    """A number in large type, with its name.

    Attributes:
      value: the number as text.
      name: name of the number.
      beside: text to compare the number with.
      state: GOOD or BAD; "" gives it no colour.
    """

    value: str
    name: str
    beside: str = ""
    state: str = ""


def text(value: object) -> Html:
    """Returns a value as HTML: `Html` unchanged, anything else as escaped text."""
    return value if isinstance(value, Html) else Html(html.escape(str(value)))


def join(*parts: object) -> Html:
    """Returns texts and pieces of HTML joined into one piece of HTML."""
    return Html("".join(map(text, parts)))


def tag(name: str, *children: object, kind: str = "") -> Html:
    """Returns an HTML element; `kind` is a class of the page's style."""
    style = f' class="{kind}"' if kind else ""
    return Html(f"<{name}{style}>{join(*children)}</{name}>")


def page(title: str, about: object, sections: Iterable[Html]) -> str:
    """Returns a complete HTML page.

    Args:
      title: title of the page, plain text.
      about: line below the title.
      sections: sections of the page, in order.
    """
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"{tag('title', title)}\n<style>{_STYLE}</style></head>\n"
        f"<body>\n{tag('h1', title)}\n{note(about)}\n" + "\n".join(sections) + "\n</body></html>\n"
    )


def section(title: str, *parts: object) -> Html:
    """Returns a section: a title and the parts below it."""
    return tag("section", tag("h2", title), *parts)


def note(*parts: object) -> Html:
    """Returns a paragraph of explanation."""
    return tag("p", *parts, kind="soft")


def verdict(state: str, *parts: object) -> Html:
    """Returns a result in a box that has the colour of its state."""
    return tag("div", *parts, kind=f"verdict {state}")


def cards(values: Iterable[Card]) -> Html:
    """Returns a row of numbers in large type."""
    return tag(
        "div",
        *(
            tag(
                "div",
                tag("b", card.value),
                tag("span", card.name),
                tag("span", card.beside) if card.beside else "",
                kind=f"card {card.state}".rstrip(),
            )
            for card in values
        ),
        kind="cards",
    )


def table(header: Sequence[str], rows: Iterable[Sequence[object]], kinds: Sequence[str]) -> Html:
    """Returns a table. A table wider than the page can be scrolled.

    Args:
      header: names of the columns; an empty one leaves the header out.
      rows: cells of each row.
      kinds: content of each column: "name", "number", "text", "short" text, "bar", or "".
    """

    def row(cell: str, values: Sequence[object]) -> Html:
        columns = zip(kinds, values, strict=True)
        return tag("tr", *(tag(cell, value, kind=kind) for kind, value in columns))

    head = tag("thead", row("th", header)) if header else ""
    body = tag("tbody", *(row("td", values) for values in rows))
    return tag("div", tag("table", head, body), kind="wide")


def bar(share: float) -> Html:
    """Returns a bar for a column of bars; a share of 1 fills the column."""
    return Html(f'<i style="width:{100 * share:.1f}%"></i>')


def curves(lines: Mapping[str, Sequence[tuple[float, float]]], x_label: str, y_label: str) -> Html:
    """Returns a plot of lines, whose axes say the least and the greatest numbers.

    Args:
      lines: name -> points, at least one in all; each of up to two lines has a colour.
      x_label, y_label: names of the numbers.
    """
    width, height = PLOT_SIZE
    xs, ys = zip(*itertools.chain(*lines.values()), strict=True)
    left, right, low, high = min(xs), max(xs), min(ys), max(ys)

    def place(x: float, y: float) -> str:
        across, up = (x - left) / ((right - left) or 1), (y - low) / ((high - low) or 1)
        return f"{across * width:.1f},{(1 - up) * height:.1f}"

    drawn, names = [], []
    for (name, points), colour in zip(lines.items(), COLOURS, strict=False):
        path = " ".join(itertools.starmap(place, [*points, *points[-1:]]))  # One point is a dot.
        style = f'fill="none" stroke="{colour}" stroke-width="2" stroke-linecap="round"'
        drawn.append(f'<polyline {style} points="{path}"/>')
        names.append(Html(f'<b style="color:{colour}">{html.escape(name)}</b> '))
    box = f'viewBox="-2 -2 {width + 4} {height + 4}" width="{width}"'
    about = (
        f"up: {y_label}, {low:.4g} to {high:.4g}; across: {x_label}, {left:,.0f} to {right:,.0f}"
    )
    plot = Html(f"<svg {box}>{''.join(drawn)}</svg>")
    return tag("figure", plot, tag("figcaption", *names, about))
