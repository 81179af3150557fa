"""Pairs that are made of single texts."""

import dataclasses
import json
import re

import pytest

from beambert.errors import InputError
from beambert.pipelines.tasks.reading import read_file
from beambert.pipelines.tasks.vectors import (
    ADJACENT,
    CLOZE,
    ONE_SENTENCE_REASON,
    Embedding,
    VectorExample,
    adjacent,
    cloze,
)

TEXT = "The river is long. Is it deep? It is! People live there."


def single(text):
    return VectorExample(text, None, (), None, {})


def test_a_sentence_finds_the_rest_of_its_text():
    [pair] = cloze(single(TEXT))
    sentences = ["The river is long.", "Is it deep?", "It is!", "People live there."]
    assert pair.text in sentences
    assert pair.text_b in (TEXT, " ".join(one for one in sentences if one != pair.text))
    assert cloze(single(TEXT)) == [pair]
    [pair] = cloze(single("One sentence, no. 4 of it"))
    assert pair.text in ("One sentence, no.", "4 of it")
    assert cloze(single("One sentence. ")) == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("河很长。它深吗？很深！人们住在那里。", 4),
        ("「川は長い。」と彼は言った。本当？！ はい。", 3),
    ],
)
def test_sentences_without_blanks_between_them(text, count):
    """Those of Chinese and Japanese; marks and closing brackets stay together."""
    sentences = re.findall("「.*?」[^。]*。|[^。？！ ]+[。？！]+", text)
    assert len(sentences) == count
    drawn = [cloze(single(text + f"第{n}。"))[0] for n in range(100)]
    assert {pair.text for pair in drawn} >= set(sentences)
    assert all(pair.text in sentences or pair.text[0] == "第" for pair in drawn)
    taken = [n for n, pair in enumerate(drawn) if pair.text not in pair.text_b]
    for n in taken:
        kept = [one for one in (*sentences, f"第{n}。") if one != drawn[n].text]
        assert drawn[n].text_b.replace(" ", "") == "".join(kept)
    assert len(taken) > 70
    halves = [(pair.text, pair.text_b) for pair in adjacent(single("河很长。人们住在那里。"))]
    assert halves == [("河很长。", "人们住在那里。")]


def test_nine_of_ten_sentences_are_taken_out():
    """Of 4,000 texts, within four deviations; all places are drawn."""
    pairs = [cloze(single(f"A{n} b. C d. E{n} f. G h."))[0] for n in range(4000)]
    stay = sum(pair.text in pair.text_b for pair in pairs)
    assert abs(stay - 400) < 4 * (4000 * 0.1 * 0.9) ** 0.5
    assert all(900 < sum(pair.text[0] == first for pair in pairs) < 1100 for first in "ACEG")


def test_a_section_finds_the_next_one():
    text = "A title\n\nThe river. It is long.\n \n\t\nThe road.\n"
    found = [(pair.text, pair.text_b) for pair in adjacent(single(text))]
    both = "The river. It is long."
    assert found == [("A title", both), (both, "The road.")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TEXT, [("The river is long. Is it deep?", "It is! People live there.")]),
        ("Short. This sentence is longer.", [("Short.", "This sentence is longer.")]),
        ("One sentence.", []),
    ],
)
def test_a_text_of_one_section_is_divided_in_its_middle(text, expected):
    assert [(pair.text, pair.text_b) for pair in adjacent(single(text))] == expected


def test_the_file_of_single_texts(tmp_path):
    task = Embedding("embedding", {"train": "train.jsonl"}, text_columns=("text", "text_b"))
    rows = [{"text": TEXT}, {"text": "One sentence"}]
    path = tmp_path / "train.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for single_texts in (CLOZE, ADJACENT):
        of_way = dataclasses.replace(task, single_texts=single_texts)
        found = read_file(of_way, str(tmp_path), "train", to_learn=True)
        assert [pair.text_b is not None for pair in found.examples] == [True]
        assert found.unlearnable == {ONE_SENTENCE_REASON: 1}
    path.write_text(json.dumps({"text": "One sentence"}) + "\n")
    with pytest.raises(InputError, match="no text of .* has two sentences"):
        read_file(_cloze(task), str(tmp_path), "train", to_learn=True)
    path.write_text(json.dumps({"text": "a", "text_b": "b"}) + "\n")
    with pytest.raises(InputError, match="--single_texts=cloze: .* has a column .text_b."):
        read_file(_cloze(task), str(tmp_path), "train", to_learn=True)


def _cloze(task):
    return dataclasses.replace(task, single_texts=CLOZE)
