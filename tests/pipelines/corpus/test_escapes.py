"""Encodings of Asian languages that have ASCII bytes alone, which UTF-8 reads as nonsense."""

import pytest

from beambert.pipelines.corpus import charsets, encodings
from beambert.pipelines.corpus.charsets import Assumed
from beambert.pipelines.corpus.documents import decode_document
from beambert.pipelines.corpus.escapes import escaped_encoding

JAPANESE = "ある日の暮方の事である。一人の下人が、羅生門の下で雨やみを待っていた。\n"
CHINESE = "孙子曰：兵者，国之大事，死生之地，存亡之道，不可不察也。\n"
KOREAN = "새침하게 흐린 품이 눈이 올 듯하더니 눈은 아니 오고 얼다가 만 비가 추적추적 내리었다.\n"
ENGLISH = "The ~ of the river {north} ~~ costs $B 5, says \x1b[1mhe\x1b(B in ~{name}.\n"
TEXTS = [("iso2022_jp_ext", JAPANESE), ("hz", CHINESE), ("iso2022_kr", KOREAN)]


@pytest.mark.parametrize(("encoding", "text"), TEXTS)
def test_text_with_escapes(encoding, text):
    raw = (text + "A line.\n" + text).encode(encoding)
    assert raw.isascii() and escaped_encoding(raw) == encoding
    assert charsets.decode(raw) == (text + "A line.\n" + text, encoding)
    # The files beside it change nothing.
    for other in ("hz", "iso2022_jp_ext", "cp1252", "gb18030"):
        assert charsets.decode(raw, Assumed(other)) == charsets.decode(raw)


@pytest.mark.parametrize(("encoding", "text"), TEXTS)
def test_a_sample_may_end_anywhere(encoding, text):
    raw = (text + "A line.\n" + text).encode(encoding)
    for end in range(raw.index(b"\n") + 1, len(raw)):
        sample = encodings.sample_of("a", raw[:end])
        assert sample.encoding == encoding
        # Beside files of another encoding, too.
        (line,) = encodings.describe([sample], encodings.Encodings("", {"": "cp1251"}))
        assert charsets.web_name(encoding) in line and text[5:15] in line


@pytest.mark.parametrize(("encoding", "text"), TEXTS)
def test_the_folder_decides_for_the_parts_of_a_file(encoding, text):
    raw = (text * 3).encode(encoding)
    found = encodings.assume([encodings.sample_of(f"a/{name}", raw) for name in "bc"])
    assert found.of("a/b") == Assumed(encoding)
    for line in raw.splitlines(keepends=True):  # The header of Korean stands in the first alone.
        assert decode_document(line, 1, assumed=found.of("a/b")).text == text
    english = decode_document(b"A ~ in the north.\n", 1, assumed=found.of("a/b"))
    assert english.text == "A ~ in the north.\n"


def test_other_ascii_is_utf_8():
    for text in (ENGLISH, "A ~b, see ~{name~} now", "~{~} ~{a~} ~{ab", "", "\x1b$B", "~{~}"):
        raw = text.encode()
        assert escaped_encoding(raw) == "" and encodings.sample_of("a", raw) is None
        assert charsets.decode(raw) == (text, "utf-8")
        assert decode_document(raw, 1).text == text
    raw = JAPANESE.encode("iso2022_jp")
    assert charsets.decode(raw, Assumed("cp1252", is_given=True)) == (raw.decode(), "utf-8")
    # Characters of two bytes and bytes that are none: nothing is certain.
    raw = CHINESE.encode("hz") + b"~b\n"
    assert charsets.decode(raw) == (raw.decode(), "utf-8")
