"""WET, PubMed, EPUB, and rows of rendered wiki pages."""

import gzip
import io
import json
import zipfile

import pytest

from beambert.console import ProgressTally
from beambert.pipelines.corpus.base import FilePart, ReadOptions
from beambert.pipelines.corpus.documents import Document, Reject, Skip
from beambert.pipelines.corpus.formats import FORMATS, recognise
from beambert.pipelines.corpus.pages import html_text
from beambert.pipelines.corpus.reading import read_part, split_file
from beambert.pipelines.input_files import InputFile, match_inputs


def read(name: str, data: bytes, options: ReadOptions = ReadOptions()) -> list:  # noqa: B008
    assert recognise(data).name == name
    stored = io.BytesIO(data)
    part = FilePart(InputFile("file", len(data), ""), name)
    return list(FORMATS[name].read(part, stored, options, lambda _: None))


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>A <b>bold</b>\n word.<p>Next &amp; last.</p>", "A bold word.\nNext & last."),
        ("<title>T</title><body><h1>H</h1><div>One<br>two<br/>three</div>", "One two three"),
        ("<ul><li>a<li>b <p>c</ul><p>After.<table><tr><td>x</table>", "After."),
        ('<p>It is<sup class="mw-ref reference">[<a>1</a>]</sup> so.</p>', "It is so."),
        ("<script>if (a < b) {}</script><style>p {}</style><p>Text", "Text"),
        ("<p>H<sub>2</sub>O</p><p>***</p><img src='a'><p>漢字</p>", "H2O\n漢字"),
        ("<p>川は北\n  から。\nIt\nis.</p>", "川は北から。 It is."),
    ],
)
def test_html_text(html, text):
    assert html_text(html) == text


def record(kind: str, body: str, length: int | str | None = None) -> bytes:
    size = len(body.encode()) if length is None else length
    return f"WARC/1.0\r\nWARC-Type: {kind}\r\nContent-Length: {size}\r\n\r\n{body}\r\n\r\n".encode()


def test_wet():
    pages = ["Uno.\n\nDue è più.\n", "日本語。\nWARC-Type: no header", ""]
    data = record("warcinfo", "isPartOf: x") + b"".join(record("conversion", p) for p in pages)
    found = read("wet", data)
    assert found == [Skip("web_archive_record"), *map(Document, pages)]
    assert read("wet", data[:-4] + record("response", "HTTP/1.1 200"))[-1].reason == "web_page"
    old = record("Conversion", "Uno.").replace(b"WARC/1.0", b"WARC/0.18")
    assert read("wet", old + record("conversion", "Due.", "")) == [
        Document("Uno."),
        Reject(11, "no_length", "the record on line 11 does not tell its length"),
    ]
    cut = read("wet", data + record("conversion", "x", 99))[-1]
    assert isinstance(cut, Reject) and cut.reason == "cut_off"
    members = b"".join(gzip.compress(record("conversion", page)) for page in pages)
    part = FilePart(InputFile("a.warc.wet.gz", len(members), ""), "wet")
    stored = io.BytesIO(members)
    found = FORMATS["wet"].read(part, stored, ReadOptions(), lambda _: None)
    assert list(found) == [Document(page) for page in pages]


ARTICLE = """<PubmedArticle><MedlineCitation><Article><ArticleTitle>Title.</ArticleTitle>{}
</Article></MedlineCitation></PubmedArticle>"""
ABSTRACT = """<Abstract><AbstractText Label="AIMS">To <i>see</i> if
1 &lt; 2.</AbstractText><AbstractText Label="RESULTS">It is.</AbstractText></Abstract>"""


def test_pubmed():
    head = '<?xml version="1.0"?>\n<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD" "x.dtd">\n'
    articles = ARTICLE.format(ABSTRACT) + ARTICLE.format("") + "\n" + ARTICLE.format("<a>")
    data = f"{head}<PubmedArticleSet>\n{articles}<PubmedArticle>\n".encode()
    document, skip, damaged, cut = read("pubmed", data)
    assert document == Document("To see if 1 < 2.\nIt is.")
    assert skip == Skip("no_abstract")
    assert (damaged.reason, cut.reason) == ("damaged_article", "cut_off")


def book(**pages: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        archive.writestr(
            "META-INF/container.xml",
            '<container xmlns="c"><rootfile full-path="O/b.opf"/></container>',
        )
        items = "".join(f'<item id="{name}" href="{name}%20x.xhtml"/>' for name in pages)
        spine = "".join(f'<itemref idref="{name}"/>' for name in reversed(pages))
        archive.writestr(
            "O/b.opf",
            f'<package xmlns="o"><manifest>{items}</manifest><spine>{spine}</spine></package>',
        )
        for name, text in pages.items():
            archive.writestr(f"O/{name} x.xhtml", f"<html><body>{text}</body></html>")
    return made.getvalue()


def test_epub():
    data = book(second="<p>It ends.</p>", first="<h2>One</h2><p>It begins</p><p>here.</p>")
    assert read("epub", data) == [Document("It begins\nhere.\nIt ends.")]
    (reject,) = read("epub", data[:-40])
    assert reject.reason == "damaged_book"
    (reject,) = read("epub", data.replace(b"itemref idref", b"itemref idxxx"))
    assert reject.reason == "damaged_book"


def test_rows_of_rendered_pages():
    rows = [
        {"index": {"_id": "1"}},
        {"namespace": 0, "title": "A", "opening_text": "It is.", "text": "It is. And so."},
        {"index": {"_id": "2"}},
        {"namespace": 14, "title": "B", "opening_text": None, "text": "Talk."},
        {"name": "C", "namespace": {"identifier": 0}, "article_body": {"html": "<p>It was.</p>"}},
        {"name": "D", "namespace": {"identifier": 6}, "article_body": {"html": "<p>File.</p>"}},
    ]
    found = read("jsonl", "\n".join(map(json.dumps, rows)).encode())
    assert [row for row in found if isinstance(row, Document)] == [
        Document("It is. And so."),
        Document("It was."),
    ]
    reasons = [row.reason for row in found if isinstance(row, Skip)]
    assert reasons == ["index_entry", "index_entry", "not_an_article", "not_an_article"]


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_pages_in_a_column(tmp_path, ending):
    """Such as the bodies of posts."""
    page, text = "<p>The <b>ship</b> &amp; crew.</p>\n<ul><li>x</li></ul>", "a <b> c"
    path = tmp_path / f"a.{ending}"
    rows = [json.dumps({"text": each}) for each in (page, text)]
    path.write_text("\n".join(rows) if ending == "jsonl" else f'id,text\n1,"{page}"\n2,{text}\n')
    (part,) = split_file(match_inputs([str(path)])[0], ReadOptions())
    found = list(read_part(part, ReadOptions(), ProgressTally(None)))
    assert [document.text for document in found] == ["The ship & crew.", text]
    assert found[0].cleaned == {"page": 1}
