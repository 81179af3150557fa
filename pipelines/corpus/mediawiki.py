"""Reads the articles of MediaWiki XML dumps and strips their markup. Pure."""

import html
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, BinaryIO
from xml.etree import ElementTree

from beambert.errors import InputError
from beambert.pipelines.corpus.charsets import NOTHING_ASSUMED, Assumed
from beambert.pipelines.corpus.columns import TEXT_ALONE, Columns
from beambert.pipelines.corpus.documents import Document, Reject, Skip, undecodable
from beambert.pipelines.corpus.format_base import BEFORE_TEXT, LineFormat
from beambert.pipelines.corpus.line_reading import lines_of
from beambert.pipelines.corpus.markup_bounds import is_tangled
from beambert.pipelines.corpus.multistream import index_path, stream_offsets
from beambert.pipelines.corpus.parts import FilePart, split_at
from beambert.pipelines.files.compression import CorruptFileError, decompress

if TYPE_CHECKING:
    from beambert.pipelines.files.input_files import InputFile

# Numbers of the namespaces that every wiki has (mediawiki.org, Manual:Namespace, "Built-in
# namespaces").
ARTICLES, MEDIA, FILES, CATEGORIES = "0", "-2", "6", "14"
_PAGE = b"<page>"
# Matches what stands in a page, and neither before the first page nor after the last one.
_END_OF_PAGE = re.compile(rb"</(?:page|revision|text)>")
# The marks in a piece of a dump, wherever it begins, if it holds the beginning of a page.
_PIECE_MARKS = (_PAGE, b"<title>", b"<revision>")
_MEDIA_NAMESPACE = re.compile(
    rf'<namespace\s+key="(?:{MEDIA}|{FILES}|{CATEGORIES})"[^>]*>([^<]*)<'.encode()
)


class MediaWiki(LineFormat):
    """XML exports of a wiki. The dumps of Wikimedia may be multistream."""

    name = "mediawiki"
    beginning = re.compile(BEFORE_TEXT + rb"(<\?xml[^>]*>\s*)?<mediawiki")

    def recognises(self, sample: bytes) -> bool:
        """Returns whether a file is a dump, or a piece of one that lacks its beginning."""
        return super().recognises(sample) or all(mark in sample for mark in _PIECE_MARKS)

    def starts_document(self, line: bytes) -> bool:
        """Returns whether a page starts on this line."""
        return line.lstrip().startswith(_PAGE)

    def split(self, file: "InputFile", columns: Columns) -> list[FilePart]:
        """Divides a multistream dump by its index, if the index lies beside it.

        Raises:
          InputError: the index cannot be used.
        """
        if file.is_compressed:
            return split_at(file, self.name, _stream_offsets(file))
        return super().split(file, columns)

    def lines(
        self,
        part: FilePart,
        stored: BinaryIO,
        lines_in: Callable[[BinaryIO], Iterator[bytes]] = lines_of,
    ) -> Iterator[bytes]:
        """Yields the lines of a part, completed by the beginning and the end of the dump."""
        lines = super().lines(part, stored, lines_in)
        first = next(lines, b"")
        if part.start and first:
            # The beginning and the first line count as one line, so that line numbers stay right.
            yield self._before_pages(part.file) + first
        elif first:
            yield first
        yield from lines
        if part.end is not None:
            yield b"</mediawiki>\n"
        elif part.start and not first:
            # The last part has no page, only the end of the dump. The reader of the part before
            # has read beyond that end without looking for it, so it is checked here.
            yield self._before_pages(part.file)
            stored.seek(part.start)
            yield from (line.rpartition(b"page>")[2] for line in stored)

    def _before_pages(self, file: "InputFile") -> bytes:
        """Returns the lines before the first page of a dump, which name its namespaces."""
        with file.open() as stored:
            lines = decompress(file.path, stored)
            return b"".join(takewhile(lambda line: not self.starts_document(line), lines))

    def read_lines(
        self,
        lines: Iterable[bytes],
        columns: Columns = TEXT_ALONE,
        assumed: Assumed = NOTHING_ASSUMED,
    ) -> Iterator[Document | Skip | Reject]:
        """Yields the articles of an export; redirects and other pages are skipped.

        A damaged page doesn't affect the others: <page> and </page> cannot occur in the text of a
        page, where < is escaped.
        """
        # The parser of a command's flags lists the formats and needs no library that reads them.
        from beambert.pipelines.corpus.wiki_markup import ENGLISH_PREFIXES

        prefixes = set(ENGLISH_PREFIXES)
        page: list[bytes] | None = None
        start, has_end, has_beginning, is_headless = 0, False, False, False
        number = 0
        for number, line in enumerate(lines, 1):
            # A line is split only where it has a tag of a page inside.
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
                    has_beginning = has_beginning or b"<mediawiki" in piece
                    if not (has_beginning or is_headless) and _END_OF_PAGE.search(piece):
                        is_headless = True
                        yield Reject(number, "cut_off", f"the XML before line {number} is missing")
                    continue
                page.append(piece)
                if piece.endswith(b"</page>"):
                    yield _parse_page(b"".join(page), start, frozenset(prefixes))
                    page = None
        if page is not None:
            yield _cut_off(start)
        elif not has_end and has_beginning:
            yield Reject(number + 1, "cut_off", f"the XML breaks off after line {number}")


def _stream_offsets(file: "InputFile") -> list[int]:
    """Returns the byte offsets at which a compressed dump may be cut; none without an index."""
    index = index_path(file.path)
    opened = file.open_beside(index) if index else None
    if opened is None:
        return []
    try:
        with opened as stored:
            offsets = stream_offsets(decompress(index, stored))
    except (ValueError, CorruptFileError) as error:
        raise InputError(
            f"{index}: not the index of {file.path} ({error}); mend it, or delete it to have "
            "the dump read by one worker"
        ) from error
    if offsets and offsets[-1] >= file.bytes:
        raise InputError(
            f"{index}: not the index of {file.path}, which has no byte {offsets[-1]}; fetch "
            "both again, or delete the index to have the dump read by one worker"
        )
    return offsets


def _cut_off(start: int) -> Reject:
    return Reject(start, "cut_off", f"the page that starts on line {start} has no </page>")


def _parse_page(raw: bytes, start: int, prefixes: frozenset[str]) -> Document | Skip | Reject:
    from beambert.pipelines.corpus.wiki_markup import MarkupError, strip_markup

    try:
        raw.decode("utf-8")
        wikitext = _wikitext_of(ElementTree.fromstring(raw))
        if isinstance(wikitext, Skip):
            return wikitext
        if is_tangled(wikitext):
            detail = f"the page that starts on line {start} has too much markup without an end"
            return Reject(start, "tangled_markup", detail)
        return Document(strip_markup(wikitext, prefixes))
    except UnicodeDecodeError as error:
        return undecodable(raw, start, error)
    except (ElementTree.ParseError, MarkupError) as error:
        detail = f"the page that starts on line {start} is damaged ({error})"
        return Reject(start, "damaged_page", detail)


def _wikitext_of(page: ElementTree.Element) -> str | Skip:
    fields = {element.tag: element for element in page.iter()}
    if "ns" in fields and fields["ns"].text != ARTICLES:
        return Skip("not_an_article")
    if "redirect" in fields:
        return Skip("redirect")
    return (fields["text"].text if "text" in fields else None) or ""
