"""Scores against what the official scorers gave, and published ones (see make_golden_squad.py)."""

import json

import numpy as np
import pytest
from support.questions import GOLDEN, ask

from beambert.errors import InputError
from beambert.pipelines.tasks.squad import (
    Answer,
    Question,
    normalize_answer,
    read_questions,
    score,
    score_v1,
    score_v2,
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
            title="",
        )
        for entry in GOLDEN["scores"]["questions"]
    ]


@pytest.mark.parametrize("case", GOLDEN["scores"]["cases"])
def test_official(case, questions):
    predictions, odds, expected = case["predictions"], case["odds"], case["scores"]
    with_answers = [question for question in questions if question.answers]
    assert score_v1(with_answers, predictions).metrics == pytest.approx(expected["v1"])
    assert score_v2(questions, predictions).metrics == pytest.approx(expected["v2"])
    assert score_v2(questions, predictions, odds).metrics == pytest.approx(expected["v2_odds"])


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
    found = score_v2(questions, predictions, {"1": 0.5, "2": 0.5, "3": 3.0})
    # "A" is an article: the right answer is none, and so is "the". Odds above 1 count as "".
    np.testing.assert_allclose(found.exact, [0, 1, 1])
    np.testing.assert_allclose(found.f1, [2 / 3, 1, 1])
    np.testing.assert_allclose(score_v2(questions, predictions).exact, [0, 1, 0])
    # Answers that the odds have chosen already are not emptied by them.
    chosen = score(questions, predictions, True, {"1": 0.5, "2": 0.5, "3": 3.0})
    np.testing.assert_allclose(chosen.exact, [0, 1, 0])
    assert chosen.metrics["best_exact"] == pytest.approx(200 / 3)
    version_1 = score(questions[:2], predictions, False)
    np.testing.assert_allclose(version_1.exact, [0, 1])
    np.testing.assert_allclose(version_1.f1, [2 / 3, 0])


def test_null_odds_of_more_than_one_empty_the_answer():
    """Of exactly 1 they don't, as in the official scorer."""
    questions = [ask("a", ("river", 0)), ask("aa", ("river", 0))]
    found = score_v2(questions, {"1": "river", "2": "river"}, {"1": 1.0, "2": 1.01})
    assert found.exact.tolist() == found.f1.tolist() == [1, 0]


def test_equal_odds_count_in_the_order_of_their_file():
    questions = [ask("a", ("river", 0)), ask("aa")]
    predictions = {"1": "river", "2": "river"}
    first = score_v2(questions, predictions, {"1": -1.0, "2": -1.0}).metrics
    last = score_v2(questions, predictions, {"2": -1.0, "1": -1.0}).metrics
    # The official scorer looks for thresholds between equal odds, too.
    assert (first["best_exact"], first["best_exact_thresh"]) == (100, -1)
    assert (last["best_exact"], last["best_exact_thresh"]) == (50, 0)


def test_missing_predictions():
    questions = [ask("a", ("river", 0)), ask("aa", ("river", 0))]
    assert score(questions, {"1": "river"}, False).metrics == {"exact_match": 50, "f1": 50}
    questions.append(ask("aaa"))
    with pytest.raises(
        InputError, match="predictions: 2 of 3 questions have none, the first is '2'"
    ):
        score(questions, {"1": "river"}, True)
    with pytest.raises(InputError, match="null odds: 1 of 3 questions have none"):
        score(questions, dict.fromkeys("123", ""), True, {"1": 0.0, "2": 0.0})


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
