"""Finds the streams of Wikimedia's multistream dumps, which workers can read separately. Pure.

Such a dump consists of many bzip2 streams of 100 pages each. The first stream holds the beginning
of the XML before the pages, and the last one its end. An index, a file of its own beside the dump,
lists the byte offset of each page's stream (meta.wikimedia.org, "Data dumps/Dump format", section
"Multistream dumps").
"""

import re
from collections.abc import Iterable

# Matches enwiki-20240101-pages-articles-multistream.xml.bz2, and the pieces of a large wiki's dump:
# enwiki-20240101-pages-articles-multistream1.xml-p1p41242.bz2.
_DUMP_NAME = re.compile(r"(.*-multistream)(\d*)\.xml((?:-p\d+p\d+)?\.bz2)")


def index_path(dump_path: str) -> str | None:
    """Returns the path of a multistream dump's index, or None for any other file."""
    match = _DUMP_NAME.fullmatch(dump_path)
    return f"{match[1]}-index{match[2]}.txt{match[3]}" if match else None


def stream_offsets(index_lines: Iterable[bytes]) -> list[int]:
    """Returns the sorted byte offsets of the streams that hold pages.

    Args:
      index_lines: decompressed lines of the form `offset:page id:title`; titles may have colons.

    Raises:
      ValueError: a line does not have that form; the message names it.
    """
    offsets = set()
    for number, line in enumerate(index_lines, 1):
        offset, _, rest = line.partition(b":")
        if not offset.isdigit() or b":" not in rest:
            raise ValueError(f"line {number} is not offset:page id:title")
        offsets.add(int(offset))
    return sorted(offsets)
