"""Finds the encodings that write all characters as ASCII bytes, between escapes. Pure.

Such text is UTF-8 as well, but reads as nonsense there.
"""

import codecs
import re

# Escapes before characters of two bytes in ISO-2022 (RFC 1468, RFC 1557), and a run of these in HZ
# (RFC 1843), each with Python's name of the encoding.
_ESCAPES = (
    (re.compile(rb"\x1b\$(?:[@B]|\(D)"), "iso2022_jp_ext"),
    (re.compile(rb"\x1b\$\)C"), "iso2022_kr"),
    (re.compile(rb"~\{(?:[!-w][!-~])++~\}"), "hz"),
)
# Stands once in a file of ISO-2022-KR, at its beginning.
_KOREAN_HEADER = b"\x1b$)C"
# Number of bytes that are looked at, from the first escape on.
_BYTES = 1 << 16
# Fewest characters beyond ASCII, and their least share in the text without its spaces.
_FEWEST_BEYOND, _LEAST_BEYOND = 16, 0.1


def escaped_encoding(raw: bytes) -> str:
    """Returns Python's name of the encoding of ASCII bytes with escapes; "" for other bytes."""
    for escape, encoding in _ESCAPES:
        if found := escape.search(raw):
            some = raw[found.start() : found.start() + _BYTES]
            try:  # The last character may be cut.
                text = "".join(codecs.getincrementaldecoder(encoding)().decode(some).split())
            except UnicodeDecodeError:
                continue
            beyond = sum(not character.isascii() for character in text)
            if beyond >= max(_FEWEST_BEYOND, _LEAST_BEYOND * len(text)):
                return encoding
    return ""


def decode_escaped(raw: bytes, encoding: str) -> str:
    """Returns the text of a file in such an encoding, or of some lines of one.

    Raises:
      UnicodeDecodeError: the bytes are no such text.
    """
    is_part = encoding == "iso2022_kr" and not raw.startswith(_KOREAN_HEADER)
    return (_KOREAN_HEADER + raw if is_part else raw).decode(encoding)
