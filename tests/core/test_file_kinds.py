"""Files that are no text: real ones, as Python's libraries write them."""

import bz2
import gzip
import io
import lzma
import pickle
import sqlite3
import tarfile
import zipfile

import numpy as np
import pyarrow as pa
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


def stream() -> bytes:
    """What datasets writes."""
    target, table = io.BytesIO(), pa.table({"text": ["abc"]})
    with pa.ipc.new_stream(target, table.schema) as writer:
        writer.write_table(table)
    return target.getvalue()


def array() -> bytes:
    target = io.BytesIO()
    np.save(target, np.zeros(2))
    return target.getvalue()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (zipped(**{"a.txt": "abc"}), "ZIP"),
        (zipped(**{"word__document.xml": "<w/>"}), "Word"),
        (zipped(**{"[Content_Types].xml": "<T/>"}), "Microsoft Office"),
        (zipped(mimetype="application/epub+zip"), "EPUB"),
        (tarred(), "TAR"),
        (database(), "SQLite"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "PNG"),
        (b"%PDF-1.4\n%\xac\xdc", "PDF"),
        (b"ARROW1\0\0\xff", "Arrow"),
        (stream(), "Arrow"),
        (pickle.dumps(["text"]), "pickle"),
        (array(), "NumPy"),
        (b"PAR1\x15", "Parquet"),
        (gzip.compress(b"abc", mtime=0), "gzip"),
        (bz2.compress(b"abc"), "bzip2"),
        (lzma.compress(b"abc"), "xz"),
    ],
)
def test_a_kind_is_named_with_advice(content, told):
    assert told in not_text(content)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"PK is a pub.", b"BZh is no word.", b"%PD", "\ufeffText".encode("utf-16")),
        *("Grüße".encode("latin-1"), b"Rar! said the crow.", b"GIF is a format.", b"{rtf}"),
        *(b".TH", b"...", b"ARROW1 is a name.", b"ORC is one.", b"PAR is not a word."),
    ],
)
def test_text_is_text(content):
    assert not_text(content) == ""
