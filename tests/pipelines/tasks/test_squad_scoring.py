"""Scores against what the official scorers gave, and published ones (see make_golden_squad.py)."""

import json

import numpy as np
import pytest
from support.questions import GOLDEN, ask

from beambert.pipelines.tasks.squad import (
    Answer,
    Question,
    normalize_answer,
    read_questions,
    score,
)


@pytest.fixture(scope="module")
def questions():
    return [
        Question(
            id=entry["id"],
            question=entry["question"],
            context="",
            answers=tuple(Answer(answer["text"], None) for answer in entry["answers"]),
            is_impossible=entry["is_impossible"],
        )
        for entry in GOLDEN["scores"]["questions"]
    ]


@pytest.mark.parametrize("case", GOLDEN["scores"]["cases"])
def test_official(case, questions):
    """Unlike the official scorer, the odds replace no answer."""
    predictions, odds, expected = case["predictions"], case["odds"], case["scores"]
    with_answers = [question for question in questions if question.answers]
    assert score(with_answers, predictions, False).metrics == pytest.approx(expected["v1"])
    assert score(questions, predictions, True).metrics == pytest.approx(expected["v2"])
    best = {name: each for name, each in expected["v2_odds"].items() if name.startswith("best_")}
    assert score(questions, predictions, True, odds).metrics == pytest.approx(expected["v2"] | best)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "predictions", "expected"),
    [
        ("v1.1", "predictions-v1.1-logistic-regression.json", (40.142, 50.982)),
        ("v2.0", "predictions-v2.0-nlnet.json", (75.828, 78.778)),
    ],
)
def test_leaderboard(version, predictions, expected, shared_data):
    folder = shared_data / "squad"
    questions = read_questions(folder / f"dev-{version}.reconstructed.json").questions
    found = score(questions, json.loads((folder / predictions).read_text()), version == "v2.0")
    names = ("exact_match", "f1") if version == "v1.1" else ("exact", "f1")
    assert tuple(round(found.metrics[name], 3) for name in names) == expected
    assert len(found.exact) == len(found.f1) == len(questions)
    assert 100 * found.exact.mean() == pytest.approx(found.metrics[names[0]])


def test_scores_by_question():
    questions = [ask("a", ("an old river", 0), ("mill", 1)), ask("aa", ("A", 0)), ask("aaa")]
    predictions = {"1": "the old mill.", "2": "the", "3": "mill"}
    found = score(questions, predictions, True, {"1": 0.5, "2": 0.5, "3": 3.0})
    # "A" is an article: the right answer is none, and so is "the".
    np.testing.assert_allclose(found.exact, [0, 1, 0])
    np.testing.assert_allclose(found.f1, [2 / 3, 1, 0])
    assert found.metrics["best_exact"] == pytest.approx(200 / 3)
    version_1 = score(questions[:2], predictions, False)
    np.testing.assert_allclose(version_1.exact, [0, 1])
    np.testing.assert_allclose(version_1.f1, [2 / 3, 0])


def test_equal_odds_count_in_the_order_of_their_file():
    questions = [ask("a", ("river", 0)), ask("aa")]
    predictions = {"1": "river", "2": "river"}
    first = score(questions, predictions, True, {"1": -1.0, "2": -1.0}).metrics
    last = score(questions, predictions, True, {"2": -1.0, "1": -1.0}).metrics
    # The official scorer looks for thresholds between equal odds, too.
    assert (first["best_exact"], first["best_exact_thresh"]) == (100, -1)
    assert (last["best_exact"], last["best_exact_thresh"]) == (50, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The U.S., an  ally", "us ally"),
        ("Theatre", "theatre"),
        ("a-b", "ab"),
        ("«The» «río»", "« » «río»"),
        ("İ \u00a0x", "i̇ x"),
    ],
)
def test_normalize(text, expected):
    assert normalize_answer(text) == expected
