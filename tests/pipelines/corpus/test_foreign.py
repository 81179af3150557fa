"""Files that are no text are named with advice."""

import bz2
import gzip
import io
import lzma
import pickle
import sqlite3
import tarfile
import time
import zipfile

import numpy as np
import pyarrow as pa
import pytest

from beambert.console import ProgressTally
from beambert.file_kinds import not_text
from beambert.pipelines.corpus.documents import Reject
from beambert.pipelines.corpus.encodings import SAMPLE_BYTES
from beambert.pipelines.corpus.formats import CHOICES, FORMATS, recognise
from beambert.pipelines.corpus.reading import ReadOptions, read_part, recognise_formats, split_file
from beambert.pipelines.input_files import match_inputs

FILES = {
    "html": [
        b"<!DOCTYPE html>\n<html lang=en><title>Ships</title><p>The ship left.",
        b"\xef\xbb\xbf\n<HTML>\n<BODY>The ship left.</BODY></HTML>",
        b'<?xml version="1.0"?>\n<!DOCTYPE html PUBLIC "x">\n<html></html>',
        b"<!-- saved from ships -->\n<div class=a>The ship left.</div>",
        b"<p>The ship left.</p>\n<p>It came.</p>\n",
        "<html><p>The ship left.</p>".encode("utf-16"),
    ],
    "xml": [
        b'<?xml version="1.0"?>\n<TEI><p>The ship left.</p></TEI>',
        b"<DOC>\n<DOCNO> 1 </DOCNO>\nThe ship left.\n</DOC>\n",
    ],
    "conll": [
        b"EU B-ORG\nrejects O\nGerman B-MISC\ncall O\n. O\n\nPeter B-PER\n",
        b"-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects V O O\na D O O\nb N O O\n",
        b"@paulwalk\tO\nIt\tO\n's\tO\nthe\tO\nview\tO\nfrom\tO\n",
        b"# sent_id = 1\n# text = Dos.\n1-2\tdos\t_\t_\t_\t_\t_\t_\t_\t_\n"
        b"1\tdo\tdo\tVERB\t_\tMood=Imp\t0\troot\t_\t_\n",
        b"# text = It left.\n0.1\tand\tand\tCCONJ\t_\t_\t_\t_\t0:root\t_\n",
        b"The/DT ship/NN left/VBD at/IN noon/NN ,/, as/IN it/PRP should/MD ./.\n",
        b"(ROOT (S (NP (DT The) (NN ship))\n  (VP left)))\n",
        b"\n\n1\tShips\tship\tN\tN\t_\t2\tnsubj\t_\t_\r\n",
        b"# global.columns = ID FORM UPOS\n1\tShips\tNOUN\n",
        # Tags of a text among lines of three columns, and blank lines with the separators.
        b"<HEADLINE>\t\t\n\t\t\nApple\tB-ORG\tO\nis\tO\tO\n\t\t\n<BODY>\t\t\nAs\tO\tO\nit\tO\tO\n"
        b"says\tO\tO\n",
    ],
    "json": [
        b'[{"text": "The ship left."},\n{"text": "It came."}]\n',
        b'[\n  {\n    "text": "The ship left."\n  }\n]\n',
        b'{\n  "text": "The ship left."\n}\n',
        b'["The ship left.", "It came."]',
    ],
    "references": [
        b"% Encoding: UTF-8\n\n@Article{ann,\n  title = {Ships},\n}\n",
        b"TY  - JOUR\nTI  - Ships\nER  - \n",
        b"\nPMID- 12345\nTI  - Ships.\n",
        b"%0 Journal Article\n%T Ships\n",
    ],
    "labels": [
        b"###24\nMETHODS\tThe ship left .\nRESULTS\tIt came .\nOBJECTIVE\tNone .\n\n",
        b"__label__sea The ship left .\n",
    ],
    "columns": [
        b"The ship left.\tDas Schiff fuhr.\nIt came.\tEs kam.\nYes.\tJa.\n",
        b"12\teng\tThe ship left.\n13\teng\tIt came.\n15\tdeu\tJa.\n",
    ],
    "numbered": [b"1\tThe harbour is old.\n2\tShips come.\n3\tThe sea was calm.\n"],
    "mail": [
        b"From: Ann <ann@example.org>\nSubject: Ships\nDate: Mon, 1 Jan 2024\n\nThe ship left.\n",
        b"From ann@example.org Mon Jan  1 00:00:00 2024\nReturn-Path: <ann@example.org>\n"
        b"Received: from a\n\tby b\nMessage-ID: <1@a>\n\nThe ship left.\n",
        b"Return-Path: ann@example.org\nDelivery-Date: Mon, 1 Jan 2024\n"
        b"Received: from a\n\nIt left.",
    ],
    "markup": [
        b'.\\" A comment\n.TH SHIP 1 "2024"\n.SH NAME\nship \\- leaves\n',
        b'.\\"\n.\\" A page of ships\n.de zZ\n..\n.ds s ship\n.TH SHIP 1\nThe ship left.\n',
        b"Ships\n=====\n\nThey leave.\n\n.. note::\n   At noon.\n",
        b'# Ann\nmsgid ""\nmsgstr ""\n"Language: de\\n"\n',
        b"= Ships\n:toc:\n\nThey leave.\n",
        b"\\input texinfo\n@settitle Ships\n",
        b"% A comment\n\n\\documentclass[11pt]{article}\n\\begin{document}\nThe ship left.",
        b"\\begin{document}\nThe ship left.",
    ],
    "subtitles": [
        b"1\r\n00:00:01,000 --> 00:00:02,000\r\nThe ship left.\r\n",
        b"{1}{25}The ship left.\n{26}{50}It came.\n",
        b"[Script Info]\nTitle: Ships\n",
        b"WEBVTT\n\n00:01.000 --> 00:02.000\nThe ship left.\n",
        b"0:00:01.000,0:00:02.000\nThe ship left.\n",
        b"[ti:Ships]\n[00:01.00]The ship left\n",
    ],
    "log": [
        b"2020-01-01 10:00:00,123 INFO it left\n" * 3,
        b"May  3 10:00:00 host kernel: it left\n" * 3,
        b'127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET /a" 200 1\n' * 3,
    ],
    # tests/beambert/test_file_kinds.py has the others.
    "not_text": [b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", bz2.compress(b"The ship left.")],
}


CASES = [(name, index) for name in FILES for index in range(len(FILES[name]))]


def test_many_comments_are_read_once():
    """Each could be a part of the one before, so that the ways to read them double with each."""
    comments = b"<!-- a ship -->\n" * 3000
    assert recognise(comments + b"The ship left.").name == "text"
    assert recognise(comments + b"<p>The ship left.</p>").name == "html"


@pytest.mark.parametrize(
    "repeated",
    [b" ", b"# O\n", b"<a>\n", b"O O\n# ", b"a ", b"a:\n", b"To: a\nb: c\n \t", b"1\t"],
)
def test_what_resembles_columns_or_mail_is_looked_at_once(repeated):
    started = time.process_time()
    for last in (b"", b"To: a\n", b"a O\n"):
        recognise(last + repeated * (SAMPLE_BYTES // len(repeated)) + last)
    assert time.process_time() - started < 2


def test_bytes_that_are_no_text_are_told_in_any_encoding():
    for encoding in ("utf-8", "latin1", "utf-16-le"):
        assert recognise(b"\xff\xff\xff\xff\x10\x01\0\0\x10\0\0\0", (encoding,)).name == "not_text"


def test_columns_are_told_whatever_the_name():
    for path in ("a.csv", "a.tsv", "a.txt", "a.conllu", "a.md"):
        assert [recognise(sample, path=path).name for sample in FILES["conll"]] == ["conll"] * 10


@pytest.mark.parametrize(("name", "index"), CASES)
def test_rejected_with_advice(tmp_path, name, index):
    path = tmp_path / "file"
    path.write_bytes(FILES[name][index])
    (file,) = match_inputs([str(path)])
    notes = recognise_formats([file], ReadOptions())
    assert notes == [
        f"assumed formats: 1 {name} (not read), such as {path}; give --format= to decide"
    ]
    (part,) = split_file(file, ReadOptions())
    (reject,) = read_part(part, ReadOptions(), ProgressTally(None))
    assert isinstance(reject, Reject) and reject.reason == name
    assert ";" in reject.detail  # the kind, and what to do


def test_a_large_one_is_not_divided(tmp_path, monkeypatch):
    monkeypatch.setattr("beambert.pipelines.corpus.base.PART_BYTES", 50)
    path = tmp_path / "page"
    path.write_bytes(b"<html>" + b"<p>The ship left.</p>\n" * 30)
    (part,) = split_file(match_inputs([str(path)])[0], ReadOptions())
    (reject,) = read_part(part, ReadOptions(), ProgressTally(None))
    assert reject.reason == "html"


def test_all_others_may_be_named():
    assert set(FORMATS) - set(CHOICES) == set(FILES)


@pytest.mark.parametrize(
    "text",
    [
        "<anna> Did it leave?\n<ben> It did.\n",
        "<unk> went to the <unk>\n",
        "a < b and c > d\n",
        "<3 <3\n",
        "PK is a name.\n",
        "Vitamin B-12\nO\nhello B-x\n",
        "{\\bf The ship}\n",
        "Use <b>bold</b> and <i>italics</i>.\n",
        "From: Ann\nTo: Ben\n\nThe ship left.\n",
        "To: be or not to be\nDate: of no importance\nThe ship left.\n",
        '["Yes", she said.]\n',
        "[1] The ship left.\n",
        "# text = a comment\n1\tThe ship left\n2\tIt came\n",
        "Captain: It left.\nMate: It did.\nTo: sea\nDate: none\nBoy: It came.\n",
        "1\n00:00 the ship left --> home\n",
        "\\begin is a command.\n",
        "# msgid\nThe ship left.\n",
        "The ship ..\n.. and the sea: they left ... :(\n.. note\n.. and so on ::\n",
        "Smile :a:`, or :b:` if it left.\n",
    ],
)
def test_text_with_such_signs_is_text(text):
    assert recognise(text.encode()).name == "text"


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
