"""Input files of a command: the files that match its patterns, and their bytes as stored."""

import contextlib
import dataclasses
import glob
import io
import os
import stat
from collections.abc import Mapping, Sequence
from typing import BinaryIO

from apache_beam.io.filesystems import FileSystems

from beambert.console import counted
from beambert.errors import InputError
from beambert.pipelines.files.beam_files import STORAGE_ERRORS, open_uncompressed, reason
from beambert.pipelines.files.compression import DECOMPRESSORS
from beambert.pipelines.files.ranged_files import RangedFile, read_gs
from beambert.pipelines.storage.claims import absolute

# Number of bytes to copy at a time from what a request has brought.
BUFFER_BYTES = 1 << 18


@dataclasses.dataclass(frozen=True)
class InputFile:
    """An input file.

    Attributes:
      path: path of the file, local or on gs://.
      bytes: size of the file as stored.
      modified: time of the last change in seconds since 1970; 0 if the file system doesn't tell.
    """

    path: str
    bytes: int
    modified: float = 0.0

    @property
    def is_compressed(self) -> bool:
        """Whether the file's name has the ending of a compressed file."""
        return self.path.endswith(tuple(DECOMPRESSORS))

    def open(self, end: int | None = None) -> BinaryIO:
        """Opens the file to read its bytes as stored, see `open_stored`."""
        return open_stored(self.path, self.bytes, end)

    def open_beside(self, path: str) -> BinaryIO | None:
        """Opens another file that belongs to this one, see `open_stored`; None if it is missing."""
        return open_stored(path) if FileSystems.exists(path) else None


def match_inputs(patterns: Sequence[str], flag: str = "--input") -> list[InputFile]:
    """Returns the files that match any of the patterns, each once, sorted by path.

    A name that exists is that file, even if it would also be a pattern.

    Args:
      patterns: the patterns.
      flag: flag that gave them, for messages.

    Raises:
      InputError: a pattern matches nothing, or it names something other than regular files.
    """
    found: dict[str, InputFile] = {}
    for pattern in patterns:
        name = _printable(pattern)
        if not pattern:
            raise InputError(f"{flag}: is empty; name the files to read")
        if os.path.isdir(pattern):
            raise InputError(f"{flag}={name}: is a folder; name its files: '{name.rstrip('/')}/*'")
        is_file = os.path.lexists(pattern)
        matched = [_file_here(pattern, flag)] if is_file else _match(pattern, flag)
        if not matched:
            # The original's --input_file takes several patterns with commas between them.
            several = "," in name
            remedy = "give blanks between patterns" if several else "check the path and the quotes"
            raise InputError(f"{flag}={name}: matches no file; {remedy}")
        found |= {file.path: file for file in matched}
    return [found[path] for path in sorted(found)]


def match_sources(sources: Mapping[str, Sequence[str]]) -> list[InputFile]:
    """Returns the files of all sources, sorted by path; one of several sources once.

    Args:
      sources: name -> patterns.

    Raises:
      InputError: a pattern matches no file.
    """
    found = [
        file
        for name, patterns in sources.items()
        for file in match_inputs(patterns, f"--source={name}")
    ]
    return sorted({file.path: file for file in found}.values(), key=lambda file: file.path)


def count_files(files: Sequence[InputFile]) -> str:
    """Returns the number of files, and which are empty: "2 files, of which 1 is empty (/a/b)"."""
    count = counted(len(files), "file")
    empty = [file.path for file in files if not file.bytes]
    if not empty:
        return count
    example = empty[0] if len(empty) == 1 else f"such as {empty[0]}"
    if len(files) == 1:
        return f"{count}, which is empty ({example})"
    which = f"{len(empty):,} {'is' if len(empty) == 1 else 'are'}"
    return f"{count}, of which {which} empty ({example})"


def describe_links(files: Sequence[InputFile]) -> list[str]:
    """Returns the line about files on this machine that have several names; none without any."""
    names: dict[tuple[int, int], list[str]] = {}
    for file in files:
        if "://" not in file.path:
            with contextlib.suppress(OSError):  # The reader meets it again.
                status = os.stat(file.path)
                names.setdefault((status.st_dev, status.st_ino), []).append(file.path)
    again = [paths for paths in names.values() if len(paths) > 1]
    if not again:
        return []
    count = sum(len(paths) - 1 for paths in again)
    return [
        f"warning: {counted(count, 'link')} to other files of --input, such as {again[0][1]} to "
        f"{again[0][0]}; each is read again, unless you leave it out"
    ]


def _match(pattern: str, flag: str = "--input") -> list[InputFile]:
    """Returns the files that match a pattern."""
    try:
        # Beam finds nothing by a pattern without a folder, such as *.txt.
        (result,) = FileSystems.match([absolute(pattern)])
    except (*STORAGE_ERRORS, ValueError) as error:
        raise InputError(
            f"{flag}={_printable(pattern)}: cannot be listed ({reason(error)}); check the path and "
            "your access"
        ) from error
    matched = [m for m in result.metadata_list if m.size_in_bytes is not None]
    if "://" in pattern:
        return [
            InputFile(absolute(m.path), m.size_in_bytes, m.last_updated_in_seconds or 0.0)
            for m in matched
        ]
    # Beam passes over links whose file is gone.
    gone = {path for path in glob.glob(pattern, recursive=True) if not os.path.exists(path)}
    return [_file_here(path, flag) for path in sorted({*gone, *(m.path for m in matched)})]


def _file_here(path: str, flag: str) -> InputFile:
    """Returns a regular file on this machine.

    Raises:
      InputError: it is no regular file, or its name is not UTF-8.
    """
    name = _printable(path)
    if name != path:
        raise InputError(f"{flag}={name}: the name is not UTF-8; rename the file")
    try:
        status = os.stat(path)
    except OSError as error:
        is_link = os.path.islink(path)
        why = f"is a link to {os.readlink(path)}, which cannot be read" if is_link else "is gone"
        raise InputError(
            f"{flag}={path}: {why} ({error.strerror}); mend that or leave it out"
        ) from error
    if not stat.S_ISREG(status.st_mode):
        raise InputError(
            f"{flag}={path}: is not a regular file; write its content to one and name that"
        )
    return InputFile(absolute(path), status.st_size, status.st_mtime)


def check_unchanged(inputs: Sequence[InputFile], patterns: Sequence[str], remedy: str) -> None:
    """Refuses inputs that were changed since they were listed.

    Args:
      inputs: the files as they were listed.
      patterns: the patterns that matched them.
      remedy: advice for the message.

    Raises:
      InputError: a file has another size or time of change, or is gone.
    """
    elsewhere = [pattern for pattern in patterns if "://" in pattern]
    now = {file.path: file for pattern in elsewhere for file in _match(pattern)}
    for file in inputs:
        found = now.get(file.path) if "://" in file.path else _file_now(file.path)
        if found != file:
            if found is None:
                what = "is gone"
            elif found.bytes != file.bytes:
                what = f"has {found.bytes:,} bytes now and had {file.bytes:,}"
            else:
                what = "has another date"
            raise InputError(f"{file.path}: was changed while it was read ({what}); {remedy}")


def _file_now(path: str) -> InputFile | None:
    """Returns a file on this machine as it is now, or None if it is gone."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return InputFile(path, status.st_size, status.st_mtime)


def _printable(path: str) -> str:
    """Returns a path with the bytes that aren't UTF-8 written out."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def open_stored(path: str, size: int | None = None, end: int | None = None) -> BinaryIO:
    """Opens an input file to read its bytes as stored; the result is seekable.

    Args:
      path: path of the file.
      size: size of the file in bytes; None if it is not known.
      end: position after the last byte that will probably be wanted; None for the end of the file.

    Raises:
      InputError: the file cannot be opened. On gs://, reading from it raises the same.
    """

    def refusal(error: Exception) -> InputError:
        return InputError(f"{path}: cannot be read ({reason(error)}); mend that or leave it out")

    def read(start: int, size: int) -> bytes:
        try:
            return read_gs(path, start, size)
        except STORAGE_ERRORS as error:
            raise refusal(error) from error

    try:
        if not path.startswith("gs://"):
            return open_uncompressed(path)
        if size is None:
            size = FileSystems.get_filesystem(path).metadata(path).size_in_bytes
    except (*STORAGE_ERRORS, ValueError) as error:
        raise refusal(error) from error
    return io.BufferedReader(RangedFile(read, size, end), BUFFER_BYTES)
