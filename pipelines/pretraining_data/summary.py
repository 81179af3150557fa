"""Sums up a finished records folder: one line, and what is worth a warning."""

import json
from collections.abc import Mapping
from typing import Any

from apache_beam.io.filesystems import FileSystems

from beambert import storage
from beambert.console import counted, size
from beambert.pipelines.corpus.sources import describe_cleaning
from beambert.pipelines.pretraining_data.evaluation_texts import OVERLAP
from beambert.pipelines.pretraining_data.finishing import describe_dropped
from beambert.pipelines.records.contract import (
    COPY,
    OVERLAPS_FILE,
    SOP,
    STATISTICS_FILE,
    RecordsInfo,
)
from beambert.pipelines.records.figures import MadeWith, warn
from beambert.pipelines.records.statistics import RecordStatistics
from beambert.pipelines.text.preparation import describe_scrubbing

# A document of so many copies, and of such a share of the tokens, is worth a warning.
MANY_COPIES = 100
LARGE_SHARE = 0.01
# Prose in records of 32 tokens loses half of its pairs' tokens.
MOST_CUT = 0.75


def summarize(info: RecordsInfo, folder: str, is_eval: bool) -> str:
    """Returns the line that sums up a finished records folder."""
    counts = info.counts
    documents = counts["documents"]
    elsewhere = documents.get("in_other_split", 0)
    left_out = describe_dropped(documents)
    if OVERLAP in documents["dropped"]:
        left_out += f", see {OVERLAPS_FILE}"
    if elsewhere:
        # Stretches of a long document may be on both sides; it is counted where its first one is.
        where = "training" if is_eval else "what is held out"
        if is_eval and "source" in info.parameters:
            where = "training or in what is held out of other sources"
        left_out += f", {elsewhere:,} {'begins' if elsewhere == 1 else 'begin'} in {where}"
    stored = sum(file["bytes"] for file in info.files)
    cleaned = describe_cleaning(documents.get("cleaned", {}))
    cleaned += describe_scrubbing(documents.get("scrubbed", {}))
    return (
        f"{folder}: {counted(counts['instances'], 'instance')} in "
        f"{counted(len(info.files), 'file')} ({size(stored)}) "
        f"from {documents['used']:,} of {counted(documents['read'], 'document')} "
        f"({left_out}{cleaned}); "
        f"{_describe_instances(info)}, "
        f"{counts['unknown_share']:.3%} of the documents' tokens [UNK]"
    )


def _describe_instances(info: RecordsInfo) -> str:
    counts = info.counts
    filled = f"{counts['filled_share']:.1%} of the positions filled"
    if not info.has_label:
        return filled
    are = {SOP: "in order", COPY: "copies"}.get(info.parameters["pairs"], "next")
    return (
        f"{counts['is_next_share']:.2%} of the instances are {are}, {filled}, "
        f"{_cut_share(counts):.1%} of the pairs' tokens cut off to fit"
    )


def _cut_share(counts: Mapping[str, Any]) -> float:
    # An instance has three special tokens.
    kept = counts["filled_tokens"] - 3 * counts["instances"]
    cut = counts["truncated_tokens"]
    return cut / max(cut + kept, 1)


def read_warnings(info: RecordsInfo, folder: str) -> list[str]:
    """Returns the warnings about a finished records folder."""
    found = json.loads(storage.read_bytes(FileSystems.join(folder, STATISTICS_FILE), "--output"))
    made_with = MadeWith.of(info, info.vocabulary["size"])
    return [
        *warn(RecordStatistics.from_json(found["counts"]), {}, made_with),
        *copies_warning(info.counts),
    ]


def copies_warning(counts: Mapping[str, Any]) -> list[str]:
    """Returns the warning about a document with very many copies, which all are in one shard.

    Args:
      counts: counts of info.json.
    """
    commonest = counts["documents"].get("commonest", {"copies": 0})
    if commonest["copies"] < MANY_COPIES:
        return []
    share = commonest["tokens"] / counts["tokens"]
    if share < LARGE_SHARE:
        return []
    return [
        f"a document occurs {commonest['copies']:,} times and has {share:.1%} of the tokens, all "
        "in one file; --duplicates=exact takes it once"
    ]


def waste_warnings(info: RecordsInfo) -> list[str]:
    """Returns the warnings about records for training that leave text out or repeat it."""
    parameters, warnings = info.parameters, []
    if info.has_label and (share := _cut_share(info.counts)) > MOST_CUT:
        warnings.append(
            f"{share:.1%} of the pairs' tokens are cut off, as many sentences of this text are "
            f"longer than the records' {parameters['max_seq_length']} tokens; raise "
            "--max_seq_length, check --format, or give --pairs=none, which cuts nothing off"
        )
    if not info.has_label and not info.has_masks and (passes := parameters["dupe_factor"]) > 1:
        warnings.append(
            f"the {passes} passes over the text wrote nearly the same records, as they have no "
            "pairs and no masks; --dupe_factor=1 is enough"
        )
    return warnings
