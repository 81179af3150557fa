"""MediaWiki XML dumps -> documents: articles only, markup stripped. Pure."""

import html
import re
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, BinaryIO
from xml.etree import ElementTree

from beambert.pipelines.corpus.documents import Document, Reject, Skip, not_utf8
from beambert.pipelines.corpus.format_base import BEFORE_TEXT, LineFormat
from beambert.pipelines.corpus.multistream import index_path, stream_offsets
from beambert.pipelines.corpus.parts import FilePart, split_at
from beambert.pipelines.corpus.wiki_markup import ENGLISH_PREFIXES, MarkupError, strip_markup
from beambert.pipelines.jobs.compression import CorruptFileError, decompress
from beambert.pipelines.shared.errors import InputError

if TYPE_CHECKING:
    from beambert.pipelines.jobs.input_files import InputFile

# Namespaces of every wiki (mediawiki.org, Manual:Namespace, "Built-in namespaces").
ARTICLES, MEDIA, FILES, CATEGORIES = "0", "-2", "6", "14"
_PAGE = b"<page>"
_MEDIA_NAMESPACE = re.compile(
    rf'<namespace\s+key="(?:{MEDIA}|{FILES}|{CATEGORIES})"[^>]*>([^<]*)<'.encode()
)


class MediaWiki(LineFormat):
    """XML exports of a wiki; those of Wikimedia may be multistream."""

    name = "mediawiki"
    beginning = re.compile(BEFORE_TEXT + rb"(<\?xml[^>]*>\s*)?<mediawiki")

    def starts_document(self, line: bytes) -> bool:
        """Whether a page starts on this line, as exports write them."""
        return line.lstrip().startswith(_PAGE)

    def split(self, file: "InputFile", text_column: str) -> list[FilePart]:
        """Divides a multistream dump where its index says, if that lies beside it.

        Raises:
          InputError: the index can't be used.
        """
        if file.is_compressed:
            return split_at(file, self.name, _stream_offsets(file))
        return super().split(file, text_column)

    def lines(self, part: FilePart, stored: BinaryIO) -> Iterator[bytes]:
        """Yields a part's lines; in front the dump's before its first page, behind its end."""
        lines = super().lines(part, stored)
        first = next(lines, b"")
        if part.start and first:
            # As one line with the first, so that lines are counted from the part's own.
            yield self._before_pages(part.file) + first
        elif first:
            yield first
        yield from lines
        if part.end is not None:
            yield b"</mediawiki>\n"
        elif part.start and not first:
            # A last part without a page: the end of the dump was passed over with the page before
            # it, whose reader doesn't look for it.
            stored.seek(part.start)
            yield from (line.rpartition(b"page>")[2] for line in stored)

    def _before_pages(self, file: "InputFile") -> bytes:
        """Returns a dump's beginning, which names its namespaces."""
        with file.open() as stored:
            lines = decompress(file.path, stored)
            return b"".join(takewhile(lambda line: not self.starts_document(line), lines))

    def read_lines(
        self, lines: Iterable[bytes], text_column: str = "text"
    ) -> Iterator[Document | Skip | Reject]:
        """Reads an export page by page: redirects and pages other than articles are skipped.

        A damaged page is rejected alone. Neither tag can occur in a page's text, where < is
        escaped.
        """
        prefixes = set(ENGLISH_PREFIXES)
        page: list[bytes] | None = None
        start, has_end = 0, False
        number = 0
        for number, line in enumerate(lines, 1):
            # Usually the line itself.
            for piece in (
                re.split(rb"(?=<page>)|(?<=</page>)", line) if b"page>" in line else [line]
            ):
                if piece.startswith(_PAGE):
                    if page is not None:
                        yield _cut_off(start)
                    page, start = [], number
                if page is None:
                    for match in _MEDIA_NAMESPACE.finditer(piece):
                        prefixes.add(html.unescape(match[1].decode("utf-8", "replace")).lower())
                    has_end = has_end or b"</mediawiki>" in piece
                    continue
                page.append(piece)
                if piece.endswith(b"</page>"):
                    yield _parse_page(b"".join(page), start, frozenset(prefixes))
                    page = None
        if page is not None:
            yield _cut_off(start)
        elif not has_end:
            yield Reject(number + 1, "cut_off", f"the XML breaks off after line {number}")


def _stream_offsets(file: "InputFile") -> list[int]:
    """Returns where a compressed dump may be cut: nowhere, unless an index says so."""
    index = index_path(file.path)
    opened = file.open_beside(index) if index else None
    if opened is None:
        return []
    try:
        with opened as stored:
            offsets = stream_offsets(decompress(index, stored))
    except (ValueError, CorruptFileError) as error:
        raise InputError(
            f"{index}: not the index of {file.path} ({error}); mend it, or delete it and the dump "
            "is read by one worker"
        ) from error
    if offsets and offsets[-1] >= file.bytes:
        raise InputError(
            f"{index}: not the index of {file.path}, which has no byte {offsets[-1]}; fetch both "
            "again, or delete it and the dump is read by one worker"
        )
    return offsets


def _cut_off(start: int) -> Reject:
    return Reject(start, "cut_off", f"the page that starts on line {start} has no </page>")


def _parse_page(raw: bytes, start: int, prefixes: frozenset[str]) -> Document | Skip | Reject:
    try:
        raw.decode("utf-8")
        return _read_page(ElementTree.fromstring(raw), prefixes)
    except UnicodeDecodeError as error:
        return not_utf8(raw, start, error)
    except (ElementTree.ParseError, MarkupError) as error:
        detail = f"the page that starts on line {start} is damaged ({error})"
        return Reject(start, "damaged_page", detail)


def _read_page(page: ElementTree.Element, media_prefixes: frozenset[str]) -> Document | Skip:
    fields = {element.tag: element for element in page.iter()}
    if "ns" in fields and fields["ns"].text != ARTICLES:
        return Skip("not_an_article")
    if "redirect" in fields:
        return Skip("redirect")
    text = fields["text"].text if "text" in fields else None
    return Document(strip_markup(text or "", media_prefixes))
