"""Text files are read in the encodings that the user declares, each file in one of them."""

import bz2
import codecs
import gzip
import hashlib
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.console import ProgressTally
from beambert.errors import InputError
from beambert.pipelines.corpus import base
from beambert.pipelines.corpus.base import utf8_lines
from beambert.pipelines.corpus.documents import Document, Reject
from beambert.pipelines.corpus.encodings import (
    WrongEncodingError,
    choose_encoding,
    decode,
    parse_encodings,
)
from beambert.pipelines.corpus.reading import ReadOptions, read_part, reject_row, write_rejects
from beambert.pipelines.corpus.reading import split_file as split
from beambert.pipelines.input_files import match_inputs

exact = settings(derandomize=True, max_examples=100, deadline=None, database=None)
WITH_WINDOWS = ("utf-8", "cp1252")
FRENCH = "Le café est noir.\nOn a payé 5 €.\n"
# format -> text of a file with two documents, the second of which isn't ASCII
FILES = {
    "text": "One.\n\n" + FRENCH,
    "markdown": "One.\n\n" + FRENCH,
    "lines": "One.\nTwo.\n\n" + FRENCH,
    "jsonl": '{"text": "One."}\n{"text": "Le café 5 €."}\n',
    "csv": "id,text\n1,One.\n2,Le café 5 €.\n",
    "tsv": "id\ttext\n1\tOne.\n2\tLe café 5 €.\n",
    "wikiextractor": '<doc title="A">\nOne.\n</doc>\n<doc title="B">\ncafé €\n</doc>\n',
    "wikitext": " = A = \n\n One.\n = B = \n\n café €\n",
}


def read(path, *encodings, format_name="auto"):
    """The documents and rejects of a file, read in its parts."""
    options = ReadOptions(format_name, encodings=encodings or ("utf-8",))
    (file,) = match_inputs([str(path)])
    tally = ProgressTally(None)
    return [row for part in split(file, options) for row in read_part(part, options, tally)]


def texts(rows) -> list[str]:
    return [" ".join(row.text.split()) for row in rows if isinstance(row, Document)]


@pytest.fixture(params=[False, True], ids=["whole", "parts"])
def in_parts(request, monkeypatch):
    """Small files are read as a whole, or divided as large ones are."""
    if request.param:
        monkeypatch.setattr(base, "PART_BYTES", 10)
    return request.param


class TestNames:
    @pytest.mark.parametrize(
        ("given", "names"),
        [
            ("utf-8", ("utf-8",)),
            ("UTF8,windows-1252", ("utf-8", "cp1252")),
            ("utf-8, cp1252, utf8", ("utf-8", "cp1252")),
            ("utf-8-sig", ("utf-8",)),
            # The web's names mean what they mean on the web (WHATWG, "Encoding").
            ("shift_jis,euc-kr", ("cp932", "cp949")),
            ("x-sjis", ("shift_jis",)),
            ("macintosh", ("mac-roman",)),
            ("utf_16_le", ("utf-16-le",)),
        ],
    )
    def test_known(self, given, names):
        assert parse_encodings(given) == names

    @pytest.mark.parametrize("given", ["latin-0", "utf-8,", "base64", "auto", "", "utf-8;cp1252"])
    def test_unknown(self, given):
        with pytest.raises(InputError, match=f"^--encoding={given}: "):
            parse_encodings(given)


@pytest.mark.parametrize("name", FILES)
def test_utf8_by_default(tmp_path, name, in_parts):
    path = tmp_path / "a"
    path.write_bytes(FILES[name].encode())
    found = read(path, format_name=name)
    assert all(row.encoding == "utf-8" for row in found)
    assert "café" in texts(found)[-1]
    path.write_bytes(codecs.BOM_UTF8 + FILES[name].encode())
    assert read(path, format_name=name) == found


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
def test_byte_order_marks_decide(tmp_path, name, mark, encoding, in_parts):
    path = tmp_path / "a"
    path.write_text(FILES[name], encoding="utf-8")
    expected = texts(read(path, format_name=name))
    path.write_bytes(mark + FILES[name].encode(encoding))
    found = read(path, "cp1252", format_name=name)
    assert texts(found) == expected
    assert {row.encoding for row in found} == {encoding[:6]}
    # Without the mark the encoding can be declared.
    path.write_bytes(FILES[name].encode(encoding))
    assert texts(read(path, encoding, format_name=name)) == expected


@pytest.mark.parametrize("name", FILES)
def test_windows_1252_is_rejected_with_its_line_and_the_flag(tmp_path, name, in_parts):
    path = tmp_path / "a.txt"
    path.write_bytes(FILES[name].encode("cp1252"))
    options = ReadOptions(name)
    rows = []
    for part in split(match_inputs([str(path)])[0], options):
        rows += [(part, row) for row in read_part(part, options, ProgressTally(None))]
    part, reject = rows[-1]
    # Each document is ASCII, or rejected: none has wrong letters.
    assert texts(row for _, row in rows) == (
        [] if name in ("text", "markdown") else ["One. Two." if name == "lines" else "One."]
    )
    assert isinstance(reject, Reject) and reject.reason == "not_utf8"
    assert f"byte 0xe9 on line {reject.line} is not UTF-8; " in reject.detail
    assert "windows-1252 would read it as “" in reject.detail and "café" in reject.detail
    assert reject.detail.endswith("give --encoding=utf-8,windows-1252")
    # The command fails with the name of the file and the flag, unless the rejects are allowed.
    row, counts = reject_row(part, reject), {"read": 2, f"rejected {reject.reason}": 1}
    listed = tmp_path / "rejects.jsonl"
    with pytest.raises(InputError) as failed:
        write_rejects([row], counts, 0.0, str(listed), str(listed))
    for told in (str(path), "--encoding=utf-8,windows-1252", "--max_reject_fraction"):
        assert told in str(failed.value)
    assert not listed.exists()  # The message names the only one.
    write_rejects([row], counts, 0.5, str(listed), str(listed))
    assert listed.read_text() == row + "\n"


@pytest.mark.parametrize("name", FILES)
def test_a_list_is_tried_in_order_on_each_file(tmp_path, name, in_parts):
    path = tmp_path / "a"
    path.write_bytes(FILES[name].encode())
    expected = read(path, *WITH_WINDOWS, format_name=name)
    assert {row.encoding for row in expected} == {"utf-8"}
    for encodings in (WITH_WINDOWS, ("cp1252",), ("ascii", "utf-8", "cp1252")):
        path.write_bytes(FILES[name].encode("cp1252"))
        found = read(path, *encodings, format_name=name)
        assert texts(found) == texts(expected)
        assert {row.encoding for row in found} == {"cp1252"}


def test_a_large_file_is_read_in_one_encoding(tmp_path, monkeypatch):
    """Its first bytes, and most of its parts, are ASCII; the last line decides."""
    monkeypatch.setattr(base, "PART_BYTES", 1000)
    path = tmp_path / "a.jsonl"
    # These bytes are "Ã©" in windows-1252 and "é" in UTF-8.
    lines = [json.dumps({"text": "The ship left."}).encode()] * 500
    lines += [b'{"text": "caf\xc3\xa9"}', b'{"text": "caf\xe9 5 \x80"}', b'{"text": "\xe9t\xe9"}']
    path.write_bytes(b"\n".join(lines) + b"\n")
    (file,) = match_inputs([str(path)])
    (part,) = split(file, ReadOptions(encodings=WITH_WINDOWS))
    assert part.encoding == "cp1252"
    found = texts(read(path, *WITH_WINDOWS))
    assert len(found) == 503 and found[-3:] == ["cafÃ©", "café 5 €", "été"]
    path.write_bytes(b"\n".join(lines[:-2]) + b"\n")
    parts = split(file, ReadOptions(encodings=WITH_WINDOWS))
    assert len(parts) > 5 and {part.encoding for part in parts} == {"utf-8"}


def test_a_file_that_fits_no_encoding_is_one_reject(tmp_path, in_parts):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "One."}\n{"text": "\xe9t\xe9 \x81"}\n')  # 0x81 is free in cp1252
    (reject,) = read(path, *WITH_WINDOWS)
    assert (reject.line, reject.reason) == (2, "not_utf8_or_cp1252")
    assert "byte 0xe9 on line 2 is not UTF-8 or windows-1252" in reject.detail


def test_damaged_utf8_is_not_read_in_another_encoding(tmp_path, in_parts):
    """A broken byte would else turn all letters of a file into others."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "Le café."}\n{"text": "L\'été."}\n{"text": "+"}\n', "utf-8")
    path.write_bytes(path.read_bytes().replace(b"+", b"\xff"))
    first, second, reject = read(path, *WITH_WINDOWS)
    assert (first.text, second.text) == ("Le café.", "L'été.")
    assert reject.reason == "not_utf8"


@pytest.mark.parametrize("pack", [gzip, bz2])
def test_compressed_files(tmp_path, pack):
    path = tmp_path / ("a.txt.gz" if pack is gzip else "a.txt.bz2")
    path.write_bytes(pack.compress(FRENCH.encode("cp1252")))
    (found,) = read(path, *WITH_WINDOWS)
    assert (found.encoding, "café" in found.text) == ("cp1252", True)
    (reject,) = read(path)
    assert reject.reason == "not_utf8" and "line 1" in reject.detail
    path.write_bytes(pack.compress(codecs.BOM_UTF16_LE + FRENCH.encode("utf-16-le")))
    assert "payé" in texts(read(path))[0]
    path.write_bytes(pack.compress(FRENCH.encode("cp1252"))[:-3])
    assert read(path, *WITH_WINDOWS)[-1].reason == "corrupt_file"


def test_dumps_are_always_utf8(tmp_path):
    page = "<mediawiki>\n<page><ns>0</ns><text>Le café.</text></page>\n</mediawiki>\n"
    path = tmp_path / "a.xml"
    path.write_text(page, "utf-8")
    assert texts(read(path, "cp1252")) == ["Le café."]
    path.write_bytes(page.encode("cp1252"))
    assert [row.reason for row in read(path)] == ["not_utf8"]


@pytest.mark.parametrize("name", ["lines", "text"])
def test_a_byte_that_forms_no_character_rejects_its_document(tmp_path, name):
    path = tmp_path / "a"
    path.write_bytes("One.\nTwo.\n\n猫は黒い。\n".encode("cp932") + b"\x81\n\nLast.\nEnd.\n")
    found = read(path, "cp932", format_name=name)
    (reject,) = [row for row in found if isinstance(row, Reject)]
    assert (reject.line, reject.reason) == (5, "not_cp932")
    assert texts(found) == ([] if name == "text" else ["One. Two.", "Last. End."])


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.txt", hashlib.shake_256(b"").digest(2000), "not_iso8859_1"),
        ("a.parquet.gz", gzip.compress(b"PAR1" + bytes(20), mtime=0), "compressed_parquet"),
    ],
)
def test_binary_data_is_no_text_in_any_encoding(tmp_path, name, data, reason):
    path = tmp_path / name
    path.write_bytes(data)
    assert [row.reason for row in read(path, "iso8859-1")] == [reason]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
@pytest.mark.parametrize("text", ["The ship left the town.\n" * 3, "Утром он вышел из дома.\n" * 3])
def test_wide_text_without_a_mark_does_not_pass_as_utf8(tmp_path, encoding, text):
    """As UTF-8 its letters would be others, between zeros that cleaning removes."""
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode(encoding))
    (reject,) = read(path, format_name="text")
    assert reject.reason == "not_utf8" and "--encoding=utf-16-le" in reject.detail
    assert texts(read(path, encoding)) == [" ".join(text.split())]


def test_japanese_mail_does_not_pass_as_utf8(tmp_path):
    """Its bytes are ASCII."""
    path = tmp_path / "a.txt"
    path.write_bytes("Mail.\n朝早く家を出た。\n".encode("iso2022_jp"))
    (reject,) = read(path)
    assert reject.line == 2 and "--encoding=iso2022_jp,utf-8" in reject.detail
    assert texts(read(path, "iso2022_jp", "utf-8")) == ["Mail. 朝早く家を出た。"]


@exact
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=50))
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32", "gb18030"])
def test_what_is_encoded_is_decoded(encoding, text):
    text = text.replace("\0", "").lstrip("\ufeff")
    raw = text.encode(encoding)
    if not raw.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")) or encoding != "gb18030":
        assert decode(raw, (encoding,))[0] == text
    lines = list(utf8_lines(io.BytesIO(raw), encoding))
    assert b"".join(lines).decode().removesuffix("\n") == text.removesuffix("\n")


@exact
@given(st.binary(max_size=40), st.lists(st.integers(0, 40), max_size=4), st.data())
def test_a_file_in_pieces_has_the_encoding_of_the_whole(raw, cuts, data):
    """And the message names the same line and byte."""
    encodings = data.draw(st.permutations(["utf-8", "cp1252", "cp932"]))
    ends = sorted(min(cut, len(raw)) for cut in cuts)
    pieces = [raw[a:b] for a, b in zip([0, *ends], [*ends, len(raw)], strict=True)]

    def chosen(pieces):
        try:
            return choose_encoding(lambda: pieces, encodings)
        except WrongEncodingError as error:
            return str(error).partition(";")[0]

    assert chosen(pieces) == chosen([raw])
