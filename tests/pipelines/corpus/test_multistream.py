"""Multistream dumps: one made of the real dump the way Wikimedia makes them."""

import pytest

from beambert.pipelines.corpus.wiki_files import index_path, stream_offsets


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
