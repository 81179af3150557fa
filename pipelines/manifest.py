"""The end of the records pipeline: counts that add up, info.json, and the marker."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from pipelines.errors import InputError
from pipelines.files import InputFile, finish_output, write_bytes
from pipelines.records import (
    INFO_FILE,
    REJECTS_FILE,
    VOCABULARY_FILE,
    RecordsInfo,
    Vocabulary,
)
from pipelines.shards import ShardCounts
from pipelines.transforms import Split, check_rejects


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What `FinishFolders` writes besides the counts.

    Attributes:
      parameters, vocabulary, inputs, versions: as in `RecordsInfo`.
      max_reject_fraction: above it the job fails.
    """

    parameters: Mapping[str, Any]
    vocabulary: Vocabulary
    inputs: list[InputFile]
    versions: Mapping[str, str]
    max_reject_fraction: float

    def job(self) -> dict[str, Any]:
        """Returns what makes two jobs the same."""
        return {
            "parameters": dict(self.parameters),
            "vocabulary": self.vocabulary.sha256,
            "inputs": [dataclasses.asdict(file) for file in self.inputs],
        }


class FinishFolders(beam.DoFn):
    """Writes vocab.txt, rejects, info.json and, last of all, the marker of every folder."""

    def __init__(self, manifest: Manifest, splits: list[Split]):
        """Takes what is known before the work."""
        self._manifest = manifest
        self._splits = splits

    def process(
        self,
        _: None,
        shards: Iterable[tuple[str, dict[str, Any]]],
        read_counts: Iterable[Counter[str]],
        rejects: Iterable[str],
    ) -> None:
        """Runs once, after every shard is written.

        Raises:
          InputError: too much was rejected, or there was nothing to learn from.
        """
        read: Counter[str] = sum(read_counts, Counter())
        rejected = sorted(rejects)
        if rejected:
            rejects_path = FileSystems.join(self._splits[0].folder, REJECTS_FILE)
            write_bytes(rejects_path, "".join(row + "\n" for row in rejected).encode())
            check_rejects(
                rejected, read["read"], self._manifest.max_reject_fraction, f"all in {rejects_path}"
            )
        entries: dict[str, list[dict[str, Any]]] = {split.folder: [] for split in self._splits}
        for folder, entry in shards:
            entries[folder].append(entry)
        # Everything is checked before any folder is finished; the held-out one is finished first.
        infos = self._infos(entries, read)
        for folder in reversed(infos):
            vocabulary = self._manifest.vocabulary.serialize()
            write_bytes(FileSystems.join(folder, VOCABULARY_FILE), vocabulary)
            write_bytes(FileSystems.join(folder, INFO_FILE), infos[folder].to_json().encode())
            finish_output(folder, self._manifest.job())

    def _infos(
        self, entries: Mapping[str, list[dict[str, Any]]], read: Counter[str]
    ) -> dict[str, RecordsInfo]:
        """Returns each folder's info.json; what was read must be used, dropped or rejected."""
        counts = {
            folder: sum((Counter(entry["counts"]) for entry in of), Counter())
            for folder, of in entries.items()
        }
        dropped, rejected = _reasons(read, "dropped "), _reasons(read, "rejected ")
        used = sum(of["documents"] for of in counts.values())
        if read["read"] != used + sum(dropped.values()) + sum(rejected.values()):
            raise RuntimeError(f"documents were lost: {dict(read)} read, {used} used")
        infos = {}
        for folder, of in counts.items():
            documents = {
                "read": read["read"],
                "used": of["documents"],
                "in_other_split": used - of["documents"],
                "dropped": dropped,
                "rejected": rejected,
            }
            if not of["instances"]:
                self._refuse_empty(folder, documents)
            infos[folder] = self._info(entries[folder], documents, of)
        return infos

    def _refuse_empty(self, folder: str, documents: Mapping[str, Any]) -> None:
        fraction = self._manifest.parameters["eval_fraction"]
        if folder != self._splits[0].folder:
            raise InputError(
                f"--eval_fraction={fraction}: held out {documents['used']} of {documents['read']} "
                "documents, too few for an instance; raise it or leave it out, and choose another "
                "--output or delete this one"
            )
        raise InputError(
            f"--input: no document gave an instance ({documents['read']} documents in "
            f"{len(self._manifest.inputs)} files, {documents}); check --format and that the files "
            "hold text"
        )

    def _info(
        self,
        entries: list[dict[str, Any]],
        documents: Mapping[str, Any],
        counts: Counter[str],
    ) -> RecordsInfo:
        files = [{k: v for k, v in entry.items() if k != "counts"} for entry in entries]
        return RecordsInfo(
            parameters=self._manifest.parameters,
            vocabulary={
                "size": len(self._manifest.vocabulary),
                "sha256": self._manifest.vocabulary.sha256,
            },
            inputs=[dataclasses.asdict(file) for file in self._manifest.inputs],
            files=sorted(files, key=lambda file: file["name"]),
            counts={"documents": documents} | _instance_counts(counts, self._manifest.parameters),
            versions=self._manifest.versions,
        )


def _reasons(counts: Counter[str], prefix: str) -> dict[str, int]:
    named = {name.removeprefix(prefix): n for name, n in counts.items() if name.startswith(prefix)}
    return {reason: count for reason, count in sorted(named.items()) if count}


def _instance_counts(counts: Counter[str], parameters: Mapping[str, Any]) -> dict[str, Any]:
    names = [f.name for f in dataclasses.fields(ShardCounts) if f.name != "documents"]
    totals: dict[str, Any] = {name: counts[name] for name in sorted(names)}
    instances = max(counts["instances"], 1)
    length = parameters["max_seq_length"]
    shares = {
        "is_next_share": counts["is_next"] / instances,
        "filled_share": counts["filled_tokens"] / (instances * length),
        "unknown_share": counts["unknown_tokens"] / max(counts["tokens"], 1),
        "predictions_per_instance": counts["predictions"] / instances,
    }
    return totals | {name: round(value, 6) for name, value in shares.items()}
