"""SQuAD: files, windows and answers as of run_squad.py (golden/squad.json); official scores."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.questions import GOLDEN, ask, write

from beambert.errors import InputError
from beambert.pipelines.pretraining.documents import ranges, starts_of
from beambert.pipelines.tasks.squad import (
    Answer,
    Question,
    normalize_answer,
    read_questions,
    score,
)
from beambert.pipelines.tasks.windows import (
    decode,
    has_most_context,
    make_windows,
)
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.pipelines.tokenizers.word_pieces import OffsetTokenizer


def entry(**changes) -> dict:
    """A question on the context "The old road, an old river."."""
    answers = [{"text": "old", "answer_start": 4}]
    return {"id": "q1", "question": "Which?", "answers": answers} | changes


def dataset(*entries, context="The old road, an old river.") -> dict:
    return {"data": [{"title": "Roads", "paragraphs": [{"context": context, "qas": entries}]}]}


def windows_as_rows(windows) -> list[dict]:
    """What the golden file says of each window."""
    starts = starts_of(windows.lengths)
    rows = []
    for number, (start, length) in enumerate(zip(starts, windows.lengths, strict=True)):
        count = windows.context_lengths[number]
        positions = windows.context_positions[number] + np.arange(count)
        is_most = has_most_context(windows, np.full(count, number), positions)
        rows.append(
            {
                "input_ids": windows.input_ids[start : start + length].tolist(),
                "segment_ids": windows.segment_ids[start : start + length].tolist(),
                "answer": [windows.start_positions[number], windows.end_positions[number]],
                "most_context": positions[is_most].tolist(),
            }
        )
    return rows


@pytest.fixture(scope="module")
def tokenizer():
    return OffsetTokenizer(Vocabulary(tuple(GOLDEN["vocabulary"])), True)


class TestReading:
    def test_version_1(self, tmp_path):
        both = [{"text": "old", "answer_start": 4}, {"text": "old river", "answer_start": 17}]
        (question,) = read_questions(write(tmp_path, dataset(entry(answers=both)))).questions
        assert question == Question(
            "q1",
            "Which?",
            "The old road, an old river.",
            (Answer("old", 4), Answer("old river", 17)),
            False,
        )

    def test_version_2(self, tmp_path):
        none = entry(id="q2", answers=[], is_impossible=True, plausible_answers=[1])
        path = write(tmp_path, dataset(entry(is_impossible=False), none), mark=b"\xef\xbb\xbf")
        file = read_questions(path)
        assert [question.is_impossible for question in file.questions] == [False, True]
        assert file.questions[1].answers == ()
        assert file.learnable() == list(file.questions)
        assert file.notes() == []
        with pytest.raises(InputError, match="1 of 2 questions are impossible, the first is 'q2'"):
            read_questions(path, allows_no_answer=False)

    def test_half_a_character(self, tmp_path):
        """JSON may escape what UTF-8 cannot write."""
        answers = [{"text": "old", "answer_start": 6}]
        path = write(tmp_path, dataset(entry(answers=answers), context="\ud83d The old road."))
        file = read_questions(path)
        assert file.questions[0].context == "? The old road." and not file.moved

    @pytest.mark.parametrize(
        ("stated", "found"), [(4, 4), (3, 4), (5, 4), (17, 17), (13, 17), (99, 17), (-1, 4)]
    )
    def test_the_nearest_occurrence(self, stated, found, tmp_path):
        answers = [{"text": "old", "answer_start": stated}]
        path = write(tmp_path, dataset(entry(answers=answers)))
        file = read_questions(path)
        assert file.questions[0].answers == (Answer("old", found),)
        assert file.moved == (() if stated == found else ("q1",))
        assert len(file.notes()) == len(file.moved)

    def test_an_answer_that_is_nowhere(self, tmp_path):
        nowhere = {"text": "new", "answer_start": 4}
        somewhere = {"text": "road", "answer_start": 8}
        entries = entry(answers=[nowhere]), entry(id="q2", answers=[nowhere, somewhere])
        path = write(tmp_path, dataset(*entries))
        file = read_questions(path)
        assert file.rejected == ("q1",) and not file.moved
        assert [question.id for question in file.questions] == ["q1", "q2"]
        assert file.questions[0].answers == (Answer("new", None),)
        assert [question.id for question in file.learnable()] == ["q2"]
        assert file.questions[1].answers[1] == Answer("road", 8)
        (sentence,) = file.notes()
        assert "q1" in sentence and str(path) in sentence
        path = write(tmp_path, dataset(entry(answers=[nowhere])))
        with pytest.raises(InputError, match="dev.json: none of the answers is in its context"):
            read_questions(path).learnable()

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            ([], "data"),
            ({"data": []}, "no questions"),
            ({"data": [{"title": "Roads"}]}, "article 1: has no list"),
            ({"data": [{"paragraphs": [{"qas": []}]}]}, "paragraph 1: has no string"),
            (dataset(entry(question=None)), "'q1': has no string"),
            (dataset(entry(answers=[])), "'q1': has no answers"),
            (dataset(entry(is_impossible=True)), "'q1': is marked"),
            (dataset(entry(answers=[{"text": "old"}])), "answer_start"),
            (dataset(entry(answers=[{"text": "old", "answer_start": True}])), "answer_start"),
            (dataset(entry(answers=[{"text": " ", "answer_start": 3}])), "'q1': has an empty"),
            (dataset(entry(), entry()), "two questions have the id 'q1'"),
        ],
    )
    def test_another_layout(self, content, says, tmp_path):
        path = write(tmp_path, content)
        with pytest.raises(InputError, match=says) as refused:
            read_questions(path)
        assert str(path) in str(refused.value) and "\n" not in str(refused.value)

    @pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
    def test_not_json(self, data, tmp_path):
        path = tmp_path / "dev.json"
        path.write_bytes(data)
        with pytest.raises(InputError, match="dev.json: not"):
            read_questions(path)


class TestWindows:
    def test_original(self, tokenizer, tmp_path):
        questions = read_questions(write(tmp_path, GOLDEN["dataset"])).questions
        windows = make_windows(questions, tokenizer, **GOLDEN["parameters"])
        found = [
            {"question": questions[owner].id} | row
            for owner, row in zip(windows.question_index, windows_as_rows(windows), strict=True)
        ]
        assert found == GOLDEN["windows"]
        assert any(row["answer"] != [0, 0] for row in found)

    def test_nothing_to_read(self, tokenizer):
        """Empty contexts and questions have a window, too."""
        questions = [ask(""), ask("\u200b", question=""), ask("river", ("river", 0), question="")]
        rows = windows_as_rows(make_windows(questions, tokenizer, 384))
        tokens = [[GOLDEN["vocabulary"][i] for i in row["input_ids"]] for row in rows]
        assert tokens == [
            ["[CLS]", "[UNK]", "river", "[SEP]", "[SEP]"],
            ["[CLS]", "[SEP]", "[SEP]"],
            ["[CLS]", "[SEP]", "river", "[SEP]"],
        ]
        assert rows[2]["answer"] == [2, 2]

    def test_the_answer_to_learn(self, tokenizer):
        """Of several the first that is made of whole pieces, or the first."""
        context = "river cafes old river"
        questions = [
            ask(context, ("ol", 12), ("river", 16), ("old", 12)),
            ask(context, ("ol", 12), ("ld", 13), ("r", 20)),
            ask(context),
            Question("lost", "", context, (Answer("x", None), Answer("caf", 6)), False),
            Question("lost", "", context, (Answer("x", None),), False),
        ]
        windows = make_windows(questions, tokenizer, 384)
        starts, ends = windows.start_positions, windows.end_positions
        has_answer = (starts > 0).tolist()
        assert has_answer == [True, True, False, True, False]
        found = windows.characters(np.array([0, 1, 3]), starts[[0, 1, 3]], ends[[0, 1, 3]])
        assert np.transpose(found).tolist() == [[16, 21], [12, 15], [6, 9]]

    @settings(derandomize=True, max_examples=60, deadline=None, database=None)
    @given(
        st.lists(st.integers(0, 40), min_size=1, max_size=4),
        st.integers(10, 24),
        st.integers(1, 12),
        st.integers(1, 6),
    )
    # A last window that is so much shorter that its length counts.
    @example([620], 300, 250, 1)
    def test_every_piece_has_one_window_of_most_context(
        self, tokenizer, sizes, max_seq_length, doc_stride, query
    ):
        # Twice the same context: windows of one question don't compete with another's.
        questions = [ask("b " * size) for size in sizes for _ in range(2)]
        windows = make_windows(questions, tokenizer, max_seq_length, doc_stride, query)
        assert windows.lengths.max() <= max_seq_length
        counts = windows.context_lengths
        owners = np.repeat(np.arange(len(windows)), counts)
        positions = ranges(windows.context_positions, counts)
        starts, _ = windows.characters(owners, positions, positions)
        is_most = has_most_context(windows, owners, positions)
        places = starts // 2
        spans = list(zip(windows.first_pieces, counts, strict=True))
        for number, question in enumerate(questions):
            own = np.flatnonzero(windows.question_index == number)
            first = windows.first_pieces[own[0]]
            for place in range(len(question.context) // 2):
                # The original's rule, as its comments have it.
                contexts = []
                for start, count in (spans[window] for window in own):
                    left, right = first + place - start, start + count - 1 - first - place
                    is_inside = left >= 0 and right >= 0
                    contexts.append(min(left, right) + 0.01 * count if is_inside else -1)
                here = is_most & (windows.question_index[owners] == number) & (places == place)
                assert owners[here].tolist() == [own[np.argmax(contexts)]]


PARAMETERS = GOLDEN["n_best_size"], GOLDEN["max_answer_length"]


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


@pytest.fixture(scope="module")
def questions_of():
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
def test_official(case, questions_of):
    """Unlike the official scorer, the odds replace no answer."""
    predictions, odds, expected = case["predictions"], case["odds"], case["scores"]
    with_answers = [question for question in questions_of if question.answers]
    assert score(with_answers, predictions, False).metrics == pytest.approx(expected["v1"])
    assert score(questions_of, predictions, True).metrics == pytest.approx(expected["v2"])
    best = {name: each for name, each in expected["v2_odds"].items() if name.startswith("best_")}
    assert score(questions_of, predictions, True, odds).metrics == pytest.approx(
        expected["v2"] | best
    )


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
    questions_of = read_questions(folder / f"dev-{version}.reconstructed.json").questions
    found = score(questions_of, json.loads((folder / predictions).read_text()), version == "v2.0")
    names = ("exact_match", "f1") if version == "v1.1" else ("exact", "f1")
    assert tuple(round(found.metrics[name], 3) for name in names) == expected
    assert len(found.exact) == len(found.f1) == len(questions_of)
    assert 100 * found.exact.mean() == pytest.approx(found.metrics[names[0]])


def test_scores_by_question():
    questions_of = [ask("a", ("an old river", 0), ("mill", 1)), ask("aa", ("A", 0)), ask("aaa")]
    predictions = {"1": "the old mill.", "2": "the", "3": "mill"}
    found = score(questions_of, predictions, True, {"1": 0.5, "2": 0.5, "3": 3.0})
    # "A" is an article: the right answer is none, and so is "the".
    np.testing.assert_allclose(found.exact, [0, 1, 0])
    np.testing.assert_allclose(found.f1, [2 / 3, 1, 0])
    assert found.metrics["best_exact"] == pytest.approx(200 / 3)
    version_1 = score(questions_of[:2], predictions, False)
    np.testing.assert_allclose(version_1.exact, [0, 1])
    np.testing.assert_allclose(version_1.f1, [2 / 3, 0])


def test_equal_odds_count_in_the_order_of_their_file():
    questions_of = [ask("a", ("river", 0)), ask("aa")]
    predictions = {"1": "river", "2": "river"}
    first = score(questions_of, predictions, True, {"1": -1.0, "2": -1.0}).metrics
    last = score(questions_of, predictions, True, {"2": -1.0, "1": -1.0}).metrics
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
