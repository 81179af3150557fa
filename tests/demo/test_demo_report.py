import html
import json
import re

import pytest

from beambert.demo.report import Report
from beambert.demo.run import DemoStep, Done

EVIL = "<script>alert('x')</script> & more"


@pytest.fixture
def report(tmp_path) -> Report:
    """The report of files that hold only what it reads."""
    part = {"example_count": 1072, "accuracy": 0.625}
    tuned = [
        {"split": "train", "step": 5, "loss": 2.0},
        {"split": "eval", "step": 5, "accuracy": 0.6},
    ]
    trained = [
        {"split": "train", "step": 10, "loss": 9.0, "masked_lm_accuracy": 0.05},
        {"split": "eval", "step": 20, "loss": 8.125, "next_sentence_accuracy": 0.78},
    ]
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
        "encoder/training.json": {"phases": [{"last_step": 15}]},
        "classifier/results.json": {"accuracy": 0.625, "baseline_accuracy": 0.125},
        "classifier-random/results.json": {"accuracy": 0.41, "baseline_accuracy": 0.125},
        "evaluation/metrics.json": {
            "blessed": False,
            "overall": part,
            "slices": {"label": {EVIL: part}},
        },
    }
    curves = {"encoder": trained, "classifier": tuned, "classifier-random": tuned}
    for name, lines in curves.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    export = DemoStep("export", "beambert", ("export", f"--text={EVIL}"), tmp_path / "serving")
    printed = ["serving/1: a SavedModel", '"A line."', "   93.1%  scipy", f"    6.9%  {EVIL}"]
    return Report(tmp_path, [Done(export, 75.4, printed)])


def test_page_is_self_contained_and_escaped(report):
    pytest.importorskip("matplotlib")
    page = report.html()
    for text in ("17.5%", "6.8%", "62.5%", "41.0%", "NOT_BLESSED", "93.1%", "1 min 15 s"):
        assert text in html.unescape(page)
    assert page.count("<svg") == 5
    assert page == report.html()
    assert not re.search(r"(?:src|href)\s*=\s*[\"'](?!#)", page)
    assert not re.search(r"url\((?!#)|@import|<link|<script", page)
    assert page.count("&lt;script&gt;") == 3


def test_text_is_aligned_and_narrow(report):
    lines = report.text().splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[1].index("17.5%") == lines[2].index("78.0%")


def test_slices_overall_first_and_the_answer(report):
    assert [name for name, *_ in report.slices()] == ["overall", f"label {EVIL}"]
    assert report.answer() == [("scipy", pytest.approx(0.931)), (EVIL, pytest.approx(0.069))]
