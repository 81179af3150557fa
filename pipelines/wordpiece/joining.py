"""Word pieces -> text that people can read. Pure."""

from collections.abc import Iterable

_CONTINUES = "##"
# Tokens that stand without a space before them, or after them, in most languages.
_CLOSING = frozenset(".,;:!?%)]}…’”»")
_OPENING = frozenset("([{“«")
# Endings behind an apostrophe. Any other apostrophe may be a quotation mark.
_ENDINGS = frozenset(("s", "t", "d", "m", "ll", "re", "ve"))
_APOSTROPHES = frozenset("'’")


def join_pieces(pieces: Iterable[str]) -> str:
    """Returns the text of word pieces: words whole, and punctuation beside its word.

    The result is for people. The tokenizer drops spaces and accents, so that the original text
    cannot be restored.
    """
    text, before, before_that = "", "", ""
    for piece in pieces:
        has_word = before_that[-1:].isalpha() or before_that.endswith("]")
        is_ending = before in _APOSTROPHES and has_word and piece in _ENDINGS
        if piece.startswith(_CONTINUES) and len(piece) > len(_CONTINUES):
            text += piece.removeprefix(_CONTINUES)
        elif is_ending:
            text = text.removesuffix(f" {before}") + before * text.endswith(f" {before}") + piece
        elif piece in _CLOSING or before in _OPENING or not text:
            text += piece
        else:
            text += f" {piece}"
        before_that, before = before, piece
    return text
