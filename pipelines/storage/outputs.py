"""The folder that a command without Beam fills: held, claimed, continued and finished."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

from beambert.errors import InputError
from beambert.pipelines.storage import claims, locks, tensorflow_files


@dataclasses.dataclass(frozen=True)
class OutputFolder:
    """A folder that the command holds.

    Attributes:
      path: path of the folder.
      is_finished: whether the same command has finished it before.
    """

    path: str
    is_finished: bool

    def read_json(self, name: str) -> dict[str, Any]:
        """Returns the content of a file.

        Raises:
          InputError: the file cannot be read, or is damaged.
        """
        content = tensorflow_files.read_bytes(f"{self.path}/{name}", "--output")
        try:
            return json.loads(content)
        except ValueError as error:
            raise InputError(f"{self.path}/{name}: is damaged; make the folder again") from error

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Writes a file.

        Raises:
          InputError: the file cannot be written.
        """
        self.write(name, claims.serialize_job(content))

    def write(self, name: str, content: bytes) -> None:
        """Writes a file.

        Raises:
          InputError: the file cannot be written.
        """
        tensorflow_files.write_bytes(f"{self.path}/{name}", content)


@contextlib.contextmanager
def claimed(
    path: str, identity: Mapping[str, Any], flags_of: claims.FlagsOf
) -> Iterator[OutputFolder]:
    """Holds a folder while the body fills it, and puts the marker into it at the end.

    The body writes nothing if the folder `is_finished`. A folder whose body is killed or fails
    stays claimed for the same command, unless an `InputError` comes before its first file.

    Args:
      path: path of the folder, that of --output.
      identity: what decides the content of the folder.
      flags_of: the flags behind the values of `identity`, see `claims.describe_difference`.

    Raises:
      InputError: the folder holds something else, another command is at work there, or the folder
        cannot be written.
    """
    marker, begun = claims.serialize_job(identity), f"{path}/{claims.UNFINISHED_FILE}"
    with locks.folders_held([path], "--output"):
        names = tensorflow_files.list_folder(path)

        def read(name: str) -> bytes:
            return tensorflow_files.read_bytes(f"{path}/{name}", "--output")

        if claims.is_finished(path, names, read, identity, "--output", flags_of):
            yield OutputFolder(path, is_finished=True)
            return
        tensorflow_files.write_bytes(begun, marker)
        try:
            yield OutputFolder(path, is_finished=False)
        except InputError:
            names = tensorflow_files.list_folder(path)
            if all(claims.is_aside(name) or name == claims.UNFINISHED_FILE for name in names):
                tensorflow_files.delete(begun)
            raise
        tensorflow_files.write_bytes(f"{path}/{claims.MARKER_FILE}", marker)
        tensorflow_files.delete(begun)
