"""Reads files in Markdown, which are one document each. Pure."""

from collections.abc import Iterable, Iterator

from beambert.pipelines.corpus.charsets import NOTHING_ASSUMED, Assumed
from beambert.pipelines.corpus.columns import TEXT_ALONE, Columns
from beambert.pipelines.corpus.documents import Document, Reject, decode_file
from beambert.pipelines.corpus.format_base import PLAIN_FORMATS, LineFormat
from beambert.pipelines.corpus.gutenberg import strip_gutenberg


class Markdown(LineFormat):
    """Markdown: each file is one document. Its content may be that of plain text."""

    name = "markdown"
    is_divisible = False
    is_utf8 = False
    endings = (".md", ".markdown")
    # Tables between bars may have commas, and many files begin with a piece of HTML.
    weaker = (*PLAIN_FORMATS, "csv", "tsv", "html", "xml")

    def recognises(self, sample: bytes) -> bool:
        """Returns False: any text is Markdown, so only the name of a file shows it."""
        return False

    def read_lines(
        self,
        lines: Iterable[bytes],
        columns: Columns = TEXT_ALONE,
        assumed: Assumed = NOTHING_ASSUMED,
    ) -> Iterator[Document | Reject]:
        """Yields one document, made of all lines. Each of its blocks is a paragraph."""
        # The parser of a command's flags lists the formats and needs no library that reads them.
        from beambert.pipelines.corpus.markdown_blocks import TangledError, clean_markdown

        found = decode_file(b"".join(lines), assumed)
        if isinstance(found, Reject):
            yield found
            return
        plain = strip_gutenberg("\n".join(found.text.splitlines()))
        try:
            text, counts = clean_markdown(plain)
        except TangledError as error:
            detail = f"the file {error}; divide it, or give --format=text to read it as it is"
            yield Reject(1, "tangled_markup", detail)
            return
        yield Document(text, encoding=found.encoding, cleaned=counts)
