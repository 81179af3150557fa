"""Values that workers need, in a file beside the job instead of in the job itself.

Dataflow takes jobs of at most 20 MB, and every worker of a cluster would get all values. So a job
holds their places only.
"""

import dataclasses
import hashlib
import pickle
from collections.abc import Iterable
from typing import Any

from beambert.errors import InputError
from beambert.pipelines.files.beam_files import create, read_range


@dataclasses.dataclass(frozen=True)
class StoredValue:
    """The place of a value in a file.

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
        data = read_range(self.path, self.start, self.size)
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
    with create(path) as file:
        for value in values:
            data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
            file.write(data)
            places.append(StoredValue(path, start, len(data), hashlib.sha256(data).hexdigest()))
            start += len(data)
    return places
