"""The plots of an evaluation's report."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from beambert.pipelines.evaluation.outcomes import NumberOutcomes
from beambert.pipelines.tasks.metrics import METRICS
from beambert.report import AMBER, BLUE, new_figure

# More dots would make the report larger without showing more.
_MAX_DOTS = 1500


def slice_figure(
    parts: Sequence[tuple[str, Mapping[str, Any]]], metric: str, constant: float
) -> Figure:
    """Draws a metric of each slice with its interval, and the score of the best constant answer."""
    figure = new_figure((5.2, 0.8 + 0.3 * len(parts)))
    axes = figure.subplots()
    for position, (_, part) in enumerate(parts):
        axes.plot(part["intervals_95"][metric], [position] * 2, color=BLUE, linewidth=2)
        axes.plot([part[metric]], [position], "o", color=BLUE)
    axes.axvline(constant, color=AMBER, linestyle="--")
    axes.annotate(
        "constant answer",
        (constant, 1.0),
        (3, 3),
        color=AMBER,
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
    )
    axes.set_yticks(range(len(parts)), [short(name) for name, _ in parts])
    axes.set_ylim(len(parts) - 0.4, -0.6)
    axes.set_xlim(*_limits([part for _, part in parts], metric))
    axes.set_xlabel(f"{METRICS[metric].title}, 95 % interval")
    return figure


def length_figure(parts: Mapping[str, Mapping[str, Any]], metric: str) -> Figure:
    """Draws a metric with its intervals over the number of words, and the numbers of examples."""
    figure = new_figure()
    axes, counts = figure.subplots(2, height_ratios=(3, 1), sharex=True)
    positions = range(len(parts))
    for position, part in zip(positions, parts.values(), strict=True):
        axes.plot([position] * 2, part["intervals_95"][metric], color=BLUE, linewidth=2)
    axes.plot(positions, [part[metric] for part in parts.values()], "o-", color=BLUE, linewidth=0.8)
    axes.set_ylim(*_limits(list(parts.values()), metric))
    axes.set_ylabel(METRICS[metric].title)
    counts.bar(positions, [part["example_count"] for part in parts.values()], 0.6, color=BLUE)
    counts.set_ylabel("examples")
    counts.set_xticks(positions, list(parts))
    counts.set_xlabel("words")
    return figure


def confusion_figure(matrix: Sequence[Sequence[int]], names: Sequence[str]) -> Figure:
    """Draws the confusion matrix, shaded by the share of the true label's examples."""
    labels = [short(label) for label in names]
    side = 2.2 + 0.55 * len(labels)
    figure = new_figure((side, side * 0.85))
    axes = figure.subplots()
    for i, row in enumerate(matrix):
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
    crowded = max(map(len, labels)) > 7
    axes.set_xticks(range(len(labels)), labels, rotation=45 if crowded else 0)
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


def calibration_figure(bins: Sequence[Mapping[str, Any]]) -> Figure:
    """Draws the share of right answers over their probability, and the numbers of answers."""
    filled = [one for one in bins if one["examples"]]
    figure = new_figure((4.4, 4.2))
    axes, counts = figure.subplots(2, height_ratios=(4, 1), sharex=True)
    _diagonal(axes, 0, 1)
    axes.plot(
        [one["probability"] for one in filled],
        [one["accuracy"] for one in filled],
        "o-",
        color=BLUE,
    )
    axes.set(ylabel="share that is right", ylim=(-0.02, 1.02))
    middles = [(one["least"] + one["greatest"]) / 2 for one in bins]
    counts.bar(middles, [one["examples"] for one in bins], 0.9 / len(bins), color=BLUE)
    counts.set(xlabel="probability of the given answer", ylabel="examples", xlim=(-0.02, 1.02))
    return figure


def number_figure(outcomes: NumberOutcomes) -> Figure:
    """Draws the predictions over the labels."""
    step = -(-len(outcomes) // _MAX_DOTS)
    labels, predictions = outcomes.labels[::step], outcomes.predictions[::step]
    figure = new_figure()
    axes = figure.subplots()
    _diagonal(axes, float(outcomes.labels.min()), float(outcomes.labels.max()))
    axes.plot(labels, predictions, "o", color=BLUE, markersize=3, alpha=0.4, markeredgewidth=0)
    axes.set(xlabel="label", ylabel="predicted")
    return figure


def difference_figure(outcomes: NumberOutcomes) -> Figure:
    """Draws a histogram of the differences between predictions and labels."""
    figure = new_figure()
    axes = figure.subplots()
    axes.hist(outcomes.predictions - outcomes.labels, 30, color=BLUE)
    axes.axvline(0, color=AMBER, linestyle="--")
    axes.set(xlabel="predicted − label", ylabel="examples")
    return figure


def short(name: str) -> str:
    """Returns a name, shortened to fit beside an axis."""
    # A dollar sign would start a formula.
    return (name if len(name) <= 30 else name[:29] + "…").replace("$", r"\$")


def _diagonal(axes: Axes, low: float, high: float) -> None:
    axes.plot([low, high], [low, high], color=AMBER, linestyle="--")


def _limits(parts: Sequence[Mapping[str, Any]], metric: str) -> tuple[float, float]:
    ends = [end for part in parts for end in part["intervals_95"][metric]]
    low, high = min(0.0, *ends), max(ends)
    if METRICS[metric].greatest == 1:
        high = 1.0
    return low - 0.02 * (high - low), high + 0.02 * (high - low)
