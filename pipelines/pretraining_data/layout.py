"""Which records folder, shard and file a document's instances go to. Pure.

Shards of all splits are numbered through: 0 to `num_shards` - 1 are those of the training records,
the rest those held out. Each shard becomes one file in every folder of its split; a split has a
folder for every sequence length.
"""

import dataclasses
import math
from collections.abc import Iterator

import numpy as np

from beambert.pipelines.instances.compact_documents import is_held_out, shard_of
from beambert.pipelines.instances.parameters import InstanceParameters
from beambert.pipelines.records.contract import EVAL_FOLDER, shard_name


@dataclasses.dataclass(frozen=True)
class RecordsFolder:
    """A records folder to write.

    Attributes:
      path: of the folder.
      is_eval: whether it holds the held-out documents.
      parameters: of its instances.
    """

    path: str
    is_eval: bool
    parameters: InstanceParameters


@dataclasses.dataclass(frozen=True)
class Layout:
    """What a job writes.

    Attributes:
      output: the folder that was asked for.
      lengths: parameters for every sequence length.
      num_shards: of the training records.
      eval_fraction: share of the documents to hold out.
      compression: "none" or "gzip".
    """

    output: str
    lengths: tuple[InstanceParameters, ...]
    num_shards: int
    eval_fraction: float = 0.0
    compression: str = "none"

    @property
    def eval_shards(self) -> int:
        """Number of held-out shards, so that they are about as large as the others."""
        return math.ceil(self.num_shards * self.eval_fraction)

    @property
    def total_shards(self) -> int:
        """Number of shards of all splits."""
        return self.num_shards + self.eval_shards

    def folders(self) -> list[RecordsFolder]:
        """Returns all folders: a split after the other, in each the lengths as they were given."""
        output = self.output.rstrip("/")
        found = []
        for is_eval in (False, True) if self.eval_fraction else (False,):
            for parameters in self.lengths:
                path = output
                if len(self.lengths) > 1:
                    path += f"/{parameters.max_seq_length}"
                path += f"/{EVAL_FOLDER}" if is_eval else ""
                found.append(RecordsFolder(path or "/", is_eval, parameters))
        return found

    def keys(self, hashes: np.ndarray) -> np.ndarray:
        """Returns the shard of each document, int64 [documents], of its hash."""
        keys = shard_of(hashes, self.num_shards)
        if self.eval_fraction:
            eval_keys = self.num_shards + shard_of(hashes, self.eval_shards)
            keys = np.where(is_held_out(hashes, self.eval_fraction), eval_keys, keys)
        return keys

    def files_of(self, key: int) -> Iterator[tuple[RecordsFolder, str]]:
        """Yields the folders that a shard has a file in, and that file's name."""
        is_eval = key >= self.num_shards
        index, count = key, self.num_shards
        if is_eval:
            index, count = key - self.num_shards, self.eval_shards
        ending = ".gz" if self.compression == "gzip" else ""
        for folder in self.folders():
            if folder.is_eval == is_eval:
                yield folder, shard_name(index, count) + ending
