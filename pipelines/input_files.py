"""Input files of a command: those that match its patterns, their list, and values for workers.

A job may have a million input files, and workers may need large values. Dataflow takes jobs of at
most 20 MB, and every worker of a cluster would get all of it. So both are in files next to the job.
"""

import dataclasses
import gzip
import hashlib
import json
import os
import pickle
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO

from beambert import io
from beambert.compression import DECOMPRESSORS
from beambert.errors import InputError
from beambert.io import absolute

# File in the output folder that lists the inputs, a JSON object a line.
INPUTS_FILE = "inputs.jsonl.gz"
# Number of inputs that a job holds itself.
MOST_LISTED = 1000


@dataclasses.dataclass(frozen=True)
class InputFile:
    """An input file.

    Attributes:
      path: path of the file, local or on gs://.
      bytes: size of the file as stored.
      modified: time of the last change in seconds since 1970; 0 if the storage doesn't know it.
    """

    path: str
    bytes: int
    modified: float = 0.0

    @property
    def is_compressed(self) -> bool:
        """Whether the file's name has the ending of a compressed file."""
        return self.path.endswith(tuple(DECOMPRESSORS))

    def open(self, end: int | None = None) -> BinaryIO:
        """Opens the file to read its bytes as stored, see `io.open_file`."""
        return io.open_file(self.path, self.bytes, end)


def match_inputs(patterns: Sequence[str], flag: str = "--input") -> list[InputFile]:
    """Returns the files that match any of the patterns, see `io.match_inputs`."""
    found = io.match_inputs(patterns, flag)
    return [InputFile(absolute(file.path), file.bytes, file.modified) for file in found]


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


def check_unchanged(inputs: Sequence[InputFile], patterns: Sequence[str], remedy: str) -> None:
    """Refuses inputs that were changed since they were listed.

    Args:
      inputs: the files as they were listed.
      patterns: the patterns that matched them.
      remedy: advice for the message.

    Raises:
      InputError: a file has another size or time of change, or is gone.
    """
    elsewhere = [pattern for pattern in patterns if not io.is_local(pattern)]
    now = {file.path: file for file in match_inputs(elsewhere)}
    for file in inputs:
        found = _file_now(file.path) if io.is_local(file.path) else now.get(file.path)
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


@dataclasses.dataclass(frozen=True)
class InputList:
    """The input files of a job.

    Attributes:
      listed: the files, if they are few.
      path: path of the file that lists them, if they are many.
      summary: number of `files`, their `bytes` and the `sha256` of the list, if they are many.
    """

    listed: tuple[InputFile, ...] = ()
    path: str = ""
    summary: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, files: Sequence[InputFile], path: str) -> "InputList":
        """Returns the list of some files, sorted by path.

        Args:
          files: the files.
          path: path of the file that lists them, if they are many; `write_list` writes it.
        """
        if len(files) <= MOST_LISTED:
            return cls(tuple(files))
        digest = hashlib.sha256(_serialize(files)).hexdigest()
        size = sum(file.bytes for file in files)
        summary = {"files": len(files), "bytes": size, "sha256": digest}
        return cls((), path, summary)

    @property
    def count(self) -> int:
        """Number of files."""
        return self.summary.get("files", len(self.listed))

    def files(self) -> Sequence[InputFile]:
        """Returns the files, which may be read from the list on any worker.

        Raises:
          InputError: the list cannot be read.
        """
        return read_list(self.path) if self.path else self.listed

    def to_json(self) -> list[dict[str, Any]] | Mapping[str, Any]:
        """Returns the files, or the summary if they are many, for json.dumps."""
        return self.summary or [dataclasses.asdict(file) for file in self.listed]


def write_list(path: str, files: Sequence[InputFile]) -> None:
    """Writes the file that lists the inputs.

    Raises:
      InputError: the file cannot be written.
    """
    io.write_bytes(path, gzip.compress(_serialize(files), 6, mtime=0))


def read_list(path: str) -> list[InputFile]:
    """Returns the files that a list has.

    Raises:
      InputError: the list cannot be read.
    """
    rows = gzip.decompress(io.read_bytes(path)).splitlines()
    return [InputFile(**json.loads(row)) for row in rows]


def _serialize(files: Iterable[InputFile]) -> bytes:
    return "".join(json.dumps(vars(file), ensure_ascii=False) + "\n" for file in files).encode()


@dataclasses.dataclass(frozen=True)
class StoredValue:
    """The position of a value in a file.

    Attributes:
      path: path of the file.
      start, size: first byte and number of bytes.
      sha256: SHA-256 of the bytes. The file may be where others can write, and a pickle runs code.
    """

    path: str
    start: int
    size: int
    sha256: str

    def read(self) -> Any:
        """Returns the value.

        Raises:
          InputError: the bytes are not those that were written.
        """
        data = io.read_range(self.path, self.start, self.size)
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise InputError(
                f"{self.path}: was changed while the job ran; give the same command again, and let "
                "nothing else write there"
            )
        return pickle.loads(data)


def store_values(path: str, values: Iterable[Any]) -> list[StoredValue]:
    """Writes values to a new file that all workers can read, and returns their places.

    Raises:
      InputError: the file cannot be written.
    """
    places, start = [], 0
    with io.create(path) as file:
        for value in values:
            data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
            file.write(data)
            places.append(StoredValue(path, start, len(data), hashlib.sha256(data).hexdigest()))
            start += len(data)
    return places
