"""Reads record files -> findings that add up -> figures, faults and warnings of their folders."""

import dataclasses
import functools
import io
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from beambert.console import ProgressTally
from beambert.io import open_file
from beambert.pipelines.pretraining.masks import TokenIds
from beambert.pipelines.records.batches import CorruptRecordsError
from beambert.pipelines.records.contract import INFO_FILE, NONE, label_words
from beambert.pipelines.records.reading import (
    HashedFile,
    RecordFeatures,
    count_decoded,
    decode_rows,
    read_batches,
)
from beambert.pipelines.records.statistics import (
    FAULTS,
    HashCounts,
    RecordStatistics,
    SampledRecord,
    count_hashes,
    decode_record,
    figures,
    hash_limit,
    hash_records,
    lost_predictions_share,
    merge_samples,
    overlap_shares,
    overlap_warning,
    repeat_shares,
    restore_ids,
    sample_rows,
    sum_repeats,
    total,
    warn,
)
from beambert.pipelines.tokenizers.vocabulary import TOKENIZER_FILE, VOCABULARY_FILE
from beambert.pipelines.verification.artefacts import (
    Artefact,
    TokenTable,
    add_artefacts,
    find_artefacts,
    text_figures,
    text_warnings,
)
from beambert.pipelines.verification.folders import FoundFolder

KIND = "beambert verification"
# Number of positions decoded at a time: 4,096 rows of 128. More do not fit the processor's cache.
POSITIONS_AT_A_TIME = 1 << 19


@dataclasses.dataclass(frozen=True)
class FileFindings:
    """The findings about a single file.

    Attributes:
      path: path of the file.
      bytes: number of bytes as stored.
      sha256: hash of those bytes.
      instances: number of records that could be read.
      damage: position and kind of the damage; "" if there is none.
      faults: kind -> number of records, see `statistics.FAULTS`.
    """

    path: str
    bytes: int
    sha256: str
    instances: int
    damage: str
    faults: Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class Findings:
    """The findings about some files of a folder, added up.

    Attributes:
      files: the files.
      statistics: statistics of all records; None if no record could be decoded.
      repeats: kind -> counts of all records, see `statistics.HASH_KINDS`.
      sample: a few of the records, to show.
      artefacts: kind -> the records with that trace of faulty input; None without a vocabulary.
    """

    files: tuple[FileFindings, ...] = ()
    statistics: RecordStatistics | None = None
    repeats: Mapping[str, HashCounts] = dataclasses.field(default_factory=dict)
    sample: tuple[SampledRecord, ...] = ()
    artefacts: Mapping[str, Artefact] | None = None

    @classmethod
    def total(cls, parts: Sequence["Findings"]) -> "Findings":
        """Adds up findings, given in any order."""
        counted = [part.statistics for part in parts if part.statistics is not None]
        with_artefacts = [part.artefacts for part in parts if part.artefacts is not None]
        files = (file for part in parts for file in part.files)
        return cls(
            tuple(sorted(files, key=lambda file: file.path)),
            functools.reduce(operator.add, counted) if counted else None,
            sum_repeats(part.repeats for part in parts),
            tuple(merge_samples(part.sample for part in parts)),
            add_artefacts(with_artefacts) if with_artefacts else None,
        )


def examine_file(
    path: str,
    features: RecordFeatures | None,
    vocabulary: TokenIds | None,
    limit: int,
    progress: ProgressTally,
    table: TokenTable | None,
) -> Findings:
    """Reads a file from end to end.

    Args:
      path: path on any file system that Beam supports.
      features: features of the folder's records; with None they are not decoded.
      vocabulary: ids of the vocabulary; None leaves out the counts that need them.
      limit: largest hash to keep, see `statistics.hash_limit`.
      progress: the tally to which the bytes and records read are added.
      table: table of the vocabulary; None leaves out the artefacts.

    Raises:
      InputError: the file cannot be opened.
    """
    statistics, rows_at_a_time = None, POSITIONS_AT_A_TIME
    if features is not None:
        lengths = (features.max_seq_length, features.max_predictions_per_seq)
        statistics = RecordStatistics.empty(*lengths)
        rows_at_a_time = max(1, POSITIONS_AT_A_TIME // features.max_seq_length)
    repeats: list[Mapping[str, HashCounts]] = []
    sample: Sequence[SampledRecord] = ()
    artefacts: dict[str, Artefact] | None = None if table is None else {}
    damage, count, reported = "", 0, 0
    with HashedFile(open_file(path)) as opened:
        file = io.BufferedReader(opened, 1 << 20)
        try:
            for records in read_batches(file, rows_at_a_time):
                if features is not None:
                    rows, faults = decode_rows(records, features)
                    restored = restore_ids(rows)
                    statistics += count_decoded(rows, faults, vocabulary)
                    repeats.append(count_hashes(rows, restored, limit))
                    hashes = hash_records(rows, restored)
                    sample = merge_samples((sample, sample_rows(rows, hashes, path, count + 1)))
                    if table is not None and artefacts is not None:
                        found = find_artefacts(restored, table, path)
                        artefacts = add_artefacts((artefacts, found))
                count += len(records)
                progress.add(bytes=opened.bytes - reported, instances=len(records))
                reported = opened.bytes
        except CorruptRecordsError as error:
            damage = str(error)
            while file.read(1 << 20):
                pass  # the hash covers the bytes after the damage too
        progress.add(bytes=opened.bytes - reported)
        of_records = statistics.faults if statistics else {}
        line = FileFindings(path, opened.bytes, opened.sha256, count, damage, of_records)
    return Findings((line,), statistics, sum_repeats(repeats), tuple(sample), artefacts)


def add_findings(parts: Sequence[Mapping[int, Findings]]) -> dict[int, Findings]:
    """Adds up findings by the number of their folder."""
    by_folder: dict[int, list[Findings]] = {}
    for part in parts:
        for index, found in part.items():
            by_folder.setdefault(index, []).append(found)
    return {index: Findings.total(found) for index, found in by_folder.items()}


def verify(folders: Sequence[FoundFolder], found: Mapping[int, Findings]) -> dict[str, Any]:
    """Returns the content of verification.json.

    Args:
      folders: folders that were verified.
      found: number of a folder -> findings in all its files.
    """
    findings = {folder.path: found.get(i, Findings()) for i, folder in enumerate(folders)}
    results = [
        _folder_result(folder, findings[folder.path], findings.get(folder.training))
        for folder in folders
    ]
    return {
        "kind": KIND,
        "faults": sum(len(result["faults"]) for result in results),
        "warnings": sum(len(result["warnings"]) for result in results),
        "hashes_sampled": sample_share(folders),
        "folders": results,
    }


def sample_limit(folders: Sequence[FoundFolder]) -> int:
    """Returns the largest hash to keep, the same for all folders, see `statistics`."""
    return hash_limit(sum(folder.expected_records for folder in folders))


def sample_share(folders: Sequence[FoundFolder]) -> float:
    """Returns the share of the distinct texts whose repeats are counted."""
    return round(sample_limit(folders) / hash_limit(0), 6)


def _folder_result(
    folder: FoundFolder, findings: Findings, training: Findings | None
) -> dict[str, Any]:
    statistics = findings.statistics
    result: dict[str, Any] = {
        "path": folder.path,
        "held_out_of": folder.training or None,
        "files": [
            {name: getattr(file, name) for name in ("path", "instances", "bytes", "sha256")}
            for file in findings.files
        ],
        "faults": [*folder.faults, *_file_faults(folder, findings)],
        "warnings": [],
        "not_checked": _not_checked(folder, findings, training),
        "figures": {},
        "sample": [],
    }
    if statistics is None:
        result["faults"] = result["faults"] or [f"{folder.path}: has no records; make it again"]
        return result
    made_with = folder.made_with
    has_label = made_with.pairs != NONE
    result["figures"] = {
        "labels": list(label_words(made_with.pairs)) if has_label else None,
        **figures(statistics, has_label),
        **_figures_from_info(folder),
        "lost_predictions_share": lost_predictions_share(statistics, made_with.masked_lm_prob),
        **repeat_shares(findings.repeats, made_with),
        **text_figures(findings.artefacts, statistics.measured, made_with),
    }
    tokens = folder.vocabulary and folder.vocabulary.pieces
    result["sample"] = [decode_record(record, tokens) for record in findings.sample]
    if not result["faults"]:  # other faults explain different counts
        result["faults"] += _count_faults(folder, statistics)
    result["faults"] += _record_faults(findings)
    result["warnings"] = warn(statistics, findings.repeats, made_with)
    length = result["figures"]["max_seq_length"]
    result["warnings"] += text_warnings(findings.artefacts, statistics.measured, made_with, length)
    if training is not None:
        shares = overlap_shares(findings.repeats, training.repeats)
        result["figures"] |= shares
        result["warnings"] += [text for text in [overlap_warning(shares, made_with)] if text]
    return result


def _file_faults(folder: FoundFolder, findings: Findings) -> list[str]:
    """Returns a fault for every file that is damaged or differs from its entry in info.json."""
    listed = {} if folder.info is None else {file["name"]: file for file in folder.info.files}
    faults = []
    for file in findings.files:
        entry = listed.get(file.path.rpartition("/")[2], {})
        names = ("bytes", "instances", "sha256")
        differs = [name for name in names if entry and entry[name] != getattr(file, name)]
        wrong = ""
        if file.damage:
            wrong = f"{file.damage} after {file.instances:,} readable records"
        elif differs:
            # The first difference explains the others.
            name = differs[0]
            wrong = f"its {name} is {getattr(file, name)}, but {INFO_FILE} says {entry[name]}"
        if wrong:
            faults.append(f"{file.path}: {wrong}; make it again or copy it again")
    return faults


def _record_faults(findings: Findings) -> list[str]:
    """Returns a fault for each kind: the number of records and the first file."""
    faults = []
    for kind, meaning in FAULTS.items():
        having = [file for file in findings.files if file.faults.get(kind)]
        if having:
            count = sum(file.faults[kind] for file in having)
            where = having[0].path if len(having) == 1 else f"{having[0].path} and others"
            faults.append(f"{count:,} records {meaning} (in {where})")
    return faults


def _count_faults(folder: FoundFolder, statistics: RecordStatistics) -> list[str]:
    """Returns a fault for every count of info.json that differs from the records."""
    if folder.info is None:
        return []
    found = {
        "instances": statistics.instances,
        "random_next": statistics.random_next,
        "filled_tokens": total(statistics.filled),
        "predictions": total(statistics.predictions),
    }
    counts = folder.info.counts
    return [
        f"{folder.path}: the records have {count:,} {name}, but {INFO_FILE} says {counts[name]:,}"
        for name, count in found.items()
        if name in counts and counts[name] != count
    ]


def _figures_from_info(folder: FoundFolder) -> dict[str, Any]:
    """Returns figures that only info.json has; None for those that it lacks."""
    counts = folder.made_with.counts
    forced, instances = counts.get("forced_random_next"), max(counts.get("instances", 0), 1)
    sources = {n: each for n, each in counts.get("sources", {}).items() if "passes" in each}
    return {
        "forced_random_next_share": None if forced is None else round(forced / instances, 6),
        "truncated_tokens": counts.get("truncated_tokens"),
        # Those of --source.
        **({"sources": sources} if sources else {}),
    }


def _not_checked(folder: FoundFolder, findings: Findings, training: Findings | None) -> list[str]:
    """Returns a message for each check that was left out, with the reason."""
    if findings.statistics is None:
        return ["the records: none of them could be read"]
    missing = []
    if folder.vocabulary is None:
        missing.append(
            "special tokens, [MASK] / another / the same, unknown tokens, the range of the ids, "
            f"markup and broken words: there is no {VOCABULARY_FILE} or {TOKENIZER_FILE} "
            "next to the records; give one with --vocab_file or --tokenizer"
        )
    if folder.info is None:
        missing.append(
            "checksums, forced random next, truncated tokens, and text that repeats between "
            f"documents: these need the records' {INFO_FILE}, which is missing"
        )
    if folder.training and training is None:
        missing.append(f"overlap with the training records: {folder.training} has no records")
    return missing
