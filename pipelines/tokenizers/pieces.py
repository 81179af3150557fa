"""Where words begin in the tokens of each kind of tokenizer, and tokens as people read them. Pure.

A kind marks words in its own way. Byte-level BPE (GPT-2, RoBERTa, ModernBERT) writes "Ġ" for the
space before a word, Unigram and SentencePiece "▁", and word pieces begin with "##" inside of a
word. Here all of them become word pieces, so that records of every tokenizer are masked, checked
and shown by the same rules.
"""

import functools
import unicodedata
from collections.abc import Mapping
from typing import Any

from beambert.pipelines.wordpiece.vocabulary import CONTINUES

# The marks of the kinds; without one each token is a word.
BYTES, METASPACE, NO_MARK = "Ġ", "▁", ""
# The bytes of UTF-8 that continue a character.
_CONTINUING_BYTES = bytes(range(0x80, 0xC0))
# These characters show white space in a token that has nothing else.
_WHITE_SPACE = str.maketrans({" ": "␣", "\n": "↵", "\r": "↵", "\t": "⇥"})


def mark_of(tokenizer: Mapping[str, Any]) -> str:
    """Returns the mark of words: `BYTES`, `METASPACE`, the beginning of continuing pieces, or none.

    Args:
      tokenizer: content of tokenizer.json.
    """
    steps = [tokenizer.get(name) for name in ("normalizer", "pre_tokenizer", "decoder")]
    if _holds(steps, "ByteLevel"):
        return BYTES
    if _holds(steps, "Metaspace") or _holds(steps, METASPACE):
        return METASPACE
    return tokenizer["model"].get("continuing_subword_prefix") or NO_MARK


def _holds(value: Any, wanted: str) -> bool:
    """Returns whether a text is among the values of a JSON object, at any depth."""
    if isinstance(value, dict):
        return any(_holds(inner, wanted) for inner in value.values())
    if isinstance(value, list):
        return any(_holds(inner, wanted) for inner in value)
    return value == wanted


def as_piece(token: str, mark: str) -> str:
    """Returns a token as a word piece: "##x" continues a word.

    A token without a letter, a digit or a mark of one begins a word, as punctuation does among word
    pieces.

    Args:
      token: token that stands for text.
      mark: mark of words, see `mark_of`.
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

    A character that is divided between tokens of bytes counts with the one that has its first byte,
    and stands there as U+FFFD.

    Args:
      token: token that stands for text.
      mark: mark of words, see `mark_of`.
    """
    if mark not in (BYTES, METASPACE):
        return token.removeprefix(mark) or token
    codes = _codes()
    if mark == BYTES and all(character in codes for character in token):
        # Bytes of UTF-8 after the first of a character are 0b10xxxxxx (RFC 3629, section 3).
        spelled = bytes(codes[character] for character in token).lstrip(_CONTINUING_BYTES)
        token = spelled.decode(errors="replace")
    return "".join(token.replace(METASPACE, " ").split())


def _text_of(token: str) -> str:
    """Returns the text of a token of bytes; bytes that are no whole characters as numbers.

    The white space before a word is text all the same.
    """
    codes = _codes()
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
def _codes() -> dict[str, int]:
    """Returns character -> byte, as GPT-2 writes bytes (Radford et al. 2019, encoder.py).

    The visible characters of Latin-1 stand for themselves. The others follow from U+0100 on, in
    their order.
    """
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(visible)]
    return {chr(byte): byte for byte in visible} | {
        chr(0x100 + number): byte for number, byte in enumerate(others)
    }
