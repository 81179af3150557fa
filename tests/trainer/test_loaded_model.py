"""Models and records in Python, and the page about a training."""

import html
import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

import beambert
from beambert.trainer.pretraining.job import few_steps_warning
from beambert.training import TrainJob
from beambert.training_page import make_page
from beambert.training_text import Text


def test_read_records(records_folder, tmp_path):
    folder = str(records_folder)
    opened = beambert.read_records(folder, batch_size=7)
    batches = list(opened)
    assert sum(len(batch["input_ids"]) for batch in batches) == len(opened)
    joined = {name: np.concatenate([b[name] for b in batches]) for name in opened.shapes}
    examples = [
        tf.train.Example.FromString(record.numpy())
        for record in tf.data.TFRecordDataset(opened.paths)
    ]
    for name, array in joined.items():
        feature = [example.features.feature[name] for example in examples]
        expected = [f.int64_list.value or f.float_list.value for f in feature]
        np.testing.assert_array_equal(array, np.array(expected))
    rows = opened.dataset().unbatch().as_numpy_iterator()
    for number, row in enumerate(rows):
        np.testing.assert_array_equal(row["input_ids"], joined["input_ids"][number])
    assert number + 1 == len(opened)
    with pytest.raises(beambert.InputError, match="no such folder"):
        beambert.read_records(str(tmp_path / "none"))


def test_load(encoder_folder, tmp_path):
    texts = ["the river begins", "people live there and [MASK]"]
    encoder = beambert.load(str(encoder_folder))
    np.testing.assert_array_equal(encoder.encode(texts), beambert.embed(str(encoder_folder), texts))
    assert encoder.fill(texts[1:]) == beambert.fill(str(encoder_folder), texts[1:])
    assert encoder.score(texts[:1]) == beambert.score(str(encoder_folder), texts[:1])
    with pytest.raises(beambert.InputError):
        encoder.predict(texts)
    with pytest.raises(beambert.InputError, match="no such folder"):
        beambert.load(str(tmp_path / "none"))


@pytest.mark.slow
def test_predictions_are_those_of_the_command(classifier_folder, tmp_path):
    texts = [f"so good {i}" for i in range(70)]
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    job = beambert.PredictionJob(
        str(classifier_folder), (str(tmp_path / "texts.txt"),), str(tmp_path / "answers")
    )
    beambert.predict(job)
    written = [
        json.loads(line)
        for path in sorted((tmp_path / "answers").glob("part-*"))
        for line in path.read_text().splitlines()
    ]
    answers = beambert.load(str(classifier_folder)).predict(texts)
    expected = sorted(written, key=lambda row: row["line"])
    assert [row["label"] for row in answers] == [row["label"] for row in expected]
    np.testing.assert_allclose(
        [list(row["probabilities"].values()) for row in answers],
        [list(row["probabilities"].values()) for row in expected],
        atol=1e-6,
    )
    with pytest.raises(beambert.InputError):
        beambert.load(str(classifier_folder)).predict([" "])


@pytest.fixture(scope="module")
def page(tmp_path_factory, encoder_folder, records_folder) -> str:
    output = tmp_path_factory.mktemp("trained")
    shutil.copytree(encoder_folder, output / "encoder")
    for name in ("training.json", "_SUCCESS"):
        settings = json.loads((output / "encoder" / name).read_text())
        (output / "encoder" / name).write_text(json.dumps(settings | {"budget_seconds": 90.0}))
    shutil.copytree(records_folder, output / "records")
    info = json.loads((output / "records" / "info.json").read_text())
    documents = {"read": 1234, "in_other_split": 14, "dropped": {"short": 3}, "rejected": {}}
    info["counts"] |= {"documents": documents, "sentences": 99, "tokens": 999, "unknown_tokens": 1}
    (output / "records" / "info.json").write_text(json.dumps(info))
    sentences = [f"the river {word} the old city in the north" for word in "abcdefgh"]
    text = Text(3, 2_000_000, ["lines: paragraphs"], ["a.txt: 2 sentences"], sentences)
    steps = {"pre-training": {"line": "beambert pretrain <x>", "seconds": 75.0}}
    job = TrainJob(input=("a.txt",), output=str(output))
    made, summary = make_page(job, text, steps)
    assert "1 min 15 s" in summary
    return made


def rows_of(page: str, title: str) -> list[list[str]]:
    """The cells of the table in a section, as text."""
    body = page[page.index(f"<h2>{title}</h2>") :]
    body = body[: body.index("</table>")]
    rows = re.findall(r"<tr>(.*?)</tr>", body[body.index("<tbody>") :])
    strip = re.compile(r"<[^>]+>")
    return [
        [html.unescape(strip.sub("", cell)) for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)]
        for row in rows
    ]


def test_a_page_says_what_was_read_and_how_it_was_made(page):
    read = dict(rows_of(page, "What was read"))
    assert read["documents read"] == "1,234" and read["dropped: short"] == "3"
    assert ["beambert pretrain <x>", "1 min 15 s"] in rows_of(page, "How it was made")
    assert "lines: paragraphs" in page and "<svg" in page


def test_words_are_hidden_in_plain_held_out_text(page, records_folder, read_rows):
    tokens = (records_folder / "vocab.txt").read_text().splitlines()
    held_out = set()
    for row in read_rows(records_folder / "eval"):
        ids = list(row["input_ids"])
        for place, label in zip(row["masked_lm_positions"], row["masked_lm_ids"], strict=True):
            ids[place] = label or ids[place]
        held_out.add(" ".join(tokens[each] for each in ids))
    shown = rows_of(page, "Hidden pieces of held-out text")
    assert shown
    for text, hidden, answers in shown:
        assert hidden[0].isalpha() and len(text.split()) >= 8
        whole = text.replace("[MASK]", hidden).replace(".", " .").replace("  ", " ")
        assert any(whole in each for each in held_out)
        shares = [int(share) for share in re.findall(r"(\d+)%", answers)]
        assert len(shares) == 3 and shares == sorted(shares, reverse=True)
    filled = page[page.index("beambert fill") :].partition("\n")[0]
    assert any(html.escape(text) in filled for text, _, _ in shown)


def test_a_page_says_first_that_so_few_steps_teach_nothing(page):
    next_steps = page[page.index("What to do next") :]
    assert re.search(rf"{few_steps_warning(150, 90.0)}.*beambert fill", next_steps, re.S)


def test_the_nearest_of_a_sentence_are_others(page):
    for sentence, nearest in rows_of(page, "Sentences and their nearest"):
        assert len(nearest.splitlines()) == 3 and sentence not in nearest.splitlines()
