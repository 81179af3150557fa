"""Splits documents into sentences. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from beambert.pipelines.corpus.documents import DEFAULT_LANGUAGE, Document
from beambert.pipelines.text.language_rules import split_clauses, stand_in

# Number of characters to split at a time. The splitter needs many times the memory of its text.
WINDOW = 1 << 20
# Number of characters above which a paragraph is cut. The splitter looks for the end of a quotation
# in the whole paragraph. This takes quadratic time, and it fails where a quotation mark is missing.
LONGEST_PARAGRAPH = 1 << 16
# Number of characters, as many as 128 tokens have, above which a sentence is split again without
# regard to brackets and quotation marks. The splitter never ends a sentence between two of them: a
# speech, or all that stands between the "(C)" of two copyrights, is one sentence to it.
LONGEST_QUOTATION = 500
_WITHOUT_QUOTATION = str.maketrans(
    dict.fromkeys("()[]{}<>\"'`“”„‟‘’‚‛«»‹›「」『』《》〈〉（）【】", " ")
)


class SplitText(NamedTuple):
    """A document in sentences.

    Attributes:
      sentences: at least one sentence.
      unspaced: numbers of the sentences that no white space separates from the one before, counted
        from 0, in ascending order. White space of any kind stands between the others.
    """

    sentences: Sequence[str]
    unspaced: Sequence[int] = ()


def split_sentences(document: Document, language: str = DEFAULT_LANGUAGE) -> list[str]:
    """Returns the sentences of a document in order, without blank ones.

    Args:
      document: document whose line feeds separate paragraphs, or sentences if it is split already.
      language: ISO 639-1 code for sentencex, which has generic rules for unknown languages.
    """
    paragraphs = _paragraphs(document.text)
    if document.is_split:
        return paragraphs
    sentences: list[str] = []
    for text in _windows(paragraphs):
        for segment in map(str.strip, _segments(text, language)):
            for sentence in split_clauses(segment, language):
                if len(sentence) > LONGEST_QUOTATION:
                    sentences += _split_quotation(sentence, language)
                elif sentence:
                    sentences.append(sentence)
    return sentences


def find_unspaced(text: str, sentences: Sequence[str]) -> tuple[int, ...]:
    """Returns the numbers of the sentences of a text as `SplitText.unspaced` has them.

    Args:
      text: the text that was split.
      sentences: its sentences, of which none begins with white space.
    """
    found, end = [], 0
    for number, sentence in enumerate(sentences):
        if text.startswith(sentence, end):
            start = end
            if number:
                found.append(number)
        else:
            start = text.index(sentence, end)
        end = start + len(sentence)
    return tuple(found)


def _segments(text: str, language: str) -> list[str]:
    """Returns the sentences of a text as the splitter finds them, with the space behind each."""
    # The parser of a command's flags imports this module, and needs no splitter.
    import sentencex

    known = stand_in(text, language)
    segments = sentencex.segment(language, known)
    if known == text:
        return segments
    start, found = 0, []
    for segment in segments:
        start = known.index(segment, start)
        found.append(text[start : start + len(segment)])
        start += len(segment)
    return found


def _split_quotation(sentence: str, language: str) -> Iterator[str]:
    """Yields a sentence in the pieces that it has without brackets and quotation marks.

    A mark between two pieces goes with the one from which no space separates it.
    """
    bare = sentence.translate(_WITHOUT_QUOTATION)
    start = end = 0
    for piece in filter(None, map(str.strip, _segments(bare, language))):
        first = bare.index(piece, end)
        if end:
            between = sentence[end:first]
            cut = end + next((i for i, c in enumerate(between) if c.isspace()), len(between))
            yield sentence[start:cut].strip()
            start = cut
        end = first + len(piece)
    yield sentence[start:].strip()


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


def _paragraphs(text: str) -> list[str]:
    """Returns the lines of a text, long ones in pieces, without blank ones."""
    lines = filter(None, map(str.strip, text.split("\n")))
    if len(text) <= LONGEST_PARAGRAPH:  # There is no longer line.
        return list(lines)
    return [piece for line in lines for piece in map(str.strip, _pieces(line)) if piece]


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
