"""Files that are no text: real ones, as Python's libraries write them."""

import bz2
import gzip
import io
import lzma
import sqlite3
import tarfile
import zipfile

import pytest

from beambert.file_kinds import not_text


def zipped(**files: str) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/"), content)
    return target.getvalue()


def tarred() -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        info = tarfile.TarInfo("a.txt")
        info.size = 3
        archive.addfile(info, io.BytesIO(b"abc"))
    return target.getvalue()


def database() -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.execute("create table texts (text)")
    return connection.serialize()


def picture() -> bytes:
    from matplotlib.figure import Figure

    target = io.BytesIO()
    Figure((1, 1)).savefig(target, format="png")
    return target.getvalue()


def document() -> bytes:
    from matplotlib.figure import Figure

    target = io.BytesIO()
    Figure((1, 1)).savefig(target, format="pdf")
    return target.getvalue()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (zipped(**{"a.txt": "abc"}), "is a ZIP archive; unpack it"),
        (zipped(**{"word__document.xml": "<w/>"}), "is a Word document; export it as text"),
        (zipped(**{"[Content_Types].xml": "<T/>"}), "Microsoft Office; export it as text"),
        (zipped(mimetype="application/epub+zip"), "is an EPUB book; export it as text"),
        (tarred(), "is a TAR archive; unpack it"),
        (database(), "is an SQLite database; export"),
        (picture(), "is a picture (PNG)"),
        (b"ARROW1\0\0\xff", "is an Arrow (Feather) file; write it as Parquet"),
        (b"PAR1\x15", "is a Parquet file; export"),
        (document(), "is a PDF document; export it as text"),
        (
            gzip.compress(b"abc", mtime=0),
            "is compressed with gzip; unpack it (`vocab`, `data`",
        ),
        (
            bz2.compress(b"abc"),
            "is compressed with bzip2; unpack it (`vocab`, `data` and `predict` read it if its "
            "name ends in .bz2)",
        ),
        (lzma.compress(b"abc"), "is compressed with xz; unpack it"),
    ],
)
def test_a_kind_is_named_with_advice(content, told):
    assert told in not_text(content)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"PK is a pub.", b"BZh is no word.", b"%PD", "\ufeffText".encode("utf-16")),
        *("Grüße".encode("latin-1"), b"Rar! said the crow.", b"GIF is a format.", b"{rtf}"),
        *(b".TH", b"...", b"ARROW1 is a name.", b"PAR is not a word."),
    ],
)
def test_text_is_text(content):
    assert not_text(content) == ""
