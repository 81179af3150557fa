"""What the accent stripping of uncased vocabularies does to the letters of other scripts."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beambert.pipelines.corpus.reading import ReadOptions, sample_documents
from beambert.pipelines.files.input_files import match_inputs
from beambert.pipelines.tokenizers.text_warnings import warn_of_lost_marks

JAPANESE = "私はありがとうございますと言いました。名前はまだ無い。"


@pytest.mark.parametrize(
    ("text", "example"),
    [
        (JAPANESE, "“私はありがとうございます” becomes “私はありかとうこさいます”"),
        ("नदी के किनारे हिन्दी पुस्तक", "“के” becomes “क”"),
        ("ภาษาไทยเป็นภาษาที่มีระดับเสียง", "becomes"),
        ("তুমি কি সুন্দর", "“তুমি” becomes “তমি”"),
        ("இந்த நூல் நன்று", "“இந்த” becomes “இநத”"),
        ("أكل الولد إلى مؤسسة", "“أكل” becomes “اكل”"),
        ("ភាសាខ្មែរ", "“ភាសាខ្មែរ” becomes “ភាសាខមែរ”"),
    ],
)
def test_scripts_that_lose_letters(text, example):
    (warning,) = warn_of_lost_marks([text])
    assert warning.startswith("warning: uncased text loses marks that make other letters, on ")
    assert example in warning and "give --do_lower_case=False" in warning


@pytest.mark.parametrize(
    "text",
    [
        "Les élèves à la fenêtre",
        "Tiếng Việt có sáu thanh điệu",
        "Η ελληνική γλώσσα είναι μία",
        "Съешь ещё этих мягких французских булок, й",
        "שָׁלוֹם עֲלֵיכֶם",
        "كَتَبَ الوَلَدُ",
        "대한민국의 수도는 서울이며",
        "天地玄黄,宇宙洪荒。",
        "ひらかな と カタカナ",
        "Thanks ❤️ e\u0301t\u0302",
        "",
        "The river " * 100 + "ざ",  # One name in a book.
    ],
)
def test_what_the_original_expects_is_no_warning(text):
    assert warn_of_lost_marks([text]) == []


def test_the_words_are_those_of_the_tokenizer():
    from beambert.pipelines.tokenizers.wordpiece import word_splitter

    (warning,) = warn_of_lost_marks(["हिन्दी पुस्तक"])
    before, after = (piece.partition("”")[0] for piece in warning.split("“")[1:])
    assert b"".join(word_splitter(True)([before])).decode() == after


def write(folder, name):
    path = folder / f"a.{name}"
    match name:
        case "parquet":
            pq.write_table(pa.table({"text": [JAPANESE] * 9}), path)
        case "jsonl":
            path.write_text(json.dumps({"text": JAPANESE}) + "\n")
        case "utf-16":
            path.write_text(JAPANESE, encoding="utf-16")
        case "sjis":
            path.write_text(JAPANESE * 9, encoding="cp932")
        case _:
            path.write_text(JAPANESE + "\n")
    return path


def sampled_texts(files):
    return [document.text for document in sample_documents(files, ReadOptions())]


@pytest.mark.parametrize("name", ["parquet", "jsonl", "txt", "utf-16"])
def test_texts_are_sampled_in_any_format(tmp_path, name):
    files = match_inputs([str(write(tmp_path, name))])
    assert warn_of_lost_marks(sampled_texts(files))


def test_only_a_few_files_are_sampled(tmp_path):
    for number in range(50):
        (tmp_path / f"{number}.txt").write_text("The river.")
    texts = sampled_texts(match_inputs([str(tmp_path / "*")]))
    assert texts == ["The river."] * 8


def test_files_that_cannot_be_read_are_left_to_the_reader(tmp_path):
    (tmp_path / "a.csv").write_text("id,body\n")
    (tmp_path / "b.gz").write_text("no gzip")
    (tmp_path / "c.parquet").write_text("PAR1")
    (tmp_path / "d.txt").write_bytes(b"\xff\x80")
    assert sampled_texts(match_inputs([str(tmp_path / "*")])) in ([], [""])
