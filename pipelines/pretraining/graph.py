"""The Beam transform that makes pre-training records of documents."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
from google.protobuf import text_format

from beambert.console import counted
from beambert.errors import InputError
from beambert.folders import check_claimed, finish_output
from beambert.io import TEMPORARY_PREFIX, absolute, delete_prefixed, delete_quietly, write_bytes
from beambert.pipelines.corpus.base import expected_coverage
from beambert.pipelines.corpus.reading import (
    counts_by_reason,
    first_rejects,
    total_of_reasons,
    write_rejects,
)
from beambert.pipelines.corpus.transforms import COUNTS, REJECTS, DocumentRow, add_parts
from beambert.pipelines.input_files import (
    INPUTS_FILE,
    InputFile,
    check_unchanged,
    write_list,
)
from beambert.pipelines.pretraining.instances import REFERENCE
from beambert.pipelines.pretraining.job import PretrainingDataJob
from beambert.pipelines.pretraining.layout import Layout, RecordsFolder, Shuffle, choose
from beambert.pipelines.pretraining.masks import TokenIds
from beambert.pipelines.pretraining.mixture import SourceSizes, source_shares
from beambert.pipelines.pretraining.pairs import PairCounts
from beambert.pipelines.pretraining.plan import Plan, find_inputs, make_plan
from beambert.pipelines.pretraining.shards import (
    FolderCounts,
    ShardCounts,
    WriteShards,
    add_shards,
    add_sizes,
    measure_sources,
)
from beambert.pipelines.pretraining.tokenizing import BANDS, LOST, OVERLAPS, TokenizeParts
from beambert.pipelines.records.contract import (
    INFO_FILE,
    NONE,
    OVERLAP,
    OVERLAPS_FILE,
    REJECTS_FILE,
    SCHEMA_FILE,
    STATISTICS_FILE,
    RecordsInfo,
    records_schema,
)
from beambert.pipelines.records.statistics import RecordStatistics, figures
from beambert.pipelines.running import add_counts, check_reachable_from, take_output, total_of
from beambert.pipelines.text.preparation import NEAR


@beam.typehints.with_input_types(beam.typehints.Union[str, DocumentRow])
@beam.typehints.with_output_types(str)
class CreatePretrainingData(beam.PTransform):
    """Makes pre-training records, and returns the absolute paths of the finished folders.

    The input is documents: rows of `DocumentRow`, or their texts alone. Line feeds separate
    paragraphs or, with `layout="sentences"`, sentences. At the beginning of a pipeline, the
    transform reads the files of the job instead. For steps of a custom pipeline between, read them
    with `ReadDocuments`.

    Example:
      >>> import apache_beam as beam
      >>> from beambert import CreatePretrainingData, PretrainingDataJob
      >>> texts = ["The river begins in the north. It ends in the city.", "A house. A song."]
      >>> job = PretrainingDataJob(
      ...     vocab_file="vocab.txt", output="records", max_seq_length=(32,), num_shards=1
      ... )
      >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
      ...     folders = (
      ...         pipeline
      ...         | beam.Create(texts)
      ...         | CreatePretrainingData(job)
      ...         | beam.Map(lambda path: print(path.rpartition("/")[2]))
      ...     )
      records
    """

    def __init__(
        self,
        job: PretrainingDataJob,
        progress_folder: str | None = None,
        plan: Plan | None = None,
    ):
        """Checks the inputs and the vocabulary.

        Args:
          job: the records to make.
          progress_folder: folder of a `ProgressDisplay`, or None.
          plan: result of `make_plan` for the job, if it exists already.

        Raises:
          InputError: the vocabulary or an input cannot be used.
        """
        super().__init__()
        if not plan:
            job = dataclasses.replace(job, output=absolute(job.output))
            plan = make_plan(job, find_inputs(job))
        self._plan = plan
        self._progress_folder = progress_folder

    # Beam takes the beginning of a pipeline for any collection.
    def expand(self, documents: beam.PCollection[str | DocumentRow]) -> beam.PCollection[str]:
        """Claims the output folder and adds the steps to the pipeline.

        Raises:
          InputError: the output folder is finished already, or holds something else, or another
            transform of the pipeline writes there.
        """
        plan = self._plan
        check_reachable_from(
            documents.pipeline,
            input=plan.job.patterns if isinstance(documents, beam.pvalue.PBegin) else (),
            decontaminate=plan.job.decontaminate,
            sentence_model=[plan.job.sentence_model] if plan.job.sentence_model else (),
            output=plan.job.output,
        )
        take_output(documents.pipeline, plan.job.output)
        plan.claim_new_folders(documents.pipeline.options)
        layout, job = plan.layout, plan.job
        way = choose(job.shuffle, type(documents.pipeline.runner).__name__)
        shuffle = Shuffle(way, job.output, plan.run, layout.total_shards)
        read_options = plan.read_options(self._progress_folder)
        tokenize = TokenizeParts(plan, shuffle, self._progress_folder)
        tokenized = add_parts(documents, plan.input_list, read_options) | "Tokenize" >> beam.ParDo(
            tokenize
        ).with_outputs(COUNTS, REJECTS, BANDS, OVERLAPS, main="documents")
        # Every shard gets a file, even if it has no document.
        every_group = (
            documents.pipeline
            | "Shards" >> beam.Create([shuffle])
            | "Groups" >> beam.FlatMap(Shuffle.groups)
        )
        in_groups = [tokenized.documents, every_group]
        if job.duplicates == NEAR:
            in_groups.append(
                tokenized[BANDS]
                | "Bands" >> beam.GroupByKey()
                | "FindNearDuplicates" >> beam.FlatMap(mark_near_duplicates, layout, shuffle)
            )
        grouped = in_groups | beam.Flatten() | beam.GroupByKey()
        ids = TokenIds.of(plan.vocabulary, job.pairs == REFERENCE)
        further, sizes = {}, []
        if job.mixture and job.mixture.needs_sizes:
            measured = grouped | "MeasureSources" >> beam.FlatMap(
                measure_sources, layout, ids, shuffle
            )
            sizes = [total_of(measured, "SumSizes", add_sizes)]
            further["sizes"] = sizes[0]
        shards = grouped | "WriteShards" >> beam.ParDo(
            WriteShards(plan, ids, shuffle, self._progress_folder), *sizes
        )
        if plan.evaluation:
            further["overlaps"] = total_of(tokenized[OVERLAPS], "FirstOverlaps", first_rejects)
        return (
            documents.pipeline
            | "Once" >> beam.Create([None])
            | "Finish"
            >> beam.ParDo(
                FinishFolders(plan),
                total_of(shards, "SumShards", add_shards),
                total_of(tokenized[COUNTS], "SumCounts", add_counts),
                total_of(tokenized[REJECTS], "FirstRejects", first_rejects),
                **further,
            )
        )


def mark_near_duplicates(
    element: tuple[int, Iterable[bytes]], layout: Layout, shuffle: Shuffle
) -> Iterator[tuple[int, bytes]]:
    """Yields the elements that mark documents to drop, of (group, values of band rows)."""
    from beambert.pipelines.pretraining.duplicates import ROW, near_duplicates

    for received in shuffle.receive(*element).values():
        hashes = near_duplicates(np.frombuffer(b"".join(received.packed), ROW))
        # The pieces of a divided document are in a shard of each split.
        for is_eval in (False, True) if layout.job.eval_fraction else (False,):
            keys = layout.keys(hashes, is_eval)
            for key in np.unique(keys):
                yield shuffle.mark(int(key), hashes[keys == key].tobytes())


# The last step: checks the counts, writes info.json and the marker.

# The counts that info.json leaves out where there are no pairs, and where there are no masks.
COUNTS_OF_PAIRS = frozenset(PairCounts.__dataclass_fields__)
COUNTS_OF_MASKS = frozenset(("predictions", "predictions_per_instance"))


class FinishFolders(beam.DoFn):
    """Writes the small files of every folder and then its marker; returns the folders' paths."""

    def __init__(self, plan: Plan):
        """Takes the plan of the job."""
        self._plan = plan.for_workers()

    def process(
        self,
        _: None,
        shards: ShardCounts,
        read: Mapping[str, int],
        rejects: Sequence[str],
        overlaps: Sequence[str] = (),
        sizes: SourceSizes | None = None,
    ) -> Iterator[str]:
        """Runs once, after all shards are written.

        Args:
          shards: counts of all shards.
          read: counts of what was read, see `tokenizing.TokenizeParts`.
          rejects: some of the rejects, see `reading.first_rejects`.
          overlaps: some of the documents that share passages with evaluation files.
          sizes: sizes of the sources, see `shards.measure_sources`; None if none are needed.

        Raises:
          InputError: an input was changed, too many documents were rejected, or a folder or a
            source has no instance.
        """
        folders = self._plan.layout.folders()
        for folder in folders:
            check_claimed(folder.path, self._plan.identity(folder))
        remedy = "wait until nothing writes to it, then delete --output or choose another"
        inputs = self._plan.input_list.files()
        check_unchanged(inputs, self._plan.job.patterns, remedy)
        check_coverage(read, inputs)
        limit, failed = self._plan.job.max_reject_fraction, self._plan.beside(REJECTS_FILE)
        write_rejects(rejects, read, limit, f"{folders[0].path}/{REJECTS_FILE}", failed)
        listed = "".join(row + "\n" for row in overlaps).encode()
        if overlaps:
            write_bytes(f"{folders[0].path}/{OVERLAPS_FILE}", listed)
        check_shards(shards, self._plan.layout)
        # All folders are checked before any is finished. The held-out ones are finished first.
        used = count_documents(shards, read)
        try:
            infos = [self._info(folder, shards, read, used, sizes) for folder in folders]
        except InputError:
            if overlaps:
                write_bytes(self._plan.beside(OVERLAPS_FILE), listed)
            raise
        delete_prefixed(self._plan.job.output, TEMPORARY_PREFIX)
        for folder, info in zip(reversed(folders), reversed(infos), strict=True):
            of_inputs = f"{folder.path}/{INPUTS_FILE}"
            if self._plan.input_list.path not in ("", of_inputs):
                write_list(of_inputs, inputs)
            self._finish(folder, info, shards.folders[folder.path].statistics)
        # Those of an earlier job that failed.
        delete_quietly([self._plan.beside(name) for name in (REJECTS_FILE, OVERLAPS_FILE)])
        yield from (folder.path for folder in folders)

    def _info(
        self,
        folder: RecordsFolder,
        shards: ShardCounts,
        read: Mapping[str, int],
        used: int,
        sizes: SourceSizes | None,
    ) -> RecordsInfo:
        """Returns a folder's info.json."""
        plan = self._plan
        mine = shards.folders[folder.path]
        counts, of_all = mine.documents, shards.documents
        in_shards = {name: of_all[name] for name in ("duplicates", "near_duplicates")}
        dropped = add_counts([counts_by_reason(read, "dropped "), in_shards])
        documents = {
            "read": read["read"],
            "used": counts["documents"],
            "in_other_split": used - counts["documents"],
            "dropped": {reason: count for reason, count in dropped.items() if count},
            "rejected": counts_by_reason(read, "rejected "),
            "encodings": counts_by_reason(read, "encoding "),
            "cleaned": counts_by_reason(read, "cleaned "),
            **({"scrubbed": counts_by_reason(read, "scrubbed ")} if plan.job.scrub else {}),
            "with_replacement_characters": read["with_replacement_characters"],
        }
        if rows := counts_by_reason(read, LOST):
            names = ("lost", "documents", "removed_characters", "characters", "file", "byte")
            documents["most_lost"] = dict(zip(names, max(map(json.loads, rows)), strict=True))
        if not mine.instances["instances"]:
            self._refuse_empty(folder, documents)
        parameters = plan.parameters_of(folder)
        of_records = _record_counts(counts, mine.instances, parameters)
        of_text = {"documents": documents, "sources": self._sources(folder, mine, sizes)}
        names = ("name", "instances", "bytes", "sha256")
        return RecordsInfo(
            parameters=parameters,
            vocabulary=plan.vocabulary.about(),
            inputs=plan.input_list.to_json(),
            files=[dict(zip(names, file, strict=True)) for file in sorted(mine.files)],
            counts=of_text | of_records,
            versions=plan.versions,
        )

    def _finish(
        self, folder: RecordsFolder, info: RecordsInfo, statistics: RecordStatistics
    ) -> None:
        """Writes the small files of a folder and then its marker."""
        plan = self._plan

        def write(name: str, data: bytes) -> None:
            write_bytes(f"{folder.path}/{name}", data)

        has_label = info.has_label
        of_records = {"figures": figures(statistics, has_label), "counts": statistics.to_json()}
        write(STATISTICS_FILE, (json.dumps(of_records, indent=1) + "\n").encode())
        lengths = (folder.parameters.max_seq_length, folder.parameters.max_predictions_per_seq)
        schema = records_schema(*lengths, len(plan.vocabulary), has_label)
        write(SCHEMA_FILE, text_format.MessageToString(schema).encode())
        for name, data in plan.vocabulary.files().items():
            write(name, data)
        write(INFO_FILE, info.to_json().encode())
        finish_output(folder.path, plan.identity(folder))

    def _sources(
        self, folder: RecordsFolder, mine: FolderCounts, sizes: SourceSizes | None
    ) -> dict[str, dict[str, Any]]:
        """Returns the counts of a folder's sources."""
        plan, parameters = self._plan, folder.parameters
        found: dict[str, dict[str, Any]] = {
            name: {"documents": documents, "tokens": tokens}
            for name, (documents, tokens) in zip(plan.sources.names, mine.sources, strict=False)
        }
        if folder.source is not None:
            name = plan.sources.names[folder.source]
            return {name: found[name]}
        if plan.job.mixture is None:
            return found
        of_length = self._plan.layout.lengths.index(parameters)
        shares = source_shares(
            plan.job.mixture,
            mine.source_records,
            sizes.records[of_length].tolist() if sizes else [],
            parameters.dupe_factor,
            parameters.pairs != NONE,
        )
        return {name: found[name] | shares[name] for name in found}

    def _refuse_empty(self, folder: RecordsFolder, documents: Mapping[str, Any]) -> None:
        fraction = self._plan.job.eval_fraction
        if folder.is_eval:
            of_source = ""
            if folder.source is not None:
                of_source = f" of --source={self._plan.layout.sources[folder.source]}"
            raise InputError(
                f"--eval_fraction={fraction}: held out {documents['used']} of {documents['read']} "
                f"documents{of_source}, too few for an instance; raise it or leave it out"
            )
        read, left_out = counted(documents["read"], "document"), describe_dropped(documents)
        if OVERLAP in documents["dropped"]:
            left_out += f", see {self._plan.beside(OVERLAPS_FILE)}"
        flag = "--source" if self._plan.layout.sources else "--input"
        raise InputError(
            f"{flag}: no document gave an instance ({read} in "
            f"{counted(self._plan.input_list.count, 'file')}; {left_out}); check "
            "that the files hold text, --format, and the flags that leave documents out"
        )


def check_coverage(read: Mapping[str, int], inputs: Sequence[InputFile]) -> None:
    """Checks that each part of each file was read once.

    Raises:
      RuntimeError: a part was read twice or not at all.
    """
    if read["coverage"] != expected_coverage(inputs):
        raise RuntimeError("parts of files were lost or read twice: the runner is at fault")


def check_shards(shards: ShardCounts, layout: Layout) -> None:
    """Checks that each shard was counted once.

    Raises:
      RuntimeError: a shard was counted twice or not at all.
    """
    expected = [
        (folder.path, name)
        for key in range(layout.total_shards)
        for folder, name in layout.files_of(key)
    ]
    found = [(path, file[0]) for path, made in shards.folders.items() for file in made.files]
    if sorted(found) != sorted(expected):
        raise RuntimeError("shards were lost or made twice: the runner is at fault")


def count_documents(shards: ShardCounts, read: Mapping[str, int]) -> int:
    """Returns the number of documents that all shards use.

    Raises:
      RuntimeError: the used, dropped and rejected documents don't add up to those that were read.
    """
    of_all = shards.documents
    used = of_all["documents"]
    left_out = of_all["duplicates"] + of_all["near_duplicates"]
    left_out += total_of_reasons(read, "dropped ") + total_of_reasons(read, "rejected ")
    if read["read"] != used + left_out:
        raise RuntimeError(f"documents were lost: {dict(read)} read, {dict(of_all)} in the shards")
    return used


# Reason under which info.json counts dropped documents -> the reason as a summary says it.
_REASONS = {
    "empty": "without text, such as a page of a title only",
    "no_tokens": "without a word",
    "duplicates": "equal to another",
    "near_duplicates": "similar to another",
    "other_language": "in another language",
    "blocklist": "with a phrase of --blocklist",
    OVERLAP: "with a passage of an evaluation file",
}


def describe_dropped(documents: Mapping[str, Any]) -> str:
    """Returns how many documents were left out, and why: "3 dropped: 2 without text, 1 redirect".

    Args:
      documents: counts of documents in info.json.
    """
    dropped: Mapping[str, int] = documents["dropped"]
    reasons = [f"{count:,} {_REASONS.get(name, name)}" for name, count in dropped.items()]
    rejected = documents["rejected"].items()
    reasons += [f"{count:,} unreadable ({name})" for name, count in rejected]
    reasons += [f"see {REJECTS_FILE}"] if rejected else []
    total = sum(dropped.values()) + sum(documents["rejected"].values())
    return f"{total:,} dropped: {', '.join(reasons)}" if reasons else "none dropped"


def _record_counts(
    documents: Mapping[str, int], instances: Mapping[str, int], parameters: Mapping[str, Any]
) -> dict[str, Any]:
    totals = {name: documents[name] for name in ("sentences", "tokens", "unknown_tokens")}
    has_label = parameters["pairs"] != NONE
    totals |= {n: v for n, v in instances.items() if has_label or n not in COUNTS_OF_PAIRS}
    count = max(instances["instances"], 1)
    of_pairs = {"is_next_share": instances["is_next"] / count} if has_label else {}
    shares = of_pairs | {
        "filled_share": instances["filled_tokens"] / (count * parameters["max_seq_length"]),
        "unknown_share": documents["unknown_tokens"] / max(documents["tokens"], 1),
        "predictions_per_instance": instances["predictions"] / count,
    }
    totals |= {name: round(value, 6) for name, value in shares.items()}
    has_masks = parameters.get("masks") != NONE
    return {n: v for n, v in totals.items() if has_masks or n not in COUNTS_OF_MASKS}
