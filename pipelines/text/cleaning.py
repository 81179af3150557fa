"""Removes invisible characters from text, and normalizes its white space. Pure.

`normalize_text` never changes the tokens. Its result has the tokens of the raw text, for cased and
uncased vocabularies; for a tokenizer.json, which may know them, the invisible characters stay. So
the model sees the same tokens in training as later in use, when the exported tokenizer gets raw
text. The function makes these changes:

- every line break (CR LF, CR, vertical tab, form feed, U+0085, U+2028, U+2029) becomes a line feed;
- characters that the tokenizer drops are removed before sentences are split and documents compared:
  controls, zero-width characters, soft hyphens, byte-order marks, other format characters (Cf),
  U+FFFD;
- tabs and spaces of any kind become spaces; a run of spaces becomes one, and none stay at the ends
  of lines.

There is one exception. Vertical tab, form feed and U+0085 separate words here, because Unicode
counts them as line breaks (Standard Annex #14). The tokenizer drops them and joins their
neighbours.

Some changes are left out because they would alter the tokens, and because nobody makes them to the
text that a model gets in use: composing accents (NFC alters the tokens of cased vocabularies),
decoding HTML entities (which is right in some formats only, so their readers do it), repairing
wrongly decoded text (a guess that differs between versions), and turning quotes and dashes into
ASCII.
"""

import re

# Characters after which a line always ends: the classes BK, CR and NL of UAX #14.
_LINE_BREAKS = "\r\x0b\x0c\x85\u2028\u2029"
# The tab and the characters of the general category Zs, except for the space itself.
_SPACES = "\t\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u202f\u205f\u3000"
# NUL, U+FFFD and the categories Cc and Cf of Unicode 15, as in the tokenizer's regular expressions.
# They are written out because Python's own tables change from version to version.
_DROPPED = (
    "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e"
    "\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\ufffd"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0001\U000e0020-\U000e007f"
)
_UNUSUAL = re.compile(f"[{_LINE_BREAKS}{_SPACES}{_DROPPED}]")
_PLAIN = dict.fromkeys(_LINE_BREAKS, "\n") | dict.fromkeys(_SPACES, " ")
_PLAIN_IN_LINES = dict.fromkeys(_LINE_BREAKS + _SPACES, " ")

# Scripts written without spaces: those of UAX #14's class SA (Thai, Lao, Myanmar, Khmer, the Tai
# scripts), Tibetan, Yi, kana and the Han characters. The string fits into the brackets of a regular
# expression.
UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u3005-\u3007\u3040-\u312f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\ua4cf\ua9e0-\ua9ff\uaa60-\uaadf\uf900-\ufaff"
    "\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}]")
_WORD = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")


def normalize_text(text: str, is_split: bool = False, keeps_invisible: bool = False) -> str:
    """Returns the text with plain line feeds and single spaces, and without invisible characters.

    Args:
      text: a document; line feeds separate its paragraphs or sentences, also in the result.
      is_split: True if each line is a sentence already. Other line breaks then become spaces.
      keeps_invisible: whether the characters stay that the tokenizer of vocab.txt drops, such as
        the joiners of Persian and of emoji.
    """
    # The no-break space is common, and often the only such character.
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    text = text.replace("\xa0", " ")
    # `isprintable` is six times as fast as the regular expression. It finds all of the expression's
    # characters except for U+FFFD.
    if "\ufffd" in text or not text.replace("\n", "").isprintable():
        plain = _PLAIN_IN_LINES if is_split else _PLAIN
        text = _UNUSUAL.sub(
            lambda match: plain.get(match[0], match[0] if keeps_invisible else ""), text
        )
    while "  " in text:  # It is many times as fast as a regular expression.
        text = text.replace("  ", " ")
    return "\n".join([line.strip(" ") for line in text.split("\n")])


def split_words(text: str) -> list[str]:
    """Returns the words between white space; in scripts without spaces, the single characters."""
    if text.isascii() or not UNSPACED_CHARACTER.search(text):
        return text.split()
    return _WORD.findall(text)
