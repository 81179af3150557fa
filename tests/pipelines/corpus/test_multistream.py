"""Multistream dumps: one made of the real dump the way Wikimedia makes them."""

import bz2
import io
import re

import pytest

from beambert.pipelines.corpus.wiki_files import MediaWiki, index_path, stream_offsets


@pytest.mark.parametrize(
    ("dump", "index"),
    [
        (
            "gs://b/enwiki-20240101-pages-articles-multistream.xml.bz2",
            "gs://b/enwiki-20240101-pages-articles-multistream-index.txt.bz2",
        ),
        (
            "/d/enwiki-20240801-pages-articles-multistream1.xml-p1p41242.bz2",
            "/d/enwiki-20240801-pages-articles-multistream-index1.txt-p1p41242.bz2",
        ),
        ("enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2", None),
        ("enwiki-20240101-pages-articles.xml.bz2", None),
        ("enwiki-20240101-pages-articles-multistream-index.txt.bz2", None),
        ("enwiki-20240101-pages-articles-multistream.xml", None),
    ],
)
def test_index_path(dump, index):
    assert index_path(dump) == index


def test_offsets_are_distinct_and_in_order():
    lines = [b"700:12:B\n", b"622:10:A\n", b"622:11:Category:A: b\n", b"700:13:C"]
    assert stream_offsets(lines) == [622, 700]
    assert stream_offsets([]) == []


@pytest.mark.parametrize("line", [b"\n", b"622\n", b"622:10\n", b"x:10:A\n", b"-1:10:A\n"])
def test_a_damaged_index_names_its_line(line):
    with pytest.raises(ValueError, match="line 2 "):
        stream_offsets([b"622:10:A\n", line])


def test_groups_of_streams_give_what_the_whole_gives(shared_data):
    (path,) = (shared_data / "wiki_xml").glob("*.bz2")
    xml = bz2.decompress(path.read_bytes())
    header, *pages = re.split(rb"(?=^  <page>$)", xml, flags=re.MULTILINE)
    pages, end = pages[:60], b"</mediawiki>\n"
    xml = b"".join([header, *pages, end])
    dump, index = bz2.compress(header), []
    for first in range(0, len(pages), 20):
        some = pages[first : first + 20]
        for page in some:
            title = re.search(rb"<title>(.*)</title>", page)[1]
            index.append(b"%d:%s:%s\n" % (len(dump), re.search(rb"<id>(\d+)", page)[1], title))
        dump += bz2.compress(b"".join(some))
    dump += bz2.compress(end)

    offsets = stream_offsets(index)
    assert len(offsets) == 3
    found = []
    for start, stop in zip(offsets, [*offsets[1:], len(dump)], strict=True):
        part = header + bz2.decompress(dump[start:stop])
        found += MediaWiki().read_lines(
            io.BytesIO(part if stop == len(dump) else part + b"</mediawiki>\n")
        )
    assert found == list(MediaWiki().read_lines(io.BytesIO(xml)))
    assert len(found) == 60
