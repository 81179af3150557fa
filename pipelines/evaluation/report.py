"""The report of an evaluation, an HTML page."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

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
from beambert.pipelines.tasks.metrics import METRICS
from beambert.pipelines.tasks.task import Mistake, Record, excerpt
from beambert.report import (
    BAD,
    GOOD,
    Card,
    Html,
    bar,
    cards,
    join,
    note,
    page,
    section,
    table,
    tag,
    verdict,
)

_MAX_LABELS_IN_MATRIX = 30
_MAX_MISTAKES = 20
# Greatest numbers of characters of a text and of an answer in the table of errors.
_MOST_OF_TEXT, _MOST_OF_ANSWER = 400, 160
_ENTITY_COUNTS = {"true": "true", "predicted": "predicted", "correct": "right"}
_ENTITY_SCORES = {"precision": "precision", "recall": "recall", "f1": "F1"}


def render(metrics: dict[str, Any], mistakes: Sequence[Mistake]) -> str:
    """Returns the HTML page.

    Args:
      metrics: content of metrics.json.
      mistakes: all mistakes, worst first.
    """
    sections = [
        _verdict(metrics),
        _overall(metrics),
        _baseline(metrics),
        _by_slice(metrics),
        _confusion(metrics),
        _by_type(metrics),
        _official(metrics),
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
    first, *others = metrics["metrics"]
    slices = [
        (slice_title(name, value), part)
        for name, parts in metrics["slices"].items()
        for value, part in parts.items()
    ]
    rows = []
    for name, part in [("overall", metrics["overall"]), *slices]:
        interval = part["intervals_95"][first] or []
        scores = [written(part[first]), " to ".join(f"{end:.3f}" for end in interval)]
        scores += [written(part[other]) for other in others]
        rows.append((name, f"{part['example_count']:,}", *scores))
    titles = [METRICS[other].title for other in others]
    header = ("slice", "examples", METRICS[first].title, "95 % interval", *titles)
    return section("By slice", table(header, rows, ("name", *["number"] * (len(header) - 1))))


def _confusion(metrics: dict[str, Any]) -> Html | None:
    matrix, labels = metrics["details"].get("confusion_matrix"), metrics["labels"]
    if matrix is None:
        return None
    if len(matrix) > _MAX_LABELS_IN_MATRIX:
        shown = f"With {len(matrix)} labels the matrix is too large here; metrics.json holds it."
        return section("Confusion matrix", note(shown))
    rows = [
        (label, *(f"{count:,}" for count in counts))
        for label, counts in zip(labels, matrix, strict=True)
    ]
    header = ("label, predicted as", *labels)
    return section("Confusion matrix", table(header, rows, ("name", *["number"] * len(labels))))


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
