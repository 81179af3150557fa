"""What the pages of reports share: one HTML file each that needs nothing but a browser.

Plots are inline SVG whose text and lines take the page's colour, so that they follow the
reader's light or dark setting.
"""

import html
import io
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE = "#4c8bd6"
AMBER = "#d9822b"
# Stands for the page's text colour in a figure: no plot uses this colour otherwise.
_INK = "#010203"

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #667085; --paper: #ffffff;
  --card: #f5f7fa; --line: #dde2ea; --bar: #4c8bd6; --good: #1a7f45; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #98a2b3; --paper: #14171c;
  --card: #1d2128; --line: #333a45; --bar: #4c8bd6; --good: #58c98a; --bad: #f08a83; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 60rem; color: var(--ink);
  background: var(--paper); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
p { margin: .4rem 0; } .soft { color: var(--soft); } code { overflow-wrap: anywhere; }
.verdict { margin: 1rem 0; padding: .8rem 1rem; border-left: .4rem solid var(--bad);
  background: var(--card); border-radius: .3rem; } .verdict.blessed { border-color: var(--good); }
.verdict strong { color: var(--bad); } .verdict.blessed strong { color: var(--good); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .6rem; }
.card { background: var(--card); border-radius: .4rem; padding: .7rem .9rem; }
.card b { display: block; font-size: 1.4rem; } .card span { color: var(--soft); font-size: .85rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top; } th { font-weight: 600; font-size: .85rem; color: var(--soft); }
td.number, th.number { text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
td.text { min-width: 14rem; overflow-wrap: anywhere; white-space: pre-wrap; }
td.short { min-width: 8.5rem; } td.name { min-width: 10rem; }
.bar { min-width: 7rem; } .bar i { display: block; height: .7rem; margin-top: .4rem;
  background: var(--bar); border-radius: .2rem; }
figure { margin: 0; } svg { max-width: 100%; height: auto; }
"""


def page(title: str, about: str, sections: Iterable[str]) -> str:
    """Returns a whole page.

    Args:
      title: plain text.
      about: HTML of the line below it.
      sections: HTML.
    """
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>{_STYLE}</style></head>\n"
        f"<body>\n<h1>{text(title)}</h1>\n"
        f'<p class="soft">{about}</p>\n' + "\n".join(sections) + "\n</body></html>\n"
    )


def text(value: object) -> str:
    """Returns plain text as HTML."""
    return html.escape(str(value))


def cards(values: Iterable[tuple[str, str]]) -> str:
    """Returns a row of large figures, each with its name below."""
    inner = "".join(
        f'<div class="card"><b>{text(value)}</b><span>{text(name)}</span></div>'
        for value, name in values
    )
    return f'<div class="cards">{inner}</div>'


def svg(figure: "Figure") -> str:
    """Returns a figure as an SVG element in the page's colour and font."""
    import matplotlib

    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
        axes.tick_params(colors=_INK)
        axes.spines[:].set_color(_INK)
        for label in (axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts):
            if label.get_color() == "black":
                label.set_color(_INK)
    target = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "BeamBERT"}):
        figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None})
    drawn = target.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.DOTALL)
    # Two figures in one page would share matplotlib's group names.
    drawn = re.sub(r' id="[A-Za-z.]+_\d+"', "", drawn)
    return drawn.replace(_INK, "currentColor")
