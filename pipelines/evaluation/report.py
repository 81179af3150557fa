"""The report of an evaluation, an HTML page."""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from beambert.console import json_line
from beambert.pipelines.evaluation.measures import (
    OFFICIAL,
    slice_feature,
    slice_title,
    without_model,
    words_note,
    written,
)
from beambert.pipelines.tasks.declarations import kind_of
from beambert.pipelines.tasks.kind import Mistake, Outcomes, Record, excerpt
from beambert.pipelines.tasks.metrics import METRICS
from beambert.pipelines.tasks.regression import NumberOutcomes
from beambert.pipelines.tasks.vectors import CosineOutcomes
from beambert.report import (
    AMBER,
    BAD,
    BLUE,
    GOOD,
    Card,
    Html,
    bar,
    cards,
    figures,
    join,
    new_figure,
    note,
    page,
    section,
    table,
    tag,
    verdict,
)

_MAX_LABELS_IN_MATRIX = 30
_MAX_SLICES_IN_FIGURE = 60
_MAX_MISTAKES = 20
# Greatest numbers of characters of a text and of an answer in the table of errors.
_MOST_OF_TEXT, _MOST_OF_ANSWER = 400, 160
# More dots would make the report larger without showing more.
_MAX_DOTS = 1500
_ENTITY_COUNTS = {"true": "true", "predicted": "predicted", "correct": "right"}
_ENTITY_SCORES = {"precision": "precision", "recall": "recall", "f1": "F1"}


def render(metrics: dict[str, Any], outcomes: Outcomes, mistakes: Sequence[Mistake]) -> str:
    """Returns the HTML page.

    Args:
      metrics: content of metrics.json.
      outcomes: outcomes of all examples.
      mistakes: all mistakes, worst first.
    """
    sections = [
        _verdict(metrics),
        _overall(metrics),
        _baseline(metrics),
        _by_slice(metrics),
        _confusion(metrics),
        _calibration(metrics),
        _by_type(metrics),
        _official(metrics),
        _numbers(outcomes),
        _mistake_table(metrics, mistakes),
    ]
    about = join(
        "Model ", tag("code", metrics["model"]), ", data ", tag("code", metrics["data_dir"])
    )
    title = f"Evaluation: {metrics['task']}, {metrics['split']} split"
    return page(title, about, filter(None, sections))


def _verdict(metrics: dict[str, Any]) -> Html:
    word, state = ("Blessed", GOOD) if metrics["blessed"] else ("Not blessed", BAD)
    reasons = [tag("p", item["reason"]) for item in metrics["thresholds"]]
    if note_of_words := words_note(metrics):
        reasons.append(tag("p", f"But {note_of_words}."))
    return verdict(state, tag("strong", word), *reasons)


def _overall(metrics: dict[str, Any]) -> Html:
    overall, first = metrics["overall"], metrics["metrics"][0]
    constant = metrics["constant_answers"][first]
    shown = []
    for name in metrics["metrics"]:
        low, high = overall["intervals_95"][name]
        interval = f"95 %: {low:.4f} to {high:.4f}"
        shown.append(Card(f"{overall[name]:.4f}", METRICS[name].title, interval))
    always = f"{METRICS[first].title} of {without_model(constant)}"
    shown.append(Card(f"{constant['score']:.4f}", always))
    if words := metrics["words"]:
        low, high = words["change_interval_95"]
        change = f"this model: {low:+.4f} to {high:+.4f} (95 %)"
        title = f"{METRICS[first].title} of {words['model']}"
        shown.append(Card(f"{words['scores'][first]:.4f}", title, change))
    shown.append(Card(f"{metrics['examples']:,}", "examples"))
    return section("Overall", cards(shown))


def _baseline(metrics: dict[str, Any]) -> Html | None:
    baseline = metrics["baseline"]
    if baseline is None:
        return None
    low, high = baseline["change_interval_95"]
    rows = [
        (
            METRICS[name].title,
            f"{score:.4f}",
            f"{metrics['overall'][name]:.4f}",
            f"{baseline['changes'][name]:+.4f}",
        )
        for name, score in baseline["scores"].items()
    ]
    return section(
        "Comparison with the baseline",
        tag(
            "p",
            "Model ",
            tag("code", baseline["model"]),
            " on the same examples; the change in ",
            METRICS[metrics["metrics"][0]].title,
            f" is between {low:+.4f} and {high:+.4f} (95 %).",
        ),
        table(("metric", "baseline", "this model", "change"), rows, ("", *["number"] * 3)),
    )


def _by_slice(metrics: dict[str, Any]) -> Html:
    first = metrics["metrics"][0]
    titled = {
        name: [(slice_title(name, value), part) for value, part in slices.items()]
        for name, slices in metrics["slices"].items()
    }
    drawn = [part for part in itertools.chain(*titled.values()) if part[1][first] is not None]
    figure = ""
    if drawn:
        drawn = [("overall", metrics["overall"]), *drawn][:_MAX_SLICES_IN_FIGURE]
        constant = metrics["constant_answers"][first]["score"]
        figure = figures(slice_figure(drawn, first, constant))
    return section("By slice", figure, _slice_table(metrics, titled))


def _slice_table(
    metrics: dict[str, Any], titled: Mapping[str, Sequence[tuple[str, dict[str, Any]]]]
) -> Html:
    first, *others = metrics["metrics"]
    rows = []
    for name, part in [("overall", metrics["overall"]), *itertools.chain(*titled.values())]:
        interval = part["intervals_95"][first] or []
        scores = [written(part[first]), " to ".join(f"{end:.3f}" for end in interval)]
        scores += [written(part[other]) for other in others]
        rows.append((name, f"{part['example_count']:,}", *scores))
    titles = [METRICS[other].title for other in others]
    header = ("slice", "examples", METRICS[first].title, "95 % interval", *titles)
    return table(header, rows, ("name", *["number"] * (len(header) - 1)))


def _confusion(metrics: dict[str, Any]) -> Html | None:
    matrix = metrics["details"].get("confusion_matrix")
    if matrix is None:
        return None
    if len(matrix) > _MAX_LABELS_IN_MATRIX:
        shown = note(
            f"With {len(matrix)} labels the matrix is too large to draw; metrics.json holds it."
        )
    else:
        shown = figures(confusion_figure(matrix, metrics["labels"]))
    return section("Confusion matrix", shown)


def _calibration(metrics: dict[str, Any]) -> Html | None:
    found = metrics["details"].get("calibration")
    if found is None:
        return None
    about = (
        "On the dashed line, answers are right as often as the model predicts. The mean distance "
        f"from it, the expected calibration error, is {found['expected_calibration_error']:.4f}."
    )
    return section("Calibration", note(about), figures(calibration_figure(found["bins"])))


def _by_type(metrics: dict[str, Any]) -> Html | None:
    details = metrics["details"]
    title, first = ("By label", "label") if "by_label" in details else ("Entities by type", "type")
    by_type = details.get("by_label", details.get("by_type"))
    if by_type is None:
        return None
    rows = [
        (
            name,
            *(f"{part[key]:,}" for key in _ENTITY_COUNTS),
            *(f"{part[key]:.4f}" for key in _ENTITY_SCORES),
            bar(part["f1"]),
        )
        for name, part in by_type.items()
    ]
    titles = [*_ENTITY_COUNTS.values(), *_ENTITY_SCORES.values()]
    kinds = ("", *["number"] * len(titles), "bar")
    return section(title, table((first, *titles, ""), rows, kinds))


def _official(metrics: dict[str, Any]) -> Html | None:
    official = metrics["details"].get(OFFICIAL)
    if official is None:
        return None
    return section(
        "Official scores",
        note(
            "In per cent; the input of the official scorer is in ",
            tag("code", OFFICIAL),
            " next to this page.",
        ),
        table((), [(name, f"{value:,.3f}") for name, value in official.items()], ("", "number")),
    )


def _numbers(outcomes: Outcomes) -> Html | None:
    # Cosines need not equal labels.
    if not isinstance(outcomes, NumberOutcomes) or isinstance(outcomes, CosineOutcomes):
        return None
    return section(
        "Predicted numbers",
        note("On the dashed line, predictions equal labels."),
        figures(number_figure(outcomes)),
    )


def _mistake_table(metrics: dict[str, Any], mistakes: Sequence[Mistake]) -> Html:
    if not mistakes:
        return section("Worst errors", tag("p", "There are none."))
    weight, which = kind_of(metrics["task_kind"]).WEIGHT
    rows = [
        (
            excerpt(one.text, _MOST_OF_TEXT),
            excerpt(one.expected, _MOST_OF_ANSWER),
            excerpt(one.predicted, _MOST_OF_ANSWER),
            f"{one.weight:.3g}",
        )
        for one in mistakes[:_MAX_MISTAKES]
    ]
    return section(
        "Worst errors",
        note(f"The {len(rows)} examples {which}, of {len(mistakes):,} with errors."),
        table(("text", "right", "predicted", weight), rows, ("text", "short", "short", "number")),
    )


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


def short(name: str) -> str:
    """Returns a name, shortened to fit next to an axis."""
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


def worst_mistakes(
    kind: str, records: Sequence[Record], examples: Sequence[Any], slicings: Iterable[str] = ()
) -> list[Mistake]:
    """Returns all mistakes, worst first; equally bad ones keep the order of the file.

    Args:
      kind: kind of the task.
      records: records of the predictions.
      examples: example of each record.
      slicings: names of the slicings of the records.
    """
    names = list(slicings)
    found = []
    of_all = kind_of(kind).mistakes(records, examples)
    for record, mistake in zip(records, of_all, strict=True):
        if mistake.weight > 0:
            slices = {
                name: record[feature][0].decode()
                for name in names
                if (feature := slice_feature(name)) in record
            }
            found.append(dataclasses.replace(mistake, row=record["row"][0], slices=slices))
    return sorted(found, key=lambda mistake: -mistake.weight)


def to_json_lines(mistakes: Iterable[Mistake]) -> str:
    """Returns mistakes as JSON Lines, an object with the attributes of a `Mistake` a line."""
    return "".join(json_line(dataclasses.asdict(mistake)) for mistake in mistakes)
