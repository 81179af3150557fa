"""A command's input: which files match, and their bytes as they are stored."""

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
    """A file to read.

    Attributes:
      path: local or gs://.
      bytes: its size as stored.
      modified: seconds since 1970, 0 where the file system doesn't tell.
    """

    path: str
    bytes: int
    modified: float = 0.0

    @property
    def is_compressed(self) -> bool:
        """Whether its ending says so; such files are decompressed as they are read."""
        return self.path.endswith(tuple(DECOMPRESSORS))

    def open(self) -> BinaryIO:
        """Opens its bytes as they are stored, see `open_stored`."""
        return open_stored(self.path)

    def open_beside(self, path: str) -> BinaryIO | None:
        """Opens another file that belongs to it, as stored; None if there is no such file."""
        return open_stored(path) if FileSystems.exists(path) else None


def match_inputs(patterns: Sequence[str]) -> list[InputFile]:
    """Lists the files that match any of the patterns, once each, by name.

    Raises:
      InputError: a pattern matches nothing, or is a folder.
    """
    found: dict[str, InputFile] = {}
    for pattern in patterns:
        if os.path.isdir(pattern):
            raise InputError(
                f"--input={pattern}: is a folder; name its files: '{pattern.rstrip('/')}/*'"
            )
        try:
            (result,) = FileSystems.match([pattern])
            matched = [m for m in result.metadata_list if m.size_in_bytes is not None]
        except (*STORAGE_ERRORS, ValueError) as error:
            raise InputError(f"--input={pattern}: cannot be listed ({error})") from error
        if not matched:
            raise InputError(f"--input={pattern}: no file matches; check the path and the quotes")
        for m in matched:
            modified = m.last_updated_in_seconds or 0.0
            path = absolute(m.path)
            found[path] = InputFile(path, m.size_in_bytes, modified)
    return [found[path] for path in sorted(found)]


def open_stored(path: str) -> BinaryIO:
    """Opens a corpus file to read its bytes as they are stored; seekable.

    Raises:
      InputError: it can't be opened.
    """
    try:
        return open_uncompressed(path)
    except (*STORAGE_ERRORS, ValueError) as error:
        raise InputError(
            f"--input: {path} cannot be read ({reason(error)}); mend that or leave it out"
        ) from error
