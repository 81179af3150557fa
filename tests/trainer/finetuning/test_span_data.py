"""Questions on paragraphs: learnt, decoded and scored."""

import json

import numpy as np
import pytest

from beambert.errors import InputError
from beambert.pipelines.tasks.declarations import find_task
from beambert.trainer.tasks.span import SpanData

PLACES = ("river", "city", "war", "house")
FILLER = ("the", "a", "year", "people")


def write(folder, split, count, seed):
    """The answer is the word behind "in"; no "in", no answer."""
    random, paragraphs = np.random.default_rng(seed), []
    for number in range(count):
        words = list(random.choice(FILLER, random.integers(4, 30)))
        place, where = random.choice(PLACES), random.integers(0, len(words))
        is_impossible = bool(number % 4 == 0)
        before = " ".join(words[:where])
        context = " ".join([*words[:where], *(() if is_impossible else ("in", place)), "died"])
        start = len(f"{before} in " if before else "in ")
        answers = [] if is_impossible else [{"text": str(place), "answer_start": start}]
        question = {"id": f"{split}{number}", "question": "where died the people?"}
        question |= {"answers": answers, "is_impossible": is_impossible}
        paragraphs.append({"context": context, "qas": [question]})
    data = {"version": "v2.0", "data": [{"title": "t", "paragraphs": paragraphs}]}
    (folder / f"{split}-v2.0.json").write_text(json.dumps(data))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("squad")
    write(folder, "train", 240, seed=1)
    write(folder, "dev", 40, seed=2)
    return folder


def test_the_task_decides_whether_there_may_be_no_answer(data, tmp_path):
    content = json.loads((data / "train-v2.0.json").read_text())
    paragraphs = content["data"][0]["paragraphs"]
    content["data"][0]["paragraphs"] = [
        paragraph for paragraph in paragraphs if paragraph["qas"][0]["answers"]
    ]
    for version in ("v1.1", "v2.0"):
        for split in ("train", "dev"):
            (tmp_path / f"{split}-{version}.json").write_text(json.dumps(content))
    told = []
    version_2 = SpanData(find_task("squad2.0"), str(tmp_path), told.append)
    assert ["no question is marked as impossible" in note for note in told] == [False, True]
    assert "dev-v2.0.json: 180 of 180 examples have the text of an example of" in told[0]
    # As the official scorer of each version, whatever the file has.
    assert "official_HasAns_f1" in version_2.baseline()
    version_1 = SpanData(find_task("squad1.1"), str(tmp_path), told.append)
    assert "official_exact_match" in version_1.baseline() and len(told) == 3
    (tmp_path / "dev-v1.1.json").write_bytes((data / "dev-v2.0.json").read_bytes())
    with pytest.raises(InputError, match="10 of 40 questions are impossible.*the task squad2.0"):
        SpanData(find_task("squad1.1"), str(tmp_path), told.append)
