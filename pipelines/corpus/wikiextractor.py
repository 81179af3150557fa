"""WikiExtractor's output -> documents. Pure."""

import re
from collections.abc import Iterable, Iterator

from beambert.pipelines.corpus.documents import Document, Reject, decode_document
from beambert.pipelines.corpus.format_base import BEFORE_TEXT, LineFormat


class WikiExtractor(LineFormat):
    """Articles between `<doc id= url= title=>` and `</doc>`."""

    name = "wikiextractor"
    beginning = re.compile(BEFORE_TEXT + rb"<doc ")

    def starts_document(self, line: bytes) -> bool:
        """Whether the line opens an article."""
        return line.startswith(b"<doc ")

    def read_lines(
        self, lines: Iterable[bytes], text_column: str = "text"
    ) -> Iterator[Document | Reject]:
        """Reads articles; drops the title that each repeats."""
        body: list[bytes] | None = None
        start, title, is_outside = 0, b"", False
        for number, line in enumerate(lines, 1):
            if self.starts_document(line):
                if body is not None:
                    yield _cut_off(start)
                body, start, is_outside = [], number + 1, False
                match = re.search(rb' title="(.*)">\s*$', line)
                title = match[1] if match else b""
            elif body is None:
                if line.strip() and not is_outside:
                    is_outside = True  # one reject a stretch, however many lines it has
                    yield Reject(number, "outside_doc", f"line {number} is outside <doc> … </doc>")
            elif line.startswith(b"</doc>"):
                if body and body[0].strip() == title.strip():
                    body[0] = b"\n"
                yield decode_document(b"".join(body), start)
                body = None
            else:
                body.append(line)
        if body is not None:
            yield _cut_off(start)


def _cut_off(start: int) -> Reject:
    return Reject(start, "cut_off", f"the document that starts on line {start} has no </doc>")
