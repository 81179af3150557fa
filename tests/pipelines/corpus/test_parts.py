"""A file in parts: cut where documents may start, its documents are those of the whole."""

import io
import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.pipelines.corpus.base import (
    FilePart,
    LineFormat,
    coverage,
    expected_coverage,
    split_at,
    split_evenly,
    split_sections,
)
from beambert.pipelines.corpus.documents import Document, Reject, Skip
from beambert.pipelines.corpus.formats import FORMATS
from beambert.pipelines.input_files import InputFile

exact = settings(derandomize=True, max_examples=150, deadline=None, database=None)

PAGE = b"""  <page>
    <title>A</title>
    <ns>%d</ns>%s
    <revision>
      <text>%s</text>
    </revision>
  </page>
"""
# Lines that matter to a format, in any order: sound documents and every kind of damage.
LINES = {
    "wikiextractor": [
        b'<doc id="1" url="u" title="T">\n', b"T\n", b"\n", b"Text.\n", b"</doc>\n", b"\xff\n",
        b'<doc id="2">\r\n', b" <doc \n",
    ],
    "lines": [b"One.\n", b"Two.\r\n", b"\n", b" \t\r\n", b"\xe9\n", b"\0\n"],
    "wikitext": [
        b" = A = \n", b" = = S = = \n", b" \n", b"Text .\n", b"\xff\n", b" = = = T = = = \n",
    ],
    "jsonl": [b'{"text": "a"}\n', b'{"text": null}\n', b"\n", b"{\n", b'{"a": 1}\n', b'"\xff"\n'],
    "mediawiki": [
        PAGE % (0, b"", b"One.\n[[File:x.png|y]] [[Datei:y.png|z]]\n* Two"),
        PAGE % (1, b"", b"Talk"),
        PAGE % (0, b'\n    <redirect title="B" />', b""),
        PAGE % (0, b"", b"a & b"),
        PAGE % (0, b"", b"\xff"),
        PAGE % (0, b"", b"\0"),
        PAGE.replace(b"  </page>\n", b"") % (0, b"", b"Cut off"),
        b"  <logitem />\n",
    ],
}  # fmt: skip
HEADER = b"""<mediawiki xml:lang="de">
  <siteinfo><namespaces><namespace key="6" case="first-letter">Datei</namespace></namespaces>
  </siteinfo>
"""
END = b"</mediawiki>\n"


def parts_of(name: str, lines: list[bytes], cuts: list[int]) -> list[list[bytes]]:
    """Cuts lines at the first place from each cut on where a document may start."""
    starts = [i for i, line in enumerate(lines) if FORMATS[name].starts_document(line)]
    chosen = sorted({next((i for i in starts if i >= cut), len(lines)) for cut in cuts})
    ends = [0, *chosen, len(lines)]
    return [lines[a:b] for a, b in itertools.pairwise(ends) if a < b]


def read_parts(name: str, lines: list[bytes], cuts: list[int]):
    if name == "mediawiki":
        first = next(
            (i for i, line in enumerate(lines) if FORMATS[name].starts_document(line)), None
        )
        if first is None:
            return list(FORMATS[name].read_lines(lines))
        header, lines = lines[:first], lines[first:]
        parts = parts_of(name, lines, cuts)
        last = parts.pop()
        parts = [[*header, *part, END] for part in parts] + [[*header, *last]]
    else:
        parts = parts_of(name, lines, cuts)
    return [found for part in parts for found in FORMATS[name].read_lines(part)]


def without_lines(found: list[Document | Skip | Reject]) -> list:
    """Line numbers count from the part's start."""
    return [f.reason if isinstance(f, Reject) else f for f in found]


def test_text_alone_cannot_be_cut():
    of_lines = {name: found for name, found in FORMATS.items() if isinstance(found, LineFormat)}
    divisible = {name for name, found in of_lines.items() if found.is_divisible}
    assert set(of_lines) - divisible == {"text", "markdown", "csv", "tsv"}
    assert set(LINES) <= divisible


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
@exact
@given(st.data())
def test_the_same_documents_in_parts(name, data):
    chunks = data.draw(st.lists(st.sampled_from(LINES[name]), max_size=25))
    if name == "mediawiki":
        chunks = [HEADER, *chunks, END]
    lines = list(io.BytesIO(b"".join(chunks)))
    cuts = data.draw(st.lists(st.integers(0, len(lines)), max_size=5))
    whole = list(FORMATS[name].read_lines(lines))
    assert without_lines(read_parts(name, lines, cuts)) == without_lines(whole)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("wikiextractor", "wiki_extracted/wiki_0[01]"),
        ("lines", "google_sample/*"),
        ("wikitext", "wikitext2/wiki.valid*"),
        ("mediawiki", "wiki_xml/*.xml"),
    ],
)
def test_real_files(shared_data, name, pattern):
    for path in sorted(shared_data.glob(pattern)):
        lines = list(io.BytesIO(path.read_bytes()))
        cuts = [len(lines) * i // 7 for i in range(1, 7)]
        whole = list(FORMATS[name].read_lines(lines))
        assert len(parts_of(name, lines, cuts)) > 1
        assert read_parts(name, lines, cuts) == whole
        assert not [row for row in whole if isinstance(row, Reject)]


FILES = [InputFile("a", 40 << 20), InputFile("gs://b/a", 400 << 20), InputFile("a 1", 5)]


PARTS = [
    *split_evenly(FILES[0], "lines"),
    *split_sections(FILES[1], "parquet", 9),
    FilePart(FILES[2], "auto"),
]


def sum_of(parts) -> int:
    return sum(map(coverage, random.Random(1).sample(parts, len(parts))))


def test_each_part_once():
    assert len(PARTS) > 15
    assert sum_of(PARTS) == expected_coverage(FILES)
    cut = split_at(FILES[0], "mediawiki", [5 << 20, 6 << 20, 11 << 20])
    assert len(cut) == 3 and sum_of(cut) == expected_coverage(FILES[:1])
    assert sum_of([]) == expected_coverage([]) == 0


@exact
@given(st.lists(st.integers(0, 3), min_size=len(PARTS), max_size=len(PARTS)))
def test_other_numbers_of_readings(times):
    parts = [part for part, count in zip(PARTS, times, strict=True) for _ in range(count)]
    assert (sum_of(parts) == expected_coverage(FILES)) == (set(times) == {1})
