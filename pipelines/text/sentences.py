"""Splits documents into sentences. Pure."""

from collections.abc import Iterable, Iterator

from beambert.pipelines.corpus.documents import Document

# Number of characters to split at a time. The splitter needs many times the memory of its text.
WINDOW = 1 << 20
# Number of characters above which a paragraph is cut. The splitter looks for the end of a quotation
# in the whole paragraph. This takes quadratic time, and it fails where a quotation mark is missing.
LONGEST_PARAGRAPH = 1 << 16


def split_sentences(document: Document, language: str = "en") -> list[str]:
    """Returns the sentences of a document in order, without blank ones.

    Args:
      document: document whose line feeds separate paragraphs, or sentences if it is split already.
      language: ISO 639-1 code for sentencex, which has generic rules for unknown languages.
    """
    lines = (line.strip() for line in document.text.split("\n"))
    pieces = (piece for line in lines for piece in map(str.strip, _pieces(line)) if piece)
    if document.is_split:
        return list(pieces)
    # The parser of a command's flags imports this module, and needs no splitter.
    import sentencex

    sentences: list[str] = []
    for text in _windows(pieces):
        found = (sentence.strip() for sentence in sentencex.segment(language, text))
        sentences += (sentence for sentence in found if sentence)
    return sentences


def _windows(paragraphs: Iterable[str]) -> Iterator[str]:
    """Yields paragraphs joined by blank lines, at which sentencex ends a sentence, in windows."""
    held: list[str] = []
    size = 0
    for paragraph in paragraphs:
        if held and size + len(paragraph) > WINDOW:
            yield "\n\n".join(held)
            held, size = [], 0
        held.append(paragraph)
        size += len(paragraph)
    if held:
        yield "\n\n".join(held)


def _pieces(paragraph: str) -> Iterator[str]:
    """Yields a paragraph in pieces of at most `LONGEST_PARAGRAPH` characters.

    The cut is near the greatest length, preferably after the end of a sentence, else at a space, or
    else anywhere.
    """
    start = 0
    while len(paragraph) - start > LONGEST_PARAGRAPH:
        end = _cut(paragraph, start, start + LONGEST_PARAGRAPH)
        yield paragraph[start:end]
        start = end
    yield paragraph[start:]


def _cut(text: str, start: int, end: int) -> int:
    """Returns the index at which to cut, in the last tenth before `end`; see `_pieces`."""
    low = end - (end - start) // 10
    marks = (text.rfind(mark, low, end) for mark in (". ", "? ", "! ", "。", "！", "？", "।"))
    at = max(marks)
    if at < 0:
        at = text.rfind(" ", low, end)
    return end if at < 0 else at + 1
