import dataclasses
import html
import re

import pytest

from beambert.demo import report

EVIL = "<script>alert('x')</script> & more"


@pytest.fixture
def summary() -> report.DemoSummary:
    training = [
        {"split": "train", "step": 10, "loss": 9.0, "masked_lm_accuracy": 0.05},
        {"split": "train", "step": 20, "loss": 8.0, "masked_lm_accuracy": 0.09},
        {
            "split": "eval",
            "step": 20,
            "loss": 8.125,
            "masked_lm_accuracy": 0.175,
            "next_sentence_accuracy": 0.78,
        },
    ]
    tuning = [
        {"split": "train", "step": 5, "loss": 2.0, "accuracy": 0.2},
        {"split": "eval", "step": 5, "loss": 1.9, "accuracy": 0.6},
    ]
    return report.DemoSummary(
        steps=[
            report.ShownStep(
                "corpus", "python -m beambert.demo.corpus --output=" + EVIL, 75.4, "/o", EVIL
            )
        ],
        lengths=(32, 128),
        last_short_step=1,
        pretraining=training,
        commonest_token_accuracy=0.068,
        finetuning_pretrained=tuning,
        finetuning_random=tuning,
        pretrained_accuracy=0.625,
        random_accuracy=0.41,
        majority_accuracy=0.125,
        verdict="NOT_BLESSED",
        slices=[("overall", 1072, 0.625), ("label:" + EVIL, 134, 0.5)],
        sentence=EVIL,
        answer=[("numpy", 0.75), ("pandas", 0.25)],
        seconds=560,
    )


@pytest.mark.slow
def test_page_has_every_section(summary):
    pytest.importorskip("matplotlib")
    page = report.render_html(summary)
    for text in (
        "Pre-training", "32 → 128 tokens", "Fine-tuning", "Evaluation by slice",
        "The exported model's answer",
        "Steps", "Not blessed", "17.5 %", "78.0 %", "6.8 %", "62.5 %",
        "41.0 %", "12.5 %", "9 min 20 s", "1 min 15 s",
    ):  # fmt: skip
        assert text in html.unescape(page)
    assert page.count("<svg") == 5
    assert page == report.render_html(summary)


def test_page_is_self_contained_and_escaped(summary):
    pytest.importorskip("matplotlib")
    page = report.render_html(summary)
    assert not re.search(r"(?:src|href)\s*=\s*[\"'](?!#)", page)
    assert not re.search(r"url\((?!#)|@import|<link|<script", page)
    assert page.count("&lt;script&gt;") == 4


def test_text_is_aligned_and_narrow(summary):
    text = report.render_text(dataclasses.replace(summary, sentence="word " * 60))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    for title in ("Results", "Steps", "Evaluation by slice"):
        assert title in lines
    for value in ("17.5 %", "6.8 %", "62.5 %", "41.0 %", "NOT_BLESSED"):
        assert value in text
    assert lines[1].index("17.5 %") == lines[2].index("78.0 %")


def test_a_run_without_evaluation_gives_dashes(summary):
    text = report.render_text(dataclasses.replace(summary, pretraining=[], steps=[], slices=[]))
    assert "held-out masked-token accuracy, of 128 tokens   –" in text
