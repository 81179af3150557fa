"""Decodes text files in the encodings that the user declares with --encoding. Pure.

The flag lists encodings, `utf-8` by default. A byte order mark decides the encoding of its file.
Any other file has the first listed encoding in which all of its bytes are text. So each file is
read in one encoding, and none is guessed from the content: a wrong guess would teach wrong letters.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from beambert.config import setting
from beambert.errors import InputError

# Default of --encoding, and the same as a result of `parse_encodings`.
DEFAULT_ENCODING = "utf-8"
UTF8 = (DEFAULT_ENCODING,)
# The four-byte marks begin with two-byte ones, so they are tried first.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Python's names of encodings -> those of the web, where they differ (WHATWG, "Encoding").
_WEB_NAMES = {
    "cp932": "shift_jis",
    "cp949": "euc-kr",
    "tis_620": "windows-874",
    "mac_roman": "macintosh",
}
# The encoding that a message suggests for text that isn't UTF-8: most of it on the web is in this
# one (w3techs.com, "Usage statistics of character encodings").
_COMMONEST = "cp1252"
# A part of the message about text that could be in that encoding.
READS_AS_WINDOWS = "windows-1252 would read it as"
# Number of bytes on either side of the first wrong one that a message shows.
_SHOWN_BYTES = 25
# Number of bytes at the beginning of a file that show its encoding and its format.
SAMPLE_BYTES = 1 << 16
# UTF-16 has a zero byte in each space and line end, more than this share of all bytes. As UTF-8 it
# is the character NUL, which `normalize_text` removes.
_MOST_ZEROS = 0.02
_FEWEST_ZEROS = 4
# Control characters, which are a tenth of compressed data. Most encodings but UTF-8 take any byte.
_CONTROLS = bytes([*range(1, 8), *range(16, 26), *range(28, 32)])
_MOST_CONTROLS = 0.02
_FEWEST_CONTROLS = 50
# The switches between character sets in ISO-2022-JP (RFC 1468), all of whose bytes are ASCII.
_JAPANESE_SWITCH = re.compile(rb"\x1b\$[@B].*?\x1b\([BJ]", re.DOTALL)
_ASCII = bytes(range(0x80))
# Name of the error handler of `HALF_PAIR`.
MARK_ERRORS = "beambert_mark_errors"
# Half of a surrogate pair: UTF-8 cannot have it, so that its document is rejected.
HALF_PAIR = "\ud800"

codecs.register_error(MARK_ERRORS, lambda error: (HALF_PAIR, error.end))


class WrongEncodingError(Exception):
    """Text is in none of the declared encodings. The message names the line and the byte.

    Attributes:
      line: number of the line, from 1.
    """

    def __init__(self, line: int, detail: str):
        """Takes the number of the line, and the message."""
        super().__init__(detail)
        self.line = line


def encoding_setting() -> Any:
    """Returns the setting of the encodings of files; see `config.setting`."""
    return setting(
        DEFAULT_ENCODING,
        metavar="NAME[,NAME]",
        help="encodings of the files; each is read in the first one that fits the whole file, as "
        f"in utf-8,windows-1252 (default: {DEFAULT_ENCODING}; a byte order mark decides for its "
        "file)",
    )


def parse_encodings(given: str) -> tuple[str, ...]:
    """Returns Python's names of the encodings in a value of --encoding, such as "utf-8,cp1252".

    The web's names mean what they mean on the web: shift_jis is the encoding that Python calls
    cp932.

    Raises:
      InputError: an encoding is not known.
    """
    found = []
    by_web_name = {name.replace("_", "-"): encoding for encoding, name in _WEB_NAMES.items()}
    for name in given.split(","):
        plain = name.strip().lower().replace("_", "-").removeprefix("x-")
        try:
            codec = codecs.lookup(by_web_name.get(plain, plain))
            "".encode(codec.name)  # It fails for codecs that are no encodings, such as base64.
        except (LookupError, ValueError) as error:
            raise InputError(
                f"--encoding={given}: {name!r} is not known; name encodings such as utf-8, "
                "windows-1252, shift_jis or utf-16-le, with commas between them"
            ) from error
        found.append(codec.name.removesuffix("-sig"))  # A mark is removed in any case.
    return tuple(dict.fromkeys(found))


def web_name(encoding: str) -> str:
    """Returns the name of an encoding as the web has it, such as windows-1252."""
    if (plain := encoding.replace("-", "_")) in _WEB_NAMES:
        return _WEB_NAMES[plain]
    if encoding == DEFAULT_ENCODING:
        return "UTF-8"
    is_windows = encoding.startswith("cp125")
    return encoding.replace("cp", "windows-", 1) if is_windows else encoding.replace("_", "-")


def find_mark(beginning: bytes) -> str | None:
    """Returns the encoding that a byte order mark at the beginning of a file shows, or None."""
    return next((name for mark, name in _BYTE_ORDER_MARKS if beginning.startswith(mark)), None)


def decode(raw: bytes, encodings: Sequence[str] = UTF8) -> tuple[str, str]:
    """Returns a file's text without a byte order mark, and the name of its encoding.

    Args:
      raw: the whole file.
      encodings: see `parse_encodings`.

    Raises:
      WrongEncodingError: the file is in none of the encodings.
    """
    encoding = find_mark(raw) or choose_encoding(lambda: [raw], encodings)
    check_beginning(raw[:SAMPLE_BYTES], encoding)
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise wrong_encoding(error, 1, encodings) from error
    return text.lstrip("\ufeff"), encoding.removesuffix("-sig")


def choose_encoding(open_pieces: Callable[[], Iterable[bytes]], encodings: Sequence[str]) -> str:
    """Returns the first of some encodings in which all bytes of a file are text.

    A single encoding is returned without a look at the file. A file of which most bytes beyond
    ASCII are UTF-8 is damaged UTF-8, rather than text in another encoding with strange letters.

    Args:
      open_pieces: function that returns the bytes of the file, in pieces, from the beginning.
      encodings: see `parse_encodings`.

    Raises:
      WrongEncodingError: there is none.
    """
    if len(encodings) == 1:
        return encodings[0]
    first: WrongEncodingError | None = None
    for encoding in encodings:
        error = _find_error(open_pieces(), encoding, encodings)
        if error is None:
            return encoding
        if encoding == DEFAULT_ENCODING and _is_damaged_utf8(open_pieces()):
            return encoding
        first = first or error
    assert first
    raise first


def encoding_of_beginning(beginning: bytes, encodings: Sequence[str]) -> str:
    """Returns the encoding in which a file's format is recognised.

    Args:
      beginning: the first bytes of the file, the last character of which may be cut.
      encodings: see `parse_encodings`.
    """
    if mark := find_mark(beginning):
        return mark
    for encoding in encodings if len(encodings) > 1 else ():
        try:
            codecs.getincrementaldecoder(encoding)().decode(beginning)
            return encoding
        except UnicodeDecodeError:
            pass
    return encodings[0]


def check_beginning(beginning: bytes, encoding: str) -> None:
    """Checks that a file isn't in an encoding whose bytes pass as those of the declared one.

    Args:
      beginning: the first bytes of the file.
      encoding: its encoding, by a byte order mark or as declared.

    Raises:
      WrongEncodingError: it looks like UTF-16, ISO-2022-JP or no text.
    """
    if encoding.startswith(("utf-16", "utf-32")):
        return
    if beginning.count(0) >= max(_FEWEST_ZEROS, _MOST_ZEROS * len(beginning)):
        line = beginning.count(b"\n", 0, beginning.index(0)) + 1
        raise WrongEncodingError(
            line,
            f"line {line} has zero bytes, as UTF-16 without a byte order mark has; if it is that, "
            "give --encoding=utf-16-le or --encoding=utf-16-be",
        )
    controls = len(beginning) - len(beginning.translate(None, _CONTROLS))
    least = max(_FEWEST_CONTROLS, _MOST_CONTROLS * len(beginning))
    if encoding != DEFAULT_ENCODING and controls >= least:
        raise WrongEncodingError(1, "has control characters, as no text has; leave the file out")
    if encoding == DEFAULT_ENCODING and (found := _JAPANESE_SWITCH.search(beginning)):
        line = beginning.count(b"\n", 0, found.start()) + 1
        raise WrongEncodingError(
            line, f"line {line} is in ISO-2022-JP; give --encoding=iso2022_jp,utf-8"
        )


def wrong_encoding(
    error: UnicodeDecodeError, first_line: int, encodings: Sequence[str] = UTF8
) -> WrongEncodingError:
    """Returns the error about bytes that cannot be decoded, with their line as windows-1252 has it.

    Args:
      error: the error of decoding some bytes.
      first_line: number of the line on which these bytes begin.
      encodings: the encodings that were tried on the file.
    """
    raw, at = error.object, error.start
    line = first_line + raw.count(b"\n", 0, at)
    detail = f"byte 0x{raw[at]:02x} on line {line} is not {' or '.join(map(web_name, encodings))}"
    if _COMMONEST not in encodings:
        end = raw.find(b"\n", at)
        start = max(raw.rfind(b"\n", 0, at) + 1, at - _SHOWN_BYTES)
        around = raw[start : min(end if end >= 0 else len(raw), at + _SHOWN_BYTES)]
        shown = " ".join(around.decode(_COMMONEST, "replace").split())
        listed = ",".join(map(web_name, [*encodings, _COMMONEST])).replace("UTF-8", "utf-8")
        detail += f"; {READS_AS_WINDOWS} “{shown}”: if that is right, give --encoding={listed}"
    return WrongEncodingError(line, detail)


def _find_error(
    pieces: Iterable[bytes], encoding: str, encodings: Sequence[str]
) -> WrongEncodingError | None:
    """Returns the error about the first bytes that are no text in an encoding, or None."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line = 1
    try:
        for piece in pieces:
            decoder.decode(piece)
            line += piece.count(b"\n")
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        return wrong_encoding(error, line, encodings)
    return None


def _is_damaged_utf8(pieces: Iterable[bytes]) -> bool:
    """Returns whether most bytes beyond ASCII are UTF-8, which other encodings hardly ever form."""
    decoder = codecs.getincrementaldecoder("utf-8")("ignore")
    beyond = utf8_bytes = 0
    for piece in pieces:
        beyond += len(piece.translate(None, _ASCII))
        utf8_bytes += len(decoder.decode(piece).encode().translate(None, _ASCII))
    return 2 * utf8_bytes > beyond
