"""The page of a comparison: the tables, and a plot of each metric with a curve per training."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from beambert.report import (
    AMBER,
    BLUE,
    GREY,
    Html,
    figures,
    new_figure,
    note,
    page,
    section,
    table,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curves = Mapping[tuple[str, str], tuple[np.ndarray, np.ndarray]]
# Colours of the curves. With more trainings than colours, the next ones have dashed lines.
COLOURS = (BLUE, AMBER, "#3fa66b", "#b565c9", "#d1495b", "#2aa5a0", GREY)
_LINES = ("-", "--", ":", "-.")
# Largest number of points in a curve. Of more steps, each point is the mean of several.
MOST_POINTS = 300
_TITLES = {"eval": "Curves on held-out data", "train": "Curves on training data"}
# Metrics that say the same as tokens_per_second.
_NOT_DRAWN = ("seconds_per_step", "sequences_per_second")


def render(
    names: Sequence[str],
    tables: Sequence[tuple[str, Sequence[Sequence[str]]]],
    curves: Sequence[Curves],
    remark: str = "",
) -> str:
    """Returns the page.

    Args:
      names: names of the trainings.
      tables: title and rows of each table; a row has a name and a text for each training.
      curves: curves of each training.
      remark: sentence about the tables.
    """
    return page(
        f"Comparison of {len(names)} trainings",
        ", ".join(names),
        [
            *(_table(title, names, rows) for title, rows in tables),
            *([note(remark)] if remark else []),
            *_plots(names, curves),
        ],
    )


def _table(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    if not rows:
        return section(title, note("none"))
    kinds = ("name", *("short" for _ in names))
    return section(title, table(("", *names), rows, kinds))


def _plots(names: Sequence[str], curves: Sequence[Curves]) -> list[Html]:
    """Returns a section for each split, with a plot of each of its metrics."""
    every = list(dict.fromkeys(metric for each in curves for metric in each))
    found = []
    for split, title in _TITLES.items():
        metrics = [
            name for its_split, name in every if its_split == split and name not in _NOT_DRAWN
        ]
        drawn = [
            _plot(names, [curve.get((split, metric)) for curve in curves], metric)
            for metric in metrics
        ]
        if drawn:
            found.append(section(title, figures(*drawn)))
    return found


def _plot(
    names: Sequence[str], curves: Sequence[tuple[np.ndarray, np.ndarray] | None], metric: str
) -> "Figure":
    """Plots a metric; a training has the same colour in all plots."""
    figure = new_figure()
    axes = figure.subplots()
    for number, (name, curve) in enumerate(zip(names, curves, strict=True)):
        if curve is None:
            continue
        steps, values = thinned(*curve)
        line = _LINES[number // len(COLOURS) % len(_LINES)]
        colour = COLOURS[number % len(COLOURS)]
        mark = "o" if len(steps) == 1 else ""  # a line needs two points
        axes.plot(steps, values, line, color=colour, marker=mark, linewidth=1.5, label=name)
    axes.legend(frameon=False, fontsize=8)
    axes.set(xlabel="update", title=metric.replace("_", " "))
    return figure


def thinned(steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns a curve of at most `MOST_POINTS` points, the means of neighbours."""
    if len(steps) <= MOST_POINTS:
        return steps, values
    first = np.linspace(0, len(steps), MOST_POINTS, endpoint=False).astype(int)
    counts = np.diff(np.append(first, len(steps)))
    return np.add.reduceat(steps, first) / counts, np.add.reduceat(values, first) / counts
