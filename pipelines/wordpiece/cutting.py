"""Cuts single words into the pieces of a vocabulary, in Python. Texts are cut by `tokenization`."""

from collections.abc import Collection

from beambert.pipelines.wordpiece.vocabulary import CONTINUES


def cut(word: str, pieces: Collection[str], longest: int, start: int = 0) -> list[str] | None:
    """Returns the pieces of a word by the longest match; None if they cannot spell it.

    Args:
      word: the word.
      pieces: the vocabulary's pieces, such as "un" and "##able".
      longest: length of its longest piece, in characters.
      start: character to begin at; a piece that begins later than 0 continues the word.
    """
    found = []
    while start < len(word):
        mark = CONTINUES if start else ""
        for end in range(min(len(word), start + longest), start, -1):
            if (piece := mark + word[start:end]) in pieces:
                break
        else:
            return None
        found.append(piece)
        start = end
    return found


def cut_piece(piece: str, pieces: Collection[str], longest: int) -> list[str] | None:
    """Returns the pieces that a new piece takes the place of; None if they cannot spell it."""
    if not piece.startswith(CONTINUES):
        return cut(piece, pieces, longest)
    return cut("x" + piece.removeprefix(CONTINUES), pieces, longest, start=1)


def longest_of(pieces: Collection[str]) -> int:
    """Returns the length of the longest piece, in characters."""
    return max((len(piece.removeprefix(CONTINUES)) for piece in pieces), default=1)
