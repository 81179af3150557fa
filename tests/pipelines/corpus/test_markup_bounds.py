"""Pages that would keep the parser busy for minutes are rejected; real pages and closed markup not."""

import bz2
import io
import time

import pytest

from beambert.pipelines.corpus.documents import Document, Reject
from beambert.pipelines.corpus.wiki_files import MediaWiki
from beambert.pipelines.corpus.wiki_markup import count_unclosed, is_tangled

# ruff: noqa: E501


@pytest.mark.parametrize(
    ("wikitext", "unclosed"),
    [
        ("{{a|{{b}}}} [[c]] <ref>d</ref> <br> <i name=e /> [http://x.org y] <!-- z -->", {}),
        ("}}{{a", {"{{": 1}),
        ("{|\n| a\n|}\n{|\n{{b\n|}}", {"{|": 1}),
        ("[[a|{{b|]]", {"{{": 1}),
        ("<b <i>a</i>", {"tag": 1}),
        ("a < b <ref>c [http://x.org", {"element": 1, "[": 1}),
        ("<!-- a -->b <!--", {"<!--": 1}),
    ],
)
def test_markers_without_an_end(wikitext, unclosed):
    assert +count_unclosed(wikitext) == unclosed


def page(wikitext: str) -> bytes:
    escaped = wikitext.replace("&", "&amp;").replace("<", "&lt;")
    return f"<mediawiki>\n<page><title>A</title><ns>0</ns><revision><text>{escaped}</text></revision></page>\n</mediawiki>\n".encode()


MARKERS = [
    "<b ", "{{a|", "[[a|{{b|", "<b a=\"", "{{{a|", "<ref>", "<div>a", "[http://a ", "<!-- ", "[[a ", "''a ", "'''",
    "\n== a", "&a", "&amp;", "\n* a", "[", "{", "=", "<", "{|\n| ", "\n|-\n| a || b", "{{a|b=c}} ", "}}", "]]", "</ref>",
    "<nowiki>", "\n: a", "\n; a : b", "__A__", "~~~", "----\n", "http://a ", "(", "( ", ", ", " ", "\t",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("marker", MARKERS)
def test_a_page_of_one_marker_is_read_or_rejected_at_once(marker):
    for size in (8_000, 200_000):
        data = page(marker * (size // len(marker)))
        started = time.process_time()
        (found,) = MediaWiki().read_lines(io.BytesIO(data))
        assert time.process_time() - started < 2
        assert isinstance(found, Document) or found.reason == "tangled_markup"


@pytest.mark.parametrize("marker", ["<b ", "{{a|", "[[a|{{b|"])
def test_what_took_seconds_is_rejected(marker):
    (found,) = MediaWiki().read_lines(io.BytesIO(page(marker * 4000)))
    assert isinstance(found, Reject)
    assert found.reason == "tangled_markup"


def test_no_real_page_is_tangled(shared_data):
    import xml.etree.ElementTree as ElementTree

    (path,) = (shared_data / "wiki_xml").glob("*.bz2")
    texts = bz2.decompress(path.read_bytes()).split(b"<page>")[1:]
    pages = [
        ElementTree.fromstring(b"<page>" + text.partition(b"</page>")[0] + b"</page>")
        for text in texts
    ]
    wikitexts = [each.text or "" for tree in pages for each in tree.iter("text")]
    assert sum(map(len, wikitexts)) > 2_000_000
    assert not any(map(is_tangled, wikitexts))
