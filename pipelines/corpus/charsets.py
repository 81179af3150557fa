"""Bytes of a text file -> text. Pure.

UTF-8 is taken as it is. What else a file may be is guessed only where a guess is safe; a book that
is left out costs less than one whose letters are wrong.
"""

import codecs
import re

import charset_normalizer

# The four-byte marks begin with two-byte ones, so they are tried first.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# The HTML standard's default encoding by language (section 13.2.3.2, "Determining the character
# encoding"), under Python's names, with the one or two older encodings of that standard that the
# language's files are found in. The detector's other guesses (IBM's and Apple's code pages) are
# nearly always wrong about short accented words.
_ENCODINGS = {
    "cp1252": (
        "Danish", "Dutch", "English", "Finnish", "French", "German", "Indonesian", "Italian",
        "Norwegian", "Portuguese", "Spanish", "Swedish",
    ),
    "cp1251": ("Bulgarian", "Russian", "Ukrainian"),
    "koi8_r": ("Russian",),
    "cp1253": ("Greek",),
    "cp1255": ("Hebrew",),
    "cp1256": ("Arabic", "Farsi"),
    "tis_620": ("Thai",),
    "cp932": ("Japanese",),
    "euc_jp": ("Japanese",),
    "cp949": ("Korean",),
    "gb18030": ("Chinese",),
    "big5": ("Chinese",),
}  # fmt: skip
# Other Latin letters: too like Western European ones to be told from them, but they may be it.
_RIVALS = ("cp1250", "iso8859_2", "cp1254", "cp1257")
# The detector knows no letter frequencies of these; that their bytes form characters says enough.
_MULTIBYTE = ("cp932", "euc_jp", "cp949", "gb18030", "big5")
# charset-normalizer's own bounds are 0.2 of mess and 0.1 of coherence, with which it often takes
# French for a Baltic encoding. With these no guess was wrong on sentences in 20 languages.
_MOST_MESS = 0.05
_LEAST_COHERENCE = 0.25
_CLEARLY_BETTER = 0.2
# Fewer bytes than a few sentences have no letter frequencies.
_FEWEST_BYTES = 64
# Where DOS and Macintosh files have letters, Western European text has signs inside words, or
# capitals after small letters.
_MISPLACED = re.compile(
    r"(?<=[^\W\d_])[^\w\s\x00-\x7f’–—…\xad](?=[^\W\d_])|(?<=[a-zß-ÿ])[À-ÞŠŒŽŸ]|(?<=[^\W\d_])[‚„¡¿]"
)
# What no text holds, in any of these encodings.
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x19\x1c-\x1f]")


def decode(raw: bytes) -> tuple[str, str]:
    """Decodes a text file.

    Returns:
      its text without a byte order mark, and the name of its encoding.

    Raises:
      UnicodeDecodeError: it is not UTF-8, and no other encoding is certain.
    """
    for mark, name in _BYTE_ORDER_MARKS:
        if raw.startswith(mark):
            return raw.decode(name), name.removesuffix("-sig")
    try:
        return raw.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        encoding = None if _is_damaged_utf8(raw) else detect_encoding(raw)
        if encoding is None:
            raise
        return raw.decode(encoding), encoding


def _is_damaged_utf8(raw: bytes) -> bool:
    """Whether most of the bytes beyond ASCII are UTF-8: other encodings hardly form any."""
    ascii_bytes = len(raw) - sum(map(raw.count, map(bytes, zip(range(0x80, 0x100), strict=True))))
    utf8_bytes = len(raw.decode("utf-8", "ignore").encode()) - ascii_bytes
    return 2 * utf8_bytes > len(raw) - ascii_bytes


def detect_encoding(raw: bytes) -> str | None:
    """Names the encoding of text that is not UTF-8, or None where that isn't certain.

    The text must read as one language, and one that is written in just one of these encodings.
    """
    if len(raw) < _FEWEST_BYTES or _CONTROLS.search(raw):
        return None
    matches = [
        match
        for match in charset_normalizer.from_bytes(raw, cp_isolation=[*_ENCODINGS, *_RIVALS])
        if match.chaos <= _MOST_MESS
    ]
    best = max((match.coherence for match in matches), default=0.0)
    if best >= _LEAST_COHERENCE:
        matches = [match for match in matches if match.coherence >= best - _CLEARLY_BETTER]
    else:
        matches = [match for match in matches if match.encoding in _MULTIBYTE]
    languages = {match.language for match in matches}
    if len(languages) != 1:
        return None
    # A match stands for all encodings that give the same text.
    fits = [
        [name for name in match.could_be_from_charset if languages & {*_ENCODINGS.get(name, ())}]
        for match in matches
    ]
    fits = [names for names in fits if names]
    if len(fits) != 1:
        return None
    return fits[0][0] if _reads_well(raw, fits[0][0]) else None


def _reads_well(raw: bytes, encoding: str) -> bool:
    """Whether all of the text is in the encoding; the detector looks at samples."""
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        return False
    beyond_ascii = len(text) - len(text.encode("ascii", "ignore"))
    return encoding in _MULTIBYTE or len(_MISPLACED.findall(text)) <= 0.1 * beyond_ascii
