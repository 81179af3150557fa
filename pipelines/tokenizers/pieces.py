"""Tokens as word pieces: where words begin, how words are cut, and how pieces are shown. Pure.

Each kind of tokenizer marks words in its own way. Byte-level BPE (GPT-2, RoBERTa, ModernBERT)
writes "Ġ" for the space before a word, Unigram and SentencePiece write "▁", and WordPiece begins a
piece inside a word with "##". Here all tokens become word pieces, so that records of every
tokenizer are masked, checked and shown by the same rules.
"""

import functools
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from typing import Any

# Prefix of a word piece that continues a word.
CONTINUES = "##"
# The word marks of tokenizers; without a mark each token is a word.
BYTES, METASPACE, NO_MARK = "Ġ", "▁", ""
# The bytes of UTF-8 that continue a character: 0b10xxxxxx (RFC 3629, section 3).
_CONTINUING_BYTES = bytes(range(0x80, 0xC0))
# These characters show white space in a token that has nothing else.
_WHITE_SPACE = str.maketrans({" ": "␣", "\n": "↵", "\r": "↵", "\t": "⇥"})
# Tokens without a space before them, or after them, in most languages.
_CLOSING = frozenset(".,;:!?%)]}…’”»")
_OPENING = frozenset("([{“«")
# Endings after an apostrophe. Any other apostrophe may be a quotation mark.
_ENDINGS = frozenset(("s", "t", "d", "m", "ll", "re", "ve"))
_APOSTROPHES = frozenset("'’")


def mark_of(tokenizer: Mapping[str, Any]) -> str:
    """Returns the word mark: `BYTES`, `METASPACE`, the prefix of continuing pieces, or `NO_MARK`.

    Args:
      tokenizer: content of tokenizer.json.
    """
    steps = [tokenizer.get(name) for name in ("normalizer", "pre_tokenizer", "decoder")]
    if _contains(steps, "ByteLevel"):
        return BYTES
    if _contains(steps, "Metaspace") or _contains(steps, METASPACE):
        return METASPACE
    return tokenizer["model"].get("continuing_subword_prefix") or NO_MARK


def _contains(value: Any, wanted: str) -> bool:
    """Returns whether a string is among the values of a JSON object, at any depth."""
    if isinstance(value, dict):
        return any(_contains(inner, wanted) for inner in value.values())
    if isinstance(value, list):
        return any(_contains(inner, wanted) for inner in value)
    return value == wanted


def as_piece(token: str, mark: str) -> str:
    """Returns a token as a word piece: "##x" continues a word.

    A token without a letter, a digit or a combining mark begins a word, as punctuation does among
    word pieces.

    Args:
      token: token that stands for text.
      mark: word mark of the tokenizer, see `mark_of`.
    """
    if mark == NO_MARK:
        return token
    if mark not in (BYTES, METASPACE):
        continues, text = token.startswith(mark), token.removeprefix(mark) or token
    else:
        spelled = _text_of(token) if mark == BYTES else token.replace(METASPACE, " ")
        continues = not spelled[:1].isspace()
        text = spelled.strip() or spelled.translate(_WHITE_SPACE)
    is_word = any(unicodedata.category(character)[0] in "LNM" for character in text)
    return CONTINUES + text if continues and is_word else text


def characters_of(token: str, mark: str) -> str:
    """Returns the characters of a token without white space and without its mark.

    A character that is divided between tokens of bytes counts for the token with its first byte,
    where it is U+FFFD.

    Args:
      token: token that stands for text.
      mark: word mark of the tokenizer, see `mark_of`.
    """
    if mark not in (BYTES, METASPACE):
        return token.removeprefix(mark) or token
    codes = _byte_codes()
    if mark == BYTES and all(character in codes for character in token):
        spelled = bytes(codes[character] for character in token).lstrip(_CONTINUING_BYTES)
        token = spelled.decode(errors="replace")
    return "".join(token.replace(METASPACE, " ").split())


def _text_of(token: str) -> str:
    """Returns the text of a token of bytes; bytes that are not whole characters as "<number>"."""
    codes = _byte_codes()
    if not all(character in codes for character in token):
        return token
    spelled = bytes(codes[character] for character in token)
    try:
        return spelled.decode()
    except UnicodeDecodeError:
        rest = spelled.lstrip()
        space = spelled[: len(spelled) - len(rest)].decode()
        return space + "".join(f"<{byte}>" for byte in rest)


@functools.cache
def _byte_codes() -> dict[str, int]:
    """Returns character -> byte, as GPT-2 writes bytes (Radford et al. 2019, encoder.py).

    The visible characters of Latin-1 stand for themselves. The others follow from U+0100 on, in
    order.
    """
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(visible)]
    return {chr(byte): byte for byte in visible} | {
        chr(0x100 + number): byte for number, byte in enumerate(others)
    }


def join_pieces(pieces: Iterable[str]) -> str:
    """Returns the text of word pieces, for people: whole words, punctuation next to its word.

    The tokenizer drops spaces and accents, so the original text cannot be restored.
    """
    text, before, before_that = "", "", ""
    for piece in pieces:
        has_word = before_that[-1:].isalpha() or before_that.endswith("]")
        is_ending = before in _APOSTROPHES and has_word and piece in _ENDINGS
        if piece.startswith(CONTINUES) and len(piece) > len(CONTINUES):
            text += piece.removeprefix(CONTINUES)
        elif is_ending:
            text = text.removesuffix(f" {before}") + before * text.endswith(f" {before}") + piece
        elif piece in _CLOSING or before in _OPENING or not text:
            text += piece
        else:
            text += f" {piece}"
        before_that, before = before, piece
    return text


def cut(word: str, pieces: Collection[str], longest: int, start: int = 0) -> list[str] | None:
    """Cuts a word into the longest matching pieces from left to right; None if they don't match.

    Args:
      word: the word.
      pieces: the vocabulary's pieces, such as "un" and "##able".
      longest: length of its longest piece, in characters.
      start: character to begin at; a piece that begins after 0 continues the word.
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
    """Returns the pieces that a new piece replaces; None if they cannot spell it."""
    if not piece.startswith(CONTINUES):
        return cut(piece, pieces, longest)
    return cut("x" + piece.removeprefix(CONTINUES), pieces, longest, start=1)


def longest_of(pieces: Collection[str]) -> int:
    """Returns the length of the longest piece, in characters."""
    return max((len(piece.removeprefix(CONTINUES)) for piece in pieces), default=1)
