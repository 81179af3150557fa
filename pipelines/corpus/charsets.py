"""Decodes the bytes of a text file. Pure.

Most files are UTF-8. Any other encoding is guessed, but only where the guess is safe: to lose a
book costs less than to learn from one with wrong letters.
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
# Encodings by their Python names, and the languages whose files are found in them. These are the
# HTML standard's default encoding of each language (section 13.2.3.2, "Determining the character
# encoding") and one or two older encodings of that standard. The detector also knows the code pages
# of IBM and Apple, but its guesses at those are nearly always wrong about short accented words.
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
# Encodings of other Latin alphabets. They look too much like Western European ones to be accepted,
# but the detector must compare with them.
_RIVALS = ("cp1250", "iso8859_2", "cp1254", "cp1257")
# Encodings without letter frequencies in the detector. Bytes that form their characters are proof
# enough.
_MULTIBYTE = ("cp932", "euc_jp", "cp949", "gb18030", "big5")
# Limits on charset-normalizer's scores. With its own limits, 0.2 of mess and 0.1 of coherence, it
# often takes French for a Baltic encoding. With the limits below, no guess was wrong on sentences
# in 20 languages.
_MOST_MESS = 0.05
_LEAST_COHERENCE = 0.25
_CLEARLY_BETTER = 0.2
# A shorter text, of less than a few sentences, has no reliable letter frequencies.
_FEWEST_BYTES = 64
# Signs of a wrong guess. If a DOS or Macintosh file is decoded as Western European, its accented
# letters become signs inside words, or capitals after small letters.
_MISPLACED = re.compile(
    r"(?<=[^\W\d_])[^\w\s\x00-\x7f’–—…\xad](?=[^\W\d_])|(?<=[a-zß-ÿ])[À-ÞŠŒŽŸ]|(?<=[^\W\d_])[‚„¡¿]"
)
# Control characters that occur in no text, in any of these encodings.
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x19\x1c-\x1f]")


def decode(raw: bytes) -> tuple[str, str]:
    """Decodes a text file.

    Returns:
      The text without a byte order mark, and the name of its encoding.

    Raises:
      UnicodeDecodeError: the text is not UTF-8, and no other encoding is certain.
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
    """Returns whether most bytes beyond ASCII are UTF-8, which other encodings hardly ever form."""
    ascii_bytes = len(raw) - sum(map(raw.count, map(bytes, zip(range(0x80, 0x100), strict=True))))
    utf8_bytes = len(raw.decode("utf-8", "ignore").encode()) - ascii_bytes
    return 2 * utf8_bytes > len(raw) - ascii_bytes


def detect_encoding(raw: bytes) -> str | None:
    """Returns the encoding of text that is not UTF-8, or None if it isn't certain.

    The encoding is certain if the text reads as a single language in exactly one encoding.
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
    # One match stands for all encodings that give the same text.
    fits = [
        [name for name in match.could_be_from_charset if languages & {*_ENCODINGS.get(name, ())}]
        for match in matches
    ]
    fits = [names for names in fits if names]
    if len(fits) != 1:
        return None
    return fits[0][0] if _reads_well(raw, fits[0][0]) else None


def _reads_well(raw: bytes, encoding: str) -> bool:
    """Returns whether the encoding fits the whole text; the detector sees only samples of it."""
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        return False
    beyond_ascii = len(text) - len(text.encode("ascii", "ignore"))
    return encoding in _MULTIBYTE or len(_MISPLACED.findall(text)) <= 0.1 * beyond_ascii
