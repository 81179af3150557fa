"""The page at its limits; those of whole evaluations are tested with the command."""

import numpy as np
import pytest

from beambert.pipelines.evaluation import measures as evaluation
from beambert.pipelines.evaluation import report
from beambert.pipelines.evaluation.report import worst_mistakes
from beambert.pipelines.tasks.classification import ClassOutcomes
from beambert.pipelines.tasks.declarations import KINDS
from beambert.pipelines.tasks.task import excerpt
from beambert.pipelines.tasks.vectors import CosineOutcomes, VectorExample


def metrics_of(found, kind, labels, slices):
    """Returns what metrics.json would hold, with the same scores in every slice."""
    measures = evaluation.measures_of(KINDS[kind]("own"), labels)
    part = {
        "example_count": len(found),
        **measures.scores(found),
        "intervals_95": evaluation.intervals(found, measures.names, measures.positive),
    }
    return {
        "task": "own",
        "task_kind": kind,
        "split": "dev",
        "model": "m",
        "data_dir": "d",
        "examples": len(found),
        "labels": labels,
        "metrics": measures.names,
        "constant_answers": evaluation.constant_answers(found, measures, labels),
        "words": None,
        "baseline": None,
        "blessed": False,
        "thresholds": [{"reason": "a < b"}],
        "overall": part,
        "slices": {name: dict.fromkeys(values, part) for name, values in slices.items()},
        "details": evaluation.details(found, labels),
    }


def test_a_report_without_mistakes_and_with_many_labels():
    """The confusion matrix has its limit, and the page says so."""
    labels = np.arange(31)
    found = ClassOutcomes(labels, labels, np.eye(31))
    metrics = metrics_of(
        found,
        "classification",
        [str(i) for i in labels],
        {"length": ["1-8"], "label": ["$0", "x" * 80]},
    )
    page = report.render(metrics, [])
    assert "With 31 labels the matrix is too large" in page
    assert "There are none." in page
    assert "a &lt; b" in page


def test_a_similarity_is_judged_by_ranks():
    """Cosines in the order of their labels are right, though they are far from them."""
    examples = [VectorExample(str(i), "b", str(i // 2), {}) for i in range(6)]
    rows = [{"row": [i], "number": [float(i // 2)], "score": [i / 50]} for i in range(6)]
    assert worst_mistakes("similarity", rows, examples) == []
    # The second of the worst label has the greatest cosine: rank 6, where the label has 1 and 2.
    rows[1] |= {"score": [0.9]}
    found = worst_mistakes("similarity", rows, examples)
    assert [(one.row, one.weight) for one in found] == [(1, 4.0), (2, 1.0), (4, 1.0)]
    outcome = CosineOutcomes.of_records(rows)
    metrics = metrics_of(outcome, "similarity", [], {})
    page = report.render(metrics, found)
    assert "whose rank by the cosine is furthest from that by the label" in page


TEXT = "one two three four five six seven eight nine ten"


@pytest.mark.parametrize(
    ("most", "start", "expected"),
    [
        (48, 30, TEXT),
        (20, 0, "one two three four …"),
        (20, 9, "… four five six seven …"),
        (20, 44, "… eight nine ten"),
    ],
)
def test_excerpts(most, start, expected):
    assert excerpt(TEXT, most, start) == expected


def test_a_text_without_spaces_is_cut_anywhere():
    assert excerpt("x" * 900, 100, 50) == f"… {'x' * 100} …"
