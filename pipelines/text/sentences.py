"""Splits documents into sentences. Pure."""

from collections.abc import Iterable, Iterator

from beambert.pipelines.corpus.documents import Document
from beambert.pipelines.shared.errors import InputError

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

# The codes of ISO 639-1. The splitter takes any other word for an unknown language.
_CODES = (
    "aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv "
    "cy da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho "
    "hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku "
    "kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn "
    "no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm "
    "sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi "
    "vo wa wo xh yi yo za zh zu"
)
LANGUAGES = frozenset(_CODES.split())
DEFAULT_LANGUAGE = "en"


def check_language(language: str) -> None:
    """Refuses what is no code of a language, as of a country.

    Raises:
      InputError: it is no code of ISO 639-1.
    """
    if language not in LANGUAGES:
        raise InputError(
            f"--language={language}: is no ISO 639-1 code; name that of the text, such as en or "
            "zh, or of a related language"
        )


def split_sentences(document: Document, language: str = DEFAULT_LANGUAGE) -> list[str]:
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
        for sentence in map(str.strip, sentencex.segment(language, text)):
            if len(sentence) > LONGEST_QUOTATION:
                sentences += _split_quotation(sentence, language)
            elif sentence:
                sentences.append(sentence)
    return sentences


def _split_quotation(sentence: str, language: str) -> Iterator[str]:
    """Yields a sentence in the pieces that it has without brackets and quotation marks.

    A mark between two pieces goes with the one from which no space separates it.
    """
    import sentencex

    bare = sentence.translate(_WITHOUT_QUOTATION)
    start = end = 0
    for piece in filter(None, map(str.strip, sentencex.segment(language, bare))):
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
