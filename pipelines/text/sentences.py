"""Documents -> sentences. Pure."""

from collections.abc import Iterable, Iterator

import sentencex

from beambert.pipelines.corpus.documents import Document

# Characters that are split at a time: the splitter takes many times its text's size in memory.
WINDOW = 1 << 20
# Longer paragraphs are cut. The splitter looks for the end of a quotation all over its paragraph,
# which takes the square of its length in time, and where a quotation mark is missing goes wrong.
LONGEST_PARAGRAPH = 1 << 16


def split_sentences(document: Document, language: str = "en") -> list[str]:
    """Returns the document's sentences in order, none blank.

    Args:
      document: its line feeds separate paragraphs, or sentences if it is split already.
      language: ISO 639-1 code that sentencex takes; an unknown one falls back to its generic rules.
    """
    lines = (line.strip() for line in document.text.split("\n"))
    pieces = (piece for line in lines for piece in map(str.strip, _pieces(line)) if piece)
    if document.is_split:
        return list(pieces)
    sentences: list[str] = []
    for text in _windows(pieces):
        found = (sentence.strip() for sentence in sentencex.segment(language, text))
        sentences += (sentence for sentence in found if sentence)
    return sentences


def _windows(paragraphs: Iterable[str]) -> Iterator[str]:
    """Joins paragraphs by blank lines, which end a sentence for sentencex, a window at a time."""
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
    """Cuts a paragraph that is too long.

    At a space after a full stop or the like near the greatest length, at any space if there is
    none, or else anywhere.
    """
    start = 0
    while len(paragraph) - start > LONGEST_PARAGRAPH:
        end = _cut(paragraph, start, start + LONGEST_PARAGRAPH)
        yield paragraph[start:end]
        start = end
    yield paragraph[start:]


def _cut(text: str, start: int, end: int) -> int:
    """Returns where to cut before `end`: in the last tenth, at a sentence's end if any."""
    low = end - (end - start) // 10
    marks = (text.rfind(mark, low, end) for mark in (". ", "? ", "! ", "。", "！", "？", "।"))
    at = max(marks)
    if at < 0:
        at = text.rfind(" ", low, end)
    return end if at < 0 else at + 1
