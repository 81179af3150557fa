"""The list of a job's input files, a million perhaps: in the job itself, or in a file beside it."""

import dataclasses
import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from beambert.pipelines.files.beam_files import read_bytes, write_bytes
from beambert.pipelines.files.input_files import InputFile

# File in the output folder that lists the inputs, a JSON object a line.
INPUTS_FILE = "inputs.jsonl.gz"
# Number of inputs that a job holds itself. Dataflow takes jobs of at most 20 MB.
MOST_LISTED = 1000


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
    write_bytes(path, gzip.compress(_serialize(files), 6, mtime=0))


def read_list(path: str) -> list[InputFile]:
    """Returns the files that a list has.

    Raises:
      InputError: the list cannot be read.
    """
    # Beam decompresses it, by its name.
    rows = map(json.loads, read_bytes(path).splitlines())
    return [InputFile(row["path"], row["bytes"], row["modified"]) for row in rows]


def _serialize(files: Iterable[InputFile]) -> bytes:
    rows = ({"path": file.path, "bytes": file.bytes, "modified": file.modified} for file in files)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
