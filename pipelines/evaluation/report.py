"""The report of an evaluation, an HTML page."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from beambert.pipelines.evaluation import plots
from beambert.pipelines.evaluation.blessing import without_model
from beambert.pipelines.evaluation.excerpts import excerpt
from beambert.pipelines.evaluation.folder import OFFICIAL
from beambert.pipelines.evaluation.measures import written
from beambert.pipelines.evaluation.outcomes import CosineOutcomes, NumberOutcomes, Outcomes
from beambert.pipelines.evaluation.records import RECORDS, Mistake
from beambert.pipelines.evaluation.slices import LENGTH, slice_title
from beambert.pipelines.tasks.metrics import METRICS
from beambert.report import (
    BAD,
    GOOD,
    Card,
    Html,
    bar,
    cards,
    figures,
    join,
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
        _by_length(metrics),
        _confusion(metrics),
        _calibration(metrics),
        _by_type(metrics),
        _official(metrics),
        _pairs(metrics),
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
    # The lengths have a separate figure.
    of_names = [parts for name, parts in titled.items() if name != LENGTH]
    drawn = [part for part in itertools.chain(*of_names) if part[1][first] is not None]
    figure = ""
    if drawn:
        drawn = [("overall", metrics["overall"]), *drawn][:_MAX_SLICES_IN_FIGURE]
        constant = metrics["constant_answers"][first]["score"]
        figure = figures(plots.slice_figure(drawn, first, constant))
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


def _by_length(metrics: dict[str, Any]) -> Html | None:
    if LENGTH not in metrics["slices"]:
        return None
    first, parts = metrics["metrics"][0], metrics["slices"][LENGTH]
    told = {name: part for name, part in parts.items() if part[first] is not None}
    if not told:
        return None
    figure = plots.length_figure(told, first)
    return section("By length", figures(figure))


def _confusion(metrics: dict[str, Any]) -> Html | None:
    matrix = metrics["details"].get("confusion_matrix")
    if matrix is None:
        return None
    if len(matrix) > _MAX_LABELS_IN_MATRIX:
        shown = note(
            f"With {len(matrix)} labels the matrix is too large to draw; metrics.json holds it."
        )
    else:
        shown = figures(plots.confusion_figure(matrix, metrics["labels"]))
    return section("Confusion matrix", shown)


def _calibration(metrics: dict[str, Any]) -> Html | None:
    found = metrics["details"].get("calibration")
    if found is None:
        return None
    about = (
        "On the dashed line, answers are right as often as the model predicts. The mean distance "
        f"from it, the expected calibration error, is {found['expected_calibration_error']:.4f}."
    )
    return section("Calibration", note(about), figures(plots.calibration_figure(found["bins"])))


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
            " beside this page.",
        ),
        table((), [(name, f"{value:,.3f}") for name, value in official.items()], ("", "number")),
    )


def _pairs(metrics: dict[str, Any]) -> Html | None:
    found = metrics["details"].get("pair_classification")
    if found is None:
        return None
    rows = [(name.replace("_", " "), f"{value:.4f}") for name, value in found.items()]
    return section(
        "Pairs by a threshold of the cosine",
        note("Each threshold is the best for these very pairs; its scores are upper bounds."),
        table((), rows, ("", "number")),
    )


_ENTITY_COUNTS = {"true": "true", "predicted": "predicted", "correct": "right"}
_ENTITY_SCORES = {"precision": "precision", "recall": "recall", "f1": "F1"}


def _numbers(outcomes: Outcomes) -> Html | None:
    # Cosines need not equal labels.
    if not isinstance(outcomes, NumberOutcomes) or isinstance(outcomes, CosineOutcomes):
        return None
    return section(
        "Predicted numbers",
        note("On the dashed lines, predictions equal labels."),
        figures(plots.number_figure(outcomes), plots.difference_figure(outcomes)),
    )


def _mistake_table(metrics: dict[str, Any], mistakes: Sequence[Mistake]) -> Html:
    if not mistakes:
        return section("Worst errors", tag("p", "There are none."))
    weight, which = RECORDS[metrics["task_kind"]].WEIGHT
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
