import json

import pytest

from beambert.demo.report import Report
from beambert.demo.run import DemoStep, Done

EVIL = "<script>alert('x')</script> & more"


@pytest.fixture
def report(tmp_path) -> Report:
    """The report of files that hold only what it reads."""
    part = {"example_count": 1072, "accuracy": 0.625}
    result = {
        "loss": 8.125,
        "masked_lm_accuracy": 0.175,
        "next_sentence_accuracy": 0.78,
        "commonest_token_accuracy": 0.068,
    }
    counts = {"counts": {"instances": 10, "is_next_share": 0.5}, "vocabulary": {"size": 8000}}
    contents = {
        "corpus/info.json": {"documents": 4, "bytes_after": 2_000_000},
        "records/32/info.json": counts,
        "records/128/info.json": counts,
        "encoder/results.json": result,
        "classifier/results.json": {"accuracy": 0.625, "baseline_accuracy": 0.125},
        "classifier-random/results.json": {"accuracy": 0.41, "baseline_accuracy": 0.125},
        "evaluation/metrics.json": {
            "blessed": False,
            "overall": part,
            "slices": {"label": {EVIL: part}},
        },
    }
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    export = DemoStep("export", "beambert", ("export",), tmp_path / "serving")
    return Report(tmp_path, [Done(export, 75.4, [])])


def test_text_is_aligned_and_narrow(report):
    lines = report.text().splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[1].index("17.5%") == lines[2].index("78.0%")


def test_slices_overall_first(report):
    assert [name for name, *_ in report.slices()] == ["overall", f"label {EVIL}"]
