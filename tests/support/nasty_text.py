"""Text that tokenizers get wrong, and what the original's makes of it."""

import json
import pathlib
import unicodedata

GOLDEN = json.loads(
    (pathlib.Path(__file__).parents[1] / "golden" / "tokenization.json").read_text()
)
CHINESE = [
    range(0x4E00, 0xA000),
    range(0x3400, 0x4DC0),
    range(0x20000, 0x2A6E0),
    range(0x2A700, 0x2B740),
    range(0x2B740, 0x2B820),
    range(0x2B820, 0x2CEB0),
    range(0xF900, 0xFB00),
    range(0x2F800, 0x2FA20),
]
# Capitals since Unicode 14, newer than TensorFlow's tables: Python lowers them, the graph doesn't.
NEW_CAPITALS = {0x2C2F, 0xA7C0, 0xA7D0, 0xA7D6, 0xA7D8, *range(0x10570, 0x10596)}
NOT_TEXT = ["Cn", "Cs", "Co"]  # unassigned, surrogates, private use


def is_punctuation(character: str) -> bool:
    is_ascii_symbol = character.isascii() and character.isprintable() and not character.isalnum()
    return (is_ascii_symbol and character != " ") or unicodedata.category(character)[0] == "P"


def basic_words(text: str, lower: bool) -> list[str]:
    cleaned = []
    for character in text:
        category = unicodedata.category(character)
        if character in "\t\r\n" or category == "Zs":
            cleaned.append(" ")
        elif category not in ("Cc", "Cf") and character not in "\0\ufffd":
            is_chinese = any(ord(character) in block for block in CHINESE)
            cleaned.append(f" {character} " if is_chinese else character)
    words = []
    for word in "".join(cleaned).split():
        if lower:
            decomposed = unicodedata.normalize("NFD", word.lower())
            word = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        apart = "".join(f" {c} " if is_punctuation(c) else c for c in word)
        words += apart.split()
    return words


NASTY = "aAéÉİıσςΣßﬁ²中語か한😀ก\u0301\u0327\u200d\u200b\u00ad\u00a0\u2028\u3000\0\ufffd\t\n .,'$«"
