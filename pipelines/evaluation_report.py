"""The page of an evaluation."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipelines.evaluation import slice_title
from pipelines.report_page import AMBER, BLUE, cards, page, svg, text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pipelines.predictions import Mistake

_MAX_LABELS_IN_MATRIX = 30


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
        f"<figure>{svg(_slice_figure(metrics))}</figure>",
        _slice_table(metrics),
        _confusion(metrics),
        _mistake_table(mistakes),
    )
    about = (
        f"Model <code>{text(metrics['model'])}</code>, data "
        f"<code>{text(metrics['data_dir'])}</code>"
    )
    return page(f"Evaluation: {title}", about, sections)


def _verdict(metrics: dict[str, Any]) -> str:
    word, style = ("Blessed", " blessed") if metrics["blessed"] else ("Not blessed", "")
    reasons = "".join(f"<p>{text(item['reason'])}</p>" for item in metrics["thresholds"])
    return f'<div class="verdict{style}"><strong>{word}</strong>{reasons}</div>'


def _overall(metrics: dict[str, Any]) -> str:
    overall, baseline = metrics["overall"], metrics["baseline"]
    low, high = overall["accuracy_interval_95"]
    figures = (
        (f"{overall['accuracy']:.4f}", f"accuracy (95 %: {low:.4f} to {high:.4f})"),
        (f"{baseline['accuracy']:.4f}", f"baseline: always {baseline['label']!r}"),
        (f"{overall['balanced_accuracy']:.4f}", "balanced accuracy"),
        (f"{overall['macro_f1']:.4f}", "macro F1"),
        (f"{overall['cross_entropy']:.4f}", "cross entropy, nats"),
        (f"{metrics['examples']:,}", "examples"),
    )
    return f"<h2>Overall</h2>{cards(figures)}"


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
            f"<tr><td>{text(name)}</td>"
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
    return f"<h2>Confusion matrix</h2><figure>{svg(_confusion_figure(metrics))}</figure>"


def _mistake_table(mistakes: Sequence["Mistake"]) -> str:
    if not mistakes:
        return "<h2>Worst errors</h2><p>There are none.</p>"
    rows = "".join(
        f'<tr><td class="text">{text(_both_texts(mistake))}</td>'
        f"<td>{text(mistake.example.label)}</td><td>{text(mistake.prediction)}</td>"
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
        axes.plot(part["accuracy_interval_95"], [position] * 2, color=BLUE, linewidth=2)
        axes.plot([part["accuracy"]], [position], "o", color=BLUE)
    axes.axvline(metrics["baseline"]["accuracy"], color=AMBER, linestyle="--")
    axes.annotate(
        "baseline",
        (metrics["baseline"]["accuracy"], 1.0),
        (3, 3),
        color=AMBER,
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
            colour = to_rgba(BLUE if i == j else AMBER, 0.08 + 0.72 * share)
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
