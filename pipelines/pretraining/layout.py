"""Assigns documents to shards, and shards to files in records folders. Pure.

The shards of both splits have consecutive numbers: 0 to `num_shards` - 1 are training shards, and
the others are held out. A split has one folder for every sequence length. Each shard becomes one
file in every folder of its split. With --source the held-out split has a folder for every source,
in which a shard's file has the documents of that source.
"""

import dataclasses
import functools
import math
import struct
import uuid
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from beambert.io import TEMPORARY_PREFIX, create, read_range
from beambert.pipelines.pretraining.documents import SEGMENT_TOKENS, shard_of, starts_of
from beambert.pipelines.pretraining.instances import InstanceParameters
from beambert.pipelines.records.contract import EVAL_FOLDER, shard_name
from beambert.pipelines.running import SHUFFLING_RUNNERS

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


# Bytes reach their shards in one of two ways: through the runner's shuffle or through files.
#
# Dataflow, Flink and Spark shuffle more than fits into memory, so there the bytes themselves are
# grouped. FnApiRunner and Prism keep grouped data in memory (FnApiRunner takes several times its
# size). There workers write the bytes to files in the order of the shards, and only their places in
# these files are grouped. A retried worker writes new files. Files that no shard refers to are
# deleted at the end.
#
# Both ways give every shard the same bytes, so the records are the same.

# Values of --shuffle.
AUTO, RUNNER, FILES = "auto", "runner", "files"
# Number of token ids that a worker holds before it passes them on, at two bytes each. A file of 64
# MB has long slices. A runner's shuffle takes smaller elements: Dataflow at most 80 MB, and Flink
# what fits into its heap.
TOKENS_AT_A_TIME = {FILES: 32 << 20, RUNNER: 1 << 20}
# Neighbouring shards lie next to each other in every file. So many are read at once, as long as so
# many groups of them are left for the workers to share.
MOST_SHARDS_IN_A_GROUP = 8
FEWEST_GROUPS = 64

# A value begins with its kind: documents of a shard; places of documents in a file; hashes of a
# shard's documents to drop.
_DOCUMENTS, _PLACES, _MARKS = range(3)
# Kind and number of the shard.
_OF_SHARD = struct.Struct("<BI")
# Kind, number of shards, position of the first byte in the file.
_PLACE = struct.Struct("<BIQ")
_SIZE_TYPE = np.dtype([("shard", "<u4"), ("bytes", "<u8")])


@dataclasses.dataclass
class Received:
    """The bytes that one shard has received, in any order.

    Attributes:
      packed: the bytes that `Shuffle.send` was given.
      marks: the hashes that `Shuffle.mark` was given.
    """

    packed: list[bytes | memoryview] = dataclasses.field(default_factory=list)
    marks: list[bytes] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Shuffle:
    """One of the ways. Elements to group are pairs of the number of a group of shards and bytes.

    Attributes:
      way: `RUNNER` or `FILES`.
      folder: folder of the files.
      run: name of the run, which becomes a part of the files' names.
      shards: number of shards.
    """

    way: str
    folder: str
    run: str
    shards: int

    @property
    def shards_in_a_group(self) -> int:
        """Number of neighbouring shards that are received together."""
        if self.way == RUNNER:
            return 1
        return max(1, min(MOST_SHARDS_IN_A_GROUP, self.shards // FEWEST_GROUPS))

    def groups(self) -> list[tuple[int, bytes]]:
        """Returns an element for each group, so that shards that receive nothing are known."""
        return [(group, b"") for group in range(-(-self.shards // self.shards_in_a_group))]

    def shards_of(self, group: int) -> range:
        """Returns the shards of a group."""
        size = self.shards_in_a_group
        return range(group * size, min(self.shards, (group + 1) * size))

    def mark(self, shard: int, hashes: bytes) -> tuple[int, bytes]:
        """Returns the element that gives a shard hashes of documents to drop."""
        return shard // self.shards_in_a_group, _OF_SHARD.pack(_MARKS, shard) + hashes

    def send(self, items: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """Yields the elements that give shards their bytes.

        Args:
          items: pairs of shard and bytes; the shards ascend.

        Raises:
          InputError: the file cannot be written.
        """
        if self.way == RUNNER:
            for shard, data in items:
                yield shard, _OF_SHARD.pack(_DOCUMENTS, shard) + data
            return
        path = f"{self.folder}/{spill_prefix(self.run)}{uuid.uuid4().hex}"
        sizes = write_spill(path, items)
        groups = sizes["shard"].astype(int) // self.shards_in_a_group
        starts = starts_of(sizes["bytes"].astype(int))
        for first, last in pairwise(np.flatnonzero(np.diff(groups, prepend=-1, append=-1))):
            offset = int(starts[first])
            place = _PLACE.pack(_PLACES, last - first, offset)
            yield int(groups[first]), place + sizes[first:last].tobytes() + path.encode()

    def receive(self, group: int, values: Iterable[bytes]) -> dict[int, Received]:
        """Returns what each shard of a group has received; shards without anything are there, too.

        Args:
          group: number of the group.
          values: the second parts of the group's elements.
        """
        found = {shard: Received() for shard in self.shards_of(group)}
        for value in values:
            if not value:
                continue
            if value[0] == _PLACES:
                for shard, data in read_place(value):
                    found[shard].packed.append(data)
            else:
                kind, shard = _OF_SHARD.unpack_from(value)
                data = value[_OF_SHARD.size :]
                (found[shard].marks if kind == _MARKS else found[shard].packed).append(data)
        return found


def choose(way: str, runner: str) -> str:
    """Returns `RUNNER` or `FILES`.

    Args:
      way: value of --shuffle.
      runner: name of the runner's class.
    """
    if way != AUTO:
        return way
    return RUNNER if runner in SHUFFLING_RUNNERS else FILES


def write_spill(path: str, items: Iterable[tuple[int, bytes]]) -> np.ndarray:
    """Writes the bytes of several shards to a new file.

    Args:
      path: path of the file.
      items: pairs of shard and bytes.

    Returns:
      shard and number of bytes of each item, `_SIZE_TYPE` [items].

    Raises:
      InputError: the file cannot be written.
    """
    sizes = []
    remedy = "correct that or choose another --output, then run the same command again"
    with create(path, remedy=remedy) as file:
        for shard, data in items:
            file.write(data)
            sizes.append((shard, len(data)))
    return np.array(sizes, _SIZE_TYPE)


def read_place(value: bytes) -> Iterator[tuple[int, memoryview]]:
    """Yields the shards and bytes that a value of `Shuffle.send` gives the places of."""
    _, count, offset = _PLACE.unpack_from(value)
    sizes = np.frombuffer(value, _SIZE_TYPE, count, _PLACE.size)
    path = value[_PLACE.size + sizes.nbytes :].decode()
    data = memoryview(read_range(path, offset, int(sizes["bytes"].sum())))
    first = 0
    for shard, size in sizes.tolist():
        yield shard, data[first : first + size]
        first += size


def spill_prefix(run: str) -> str:
    """Returns the prefix of the names of a run's files."""
    return f"{TEMPORARY_PREFIX}documents-{run}-"
