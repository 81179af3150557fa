"""Readers on literal bytes: what is a document, what is rejected, and that nothing else is lost."""

import codecs
import io
import json
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.pipelines.corpus.base import ReadOptions
from beambert.pipelines.corpus.cleaning import clean
from beambert.pipelines.corpus.documents import Document, Reject, Skip
from beambert.pipelines.corpus.encodings import SAMPLE_BYTES
from beambert.pipelines.corpus.formats import FORMATS, recognise

exact = settings(derandomize=True, max_examples=50, deadline=None, database=None)
# Text as UTF-8 can hold it.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def read(name: str, data: bytes) -> list[Document | Reject]:
    # Line feeds alone end the lines of a binary file.
    return list(FORMATS[name].read_lines(io.BytesIO(data)))


def visible(text: str) -> str:
    return "".join(text.split())


class TestWikiExtractor:
    def test_documents_and_titles(self):
        data = (
            b'<doc id="1" url="u" title="Ash">\nAsh\n\nAsh is a tree.\nIt grows.\n\n</doc>\n'
            b'<doc id="2" url="u" title="Oak">\nThe oak is not its title.\n</doc>\n'
            b'<doc id="3" url="u" title="Empty">\nEmpty\n\n</doc>\n'
        )
        assert [document.text for document in read("wikiextractor", data)] == [
            "\n\nAsh is a tree.\nIt grows.\n\n",
            "The oak is not its title.\n",
            "",
        ]

    def test_title_with_quotes(self):
        data = b'<doc id="1" title="The "Ash"">\nThe "Ash"\nX\n</doc>'
        (document,) = read("wikiextractor", data)
        assert document.text.strip() == "X"

    def test_text_outside_documents_is_one_reject_a_stretch(self):
        data = b'\nlost\nlost too\n<doc id="1" title="T">\nbody\n</doc>\n\nagain\n'
        assert read("wikiextractor", data) == [
            Reject(2, "outside_doc", "line 2 is outside <doc> … </doc>"),
            Document("body\n"),
            Reject(8, "outside_doc", "line 8 is outside <doc> … </doc>"),
        ]

    def test_cut_off_in_the_middle_doesnt_swallow_the_next_document(self):
        data = b'<doc id="1" title="T">\nhalf of\n<doc id="2" title="U">\nwhole\n</doc>\n'
        reject, document = read("wikiextractor", data)
        assert (reject.line, reject.reason) == (2, "cut_off")
        assert document == Document("whole\n")

    def test_undecodable_bytes_name_their_line(self):
        data = b'<doc id="1" title="T">\nT\n\nok\n\xff\n</doc>\n<doc id="2" title="U">\nok\n</doc>'
        reject, document = read("wikiextractor", data)
        assert (reject.line, reject.reason) == (5, "not_utf8")
        assert document == Document("ok\n")


class TestLines:
    def test_blank_lines_separate_documents(self):
        documents = read("lines", b"\n\nOne.\nTwo.\n \t\n\nThree.\n")
        assert documents == [
            Document("One.\nTwo.\n", is_split=True),
            Document("Three.\n", is_split=True),
        ]

    @pytest.mark.parametrize("blank", ["\u3000", " \xa0 ", "\u2028", "\x1c"])
    def test_white_space_is_that_of_the_original(self, blank):
        """Which strips decoded lines."""
        found = read("lines", f"“One.”\n{blank}\n二。\n{blank}x\n".encode())
        assert [document.text for document in found] == ["“One.”\n", f"二。\n{blank}x\n"]

    def test_bytes_that_are_no_text_are_no_blank_line(self):
        assert [type(row) for row in read("lines", b"One.\n\xff\n")] == [Reject]

    @pytest.mark.parametrize(
        ("data", "line"), [(b"a\n\n\nb\n\xe9t\xe9\n\nc\n", 5), (b"ok\n\nb\n\xc3", 4)]
    )
    def test_undecodable_bytes_name_their_line(self, data, line):
        (reject,) = [row for row in read("lines", data) if isinstance(row, Reject)]
        assert (reject.line, reject.reason) == (line, "not_utf8")


class TestJsonLines:
    def test_text(self):
        data = b'{"text": "One.\\nTwo.", "id": 1}\n\n{"title": "x", "text": "Three"}'
        assert read("jsonl", data) == [Document("One.\nTwo."), Document("Three")]

    def test_another_column_and_nulls(self):
        lines = [b'{"body": "One", "text": 1}\n', b'{"body": null}\n', b'{"text": "Two"}\n']
        found = list(FORMATS["jsonl"].read_lines(lines, ReadOptions(text_column="body")))
        assert found[:2] == [Document("One"), Skip("null_text")]
        assert (found[2].reason, found[2].line) == ("no_text", 3)

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            (b'{"text": "cut', "not_json"),
            (b"[" * 100_000, "not_json"),
            (b'{"txt": "x"}', "no_text"),
            (b'{"text": 5}', "no_text"),
            (b'["text"]', "no_text"),
            (b'{"text": "\xff"}', "not_utf8"),
            (b'{"text": "half \\ud83d of a pair"}', "not_utf8"),
            (b'{"text": "\xed\xa0\xbd"}', "not_utf8"),
            ('{"text": "wide"}'.encode("utf-16-le"), "not_json"),
            (b'{"text": "a\x00b"}', "not_json"),
        ],
    )
    def test_rejects(self, line, reason):
        good, reject, also_good = read("jsonl", b'{"text": "a"}\n' + line + b'\n{"text": "b"}\n')
        assert (good, also_good) == (Document("a"), Document("b"))
        assert (reject.line, reject.reason) == (2, reason)


class TestText:
    def test_one_document_a_file(self):
        (document,) = map(
            clean, read("text", b"A heading\n\nA line that was\nwrapped by hand.\n\nThe end.\n")
        )
        assert document == Document("A heading\nA line that was wrapped by hand.\nThe end.")

    def test_headings_of_wikis_go(self):
        page = b"It was.\nIt is.\n\n\n== Sights ==\nA hill.\nA river.\n\n=== Sea ===\nIt is.\n"
        assert recognise(page).name == recognise(page.replace(b"\n", b"\r\n")).name == "text"
        assert recognise(page.replace(b"= ", b"").replace(b" =", b"")).name == "lines"
        (document,) = map(clean, read("text", page))
        assert "=" not in document.text and "Sights" not in document.text
        assert document.text.replace("\n", " ") == "It was. It is. A hill. A river. It is."
        assert document.cleaned == {"heading": 2}


class TestNothingIsLost:
    """Whatever the text: what is read holds the same visible characters in the same order."""

    @exact
    @given(texts)
    def test_lines(self, text):
        found = "".join(document.text for document in read("lines", text.encode()))
        assert visible(found) == visible(text)

    @exact
    @given(st.lists(texts, max_size=4))
    def test_jsonl(self, rows):
        data = "".join(json.dumps({"text": text}) + "\n" for text in rows)
        assert [document.text for document in read("jsonl", data.encode())] == rows


class TestDetectFormat:
    @pytest.mark.parametrize(
        ("sample", "name"),
        [
            (b'<doc id="1" url="u" title="T">\nT\n', "wikiextractor"),
            (b'\n\n<doc id="1" title="T">\r\n', "wikiextractor"),
            (codecs.BOM_UTF8 + b'<doc id="1" title="T">\n', "wikiextractor"),
            (b'{"text": "a"}\n', "jsonl"),
            (b'{ "id": 1, "text": "a"}\n', "jsonl"),
            (b"One sentence.\nAnother one.\n\nA second document.\nIt goes on.\n", "lines"),
            (b"(It rained.)\n[She left.]\n\n'What now?'\nNothing!)\n", "lines"),
            ("ذهبنا.\u200f\nعدنا.\u200f\n\nنام الطفل.\u200f\nهو هنا.\u200f\n".encode(), "lines"),
            ("Τι ώρα είναι;\nΠού πας;\n\nΠοιος είναι;\nΉρθε.\n".encode(), "lines"),
            (b"One sentence.\r\nAnother.\r\n\r\nA document.\r\nIt goes on.\r\n", "lines"),
            (b"A paragraph that is\nwrapped by hand and\nends.\n\nAnother that\nends.\n", "text"),
            (b"A paragraph.\n\nAnother paragraph.\n\nA third.\n", "text"),
            (b"It was. It is.\nHe had. He has.\n\nNo. Yes.\nIt ended. It did.\n", "text"),
            (b"", "text"),
            (b'<mediawiki xmlns="x">\n', "mediawiki"),
            (b'<?xml version="1.0"?>\n<mediawiki>\n', "mediawiki"),
            (b" \n = Robert = \n \n He is an actor .\n", "wikitext"),
            (b"= = A heading = =\n\nText.\n", "text"),
            (b"\n \n", "text"),
            (b"PAR1\x15\x04", "parquet"),
            ("A line.\n\nAnother.\n".encode("utf-16"), "text"),
            ('{"text": "a"}\n'.encode("utf-16"), "jsonl"),
            (codecs.BOM_UTF32_BE + '<doc id="1" title="T">\n'.encode("utf-32-be"), "wikiextractor"),
            (codecs.BOM_UTF8 * 2 + b'{"text": "a"}\n', "jsonl"),
            (b"  <page>\n    <title>A</title>\n    <revision>\n", "mediawiki"),
            (b"{{a}} b.</text>\n</page>\n<page>\n<title>A</title>\n<revision>\n", "mediawiki"),
            (b"\0" * 100, "text"),
            (b"\xff\xfe\x00", "text"),
        ],
    )
    def test_samples(self, sample, name):
        assert recognise(sample).name == name

    @exact
    @given(st.binary(max_size=200))
    def test_any_bytes_have_a_format(self, sample):
        assert recognise(sample) in FORMATS.values()

    @pytest.mark.parametrize(
        ("folder", "name"),
        [
            ("wiki_extracted", "wikiextractor"),
            ("google_sample", "lines"),
            ("novels", "text"),
            ("wikitext2", "wikitext"),
            ("gutenberg_mixed_encodings", "text"),
        ],
    )
    def test_real_files(self, shared_data, folder, name):
        found = {}
        for path in sorted((shared_data / folder).iterdir()):
            with path.open("rb") as file:
                found[path.name] = recognise(file.read(SAMPLE_BYTES)).name
        assert found == dict.fromkeys(found, name)


class TestWikiText:
    def test_articles_start_at_titles_and_headings_go(self):
        data = b" \n = A = \n \n One .\n = = S = = \n Two .\n = = = T = = = \n = B b = \n Three .\n"
        found = [" ".join(d.text.split()) for d in read("wikitext", data)]
        assert found == ["One . Two .", "Three ."]

    def test_an_equation_is_no_title(self):
        found = read("wikitext", b" = A = \n x = 1 is = to y\n")
        assert [d.text.strip() for d in found] == ["x = 1 is = to y"]

    def test_real_file(self, shared_data):
        data = (shared_data / "wikitext2" / "wiki.valid.tokens").read_bytes()
        assert len(read("wikitext", data)) == 60  # as the data's own description says


DUMP = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" xml:lang="de">
  <siteinfo><namespaces>
    <namespace key="6" case="first-letter">Datei</namespace>
    <namespace key="14" case="first-letter">Kategorie</namespace>
  </namespaces></siteinfo>
  <page><title>A</title><ns>0</ns><id>1</id><revision><text>First '''bold''' [[B|link]].
[[Datei:x.png|mini|A [[caption]] here]]
== Heading ==
* item
Second &amp; last.{{Infobox|a=1}}
[[Kategorie:X]]</text></revision></page>
  <page><title>R</title><ns>0</ns><redirect title="A" /><revision><text>x</text></revision></page>
  <page><title>Talk:A</title><ns>1</ns><revision><text>hello</text></revision></page>
  <page><title>E</title><ns>0</ns><revision><text /></revision></page>
</mediawiki>
"""


class TestMediaWiki:
    def test_articles_only(self):
        found = read("mediawiki", DUMP.encode())
        assert found == [
            Document("First bold link.\nSecond & last."),
            Skip("redirect"),
            Skip("not_an_article"),
            Document(""),
        ]

    def test_cut_off_within_a_page(self):
        cut = DUMP.encode()[: DUMP.index("Talk:A")]
        *whole, last = read("mediawiki", cut)
        assert [type(d) for d in whole] == [Document, Skip]
        assert (last.reason, last.line) == ("cut_off", 13)

    def test_cut_off_between_pages(self):
        *whole, last = read("mediawiki", DUMP.encode()[: DUMP.index("<page><title>E")])
        assert [type(d) for d in whole] == [Document, Skip, Skip]
        assert last == Reject(15, "cut_off", "the XML breaks off after line 14")

    @pytest.mark.parametrize(
        ("old", "new", "reason", "line"),
        [
            (b"Second &amp;", b"Second & ", "damaged_page", 6),
            (b"Second", b"Sec\x00ond", "damaged_page", 6),
            (b"Second", b"Sec\xffond", "not_utf8", 10),
            (b"</revision></page>\n  <page><title>R", b"\n  <page><title>R", "cut_off", 6),
        ],
    )
    def test_a_damaged_page_is_rejected_alone(self, old, new, reason, line):
        data = DUMP.encode()
        assert data.count(old) == 1
        reject, *others = read("mediawiki", data.replace(old, new))
        assert (reject.reason, reject.line) == (reason, line)
        assert others == read("mediawiki", data)[1:]

    def test_a_piece_without_the_beginning(self):
        """Its whole pages are read, and what is left of the one before is rejected."""
        data = DUMP.encode()
        documents = read("mediawiki", data)
        piece = data[data.index(b"Second &amp;") :]
        reject, *others = read("mediawiki", piece)
        assert (reject.line, reject.reason) == (2, "cut_off")
        assert others == documents[1:]
        assert read("mediawiki", data[data.index(b"<page>") :]) == [
            # German names of namespaces stand in the beginning; files and lines of links need none.
            Document("First bold link.\nSecond & last.", cleaned=Counter()),
            *documents[1:],
        ]

    def test_all_on_one_line(self):
        data = re.sub(r">\s+<", "><", DUMP).encode()
        assert data.count(b"\n") < 10
        assert read("mediawiki", data) == read("mediawiki", DUMP.encode())
