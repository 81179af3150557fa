"""The last step of the records pipeline: checks the counts, writes info.json and the marker."""

import dataclasses
import functools
import json
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from beambert.pipelines.corpus.reading import check_rejects, counts_by_reason
from beambert.pipelines.jobs.files import (
    delete_prefixed,
    delete_quietly,
    finish_output,
    write_bytes,
)
from beambert.pipelines.jobs.input_files import check_unchanged
from beambert.pipelines.pretraining_data.layout import Layout, RecordsFolder
from beambert.pipelines.pretraining_data.plan import Manifest
from beambert.pipelines.pretraining_data.transforms import ShardEntry
from beambert.pipelines.records.contract import (
    INFO_FILE,
    REJECTS_FILE,
    STATISTICS_FILE,
    RecordsInfo,
)
from beambert.pipelines.records.figures import figures
from beambert.pipelines.records.schema import SCHEMA_FILE, records_schema, serialize_schema
from beambert.pipelines.records.statistics import RecordStatistics
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage.claims import TEMPORARY_PREFIX
from beambert.pipelines.wordpiece.vocabulary import VOCABULARY_FILE


class FinishFolders(beam.DoFn):
    """Writes the small files of every folder and then its marker; returns the folders' paths."""

    def __init__(self, manifest: Manifest, layout: Layout):
        """Takes the values that are known before the pipeline runs."""
        self._manifest = manifest
        self._layout = layout

    def process(
        self,
        _: None,
        shards: Iterable[ShardEntry],
        read_counts: Iterable[Counter[str]],
        rejects: Iterable[str],
    ) -> Iterator[str]:
        """Runs once, after all shards are written.

        Raises:
          InputError: an input was changed, too many documents were rejected, or a folder has no
            instance.
        """
        remedy = "wait until nothing writes to it, then delete --output or choose another"
        check_unchanged(self._manifest.inputs, self._manifest.patterns, remedy)
        folders, shards = self._layout.folders(), list(shards)
        read: Counter[str] = sum(read_counts, Counter())
        rejected = sorted(rejects)
        # A failed job leaves nothing in the folder, so that its rejects go beside it.
        beside = f"{self._layout.output.rstrip('/')}-{REJECTS_FILE}"
        if rejected:
            rows = "".join(row + "\n" for row in rejected).encode()
            limit = self._manifest.max_reject_fraction
            if len(rejected) > limit * read["read"]:
                write_bytes(beside, rows)
                remedy = f"mend them (all are in {beside})"
                check_rejects(rejected, read["read"], limit, remedy)
            write_bytes(FileSystems.join(folders[0].path, REJECTS_FILE), rows)
        # All folders are checked before any is finished. The held-out ones are finished first.
        used = count_documents(shards, read)
        infos = [self._info(folder, shards, read, used) for folder in folders]
        for folder, info in zip(reversed(folders), reversed(infos), strict=True):
            self._finish(folder, info, shards)
        delete_prefixed(self._layout.output, TEMPORARY_PREFIX)
        delete_quietly([beside])  # an earlier job's that failed
        yield from (folder.path for folder in folders)

    def _info(
        self,
        folder: RecordsFolder,
        shards: list[ShardEntry],
        read: Counter[str],
        used: int,
    ) -> RecordsInfo:
        """Returns a folder's info.json."""
        manifest = self._manifest
        mine = [shard for shard in shards if folder.path in shard.files]
        entries = [shard.files[folder.path] for shard in mine]
        counts = _sum(shard.counts for shard in mine)
        instances = _sum(entry["counts"] for entry in entries)
        of_all = _sum(shard.counts for shard in shards)
        dropped = counts_by_reason(read, "dropped ") | {
            name: of_all[name] for name in ("duplicates", "near_duplicates") if of_all[name]
        }
        documents = {
            "read": read["read"],
            "used": counts["documents"],
            "in_other_split": used - counts["documents"],
            "dropped": dropped,
            "rejected": counts_by_reason(read, "rejected "),
            "encodings": counts_by_reason(read, "encoding "),
            "cleaned": counts_by_reason(read, "cleaned "),
            "with_replacement_characters": read["with_replacement_characters"],
        }
        if not instances["instances"]:
            self._refuse_empty(folder, documents)
        names = ("name", "instances", "bytes", "sha256")
        files = [{name: entry[name] for name in names} for entry in entries]
        parameters = manifest.parameters_of(folder)
        sources = {
            name: {"documents": documents, "tokens": tokens}
            for name, (documents, tokens) in zip(
                manifest.sources, _sum_sources(shard.sources for shard in mine), strict=False
            )
        }
        return RecordsInfo(
            parameters=parameters,
            vocabulary={"size": len(manifest.vocabulary), "sha256": manifest.vocabulary.sha256},
            inputs=[dataclasses.asdict(file) for file in manifest.inputs],
            files=sorted(files, key=lambda file: file["name"]),
            counts={"documents": documents, "sources": sources}
            | _record_counts(counts, instances, parameters),
            versions=manifest.versions,
        )

    def _refuse_empty(self, folder: RecordsFolder, documents: Mapping[str, Any]) -> None:
        fraction = self._layout.eval_fraction
        if folder.is_eval:
            raise InputError(
                f"--eval_fraction={fraction}: held out {documents['used']} of {documents['read']} "
                "documents, too few for an instance; raise it or leave it out"
            )
        raise InputError(
            f"--input: no document gave an instance ({documents['read']:,} documents in "
            f"{len(self._manifest.inputs):,} files; {describe_dropped(documents)}); check that the "
            "files hold text, --format, and the flags that leave documents out"
        )

    def _finish(self, folder: RecordsFolder, info: RecordsInfo, shards: list[ShardEntry]) -> None:
        def write(name: str, data: bytes) -> None:
            write_bytes(FileSystems.join(folder.path, name), data)

        entries = (of.files[folder.path] for of in shards if folder.path in of.files)
        found = (RecordStatistics.from_json(entry["statistics"]) for entry in entries)
        total = functools.reduce(operator.add, found)
        statistics = {"figures": figures(total), "counts": total.to_json()}
        write(STATISTICS_FILE, (json.dumps(statistics, indent=1) + "\n").encode())
        lengths = (folder.parameters.max_seq_length, folder.parameters.max_predictions_per_seq)
        schema = records_schema(*lengths, len(self._manifest.vocabulary))
        write(SCHEMA_FILE, serialize_schema(schema))
        write(VOCABULARY_FILE, self._manifest.vocabulary.serialize())
        write(INFO_FILE, info.to_json().encode())
        finish_output(folder.path, self._manifest.job(folder))


def count_documents(shards: Iterable[ShardEntry], read: Mapping[str, int]) -> int:
    """Returns the number of documents that all shards use.

    Raises:
      RuntimeError: the used, dropped and rejected documents don't add up to those that were read.
    """
    of_all = _sum(shard.counts for shard in shards)
    used = of_all["documents"]
    left_out = of_all["duplicates"] + of_all["near_duplicates"]
    for prefix in ("dropped ", "rejected "):
        left_out += sum(counts_by_reason(read, prefix).values())
    if read["read"] != used + left_out:
        raise RuntimeError(f"documents were lost: {dict(read)} read, {dict(of_all)} in the shards")
    return used


def _sum(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return total


def _sum_sources(counts: Iterable[Sequence[tuple[int, int]]]) -> list[tuple[int, ...]]:
    """Returns the documents and tokens of each source, of all shards."""
    by_source = zip(*counts, strict=True)
    return [tuple(map(sum, zip(*of_shards, strict=True))) for of_shards in by_source]


# Reason under which info.json counts dropped documents -> the reason as a summary says it.
_REASONS = {
    "empty": "without text, such as a page of a title only",
    "no_tokens": "without a word",
    "duplicates": "equal to another",
    "near_duplicates": "similar to another",
}


def describe_dropped(documents: Mapping[str, Any]) -> str:
    """Returns how many documents were left out, and why: "3 dropped: 2 without text, 1 redirect".

    Args:
      documents: counts of documents in info.json.
    """
    dropped: Mapping[str, int] = documents["dropped"]
    reasons = [f"{count:,} {_REASONS.get(name, name)}" for name, count in dropped.items()]
    reasons += [f"{count:,} unreadable ({name})" for name, count in documents["rejected"].items()]
    total = sum(dropped.values()) + sum(documents["rejected"].values())
    return f"{total:,} dropped: {', '.join(reasons)}" if reasons else "none dropped"


def _record_counts(
    documents: Mapping[str, int], instances: Mapping[str, int], parameters: Mapping[str, Any]
) -> dict[str, Any]:
    totals = {name: documents[name] for name in ("sentences", "tokens", "unknown_tokens")}
    totals |= dict(instances)
    count = max(instances["instances"], 1)
    shares = {
        "is_next_share": instances["is_next"] / count,
        "filled_share": instances["filled_tokens"] / (count * parameters["max_seq_length"]),
        "unknown_share": documents["unknown_tokens"] / max(documents["tokens"], 1),
        "predictions_per_instance": instances["predictions"] / count,
    }
    return totals | {name: round(value, 6) for name, value in shares.items()}
