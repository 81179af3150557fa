"""Reads lines of files within bounds of memory, also of files in UTF-16 and UTF-32. Pure."""

import codecs
import functools
import io
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import BinaryIO

# Greatest size of a document in bytes. Its reader needs about six times as much memory.
MOST_DOCUMENT_BYTES = 1 << 27
# How far a reader gets between two reports of its progress.
BYTES_BETWEEN_TALLIES = 1 << 18


class TooLargeError(Exception):
    """A document has more than `MOST_DOCUMENT_BYTES` bytes."""


def lines_of(opened: BinaryIO) -> Iterator[bytes]:
    """Yields the lines of an open file; a line above the greatest size comes in pieces."""
    return iter(functools.partial(opened.readline, MOST_DOCUMENT_BYTES + 1), b"")


def has_returns_alone(beginning: bytes) -> bool:
    """Returns whether carriage returns alone end the lines of a file, as on old Macintoshes."""
    return b"\r" in beginning[:-1] and b"\n" not in beginning


def lines_after_returns(opened: BinaryIO) -> Iterator[bytes]:
    """Yields the lines of a file that end with carriage returns, each with a line feed instead."""
    return _ended_by(b"\r", iter(functools.partial(opened.read, 1 << 16), b""))


def utf8_lines(opened: BinaryIO, encoding: str) -> Iterator[bytes]:
    """Yields the lines of a file in another encoding, as UTF-8; a line too long comes in pieces.

    Raises:
      UnicodeDecodeError: the file isn't in that encoding.
    """
    # Half of a surrogate pair is passed on, so that only its document is rejected.
    decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")
    pieces = chain(iter(functools.partial(opened.read, 1 << 16), b""), [b""])
    texts = (decoder.decode(data, final=not data) for data in pieces)
    return _ended_by(b"\n", (text.encode("utf-8", "surrogatepass") for text in texts))


def _ended_by(end: bytes, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the lines of a text that comes in pieces, each with a line feed as its end."""
    buffered = io.BytesIO()
    for data in pieces:
        *whole, rest = data.split(end)
        for line in whole:
            buffered.write(line)
            yield buffered.getvalue() + b"\n"
            buffered = io.BytesIO()
        buffered.write(rest)
        if buffered.tell() > MOST_DOCUMENT_BYTES:
            yield buffered.getvalue()
            buffered = io.BytesIO()
    if buffered.tell():
        yield buffered.getvalue()


class CountedLines:
    """Lines that are counted, and whose bytes since the last document are bounded.

    Attributes:
      number: number of lines so far.
      pending: number of bytes since the caller has last set it to 0.
    """

    def __init__(self, lines: Iterable[bytes], tell: Callable[[], None]):
        """Takes the lines, and a function that is called every `BYTES_BETWEEN_TALLIES` bytes."""
        self._lines = iter(lines)
        self._tell = tell
        self.number = 0
        self.pending = 0
        self._last = b""

    def __iter__(self) -> Iterator[bytes]:
        """Yields the lines that are left.

        Raises:
          TooLargeError: too many bytes are pending.
        """
        untold = 0
        for line in self._lines:
            size = len(line)
            self.number += 1
            self.pending += size
            if self.pending > MOST_DOCUMENT_BYTES:
                self._last = line
                raise TooLargeError
            yield line
            untold += size
            if untold >= BYTES_BETWEEN_TALLIES:
                self._tell()
                untold = 0

    def skip_to(self, starts_document: Callable[[bytes], bool]) -> bool:
        """Passes over the lines before the next document; returns False if there is none.

        The rest of the last line, which may have come in pieces, belongs to the document before.
        """
        self.pending = 0
        is_whole = self._last.endswith(b"\n")
        for line in self._lines:
            if is_whole and starts_document(line):
                self._lines = chain([line], self._lines)
                return True
            self.number += is_whole
            is_whole = line.endswith(b"\n")
        return False
