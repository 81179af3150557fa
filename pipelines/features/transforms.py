"""The Beam steps that write a features folder."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from beambert.loading import loading
from beambert.pipelines.features.contract import LOST_TOKENS, FeaturesInfo
from beambert.pipelines.features.job import FeaturesPlan, Shard
from beambert.pipelines.files.beam_files import (
    delete_prefixed,
    finish_output,
    open_atomically,
    write_bytes,
)
from beambert.pipelines.records.contract import INFO_FILE
from beambert.pipelines.storage.claims import TEMPORARY_PREFIX
from beambert.pipelines.storage.model_files import LABELS_FILE
from beambert.progress import ProgressTally


@dataclasses.dataclass(frozen=True)
class ShardReport:
    """The counts of a finished shard.

    Attributes:
      split: split of the task.
      file: entry of the record file in info.json.
      examples: number of examples that have a record.
      counts: name -> count; the counts of the shards add up.
    """

    split: str
    file: Mapping[str, Any]
    examples: int
    counts: Mapping[str, int]


class WriteFeatures(beam.DoFn):
    """Writes the record file of each shard and yields a report."""

    def __init__(self, plan: FeaturesPlan, progress_folder: str | None):
        """Takes the plan, and the folder of a `ProgressDisplay`, if there is one."""
        self._plan = plan
        self._progress_folder = progress_folder

    def setup(self) -> None:
        """Loads the tokenizer and the encoder, and opens the worker's tally."""
        with loading():
            import beambert.pipelines.features.encoding  # noqa: F401  (the import prints)
            from beambert.pipelines.model_inputs.examples import MODEL_INPUTS

            self._inputs = MODEL_INPUTS[self._plan.task.kind](
                self._plan.labels,
                self._plan.vocabulary,
                self._plan.do_lower_case,
                self._plan.max_seq_length,
            )
        self._progress = ProgressTally(self._progress_folder)

    def process(self, shard: Shard) -> Iterator[ShardReport]:
        """Makes, encodes and writes the features of one shard."""
        from beambert.pipelines.features.encoding import encode_features
        from beambert.pipelines.records.encoding import RecordWriter

        made = self._inputs.make(shard.examples)
        features, rows = made.features, made.owners + shard.first_row
        records = encode_features(self._plan.task.kind, features, rows)
        with open_atomically(FileSystems.join(self._plan.output, shard.name)) as file:
            writer = RecordWriter(file)
            writer.write(records)
            writer.finish()
        self._progress.add(examples=len(shard.examples))
        self._progress.flush()
        entry = {"name": shard.name, "records": len(records)}
        entry |= {"bytes": writer.bytes, "sha256": writer.sha256}
        counts = {
            "sequences": len(features.lengths),
            "tokens": len(features.input_ids),
            LOST_TOKENS: made.lost_tokens,
            **made.counts,
        }
        yield ShardReport(shard.split, entry, len(set(rows.tolist())), counts)


class FinishFeatures(beam.DoFn):
    """Writes the folder's small files and, last, its marker; yields the folder."""

    def __init__(self, plan: FeaturesPlan):
        """Takes the plan."""
        self._plan = plan

    def process(self, _: None, reports: Iterable[ShardReport]) -> Iterator[str]:
        """Runs once, after every shard is written."""
        from beambert.pipelines.features.schema import features_schema
        from beambert.pipelines.records.contract import SCHEMA_FILE, serialize_schema

        plan, reports = self._plan, list(reports)
        splits = {}
        for split, counts in plan.counts.items():
            mine = sorted((r for r in reports if r.split == split), key=lambda r: r.file["name"])
            sums = {name: sum(r.counts[name] for r in mine) for name in mine[0].counts}
            if sum(r.examples for r in mine) != counts["used"]:
                raise RuntimeError(f"{counts['used']} examples of {split}, but {mine}")
            splits[split] = {**counts, **sums, "files": [dict(r.file) for r in mine]}
        schema = features_schema(
            plan.task.kind,
            len(plan.labels),
            plan.choices,
            len(plan.vocabulary),
            plan.max_seq_length,
            tuple(splits),
            plan.unlabelled,
        )
        info = FeaturesInfo(plan.made_from(), splits, plan.versions)
        for name, data in (
            (SCHEMA_FILE, serialize_schema(schema)),
            *plan.vocabulary.files().items(),
            (LABELS_FILE, "".join(f"{label}\n" for label in plan.labels).encode()),
            (INFO_FILE, info.to_json().encode()),
        ):
            write_bytes(FileSystems.join(plan.output, name), data)
        for split in splits:
            delete_prefixed(FileSystems.join(plan.output, split), TEMPORARY_PREFIX)
        finish_output(plan.output, plan.identity())
        yield plan.output
