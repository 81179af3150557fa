"""The counts of written shards, which add up to those of their folders. Pure."""

import dataclasses
import functools
import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from beambert.pipelines.instances.by_source import SourceRecords
from beambert.pipelines.metrics import add_counts
from beambert.pipelines.records.statistics import RecordStatistics


@dataclasses.dataclass(frozen=True)
class FolderCounts:
    """The counts of a folder's shards.

    Attributes:
      documents: counts of the documents, see `building.DocumentCounts`.
      instances: counts of the instances, see `building.InstanceCounts`.
      sources: for each source, its number of documents and of tokens.
      commonest: number of tokens and of copies of the document that has the most tokens.
      statistics: statistics of the records.
      files: name, number of instances, bytes and SHA-256 of each file.
      source_records: for each source of --source, the counts of its records; none without it.
    """

    documents: Mapping[str, int]
    instances: Mapping[str, int]
    sources: Sequence[tuple[int, int]]
    commonest: tuple[int, int]
    statistics: RecordStatistics
    files: Sequence[tuple[str, int, int, str]]
    source_records: Sequence[SourceRecords] = ()

    @classmethod
    def total(cls, parts: Sequence["FolderCounts"]) -> "FolderCounts":
        """Returns the counts of all shards of at least one part."""
        by_source = zip(*(part.sources for part in parts), strict=True)
        return cls(
            add_counts(part.documents for part in parts),
            add_counts(part.instances for part in parts),
            [tuple(map(sum, zip(*of_parts, strict=True))) for of_parts in by_source],
            max(part.commonest for part in parts),
            functools.reduce(operator.add, (part.statistics for part in parts)),
            [file for part in parts for file in part.files],
            [
                sum(of_parts, SourceRecords())
                for of_parts in zip(*(part.source_records for part in parts), strict=True)
            ],
        )


@dataclasses.dataclass(frozen=True)
class ShardCounts:
    """The counts of some shards.

    Attributes:
      documents: counts of the documents of both splits, each shard counted once.
      folders: path of a folder -> counts of these shards' files in it.
    """

    documents: Mapping[str, int]
    folders: Mapping[str, FolderCounts]


def add_shards(parts: Iterable[ShardCounts]) -> ShardCounts:
    """Returns the counts of all shards of some parts."""
    parts = list(parts)
    by_folder: dict[str, list[FolderCounts]] = {}
    for part in parts:
        for path, counts in part.folders.items():
            by_folder.setdefault(path, []).append(counts)
    documents: Counter[str] = add_counts(part.documents for part in parts)
    return ShardCounts(documents, {p: FolderCounts.total(each) for p, each in by_folder.items()})
