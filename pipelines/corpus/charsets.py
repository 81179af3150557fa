"""Decodes the bytes of a text file. Pure.

Most files are UTF-8. Any other encoding is used only where it is certain, or where the files beside
a text have it: to lose a book costs less than to learn from one with wrong letters.
"""

import codecs
import contextlib
import dataclasses
import io
import re
from collections import Counter
from itertools import chain

import charset_normalizer

from beambert.errors import InputError
from beambert.pipelines.corpus.escapes import decode_escaped, escaped_encoding
from beambert.pipelines.corpus.latin_languages import expectations, languages_of

# The four-byte marks begin with two-byte ones, so they are tried first.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Encodings by their Python names, and the languages whose files are found in them. These are the
# HTML standard's default encoding of each language without Latin letters (section 13.2.3.2,
# "Determining the character encoding") and one or two older encodings of that standard.
_ENCODINGS = {
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
}
# Encodings of Latin alphabets, with which the detector must compare.
_RIVALS = ("cp1252", "cp1250", "iso8859_2", "cp1254", "cp1257")
# The commonest characters of languages in encodings of several bytes a character, where almost any
# bytes form characters. They make a fifth and more of prose in the right encoding.
_COMMON = {
    "cp932": "のにたをいはてとしるがなでもっられかこ、。",
    "euc_jp": "のにたをいはてとしるがなでもっられかこ、。",
    "cp949": "이다는에의을고가지하로도기어사자리한나서은를",
    "gb18030": "的一是不了在人有我他这个们中来上大为和国地到以说，。",
    "big5": "的一是不了在人有我他這個們中來上大為和國地到以說，。",
}
_LEAST_COMMON = 0.15
# The commonest small letters of an alphabet, and the encodings of its texts. They make three
# quarters of prose in the right encoding.
_ALPHABETS = {
    "оеаинтсрвлкмдпуяыь": ("cp1251", "koi8_r", "koi8_u", "mac_cyrillic", "cp866", "iso8859_5"),
    "αοιετσνηυρπκμλςίόά": ("cp1253", "iso8859_7", "cp737", "mac_greek"),
    "יוהלאמרתבשנםחד": ("cp1255",),
    "اليمونترهبدعسفة": ("cp1256", "iso8859_6"),
}
_LEAST_COMMON_LETTERS = 0.5
# How much rarer the commonest letters may be in a reading that is still considered.
_AS_COMMON = 0.15
# Matches a letter or sign that stands where it cannot: a capital after a small letter, a sign
# between letters or before or after one, a control character of ISO 8859, all but signs after an
# ASCII letter.
_SMALL, _CAPITAL = "а-яёіїєґўα-ωάέήίόύώϊϋΐΰς", "А-ЯЁІЇЄҐЎΑ-ΩΆΈΉΊΌΎΏ"
_MISPLACED = re.compile(
    f"(?<=[{_SMALL}])[{_CAPITAL}]|(?<=[{_SMALL}])[^\x00-\x7f{_SMALL}{_CAPITAL}–—…’“”«»\xa0]"
    f"|[^\x00-\x7f{_SMALL}{_CAPITAL}–—…‘’“”„«»\xa0№](?=[{_SMALL}])|[\ufffd\x80-\x9f]"
    "|(?<=[A-Za-z])[^\x00-\x7f–—…’“”«»\xa0]"
)
# Greatest share of such characters; others must have half as many again.
_MOST_MISPLACED = 0.01
_TIMES_AS_COMMON = 2
# Limits on charset-normalizer's scores. With its own limits, 0.2 of mess and 0.1 of coherence, it
# is often wrong. With the limits below, no guess was wrong on sentences in 20 languages.
_MOST_MESS = 0.05
_LEAST_COHERENCE = 0.25
_CLEARLY_BETTER = 0.2
# A shorter text, of less than a few sentences, has no reliable letter frequencies.
_FEWEST_BYTES = 64
# Least share of bytes beyond ASCII among the letters of a text without Latin letters. It is at most
# 0.2 in languages with them, and 0.5 or more in Russian, Greek or Japanese prose.
_OTHER_SCRIPT = 0.25
# Least expectation of the characters of a text with Latin letters (those of names have more), and
# how much less it must be in every other encoding for the characters that differ.
_LEAST_EXPECTED = 0.55
_LESS_EXPECTED = 0.2
# How much the share of a language's common words counts beside its characters.
_OF_THE_WORDS = 0.5
# Number of bytes beyond ASCII from which a file's own evidence counts more than the other files'.
_ENOUGH_EVIDENCE = 32
# Number of bytes whose words show the language.
_LANGUAGE_BYTES = 1 << 18
# Bytes beyond ASCII that stand together, as in words without Latin letters.
_RUN = re.compile(rb"[\x80-\xff]{4,}")
# Control characters that occur in no text, in any of these encodings.
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x19\x1c-\x1f]")
# Matches what replaces bytes that form no character, and the control characters of ISO 8859.
_IMPOSSIBLE = re.compile("[\ufffd\x80-\x9f]")
_ASCII = bytes(range(0x80))
_ASCII_LETTERS = re.compile(rb"[A-Za-z]")

# Least share of the lines beyond ASCII that are UTF-8 in a text with another encoding beside it.
_LEAST_OF_MIXED = 0.1
# The value of --encoding that has the encoding decided.
AUTO = "auto"
# Number of characters around the first one beyond ASCII that an example shows on either side.
EXAMPLE_CHARACTERS = 25
# Python's names of encodings -> those of the web, where they differ (WHATWG, "Encoding").
_WEB_NAMES = {
    "cp932": "shift_jis",
    "cp949": "euc-kr",
    "tis_620": "windows-874",
    "mac_roman": "macintosh",
}
# Fewest control characters that show an encoding of two or four bytes a character.
_FEWEST_CONTROLS = 8
# Matches what no text has: control characters, halves of pairs, what replaces no character.
_NO_TEXT = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffd-\uffff]")
# Encodings in which a line feed isn't the byte 0x0A alone.
_WIDE = ("utf-16", "utf-32")
# Encodings that write all characters as ASCII bytes, with escapes.
_ASCII_BYTES = ("iso2022", "hz", "utf-7")
# Number of bytes at the beginning of a file that show its encoding and its format.
SAMPLE_BYTES = 1 << 16


@dataclasses.dataclass(frozen=True)
class Assumed:
    """The encoding that is assumed for text that isn't UTF-8.

    Attributes:
      encoding: Python's name of the encoding; "" for none.
      is_given: True if the user names it, so that nothing else is tried.
    """

    encoding: str = ""
    is_given: bool = False


NOTHING_ASSUMED = Assumed()


def decode(raw: bytes, assumed: Assumed = NOTHING_ASSUMED) -> tuple[str, str]:
    """Decodes a text file.

    Args:
      raw: the whole file.
      assumed: encoding of the files beside it.

    Returns:
      The text without byte order marks, and the name of its encoding.

    Raises:
      UnicodeDecodeError: the text is not UTF-8, and no other encoding is certain.
    """
    if (mark := find_mark(raw)) is not None:
        return raw.decode(mark).lstrip("\ufeff"), mark.removesuffix("-sig")
    if wide := wide_encoding(raw[:SAMPLE_BYTES], assumed):
        return raw.decode(wide), wide
    try:
        if not assumed.is_given and raw.isascii() and (own := escaped_encoding(raw)):
            assumed = Assumed(own)
        return decode_utf8(raw, assumed)
    except UnicodeDecodeError:
        encoding = choose_encoding(raw, assumed)
        if not encoding:
            raise
        return raw.decode(encoding), encoding


def decode_utf8(raw: bytes, assumed: Assumed) -> tuple[str, str]:
    """Returns text in UTF-8, or in the assumed encoding if that has ASCII bytes, and its name.

    Raises:
      UnicodeDecodeError: the text is not UTF-8.
    """
    if assumed.encoding.startswith(_ASCII_BYTES) and raw.isascii():
        with contextlib.suppress(UnicodeDecodeError):
            return decode_escaped(raw, assumed.encoding), assumed.encoding
    return raw.decode("utf-8"), "utf-8"


def find_mark(raw: bytes) -> str | None:
    """Returns the encoding that a byte order mark at the beginning shows, or None."""
    return next((name for mark, name in _BYTE_ORDER_MARKS if raw.startswith(mark)), None)


def choose_encoding(raw: bytes, assumed: Assumed) -> str:
    """Returns the encoding of text that isn't UTF-8, or "" if it isn't certain.

    Enough evidence in the text itself decides. Otherwise the assumed encoding does, unless the text
    shows another alphabet. Short Korean words happen to be UTF-8, too. They count as Korean if the
    files beside them are. A text that mixes encodings has none, nor has ASCII without escapes.
    """
    if raw.isascii() and not assumed.is_given:
        return escaped_encoding(raw)
    if assumed.is_given:
        return assumed.encoding if can_decode(raw, assumed.encoding) else ""
    found = detect_encoding(raw) or ""
    if is_damaged_utf8(raw) and not (found in _COMMON and found == assumed.encoding):
        return ""
    if not {found, assumed.encoding} & {*_COMMON} and utf8_lines_of_mixed(raw):
        return ""
    if not assumed.encoding or len(raw.translate(None, _ASCII)) >= _ENOUGH_EVIDENCE and found:
        return found
    if not can_decode(raw, assumed.encoding) or _CONTROLS.search(raw):
        return ""
    text = raw.decode(assumed.encoding)
    # So few bytes tell Latin encodings apart by chance: by the names in a text of another language.
    is_weak = _tells_little(found) and _tells_little(assumed.encoding)
    agree = not found or raw.decode(found) == text or is_weak and not _IMPOSSIBLE.search(text)
    return assumed.encoding if agree else ""


def _tells_little(encoding: str) -> bool:
    """Returns whether an encoding has Latin letters, or fails on most bytes of another one."""
    return encoding in _COMMON or encoding not in {*_ENCODINGS, *chain(*_ALPHABETS.values())}


def can_decode(raw: bytes, encoding: str) -> bool:
    """Returns whether bytes are text in an encoding."""
    try:
        raw.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def is_damaged_utf8(raw: bytes) -> bool:
    """Returns whether most bytes beyond ASCII are UTF-8, which other encodings hardly ever form."""
    beyond = len(raw.translate(None, _ASCII))
    utf8_bytes = len(raw.decode("utf-8", "ignore").encode().translate(None, _ASCII))
    return 2 * utf8_bytes > beyond


def utf8_lines_of_mixed(raw: bytes) -> int:
    """Returns the number of lines beyond ASCII that are UTF-8 in a text that mixes encodings, or 0.

    A line of another encoding is hardly ever UTF-8, unless it is a short word of Korean, say.
    """
    # The lines of a large file are never held together.
    beyond = Counter(can_decode(line, "utf-8") for line in io.BytesIO(raw) if not line.isascii())
    is_mixed = beyond[False] > 0 and beyond[True] >= max(2, _LEAST_OF_MIXED * beyond.total())
    return beyond[True] if is_mixed else 0


def detect_encoding(raw: bytes) -> str | None:
    """Returns the encoding of text that is not UTF-8, or None if it isn't certain.

    The encoding is certain if the text reads as a single language in exactly one encoding.
    """
    if len(raw) < _FEWEST_BYTES or _CONTROLS.search(raw):
        return None
    beyond = len(raw.translate(None, _ASCII))
    if sum(map(len, _RUN.findall(raw))) < _OTHER_SCRIPT * beyond:
        found = _detect_latin(raw)
        if found or beyond < _OTHER_SCRIPT * (beyond + len(_ASCII_LETTERS.findall(raw))):
            return found
    return _detect_other_script(raw)


def _detect_latin(raw: bytes) -> str | None:
    """Returns the encoding of a text with Latin letters, or None if it isn't certain."""
    languages = languages_of(raw[:_LANGUAGE_BYTES])
    if not languages:
        return None
    # Lines of ASCII alone tell nothing.
    lines = b"\n".join(line for line in raw.splitlines() if not line.isascii())
    # (how expected the text is, encoding, characters beyond ASCII, share of the language's words)
    readings = []
    for encoding in dict.fromkeys(name for each, _ in languages for name in each.encodings):
        text = lines.decode(encoding, "replace")
        if not _IMPOSSIBLE.search(text):
            own = [(each, share) for each, share in languages if encoding in each.encodings]
            expected = max((expectations(text, each) for each, _ in own), key=sum)
            share = max(share for _, share in own)
            readings.append((expected, encoding, [c for c in text if not c.isascii()], share))
    best = max(readings, key=lambda r: sum(r[0]) + _OF_THE_WORDS * r[3] * len(r[0]), default=None)
    if best is None or sum(best[0]) < _LEAST_EXPECTED * len(best[0]):
        return None
    for other in readings:
        # Only the bytes count that are different characters in the two encodings.
        pairs = zip(best[0], other[0], best[2], other[2], strict=True)
        gains = [mine - its for mine, its, here, there in pairs if here != there]
        of_words = _OF_THE_WORDS * (best[3] - other[3])
        if sum(gains) < (_LESS_EXPECTED - of_words) * len(gains):
            return None
    return best[1] if can_decode(raw, best[1]) else None


def _detect_alphabet(raw: bytes) -> str | None:
    """Returns the encoding of a text with Cyrillic or Greek letters.

    The result is "" if several encodings are possible, and None if the text has other letters. In
    a wrong encoding the commonest letters are rare, or some are signs, or capitals inside of words.
    """
    # (number of characters that stand where they cannot, encoding, text, share of common letters)
    readings = []
    for common, encodings in _ALPHABETS.items():
        for encoding in encodings:
            text = raw.decode(encoding, "replace")
            beyond = sum(not character.isascii() for character in text)
            share = sum(map(text.count, common)) / beyond if beyond else 0.0
            if share >= _LEAST_COMMON_LETTERS:
                readings.append((len(_MISPLACED.findall(text)), encoding, text, share))
    if not readings:
        return None
    most = max(share for *_, share in readings)
    readings = [reading for reading in readings if reading[3] > most - _AS_COMMON]
    fewest, best, text, _ = min(readings, key=lambda reading: reading[0])
    others = [number for number, _, other, _ in readings if other != text]
    is_certain = fewest <= _MOST_MISPLACED * len(text) and min(others, default=1) > 1.5 * fewest
    return best if is_certain and can_decode(raw, best) else ""


def _detect_multibyte(raw: bytes) -> str | None:
    """Returns the encoding of Japanese, Korean or Chinese, or None if it isn't certain."""
    scores = [(0.0, ""), (0.0, "")]
    for encoding, common in _COMMON.items():
        if can_decode(raw, encoding):
            text = "".join(raw.decode(encoding).split())
            beyond = len(text) - len(text.encode("ascii", "ignore"))
            scores.append((sum(map(text.count, common)) / max(beyond, 1), encoding))
    scores.sort(reverse=True)
    (most, best), (second, _) = scores[:2]
    return best if most >= max(_LEAST_COMMON, _TIMES_AS_COMMON * second) else None


def _detect_other_script(raw: bytes) -> str | None:
    """Returns the encoding of a text without Latin letters, or None if it isn't certain."""
    if found := _detect_multibyte(raw):
        return found
    if (found := _detect_alphabet(raw)) is not None:
        return found or None
    matches = [
        match
        for match in charset_normalizer.from_bytes(raw, cp_isolation=[*_ENCODINGS, *_RIVALS])
        if match.chaos <= _MOST_MESS
    ]
    best = max((match.coherence for match in matches), default=0.0)
    if best < _LEAST_COHERENCE:
        return None
    matches = [match for match in matches if match.coherence >= best - _CLEARLY_BETTER]
    languages = {match.language for match in matches}
    if len(languages) != 1:
        return None
    # One match stands for all encodings that give the same text.
    fits = [
        [name for name in match.could_be_from_charset if languages & {*_ENCODINGS.get(name, ())}]
        for match in matches
    ]
    fits = [names for names in fits if names]
    # The detector sees only samples of the text.
    return fits[0][0] if len(fits) == 1 and can_decode(raw, fits[0][0]) else None


def check_encoding(given: str) -> None:
    """Refuses an encoding that Python doesn't know.

    Raises:
      InputError: there is no such encoding of text.
    """
    if given == AUTO:
        return
    try:
        "".encode(python_name(given))
    except (LookupError, ValueError) as error:
        raise InputError(
            f"--encoding={given}: not known; name one such as windows-1252, macintosh, shift_jis "
            f"or utf-16, or take {AUTO}"
        ) from error


def python_name(given: str) -> str:
    """Returns Python's name of an encoding that is given by any of its names.

    The web's names mean what they mean on the web.

    Raises:
      LookupError, ValueError: Python knows no such encoding.
    """
    plain = given.strip().lower().replace("_", "-")
    by_web_name = {name.replace("_", "-"): encoding for encoding, name in _WEB_NAMES.items()}
    return codecs.lookup(by_web_name.get(plain) or plain.removeprefix("x-")).name


def web_name(encoding: str) -> str:
    """Returns the name of an encoding as the web has it, such as windows-1252."""
    if (plain := encoding.replace("-", "_")) in _WEB_NAMES:
        return _WEB_NAMES[plain]
    is_windows = encoding.startswith("cp125")
    return encoding.replace("cp", "windows-", 1) if is_windows else encoding.replace("_", "-")


def wide_encoding(beginning: bytes, assumed: Assumed) -> str | None:
    """Returns the UTF-16 or UTF-32 that a file has by mark, the user's word or its bytes, or None.

    The user's word doesn't hold for UTF-8, which has no zeros.

    Args:
      beginning: the first bytes of the file.
      assumed: encoding of text that isn't UTF-8.
    """
    if found := find_mark(beginning):
        return found if found.startswith(_WIDE) else None
    if not assumed.is_given:
        return _wide_by_controls(beginning)
    return assumed.encoding if assumed.encoding.startswith(_WIDE) and b"\0" in beginning else None


def _wide_by_controls(beginning: bytes) -> str | None:
    """Returns the UTF-16 or UTF-32 that a text without a mark has, or None.

    Its spaces and line ends alone make one in fifty bytes of prose zero. As UTF-8 that is a control
    character, which no text has. The high bytes of its letters are few different ones.
    """
    if len(_CONTROLS.findall(beginning)) < max(_FEWEST_CONTROLS, len(beginning) // 50):
        return None
    if 2 * beginning.count(0) > len(beginning) + 1:
        candidates = ["utf-32-le", "utf-32-be"]
    else:
        even, odd = set(beginning[::2]), set(beginning[1::2])
        candidates = ["utf-16-le"] if 2 * len(odd) <= len(even) else []
        candidates += ["utf-16-be"] if 2 * len(even) <= len(odd) else []
    for encoding in candidates:
        text = beginning[: len(beginning) // 4 * 4].decode(encoding, "replace")
        if not _NO_TEXT.search(text[:-1]):  # the last character may be cut
            return encoding
    return None


def example(raw: bytes, encoding: str) -> str:
    """Returns the text around the first character beyond ASCII, if there is one, on one line."""
    text = raw.decode(encoding, "replace")
    at = next((at for at, character in enumerate(text) if not character.isascii()), 0)
    around = text[max(0, at - EXAMPLE_CHARACTERS) : at + EXAMPLE_CHARACTERS]
    return "… " + " ".join(around.split()) + " …"
