"""The page of an evaluation."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from beambert.pipelines.evaluation import plots
from beambert.pipelines.evaluation.mistakes import WEIGHTS, Mistake
from beambert.pipelines.evaluation.outcomes import NumberOutcomes, Outcomes
from beambert.pipelines.evaluation.slices import LENGTH, slice_title
from beambert.pipelines.shared.report_page import cards, page, svg, text
from beambert.pipelines.tasks.metrics import METRICS

_MAX_LABELS_IN_MATRIX = 30
_MAX_SLICES_IN_FIGURE = 60


def render(metrics: dict[str, Any], outcomes: Outcomes, mistakes: Sequence[Mistake]) -> str:
    """Returns the HTML page.

    Args:
      metrics: what metrics.json holds.
      outcomes: of all examples.
      mistakes: to show, in order.
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
        _numbers(outcomes),
        _mistake_table(metrics, mistakes),
    ]
    about = (
        f"Model <code>{text(metrics['model'])}</code>, data "
        f"<code>{text(metrics['data_dir'])}</code>"
    )
    title = f"Evaluation: {metrics['task']}, {metrics['split']} split"
    return page(title, about, [section for section in sections if section])


def _verdict(metrics: dict[str, Any]) -> str:
    word, style = ("Blessed", " blessed") if metrics["blessed"] else ("Not blessed", "")
    reasons = "".join(f"<p>{text(item['reason'])}</p>" for item in metrics["thresholds"])
    return f'<div class="verdict{style}"><strong>{word}</strong>{reasons}</div>'


def _overall(metrics: dict[str, Any]) -> str:
    overall, first = metrics["overall"], metrics["metrics"][0]
    constant = metrics["constant_answers"][first]
    figures = []
    for name in metrics["metrics"]:
        low, high = overall["intervals_95"][name]
        meaning = f"{METRICS[name].title} (95 %: {low:.4f} to {high:.4f})"
        figures.append((f"{overall[name]:.4f}", meaning))
    always = f"{METRICS[first].title} of always answering {constant['answer']!r}"
    figures.append((f"{constant['score']:.4f}", always))
    figures.append((f"{metrics['examples']:,}", "examples"))
    return f"<h2>Overall</h2>{cards(figures)}"


def _baseline(metrics: dict[str, Any]) -> str:
    baseline = metrics["baseline"]
    if baseline is None:
        return ""
    low, high = baseline["change_interval_95"]
    rows = "".join(
        f"<tr><td>{text(METRICS[name].title)}</td>"
        f'<td class="number">{score:.4f}</td>'
        f'<td class="number">{metrics["overall"][name]:.4f}</td>'
        f'<td class="number">{baseline["changes"][name]:+.4f}</td></tr>'
        for name, score in baseline["scores"].items()
    )
    return (
        f"<h2>Beside the baseline</h2><p>Model <code>{text(baseline['model'])}</code> on the same "
        f"examples; the change in {text(METRICS[metrics['metrics'][0]].title)} is between "
        f"{low:+.4f} and {high:+.4f} (95 %).</p>"
        '<div class="wide"><table><tr><th>metric</th><th class="number">baseline</th>'
        f'<th class="number">this model</th><th class="number">change</th></tr>{rows}</table></div>'
    )


def _by_slice(metrics: dict[str, Any]) -> str:
    first = metrics["metrics"][0]
    titled = {
        name: [(slice_title(name, value), part) for value, part in slices.items()]
        for name, slices in metrics["slices"].items()
    }
    # Lengths have a figure of their own.
    drawn = [part for name, parts in titled.items() if name != LENGTH for part in parts]
    figure = ""
    if drawn:
        drawn = [("overall", metrics["overall"]), *drawn][:_MAX_SLICES_IN_FIGURE]
        constant = metrics["constant_answers"][first]["score"]
        figure = f"<figure>{svg(plots.slice_figure(drawn, first, constant))}</figure>"
    return f"<h2>By slice</h2>{figure}{_slice_table(metrics, titled)}"


def _slice_table(
    metrics: dict[str, Any], titled: Mapping[str, Sequence[tuple[str, dict[str, Any]]]]
) -> str:
    first, *others = metrics["metrics"]
    rows = []
    parts = itertools.chain.from_iterable(titled.values())
    for name, part in [("overall", metrics["overall"]), *parts]:
        low, high = part["intervals_95"][first]
        numbers = "".join(f'<td class="number">{part[other]:.4f}</td>' for other in others)
        rows.append(
            f'<tr><td class="name">{text(name)}</td>'
            f'<td class="number">{part["example_count"]:,}</td>'
            f'<td class="number">{part[first]:.4f}</td>'
            f'<td class="number">{low:.3f} to {high:.3f}</td>{numbers}</tr>'
        )
    titles = "".join(f'<th class="number">{text(METRICS[other].title)}</th>' for other in others)
    return (
        '<div class="wide"><table><tr><th>slice</th><th class="number">examples</th>'
        f'<th class="number">{text(METRICS[first].title)}</th>'
        f'<th class="number">95 % interval</th>{titles}</tr>{"".join(rows)}</table></div>'
    )


def _by_length(metrics: dict[str, Any]) -> str:
    figure = plots.length_figure(metrics["slices"][LENGTH], metrics["metrics"][0])
    return f"<h2>By length</h2><figure>{svg(figure)}</figure>"


def _confusion(metrics: dict[str, Any]) -> str:
    matrix = metrics["details"].get("confusion_matrix")
    if matrix is None:
        return ""
    if len(matrix) > _MAX_LABELS_IN_MATRIX:
        return (
            f'<h2>Confusion matrix</h2><p class="soft">With {len(matrix)} labels it is too large '
            "to draw: metrics.json holds it.</p>"
        )
    figure = plots.confusion_figure(matrix, metrics["labels"])
    return f"<h2>Confusion matrix</h2><figure>{svg(figure)}</figure>"


def _calibration(metrics: dict[str, Any]) -> str:
    found = metrics["details"].get("calibration")
    if found is None:
        return ""
    return (
        '<h2>Calibration</h2><p class="soft">On the dashed line, answers are right as often as '
        f"the model says. The mean distance from it, the expected calibration error, is "
        f"{found['expected_calibration_error']:.4f}.</p>"
        f"<figure>{svg(plots.calibration_figure(found['bins']))}</figure>"
    )


def _by_type(metrics: dict[str, Any]) -> str:
    by_type = metrics["details"].get("by_type")
    if by_type is None:
        return ""
    rows = "".join(
        f"<tr><td>{text(name)}</td>"
        + "".join(f'<td class="number">{part[key]:,}</td>' for key in _ENTITY_COUNTS)
        + "".join(f'<td class="number">{part[key]:.4f}</td>' for key in _ENTITY_SCORES)
        + f'<td class="bar"><i style="width:{100 * part["f1"]:.1f}%"></i></td></tr>'
        for name, part in by_type.items()
    )
    titles = "".join(
        f'<th class="number">{title}</th>'
        for title in (*_ENTITY_COUNTS.values(), *_ENTITY_SCORES.values())
    )
    return (
        '<h2>Entities by type</h2><div class="wide"><table><tr><th>type</th>'
        f"{titles}<th></th></tr>{rows}</table></div>"
    )


def _official(metrics: dict[str, Any]) -> str:
    official = metrics["details"].get("official")
    if official is None:
        return ""
    rows = "".join(
        f'<tr><td>{text(name)}</td><td class="number">{value:,.3f}</td></tr>'
        for name, value in official.items()
    )
    return (
        '<h2>As the official scorer has it</h2><p class="soft">In per cent; its input is in '
        "<code>official</code> beside this page.</p>"
        f'<div class="wide"><table>{rows}</table></div>'
    )


_ENTITY_COUNTS = {"true": "entities", "predicted": "predicted", "correct": "right"}
_ENTITY_SCORES = {"precision": "precision", "recall": "recall", "f1": "F1"}


def _numbers(outcomes: Outcomes) -> str:
    if not isinstance(outcomes, NumberOutcomes):
        return ""
    return (
        '<h2>Predicted numbers</h2><p class="soft">On the dashed lines, they equal the labels.</p>'
        f"<figure>{svg(plots.number_figure(outcomes))}</figure>"
    )


def _mistake_table(metrics: dict[str, Any], mistakes: Sequence[Mistake]) -> str:
    if not mistakes:
        return "<h2>Worst errors</h2><p>There are none.</p>"
    weight, which = WEIGHTS[metrics["task_kind"]]
    rows = "".join(
        f'<tr><td class="text">{text(mistake.text)}</td>'
        f'<td class="text short">{text(mistake.expected)}</td>'
        f'<td class="text short">{text(mistake.predicted)}</td>'
        f'<td class="number">{mistake.weight:.3g}</td></tr>'
        for mistake in mistakes
    )
    return (
        f'<h2>Worst errors</h2><p class="soft">The {len(mistakes)} {which}.</p>'
        '<div class="wide"><table><tr><th>text</th><th>right</th><th>predicted</th>'
        f'<th class="number">{weight}</th></tr>{rows}</table></div>'
    )
