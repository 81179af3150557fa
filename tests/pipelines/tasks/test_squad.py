"""Questions as files have them; windows against the original's run_squad.py.

`golden/squad.json` holds what the original's code gave (see make_golden_squad.py).
"""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.questions import GOLDEN, ask, write

from beambert.errors import InputError
from beambert.pipelines.pretraining.documents import ranges, starts_of
from beambert.pipelines.tasks.squad import Answer, Question, read_questions
from beambert.pipelines.tasks.windows import (
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
