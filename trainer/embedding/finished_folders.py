"""The folders that `beambert embed` has finished, read part by part."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beambert import storage
from beambert.errors import InputError
from beambert.folders import MARKER_FILE

# Readers of Parquet folders pass over names that begin with "_".
INFO_FILE = "_info.json"
# The column of the embeddings.
EMBEDDING = "embedding"
# What the file of a part is called.
PART = "part-{:05d}.parquet"


@dataclasses.dataclass(frozen=True)
class EmbeddingsFolder:
    """A finished folder of embeddings.

    Attributes:
      path: path of the folder.
      name: the folder as messages name it.
      info: content of its `_info.json`.
    """

    path: str
    name: str
    info: dict[str, Any]

    def parts(self) -> Iterator[tuple[pa.Table, np.ndarray]]:
        """Yields the rows of each file but for their embeddings; and these, float32 [rows, H].

        Raises:
          InputError: a file cannot be read, or there are other embeddings than `_info.json` says.
        """
        count, width, number = 0, self.info["width"], 0
        while count < self.info["texts"]:
            path = f"{self.path}/{PART.format(number)}"
            table = read_part(path)
            expected = pa.field(EMBEDDING, pa.list_(pa.float32(), width))
            if expected not in table.schema or not table.num_rows:
                raise InputError(f"{path}: has no embeddings of {width:,} numbers; make them again")
            flat = table[EMBEDDING].combine_chunks().flatten().to_numpy()
            rows = table.drop_columns([EMBEDDING]).replace_schema_metadata(None)
            yield rows, flat.reshape(table.num_rows, width)
            count, number = count + table.num_rows, number + 1
        if count != self.info["texts"]:
            raise InputError(
                f"{self.name}: has {count:,} embeddings, and its {INFO_FILE} says "
                f"{self.info['texts']:,}; make them again"
            )


def read_part(path: str) -> pa.Table:
    """Returns the rows of a Parquet file.

    Raises:
      InputError: the file cannot be read.
    """
    try:
        return pq.read_table(pa.BufferReader(storage.read_bytes(path)))
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{path}: cannot be read ({str(error).splitlines()[0]}); make it again"
        ) from error


def open_embeddings(folder: str, flag: str = "--embeddings") -> EmbeddingsFolder:
    """Opens a folder that `beambert embed` finished.

    Raises:
      InputError: there is none.
    """
    folder = folder.rstrip("/")
    name = f"{flag}={folder}"
    if not is_embeddings(folder):
        raise InputError(
            f"{name}: not a finished folder of `beambert embed`; check the path, or give its "
            "command again, which continues it"
        )
    try:
        info = json.loads(storage.read_bytes(f"{folder}/{INFO_FILE}", flag))
        # Every reader of the folder needs these three.
        info |= {"texts": int(info["texts"]), "width": int(info["width"])}
        return EmbeddingsFolder(folder, name, info | {"keeps_text": bool(info["keeps_text"])})
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder}/{INFO_FILE}: is damaged; make the folder again") from error


def is_embeddings(folder: str) -> bool:
    """Returns whether `beambert embed` has finished a folder."""
    names = (MARKER_FILE, INFO_FILE)
    return all(storage.exists(f"{folder}/{name}") for name in names)
