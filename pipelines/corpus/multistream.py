"""Wikimedia's multistream dumps: where their parts start. Pure.

Such a dump is many bzip2 streams, each of 100 pages; the first holds what comes before the pages
and the last what comes after. A file beside it lists where each page's stream starts (meta.
wikimedia.org, "Data dumps/Dump format", section "Multistream dumps").
"""

import re
from collections.abc import Iterable

# enwiki-20240101-pages-articles-multistream.xml.bz2, or one piece of a large wiki's dump:
# enwiki-20240101-pages-articles-multistream1.xml-p1p41242.bz2.
_DUMP_NAME = re.compile(r"(.*-multistream)(\d*)\.xml((?:-p\d+p\d+)?\.bz2)")


def index_path(dump_path: str) -> str | None:
    """Returns where the index of a multistream dump is, or None for any other file's name."""
    match = _DUMP_NAME.fullmatch(dump_path)
    return f"{match[1]}-index{match[2]}.txt{match[3]}" if match else None


def stream_offsets(index_lines: Iterable[bytes]) -> list[int]:
    """Returns the offsets in bytes of the streams that hold pages, in order.

    Args:
      index_lines: `offset:page id:title` each, decompressed; titles may have colons.

    Raises:
      ValueError: a line is not of that form; names it.
    """
    offsets = set()
    for number, line in enumerate(index_lines, 1):
        offset, _, rest = line.partition(b":")
        if not offset.isdigit() or b":" not in rest:
            raise ValueError(f"line {number} is not offset:page id:title")
        offsets.add(int(offset))
    return sorted(offsets)
