"""The data command on several languages: sentences, masks of whole words, and what it refuses."""

import json
import random

import numpy as np
import pytest
from support.data_command import data, info, read_records, refused, restored
from support.languages import ARTICLE_1

from beambert.pipelines.corpus.documents import Document
from beambert.pipelines.text.sentences import split_sentences
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary

# Chinese words of two characters, of which no two neighbours make another word.
WORDS = ("北京", "大学", "音乐", "咖啡", "葡萄", "蝴蝶", "图书", "火车")


@pytest.fixture(scope="module")
def texts():
    """Documents of 20 sentences, in which commas stand between all words."""
    draw = random.Random(5)
    return [
        "".join("，".join(draw.choices(WORDS, k=6)) + "。" for _ in range(20)) for _ in range(30)
    ]


@pytest.fixture(scope="module")
def vocabulary():
    characters = sorted({c for text in (*WORDS, *ARTICLE_1.values()) for c in text + "。"} - {" "})
    return Vocabulary((*SPECIAL_TOKENS, *characters, *(f"##{c}" for c in characters)))


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory, vocabulary):
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_bytes(vocabulary.serialize())
    return path


def written(tmp_path, rows):
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


CASED = "--do_lower_case=False"


def hidden_in_part(folder, vocabulary) -> tuple[int, int]:
    """Numbers of words of which every character, and of which only some, are predicted."""
    records = read_records(folder)
    rows = np.arange(len(records["input_ids"]))[:, None]
    is_hidden = np.zeros(records["input_ids"].shape, bool)
    is_hidden[rows, records["masked_lm_positions"]] = records["masked_lm_weights"] > 0
    whole = part = 0
    for tokens, hidden in zip(restored(records), is_hidden, strict=True):
        characters = [vocabulary.tokens[number].removeprefix("##") for number in tokens]
        for place, (one, two) in enumerate(zip(characters, characters[1:], strict=False)):
            if one + two in WORDS and characters[place - 1 : place] != [one]:
                whole += hidden[place] and hidden[place + 1]
                part += hidden[place] != hidden[place + 1]
    return whole, part


@pytest.mark.slow
def test_masks_hide_chinese_words(capsys, tmp_path, texts, vocab_file, vocabulary):
    path = written(tmp_path, [{"text": text} for text in texts])
    flags = [f"--input={path}", CASED, "--language=zh", "--masks=whole_word"]
    outputs = {name: tmp_path / name for name in ("with", "without")}
    segmenter = "--segmenter=icu"
    status, printed, error = data(capsys, vocab_file, outputs["with"], *flags, segmenter)
    assert (status, error) == (0, "") and "masks:" not in printed
    assert "masks: no spaces separate" in data(capsys, vocab_file, outputs["without"], *flags)[1]
    found = {name: hidden_in_part(output, vocabulary) for name, output in outputs.items()}
    assert found["with"][0] > 300 and found["with"][1] == 0
    assert found["without"][1] > found["without"][0]
    about = info(outputs["with"])
    assert about["parameters"]["segmenter"] == "icu" and "icu4py" in about["versions"]
    assert "segmenter" not in info(outputs["without"])["parameters"]
    # Texts, pairs and rows are the same; only the masks differ.
    assert about["counts"]["instances"] == info(outputs["without"])["counts"]["instances"]
    # A finished folder is of its segmenter.
    assert "parameters.segmenter" in data(capsys, vocab_file, outputs["with"], *flags)[2]


def test_each_document_is_split_by_its_language(capsys, tmp_path, vocab_file):
    rows = [
        {"text": "工程于1907年完成。2009年，就职。他来了。", "lang": "zh-Hans"},
        {"text": ARTICLE_1["th"], "lang": "tha_Thai"},
        {"text": "جاء د. أحمد. نعم.", "lang": "ar"},
        {"text": ARTICLE_1["de"], "lang": None},
    ] * 3
    path = written(tmp_path, rows)
    flags = [f"--input={path}", CASED, "--num_shards=1"]
    column = "--language_column=lang"
    status, _, error = data(capsys, vocab_file, tmp_path / "out", *flags, column)
    assert (status, error) == (0, "")
    codes = ["zh", "th", "ar", "en"] * 3
    wanted = sum(
        len(split_sentences(Document(row["text"]), code))
        for row, code in zip(rows, codes, strict=True)
    )
    assert wanted == 3 * (3 + 2 + 2 + 2)
    about = info(tmp_path / "out")
    assert about["counts"]["sentences"] == wanted
    assert about["parameters"]["language_column"] == "lang"


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (["--segmenter=icu"], ["--segmenter=icu", "--masks=whole_word"]),
        (
            ["--segmenter=icu", "--masks=whole_word", "--language=de"],
            ["--segmenter=icu", "--language=de"],
        ),
        (
            ["--language_column=lang", "--format=text"],
            ["--language_column=lang: --format=text has no columns; leave it out"],
        ),
        (["--language_column=lang"], ["'klingon' under 'lang'", "1 of 2 documents"]),
    ],
)
def test_what_is_refused(capsys, tmp_path, vocab_file, flags, parts):
    rows = [{"text": "Ein Text.", "lang": "de"}, {"text": "nuqneH", "lang": "klingon"}]
    path, output = written(tmp_path, rows), tmp_path / "out"
    refused(data(capsys, vocab_file, output, f"--input={path}", CASED, *flags), *parts)
    assert not output.exists()
