"""The page of an evaluation: one HTML file that needs nothing but a browser.

Plots are inline SVG whose text and lines take the page's colour, so that they follow the
reader's light or dark setting.
"""

import html
import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipelines.evaluation import slice_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pipelines.predictions import Mistake

# Stands for the page's text colour in a figure: no plot uses this colour otherwise.
_INK = "#010203"
_BLUE = "#4c8bd6"
_AMBER = "#d9822b"
_MAX_LABELS_IN_MATRIX = 30

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
.bar { min-width: 7rem; } .bar i { display: block; height: .7rem; margin-top: .4rem;
  background: var(--bar); border-radius: .2rem; }
figure { margin: 0; } svg { max-width: 100%; height: auto; }
"""


def render(metrics: dict[str, Any], mistakes: Sequence["Mistake"]) -> str:
    """Returns the HTML page.

    Args:
      metrics: what metrics.json holds.
      mistakes: the wrongly classified examples to show, in order.
    """
    title = f"{metrics['task']}, {metrics['split']} split"
    sections = (
        _verdict(metrics),
        _overall(metrics),
        "<h2>By slice</h2>",
        f"<figure>{_svg(_slice_figure(metrics))}</figure>",
        _slice_table(metrics),
        _confusion(metrics),
        _mistake_table(mistakes),
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Evaluation: {_text(title)}</title>\n<style>{_STYLE}</style></head>\n"
        f"<body>\n<h1>Evaluation: {_text(title)}</h1>\n"
        f'<p class="soft">Model <code>{_text(metrics["model"])}</code>, data '
        f"<code>{_text(metrics['data_dir'])}</code></p>\n"
        + "\n".join(sections)
        + "\n</body></html>\n"
    )


def _text(value: object) -> str:
    return html.escape(str(value))


def _verdict(metrics: dict[str, Any]) -> str:
    word, style = ("Blessed", " blessed") if metrics["blessed"] else ("Not blessed", "")
    reasons = "".join(f"<p>{_text(item['reason'])}</p>" for item in metrics["thresholds"])
    return f'<div class="verdict{style}"><strong>{word}</strong>{reasons}</div>'


def _overall(metrics: dict[str, Any]) -> str:
    overall, baseline = metrics["overall"], metrics["baseline"]
    low, high = overall["accuracy_interval_95"]
    cards = (
        (f"{overall['accuracy']:.4f}", f"accuracy (95 %: {low:.4f} to {high:.4f})"),
        (f"{baseline['accuracy']:.4f}", f"baseline: always {baseline['label']!r}"),
        (f"{overall['balanced_accuracy']:.4f}", "balanced accuracy"),
        (f"{overall['macro_f1']:.4f}", "macro F1"),
        (f"{overall['cross_entropy']:.4f}", "cross entropy, nats"),
        (f"{metrics['examples']:,}", "examples"),
    )
    inner = "".join(
        f'<div class="card"><b>{value}</b><span>{_text(name)}</span></div>' for value, name in cards
    )
    return f'<h2>Overall</h2><div class="cards">{inner}</div>'


def _named_slices(metrics: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (slice_title(name, value), part)
        for name, slices in metrics["slices"].items()
        for value, part in slices.items()
    ]


def _slice_table(metrics: dict[str, Any]) -> str:
    rows = []
    for name, part in [("overall", metrics["overall"]), *_named_slices(metrics)]:
        low, high = part["accuracy_interval_95"]
        rows.append(
            f"<tr><td>{_text(name)}</td>"
            f'<td class="number">{part["example_count"]:,}</td>'
            f'<td class="number">{part["accuracy"]:.4f}</td>'
            f'<td class="bar"><i style="width:{100 * part["accuracy"]:.1f}%"></i></td>'
            f'<td class="number">{low:.3f} to {high:.3f}</td>'
            f'<td class="number">{part["cross_entropy"]:.4f}</td></tr>'
        )
    return (
        '<div class="wide"><table><tr><th>slice</th><th class="number">examples</th>'
        '<th class="number">accuracy</th><th></th><th class="number">95 % interval</th>'
        f'<th class="number">cross entropy</th></tr>{"".join(rows)}</table></div>'
    )


def _confusion(metrics: dict[str, Any]) -> str:
    if len(metrics["labels"]) > _MAX_LABELS_IN_MATRIX:
        return (
            f'<h2>Confusion matrix</h2><p class="soft">With {len(metrics["labels"])} labels it is '
            "too large to draw: metrics.json holds it.</p>"
        )
    return f"<h2>Confusion matrix</h2><figure>{_svg(_confusion_figure(metrics))}</figure>"


def _mistake_table(mistakes: Sequence["Mistake"]) -> str:
    if not mistakes:
        return "<h2>Worst errors</h2><p>There are none.</p>"
    rows = "".join(
        f'<tr><td class="text">{_text(_both_texts(mistake))}</td>'
        f"<td>{_text(mistake.example.label)}</td><td>{_text(mistake.prediction)}</td>"
        f'<td class="number">{mistake.probability:.3f}</td></tr>'
        for mistake in mistakes
    )
    return (
        f'<h2>Worst errors</h2><p class="soft">The {len(mistakes)} that the model was surest of.'
        '</p><div class="wide"><table><tr><th>text</th><th>label</th><th>predicted</th>'
        f'<th class="number">probability</th></tr>{rows}</table></div>'
    )


def _both_texts(mistake: "Mistake") -> str:
    example = mistake.example
    return example.text if example.text_b is None else f"{example.text}\n{example.text_b}"


def _slice_figure(metrics: dict[str, Any]) -> "Figure":
    """Draws the accuracy of every slice with its interval beside the baseline."""
    from matplotlib.figure import Figure

    parts = [("overall", metrics["overall"]), *_named_slices(metrics)]
    figure = Figure(figsize=(6.2, 0.8 + 0.3 * len(parts)), layout="constrained")
    axes = figure.subplots()
    for position, (_, part) in enumerate(parts):
        axes.plot(part["accuracy_interval_95"], [position] * 2, color=_BLUE, linewidth=2)
        axes.plot([part["accuracy"]], [position], "o", color=_BLUE)
    axes.axvline(metrics["baseline"]["accuracy"], color=_AMBER, linestyle="--")
    axes.annotate(
        "baseline",
        (metrics["baseline"]["accuracy"], 1.0),
        (3, 3),
        color=_AMBER,
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
    )
    axes.set_yticks(range(len(parts)), [_short(name) for name, _ in parts])
    axes.set_ylim(len(parts) - 0.4, -0.6)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("accuracy, 95 % interval")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _confusion_figure(metrics: dict[str, Any]) -> "Figure":
    """Draws the counts, shaded by their share of the true label's examples."""
    from matplotlib.colors import to_rgba
    from matplotlib.figure import Figure

    labels = [_short(label) for label in metrics["labels"]]
    side = 2.2 + 0.55 * len(labels)
    figure = Figure(figsize=(side, side * 0.85), layout="constrained")
    axes = figure.subplots()
    for i, row in enumerate(metrics["overall"]["confusion_matrix"]):
        for j, count in enumerate(row):
            share = count / max(1, sum(row))
            colour = to_rgba(_BLUE if i == j else _AMBER, 0.08 + 0.72 * share)
            axes.fill(
                [j - 0.48, j + 0.48, j + 0.48, j - 0.48],
                [i - 0.48, i - 0.48, i + 0.48, i + 0.48],
                color=colour,
                linewidth=0,
            )
            axes.text(j, i, f"{count:,}", ha="center", va="center")
    axes.set_xticks(range(len(labels)), labels, rotation=45 if len(labels) > 3 else 0)
    axes.set_yticks(range(len(labels)), labels)
    axes.set(
        xlabel="predicted",
        ylabel="label",
        xlim=(-0.5, len(labels) - 0.5),
        ylim=(len(labels) - 0.5, -0.5),
        aspect="equal",
    )
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure


def _short(name: str) -> str:
    # A dollar sign would start a formula.
    return (name if len(name) <= 30 else name[:29] + "…").replace("$", r"\$")


def _svg(figure: "Figure") -> str:
    """Returns a figure as an SVG element in the page's colour and font."""
    import matplotlib

    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
        axes.tick_params(colors=_INK)
        axes.spines[:].set_color(_INK)
        for text in (axes.xaxis.label, axes.yaxis.label, *axes.texts):
            if text.get_color() == "black":
                text.set_color(_INK)
    target = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "BeamBERT"}):
        figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None})
    svg = target.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    # Two figures in one page would share matplotlib's group names.
    svg = re.sub(r' id="[A-Za-z.]+_\d+"', "", svg)
    return svg.replace(_INK, "currentColor")
