"""Assigns documents to shards, and shards to files in records folders. Pure.

The shards of both splits have consecutive numbers: 0 to `num_shards` - 1 are training shards, and
the others are held out. A split has one folder for every sequence length. Each shard becomes one
file in every folder of its split. With --source the held-out split has a folder for every source,
in which a shard's file has the documents of that source.
"""

import dataclasses
import functools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from beambert.pipelines.pretraining.documents import SEGMENT_TOKENS, shard_of
from beambert.pipelines.pretraining.instances import InstanceParameters
from beambert.pipelines.records.contract import EVAL_FOLDER, shard_name

if TYPE_CHECKING:
    from beambert.pipelines.pretraining.job import PretrainingDataJob


@dataclasses.dataclass(frozen=True)
class RecordsFolder:
    """A records folder to write.

    Attributes:
      path: path of the folder.
      is_eval: True if the folder holds the held-out documents.
      parameters: parameters of the folder's instances.
      source: number of the only source of the folder; None for all sources.
    """

    path: str
    is_eval: bool
    parameters: InstanceParameters
    source: int | None = None


@dataclasses.dataclass(frozen=True)
class Layout:
    """The folders and shards that a job writes.

    Attributes:
      job: parameters of the job.
      num_shards: number of training shards.
    """

    job: "PretrainingDataJob"
    num_shards: int

    @functools.cached_property
    def lengths(self) -> tuple[InstanceParameters, ...]:
        """Parameters of the instances for every sequence length."""
        return self.job.lengths()

    @functools.cached_property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources of --source, each of which has its own held-out folder."""
        return tuple(self.job.sources)

    @property
    def segment_tokens(self) -> int:
        """Number of tokens of a segment that is held out or not, see `documents.divide`.

        It isn't less than a record has, or no long held-out record would be of one text.
        """
        return max(SEGMENT_TOKENS, *(parameters.max_seq_length for parameters in self.lengths))

    @property
    def eval_shards(self) -> int:
        """Number of held-out shards, chosen to be about as large as training shards."""
        return math.ceil(self.num_shards * self.job.eval_fraction)

    @property
    def total_shards(self) -> int:
        """Number of shards of both splits."""
        return self.num_shards + self.eval_shards

    def folders(self) -> list[RecordsFolder]:
        """Returns all folders: first the training split, then the other, lengths in given order."""
        output = self.job.output.rstrip("/")
        found = []
        for is_eval in (False, True) if self.job.eval_fraction else (False,):
            for parameters in self.lengths:
                path = output
                if len(self.lengths) > 1:
                    path += f"/{parameters.max_seq_length}"
                path += f"/{EVAL_FOLDER}" if is_eval else ""
                if is_eval and self.sources:
                    found += [
                        RecordsFolder(f"{path}/{name}", is_eval, parameters, number)
                        for number, name in enumerate(self.sources)
                    ]
                else:
                    found.append(RecordsFolder(path or "/", is_eval, parameters))
        return found

    def keys(self, hashes: np.ndarray, is_eval: np.ndarray | bool) -> np.ndarray:
        """Returns the shard number of each document, int64 [documents].

        Args:
          hashes: hashes of the documents, `V16` [documents].
          is_eval: whether each is held out, bool [documents], or one answer for all.
        """
        keys = shard_of(hashes, self.num_shards)
        if self.job.eval_fraction:
            eval_keys = self.num_shards + shard_of(hashes, self.eval_shards)
            keys = np.where(is_eval, eval_keys, keys)
        return keys

    def files_of(self, key: int) -> Iterator[tuple[RecordsFolder, str]]:
        """Yields the folders in which a shard has a file, and the name of the file in each."""
        is_eval = key >= self.num_shards
        index, count = key, self.num_shards
        if is_eval:
            index, count = key - self.num_shards, self.eval_shards
        ending = ".gz" if self.job.compression == "gzip" else ""
        for folder in self.folders():
            if folder.is_eval == is_eval:
                yield folder, shard_name(index, count) + ending
