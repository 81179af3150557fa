"""Input files of a command: the files that match its patterns, and their bytes as stored."""

import dataclasses
import os
from collections.abc import Sequence
from typing import BinaryIO

from apache_beam.io.filesystems import FileSystems

from beambert.pipelines.jobs.compression import DECOMPRESSORS
from beambert.pipelines.jobs.files import STORAGE_ERRORS, open_uncompressed, reason
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage.claims import absolute


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

    def open(self) -> BinaryIO:
        """Opens the file to read its bytes as stored, see `open_stored`."""
        return open_stored(self.path)

    def open_beside(self, path: str) -> BinaryIO | None:
        """Opens another file that belongs to this one, see `open_stored`; None if it is missing."""
        return open_stored(path) if FileSystems.exists(path) else None


def match_inputs(patterns: Sequence[str]) -> list[InputFile]:
    """Returns the files that match any of the patterns, each once, sorted by path.

    Raises:
      InputError: a pattern matches nothing, or it names a folder.
    """
    found: dict[str, InputFile] = {}
    for pattern in patterns:
        if os.path.isdir(pattern):
            raise InputError(
                f"--input={pattern}: is a folder; name its files: '{pattern.rstrip('/')}/*'"
            )
        try:
            # Beam finds nothing by a pattern without a folder, such as *.txt.
            (result,) = FileSystems.match([absolute(pattern)])
            matched = [m for m in result.metadata_list if m.size_in_bytes is not None]
        except (*STORAGE_ERRORS, ValueError) as error:
            raise InputError(
                f"--input={pattern}: cannot be listed ({error}); check the path and your access"
            ) from error
        if not matched:
            raise InputError(f"--input={pattern}: matches no file; check the path and the quotes")
        for m in matched:
            modified = m.last_updated_in_seconds or 0.0
            path = absolute(m.path)
            found[path] = InputFile(path, m.size_in_bytes, modified)
    return [found[path] for path in sorted(found)]


def open_stored(path: str) -> BinaryIO:
    """Opens an input file to read its bytes as stored; the result is seekable.

    Raises:
      InputError: the file cannot be opened.
    """
    try:
        return open_uncompressed(path)
    except (*STORAGE_ERRORS, ValueError) as error:
        raise InputError(
            f"{path}: cannot be read ({reason(error)}); mend that or leave it out"
        ) from error
