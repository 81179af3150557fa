"""An evaluation in some lines of text."""

import os
from typing import Any

from beambert.pipelines.evaluation.measures import written
from beambert.pipelines.evaluation.slices import slice_title
from beambert.pipelines.storage.claims import BLESSED, NOT_BLESSED, REPORT_FILE
from beambert.pipelines.tasks.metrics import METRICS


def summary(metrics: dict[str, Any], output: str) -> str:
    """Returns the table and the verdict that the command prints."""
    names = metrics["metrics"]
    widths = {name: max(10, len(METRICS[name].title) + 2) for name in names}
    titles = [f"{METRICS[name].title:>{width}}" for name, width in widths.items()]
    titles.insert(1, f"{'95 % interval':>20}")
    lines = [f"{'':<32}{'examples':>9}" + "".join(titles)]
    lines.append(_summary_line("overall", metrics["overall"], widths))
    for name, parts in metrics["slices"].items():
        lines += [_summary_line(slice_title(name, v), part, widths) for v, part in parts.items()]
    constant = metrics["constant_answers"][names[0]]
    is_constant = constant.get("is_constant", True)
    always = f"always {constant['answer']!r}" if is_constant else constant["answer"]
    score = f"{constant['score']:>{widths[names[0]]}.4f}"
    lines += [f"{always:<32.32}{metrics['examples']:>9}{score}", ""]
    verdict = BLESSED if metrics["blessed"] else NOT_BLESSED
    lines += [
        f"{verdict}: {threshold['reason']}"
        if threshold["passed"] == metrics["blessed"]
        else f"  but {threshold['reason']}"
        for threshold in metrics["thresholds"]
    ]
    return "\n".join([*lines, f"Report: {os.path.join(output, REPORT_FILE)}"])


def _summary_line(name: str, part: dict[str, Any], widths: dict[str, int]) -> str:
    scores = [f"{written(part[name]):>{width}}" for name, width in widths.items()]
    interval = part["intervals_95"][next(iter(widths))]
    scores.insert(1, f"{' - '.join(map(written, interval or [])):>20}")
    return f"{name:<32.32}{part['example_count']:>9}" + "".join(scores)
