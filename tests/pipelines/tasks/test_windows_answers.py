"""Answers against the original's write_predictions, a search of all spans, and SQuAD itself."""

import itertools
import json

import numpy as np
import pytest
from support.questions import GOLDEN, ask, write

from beambert.errors import InputError
from beambert.pipelines.tasks.squad import read_questions
from beambert.pipelines.tasks.windows import (
    decode,
    has_most_context,
    make_windows,
)
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.pipelines.tokenizers.word_pieces import OffsetTokenizer

PARAMETERS = GOLDEN["n_best_size"], GOLDEN["max_answer_length"]


@pytest.fixture(scope="module")
def tokenizer():
    return OffsetTokenizer(Vocabulary(tuple(GOLDEN["vocabulary"])), True)


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    return read_questions(write(tmp_path_factory.mktemp("squad"), GOLDEN["dataset"])).questions


@pytest.fixture(scope="module")
def windows(questions, tokenizer):
    return make_windows(questions, tokenizer, **GOLDEN["parameters"])


@pytest.fixture(scope="module")
def logits():
    return np.array(GOLDEN["logits"], np.float64).transpose(1, 0, 2)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_original(version, questions, windows, logits):
    expected = GOLDEN["predictions"][version]
    found = decode(questions, windows, *logits, version == "v2", *PARAMETERS)
    assert found.answers == expected["predictions"]
    assert found.null_odds == expected.get("null_odds", {})
    assert found.n_best.keys() == expected["n_best"].keys()
    for name, entries in found.n_best.items():
        for entry, original in zip(entries, expected["n_best"][name], strict=True):
            assert entry.pop("probability") == pytest.approx(original.pop("probability"))
            assert entry == original


def best_spans(questions, windows, start_logits, end_logits, most_pieces):
    """Each question's spans and scores, found by trying all."""
    found = [{} for _ in questions]
    for number, owner in enumerate(windows.question_index):
        first, count = windows.context_positions[number], windows.context_lengths[number]
        for start, end in itertools.combinations_with_replacement(range(first, first + count), 2):
            if end - start < most_pieces and has_most_context(
                windows, np.array([number]), np.array([start])
            ):
                a, b = windows.characters(number, np.array([start]), np.array([end]))
                text = questions[owner].context[a[0] : b[0]]
                score = start_logits[number, start] + end_logits[number, end]
                found[owner][text] = max(score, found[owner].get(text, -np.inf))
    return found


def test_all_spans(questions, windows):
    """With as many starts and ends as there are, nothing is better than what is found."""
    few = questions[5:8]
    is_own = (windows.question_index >= 5) & (windows.question_index < 8)
    start_logits, end_logits = np.random.default_rng(2).normal(size=(2, is_own.sum(), 40))
    few_windows = type(windows)(
        **{
            name: value[is_own] if len(value) == len(windows) else value
            for name, value in vars(windows).items()
        }
        | {"question_index": windows.question_index[is_own] - 5}
    )
    expected = best_spans(few, few_windows, start_logits, end_logits, 4)
    found = decode(few, few_windows, start_logits, end_logits, False, 40, 4)
    for question, spans in zip(few, expected, strict=True):
        ranked = sorted(spans.items(), key=lambda item: -item[1])[:40]
        entries = found.n_best[question.id]
        assert [entry["text"] for entry in entries] == [text for text, _ in ranked]
        scores = np.array([score for _, score in ranked])
        shares = np.exp(scores) / np.exp(scores).sum()
        assert [entry["probability"] for entry in entries] == pytest.approx(shares.tolist())
        assert found.answers[question.id] == ranked[0][0]


def test_padding_does_not_count(questions, windows, logits):
    longer = np.pad(logits, ((0, 0), (0, 0), (0, 9)))
    is_padding = np.arange(longer.shape[2]) >= windows.lengths[:, None]
    rows = [np.where(is_padding, padding, longer) for padding in (-100.0, 100.0, np.nan)]
    found = [decode(questions, windows, *pair, True, *PARAMETERS) for pair in rows]
    assert found[0] == found[1] == found[2]


def test_questions_are_independent(questions, windows, logits, monkeypatch):
    together = decode(questions, windows, *logits, True, *PARAMETERS)
    monkeypatch.setattr("beambert.pipelines.tasks.windows._QUESTIONS_AT_A_TIME", 2)
    assert decode(questions, windows, *logits, True, *PARAMETERS) == together


def test_characters_of_the_original_text(tokenizer):
    context = "Old  Cafe\u0301s,\nthe\u200b RIVER."
    windows = make_windows([ask(context)], tokenizer, 384)
    first = windows.context_positions[0]
    start, end = np.zeros((2, 1, 30))
    # "old caf ##es , the river ."
    start[0, first + 1], end[0, first + 5] = 9, 9
    found = decode([ask(context)], windows, start, end, False)
    assert list(found.answers.values()) == ["Cafe\u0301s,\nthe\u200b RIVER"]


@pytest.mark.parametrize("allows_no_answer", [True, False])
def test_starts_that_go_with_no_end(tokenizer, allows_no_answer):
    """The best of all spans is taken where those of the best starts and ends are none."""
    question = ask("river old bridge")
    windows = make_windows([question], tokenizer, 384)
    first = windows.context_positions[0]
    start, end = np.zeros((2, 1, 8))
    start[0, first + 2], end[0, first] = 5, 6
    found = decode([question], windows, start, end, allows_no_answer, n_best_size=1)
    # From the third word to the first is none, the first by itself has 0 + 6, the third 5 + 0.
    assert found.answers[question.id] == "river"
    assert found.null_odds == ({question.id: -6.0} if allows_no_answer else {})


def test_no_answer_comes_after_an_answer_of_the_same_score(tokenizer):
    question = ask("river")
    windows = make_windows([question], tokenizer, 384)
    found = decode([question], windows, *np.zeros((2, 1, 8)), True)
    assert [entry["text"] for entry in found.n_best[question.id]] == ["river", ""]
    assert found.answers == {question.id: "river"}


@pytest.mark.parametrize("allows_no_answer", [True, False])
def test_nothing_to_answer_with(tokenizer, allows_no_answer):
    windows = make_windows([ask("")], tokenizer, 384)
    logits = np.zeros((2, 1, 384))
    found = decode([ask("")], windows, *logits, allows_no_answer)
    assert found.answers == {"0": ""}
    entry = {"text": "", "probability": 1.0, "start_logit": 0.0, "end_logit": 0.0}
    assert found.n_best == {"0": [entry]}
    assert all(odds > 1e30 for odds in found.null_odds.values())
    assert len(found.null_odds) == allows_no_answer
    json.loads(json.dumps(found.null_odds), parse_constant=pytest.fail)


def test_logits_that_are_none(questions, windows, logits):
    broken = logits.copy()
    broken[1, 3, 2] = np.nan
    with pytest.raises(InputError, match="not numbers"):
        decode(questions, windows, *broken, True, *PARAMETERS)
    with pytest.raises(ValueError, match="shape"):
        decode(questions, windows, *logits[:, 1:], True, *PARAMETERS)
    with pytest.raises(ValueError, match="shape"):
        decode(questions, windows, *logits[:, :, :20], True, *PARAMETERS)
