"""Statistics of records: counts, repeated text, and a random sample to show. Pure numpy.

Figures and warnings for people follow from them. A warning has a figure and a remedy: the records
are valid and can be trained on, but the model may be worse.

The counts add up over batches, files and workers. They come from finished records alone, whoever
made them. The text before masking is restored from the labels.

Repeats and samples are found by 64-bit hashes. Where there are many records, only hashes below a
limit are kept. The limit is the same for all files, so every kept text is counted in full, and
memory is bounded.

Legend: N rows, L max_seq_length, P max_predictions_per_seq (0 without masks), K predictions of all
rows.
"""

import dataclasses
import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from beambert.console import counted
from beambert.pipelines.pretraining.masks import TokenIds
from beambert.pipelines.records.contract import (
    IS_NEXT,
    LABEL_FEATURE,
    MASK_SHARE,
    NONE,
    PREDICTION_FEATURES,
    RANDOM_SHARE,
    SAME_SHARE,
    SEQUENCE_FEATURES,
    SOP,
    RecordsInfo,
    label_words,
)
from beambert.pipelines.tokenizers.pieces import join_pieces
from beambert.pipelines.tokenizers.vocabulary import (
    CLASSIFY,
    MASK,
    PADDING,
    SEPARATE,
)

FEATURES = (*SEQUENCE_FEATURES, *PREDICTION_FEATURES, LABEL_FEATURE)

# Kind of fault -> end of a message that begins with a number of records.
FAULTS = {
    "not_an_example": "cannot be parsed, or have a feature of another type",
    "wrong_lengths": "lack a feature, or have one of another length than in the first record",
    "input_mask": "have an input_mask that is not ones and then zeros",
    "segment_ids": "have segment_ids that are not zeros and then ones over the filled positions "
    "(zeros alone without a label)",
    "padding": "have an id or a segment that is not 0 where input_mask is 0",
    "classify_first": "do not begin with the vocabulary's [CLS]",
    "separators": "do not have the vocabulary's [SEP] at the ends of A and B, and only there "
    "(at the end and between documents without a label)",
    "ids": "have an id below 0 or beyond the vocabulary; check that the vocabulary is the one that "
    "the records were made with",
    "weights": "have masked_lm_weights that are not ones and then zeros",
    "unused_predictions": "have a position or an id that is not 0 where masked_lm_weights is 0",
    "positions_order": "have masked_lm_positions that do not ascend",
    "positions_outside": "predict a position that is not filled",
    "positions_special": "predict a [CLS] or [SEP]",
    "text": "have the vocabulary's [MASK] in their text, but no label of what it hides",
    "labels": "have a next_sentence_labels that is neither 0 nor 1",
}
# Number of hashes kept of each kind. They take 16 MB, and give shares to within 0.1 %.
MOST_HASHES = 1 << 20
EVERY_HASH = (1 << 64) - 1
# Number of first tokens of A by which openings are compared: more than in common phrases.
OPENING_TOKENS = 24

# Kind of hash -> the part of a record that is hashed.
HASH_KINDS = {
    "records": "the tokens and what is hidden of them",
    "sequences": "the tokens, before anything was hidden",
    "openings": f"the first {OPENING_TOKENS} tokens of A, where A is that long",
}
# Number of records to show.
SAMPLE_RECORDS = 10


# Number of standard errors by which a share may differ from its expected value. By chance it
# differs by more in 1 case of 16,000.
STANDARD_ERRORS = 4
# Spans of n tokens vary as if each were one draw and there were fewer: the mean of n² over that of
# n. It is 5.5 words for SpanBERT's lengths, and few texts have twice as many tokens as words.
MOST_ALIKE = 10
# Paper, section 3.1, task 1.
HIDDEN_AS = {"mask": MASK_SHARE, "other": RANDOM_SHARE, "same": SAME_SHARE}

# A larger share of random next has a single cause: almost every document has only one sentence.
ONE_SENTENCE_SHARE = 0.9
# The next-sentence head learns just as well from labels whose share differs from 0.5 by this.
BALANCE_TOLERANCE = 0.02
# With Google's vocabularies 0.1 % of English Wikipedia's tokens are [UNK], and 10 % or more if the
# case of the text is wrong.
MOST_UNKNOWN = 0.02
# Records of Wikipedia fill 83 % of 128 positions and 54 % of 512.
LEAST_FILLED = 0.4
MOST_LOST_PREDICTIONS = 0.02
# Every sequence has a token to predict but for words that are longer than all predictions together.
MOST_WITHOUT_PREDICTIONS = 0.01
MOST_REPEATED_RECORDS = 0.05
# The share is at most 0.1 % on Wikipedia, and 5 % if a third of the documents occur twice.
MOST_REPEATED_TEXT = 0.01
MOST_OVERLAP = 0.02


@dataclasses.dataclass(frozen=True, eq=False)
class RecordStatistics:
    """Counts of records; `+` adds the counts of other records with the same lengths.

    Without a vocabulary, `with_vocabulary` and the counts that need one are 0.

    Attributes:
      instances: number of records read.
      measured: number of records that have all features in the right lengths. All other counts
        cover only these.
      with_vocabulary: number of measured records that were compared with a vocabulary.
      random_next: number of measured records with label 1; 0 of records without a label.
      hidden_as_mask, hidden_as_other, hidden_as_same: number of predicted tokens that were replaced
        by [MASK], replaced by another token, and left as they were.
      reserved_replacements: number of special and unused tokens in `hidden_as_other`.
      unknown_tokens: number of [UNK] in the text before masking.
      lowest_id, highest_id: extremes of input_ids and masked_lm_ids.
      filled: int64 [L + 1], number of records by their number of filled positions.
      predictions: int64 [P + 1], number of records by their number of predictions.
      a_tokens, b_tokens: int64 [L + 1], number of records by the length of the segment, without
        special tokens. A record without a label is all A; the [SEP] between its documents count as
        tokens where there is no vocabulary.
      mask_positions: int64 [L], number of predictions by position.
      faults: kind -> number of records, see `FAULTS`.
    """

    instances: int
    measured: int
    with_vocabulary: int
    random_next: int
    hidden_as_mask: int
    hidden_as_other: int
    hidden_as_same: int
    reserved_replacements: int
    unknown_tokens: int
    lowest_id: int
    highest_id: int
    filled: np.ndarray
    predictions: np.ndarray
    a_tokens: np.ndarray
    b_tokens: np.ndarray
    mask_positions: np.ndarray
    faults: Mapping[str, int]

    @classmethod
    def empty(cls, max_seq_length: int, max_predictions_per_seq: int) -> "RecordStatistics":
        """Returns the counts of no records."""
        lengths = {
            "filled": max_seq_length + 1,
            "predictions": max_predictions_per_seq + 1,
            "a_tokens": max_seq_length + 1,
            "b_tokens": max_seq_length + 1,
            "mask_positions": max_seq_length,
        }
        counts: dict[str, Any] = {field.name: 0 for field in dataclasses.fields(cls)}
        counts |= {name: np.zeros(length, np.int64) for name, length in lengths.items()}
        # The ids of the first record replace these extremes.
        limits = np.iinfo(np.int64)
        counts |= {"lowest_id": int(limits.max), "highest_id": int(limits.min), "faults": {}}
        return cls(**counts)

    def __add__(self, other: "RecordStatistics") -> "RecordStatistics":
        """Returns the counts of both sets of records."""
        total = {
            field.name: getattr(self, field.name) + getattr(other, field.name)
            for field in dataclasses.fields(self)
            if field.name not in ("lowest_id", "highest_id", "faults")
        }
        return RecordStatistics(
            **total,
            lowest_id=min(self.lowest_id, other.lowest_id),
            highest_id=max(self.highest_id, other.highest_id),
            faults={
                kind: self.faults.get(kind, 0) + other.faults.get(kind, 0)
                for kind in FAULTS
                if kind in self.faults or kind in other.faults
            },
        )

    def to_json(self) -> dict[str, Any]:
        """Returns plain types for json.dumps; `from_json` reads them."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in values.items()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "RecordStatistics":
        """Returns the statistics that `to_json` turned into plain types."""
        return cls(
            **{k: np.array(v, np.int64) if isinstance(v, list) else v for k, v in values.items()}
        )


def restore_ids(rows: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns input_ids before masking, int64 [N, L].

    Args:
      rows: feature -> [N, L or P or 1], for all of `FEATURES`; records may lack the label.
    """
    restored_NL = rows["input_ids"].copy()
    position_NP, length = rows["masked_lm_positions"], restored_NL.shape[1]
    is_inside_NP = (position_NP >= 0) & (position_NP < length)
    row_K, slot_K = np.nonzero((rows["masked_lm_weights"] != 0) & is_inside_NP)
    restored_NL[row_K, position_NP[row_K, slot_K]] = rows["masked_lm_ids"][row_K, slot_K]
    return restored_NL


def count_records(rows: Mapping[str, np.ndarray], vocabulary: TokenIds | None) -> RecordStatistics:
    """Counts records that have all features in the right lengths.

    Args:
      rows: feature -> [N, L or P or 1], for all of `FEATURES`; any integer type, and float32 for
        the weights. Records may lack the label.
      vocabulary: ids of the vocabulary; None leaves out the counts that need them.
    """
    from beambert.pipelines.records.counting import ROW_FAULTS, TOTALS, count_rows

    (count, length), slots = rows["input_ids"].shape, rows["masked_lm_ids"].shape[1]
    counted = RecordStatistics.empty(length, slots)
    if not count:
        return counted
    without_label = np.zeros((count, 0), np.int32)
    features = (rows.get(name, without_label) for name in FEATURES)
    special, is_reserved = (0, 0, 0, 0, 0), np.zeros(0, bool)
    if vocabulary is not None:
        of = vocabulary
        special = (of.padding, of.classify, of.separate, of.mask, of.unknown)
        is_reserved = of.is_reserved
    histograms = (
        counted.filled,
        counted.predictions,
        counted.a_tokens,
        counted.b_tokens,
        counted.mask_positions,
    )
    totals, faults = count_rows(
        *map(np.ascontiguousarray, features), special, is_reserved, histograms
    )
    found = dict(zip(ROW_FAULTS, faults.tolist(), strict=True))
    return dataclasses.replace(
        counted,
        instances=count,
        measured=count,
        with_vocabulary=count if vocabulary is not None else 0,
        faults={kind: found[kind] for kind in FAULTS if found.get(kind)},
        **dict(zip(TOTALS, totals.tolist(), strict=True)),
    )


@dataclasses.dataclass(frozen=True, eq=False)
class HashCounts:
    """The number of occurrences of each hash; the counts of several files add up.

    Attributes:
      hashes: uint64 [H], ascending.
      counts: int64 [H].
    """

    hashes: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, hashes: np.ndarray, limit: int = EVERY_HASH) -> "HashCounts":
        """Counts hashes (uint64 [N]) that are at most `limit`."""
        found, counts = np.unique(hashes[hashes <= np.uint64(limit)], return_counts=True)
        return cls(found, counts.astype(np.int64))

    @classmethod
    def sum(cls, parts: "Iterable[HashCounts]") -> "HashCounts":
        """Returns the sum of counts."""
        parts = [cls(np.zeros(0, np.uint64), np.zeros(0, np.int64)), *parts]
        hashes, place = np.unique(
            np.concatenate([part.hashes for part in parts]), return_inverse=True
        )
        counts = np.zeros(len(hashes), np.int64)
        np.add.at(counts, place, np.concatenate([part.counts for part in parts]))
        return cls(hashes, counts)

    @property
    def total(self) -> int:
        """Number of occurrences of all hashes."""
        return int(self.counts.sum())

    def beyond(self, allowed: int) -> int:
        """Returns the number of occurrences beyond the first `allowed` ones of each hash."""
        return int(np.maximum(self.counts - allowed, 0).sum())

    def also_in(self, other: "HashCounts") -> int:
        """Returns the number of occurrences whose hash occurs in `other` too."""
        return int(self.counts[np.isin(self.hashes, other.hashes, assume_unique=True)].sum())


def hash_limit(expected_records: int) -> int:
    """Returns the largest hash to keep, so that about `MOST_HASHES` of so many texts are kept."""
    return min(EVERY_HASH, EVERY_HASH * MOST_HASHES // max(expected_records, 1))


def hash_records(rows: Mapping[str, np.ndarray], restored_NL: np.ndarray) -> np.ndarray:
    """Returns a hash of the tokens of each record and of what is hidden, uint64 [N]."""
    hidden = _hash_rows(rows["input_ids"], 1) + _hash_rows(rows["masked_lm_positions"], 2)
    return _mix(_hash_rows(restored_NL) + hidden)


def count_hashes(
    rows: Mapping[str, np.ndarray], restored_NL: np.ndarray, limit: int
) -> dict[str, HashCounts]:
    """Counts the hashes of records.

    Args:
      rows: features of records, see `statistics.count_records`.
      restored_NL: ids before masking, see `statistics.restore_ids`.
      limit: largest hash to keep, see `hash_limit`.

    Returns:
      kind -> counts, for each of `HASH_KINDS`.
    """
    # [SEP] counts as a token, so the same text with another end of A is another sequence.
    sequences = _hash_rows(restored_NL)
    a_N = np.count_nonzero((rows["segment_ids"] == 0) & (rows["input_mask"] != 0), axis=1) - 2
    is_long_N = a_N >= OPENING_TOKENS
    openings = restored_NL[is_long_N, 1 : 1 + OPENING_TOKENS]
    return {
        "records": HashCounts.of(hash_records(rows, restored_NL), limit),
        "sequences": HashCounts.of(_mix(sequences), limit),
        "openings": HashCounts.of(_mix(_hash_rows(openings)), limit),
    }


def sum_repeats(parts: Iterable[Mapping[str, HashCounts]]) -> dict[str, HashCounts]:
    """Adds up results of `count_hashes`, kind by kind; the sum of none is an empty dict."""
    parts = [part for part in parts if part]
    return {kind: HashCounts.sum(part[kind] for part in parts) for kind in HASH_KINDS if parts}


def _hash_rows(rows: np.ndarray, stream: int = 0) -> np.ndarray:
    """Returns a hash of each row of integers: the sum of products with fixed random odd numbers.

    This is multilinear hashing (Carter and Wegman, 1979). Two different rows of ids below 2^17 have
    the same hash with a probability of at most 2^-46.
    """
    random = np.random.Generator(np.random.PCG64([20181011, stream]))
    factors = random.integers(0, 1 << 64, rows.shape[1], np.uint64) | np.uint64(1)
    return np.ascontiguousarray(rows, np.int64).view(np.uint64) @ factors


def _mix(hashes: np.ndarray) -> np.ndarray:
    """Distributes hashes over all 64 bits (the finalizer of SplitMix64, Steele et al., 2014)."""
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))


@dataclasses.dataclass(frozen=True, order=True)
class SampledRecord:
    """A record to show; records are ordered by their hash.

    Attributes:
      hash: hash of the record, see `hash_records`.
      path: path of its file.
      number: number of the record in the file, from 1.
      positions: number of positions, padding included.
      ids: ids of the filled positions.
      segments: segment of each of them.
      predictions: position -> label, for the tokens to predict.
      is_next: whether the label is `IS_NEXT`; None of a record without a label.
    """

    hash: int
    path: str
    number: int
    positions: int
    ids: tuple[int, ...]
    segments: tuple[int, ...]
    predictions: tuple[tuple[int, int], ...]
    is_next: bool | None


def sample_rows(
    rows: Mapping[str, np.ndarray], hashes: np.ndarray, path: str, first: int
) -> list[SampledRecord]:
    """Returns the records of a file's rows with the smallest hashes.

    This is a uniform sample of the distinct records. It depends on the records alone, not on files
    or workers.

    Args:
      rows: feature -> [rows, length].
      hashes: uint64 [rows], see `hash_records`.
      path: path of the file.
      first: number of the first row in the file, from 1.
    """
    smallest = np.unique(hashes, return_index=True)[1][:SAMPLE_RECORDS].tolist()
    return [as_record(rows, row, path, first + row, int(hashes[row])) for row in smallest]


def as_record(
    rows: Mapping[str, np.ndarray], row: int, path: str, number: int, record_hash: int = 0
) -> SampledRecord:
    """Returns a row as a record to show.

    Args:
      rows: feature -> [rows, length].
      row: index of the row.
      path: path of its file.
      number: number of the record in the file, from 1.
      record_hash: hash of the record, if it is known.
    """
    filled = rows["input_mask"][row] != 0
    used = rows["masked_lm_weights"][row] != 0
    predicted = (rows[name][row][used] for name in ("masked_lm_positions", "masked_lm_ids"))
    has_label = LABEL_FEATURE in rows
    return SampledRecord(
        record_hash,
        path,
        number,
        len(filled),
        tuple(rows["input_ids"][row][filled].tolist()),
        tuple(rows["segment_ids"][row][filled].tolist()),
        tuple(zip(*(values.tolist() for values in predicted), strict=True)),
        int(rows[LABEL_FEATURE][row, 0]) == IS_NEXT if has_label else None,
    )


def merge_samples(samples: Iterable[Sequence[SampledRecord]]) -> list[SampledRecord]:
    """Returns the sample of several files from that of each; equal records count once."""
    different: dict[int, SampledRecord] = {}
    for record in heapq.merge(*map(sorted, samples)):
        different.setdefault(record.hash, record)
        if len(different) == SAMPLE_RECORDS:
            break
    return list(different.values())


def decode_record(record: SampledRecord, tokens: Sequence[str] | None) -> dict[str, object]:
    """Returns a record as text.

    Args:
      record: record to show.
      tokens: tokens of the vocabulary by id; None shows the ids.

    Returns:
      `file`, `number`, `is_next`, `filled`, `positions`, `predictions` (their number), and `a` and
      `b`, the text of the segments. A predicted piece is shown as `[shown→label]`. A record
      without a label has all its text in `a`, with [SEP] between two documents.
    """

    def name(index: int) -> str:
        return tokens[index] if tokens and 0 <= index < len(tokens) else str(index)

    labels = dict(record.predictions)
    segments: tuple[list[str], list[str]] = ([], [])
    for position, (index, segment) in enumerate(zip(record.ids, record.segments, strict=True)):
        piece = name(index)
        if position in labels:
            label = name(labels[position])
            # The piece stays inside the word if the hidden one continued a word.
            continues = "##" if label.startswith("##") else ""
            shown = piece.strip("[]") if piece == MASK else piece
            piece = f"{continues}[{shown}→{label}]"
        elif piece in (CLASSIFY, SEPARATE, PADDING):
            is_last = position == len(record.ids) - 1
            if piece != SEPARATE or is_last or record.is_next is not None:
                continue
        segments[segment != 0].append(piece)
    return {
        "file": record.path,
        "number": record.number,
        "is_next": record.is_next,
        "filled": len(record.ids),
        "positions": record.positions,
        "predictions": len(record.predictions),
        "a": join_pieces(segments[0]),
        "b": join_pieces(segments[1]),
    }


# Counts of records -> figures for people, and warnings.


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None


def figures(statistics: RecordStatistics, has_label: bool = True) -> dict[str, Any]:
    """Returns name -> shares and averages; None where there is nothing to divide by.

    Records without masks have no figures of predictions.

    Args:
      statistics: statistics of records.
      has_label: whether the records have a label. Those without one have figures of documents
        instead of pairs.
    """
    records, text = statistics.measured, text_tokens(statistics)
    length = len(statistics.mask_positions)
    filled, predictions = total(statistics.filled), total(statistics.predictions)
    with_vocabulary = statistics.with_vocabulary > 0
    hidden = {name: getattr(statistics, f"hidden_as_{name}") for name in ("mask", "other", "same")}
    of_hidden = sum(hidden.values())
    pairs = records if has_label else 0
    slots = len(statistics.predictions) - 1
    masked = records if slots else 0
    of_documents = {}
    if not has_label:
        # A record has [CLS], and a [SEP] for each document.
        documents = filled - text - records if with_vocabulary else 0
        of_documents["documents_average"] = _share(documents, records) if documents else None
    return of_documents | {
        "instances": statistics.instances,
        "max_seq_length": length,
        "max_predictions_per_seq": slots,
        "is_next_share": _share(pairs - statistics.random_next, pairs),
        "random_next_share": _share(statistics.random_next, pairs),
        "filled_share": _share(filled, records * length),
        "a_tokens_average": _share(total(statistics.a_tokens), records),
        "b_tokens_average": _share(total(statistics.b_tokens), pairs),
        "predictions_average": _share(predictions, masked),
        "predictions_at_maximum_share": _share(int(statistics.predictions[-1]), masked),
        "predictions_per_filled_position": _share(predictions, filled if masked else 0),
        "predictions_per_text_token": _share(predictions, text if masked else 0),
        "hidden_as_mask_share": _share(hidden["mask"], of_hidden),
        "hidden_as_other_share": _share(hidden["other"], of_hidden),
        "hidden_as_same_share": _share(hidden["same"], of_hidden),
        "reserved_replacement_share": _share(statistics.reserved_replacements, hidden["other"]),
        "unknown_share": _share(statistics.unknown_tokens, text) if with_vocabulary else None,
        "lowest_id": statistics.lowest_id if records else None,
        "highest_id": statistics.highest_id if records else None,
    }


def describe_source(source: Mapping[str, Any]) -> str:
    """Returns the line about a source of --source, from the counts in info.json."""
    asked = f" ({source['asked_share']:.2%} asked)" if "asked_share" in source else ""
    return (
        f"{source['share']:.2%} of the tokens{asked}, {source['passes']:.2f} passes over its text, "
        f"{counted(source['instances'], 'instance')}"
    )


def total(histogram: np.ndarray) -> int:
    """Returns the sum over all records, from the number of records that have each value."""
    return int(histogram @ np.arange(len(histogram)))


def text_tokens(statistics: RecordStatistics) -> int:
    """Returns the number of tokens of all segments, without [CLS] and [SEP]."""
    return total(statistics.a_tokens) + total(statistics.b_tokens)


def lost_predictions_share(statistics: RecordStatistics, masked_lm_prob: float) -> float | None:
    """Returns the share of the wanted predictions that max_predictions_per_seq leaves out.

    Returns None for records without masks.
    """
    most = len(statistics.predictions) - 1
    if not most:
        return None
    wanted = np.maximum(np.rint(np.arange(len(statistics.filled)) * masked_lm_prob), 1)
    lost = int(statistics.filled @ np.maximum(wanted - most, 0))
    return _share(lost, int(statistics.filled @ wanted))


def warn(
    statistics: RecordStatistics, repeats: Mapping[str, HashCounts], made_with: RecordsInfo
) -> list[str]:
    """Returns the warnings about a folder's records.

    Args:
      statistics: statistics of all records of the folder.
      repeats: result of `statistics.count_hashes`.
      made_with: info.json of the records, as far as it is known.
    """
    if not statistics.measured:
        return []
    found = [
        _pairs_warning(statistics, made_with),
        _hidden_warning(statistics, made_with),
        _unknown_warning(statistics),
        _filled_warning(statistics),
        _lost_predictions_warning(statistics, made_with),
        _no_predictions_warning(statistics),
        *_repeat_warnings(repeats, made_with),
    ]
    return [text for text in found if text]


def _pairs_warning(statistics: RecordStatistics, made_with: RecordsInfo) -> str:
    if made_with.pairs == NONE:
        return ""
    if made_with.pairs == SOP:  # B comes from A's own document.
        return _label_warning(statistics, made_with)
    return _single_document_warning(made_with) or _label_warning(statistics, made_with)


def _label_warning(statistics: RecordStatistics, made_with: RecordsInfo) -> str:
    share = statistics.random_next / statistics.measured
    first, second = label_words(made_with.pairs)
    tolerance = BALANCE_TOLERANCE + _bound(0.5, statistics.measured)
    if share >= ONE_SENTENCE_SHARE:
        return (
            f"{share:.1%} of the labels are {second}, so almost every document has one "
            "sentence, as if a blank line followed every sentence; put blank lines between "
            "documents only"
        )
    if share > 0.5 + tolerance:
        return (
            f"{share:.1%} of the labels are {second}, because too many chunks have only one "
            f"sentence, and a model that always predicts {second} would be right so often; make "
            "the records with `beambert data` without --pairs=reference, raise --max_seq_length "
            "or --dupe_factor, or give longer documents"
        )
    if share < 0.5 - tolerance:
        remedy = "make the records again with `beambert data`"
        if made_with.pairs != SOP:
            remedy = (
                "check that --format separates the documents, give more of them, or lower "
                "--num_shards, since B comes from A's shard"
            )
        return (
            f"only {share:.1%} of the labels are {second}, and a model that always predicts "
            f"{first} would be right about all others; {remedy}"
        )
    return ""


def _single_document_warning(made_with: RecordsInfo) -> str:
    if made_with.documents != 1:
        return ""
    return (
        "all records come from 1 document, so no B comes from another one, and sentences that need "
        "such a B are left out; check --format and what separates the documents in the input, or "
        "give --pairs=none, which leaves nothing out"
    )


def _hidden_warning(statistics: RecordStatistics, made_with: RecordsInfo) -> str:
    counts = {name: getattr(statistics, f"hidden_as_{name}") for name in HIDDEN_AS}
    predictions = sum(counts.values())
    if not predictions:
        return ""
    # One of vocab_size random replacements is the token itself, and one is [MASK].
    chance = HIDDEN_AS["other"] * 2 / (made_with.vocabulary["size"] or math.inf)
    shares = {name: count / predictions for name, count in counts.items()}
    draws = predictions / (MOST_ALIKE if made_with.parameters.get("do_span_mask") else 1)
    bounds = {name: _bound(share, draws) + chance for name, share in HIDDEN_AS.items()}
    if all(abs(shares[name] - HIDDEN_AS[name]) <= bounds[name] for name in HIDDEN_AS):
        return ""
    return (
        f"{' / '.join(f'{share:.2%}' for share in shares.values())} of the {predictions:,} "
        "predicted tokens became [MASK] / became another token / stayed the same, not 80 / 10 / 10 "
        f"(± {' / '.join(f'{bound:.2%}' for bound in bounds.values())} by chance); if you want the "
        "paper's shares, make the records again with `beambert data`"
    )


def _unknown_warning(statistics: RecordStatistics) -> str:
    tokens = text_tokens(statistics)
    share = statistics.unknown_tokens / max(tokens, 1)
    if not statistics.with_vocabulary or share <= MOST_UNKNOWN:
        return ""
    return (
        f"{share:.1%} of the records' tokens are [UNK], so the vocabulary does not suit this "
        "text or its case; check --vocab_file and --do_lower_case, or learn a vocabulary with "
        "`beambert vocab`"
    )


def _filled_warning(statistics: RecordStatistics) -> str:
    length = len(statistics.mask_positions)
    share = total(statistics.filled) / (statistics.measured * length)
    if share >= LEAST_FILLED:
        return ""
    return (
        f"only {share:.1%} of the {length} positions are filled, and the rest is padding; choose a "
        "smaller --max_seq_length, or check that documents are not cut into pieces"
    )


def _lost_predictions_warning(statistics: RecordStatistics, made_with: RecordsInfo) -> str:
    wanted = made_with.masked_lm_prob
    lost = lost_predictions_share(statistics, wanted) or 0.0
    if lost <= MOST_LOST_PREDICTIONS:
        return ""
    at_most = statistics.predictions[-1] / statistics.measured
    enough = math.ceil(wanted * len(statistics.mask_positions))
    return (
        f"{at_most:.1%} of the records have {len(statistics.predictions) - 1} predictions, the "
        f"most that fit, and {lost:.1%} of the wanted predictions (masked_lm_prob {wanted:g}) are "
        f"missing; raise --max_predictions_per_seq to {enough}"
    )


def _no_predictions_warning(statistics: RecordStatistics) -> str:
    share = statistics.predictions[0] / statistics.measured
    has_masks = len(statistics.predictions) > 1
    if not has_masks or share <= MOST_WITHOUT_PREDICTIONS:
        return ""
    return (
        f"{share:.1%} of the records have nothing to predict, as if one word took more than all "
        "predictions of a record; leave --masks=whole_word and --masks=span out, or name a "
        "--segmenter for scripts without spaces"
    )


def _repeat_warnings(repeats: Mapping[str, HashCounts], made_with: RecordsInfo) -> list[str]:
    warnings = []
    share = repeat_shares(repeats, made_with)
    if (same := share["repeated_records_share"] or 0.0) > MOST_REPEATED_RECORDS:
        warnings.append(
            f"{same:.1%} of the records equal an earlier one in every token and mask; remove "
            "duplicate inputs and documents, or lower --dupe_factor"
        )
    if (same := share["repeated_text_share"] or 0.0) > MOST_REPEATED_TEXT:
        warnings.append(
            f"at least {same:.1%} of the records repeat text of another document (their first "
            f"{OPENING_TOKENS} tokens occur more often than {made_with.passes} passes over it "
            "explain); leave them out by `beambert data --duplicates=near`"
        )
    return warnings


def repeat_shares(
    repeats: Mapping[str, HashCounts], made_with: RecordsInfo
) -> dict[str, float | None]:
    """Returns the shares of records that repeat others.

    In one pass over a corpus every token is in at most one A. So if an opening of A occurs more
    often than there were passes, its text is in the corpus more than once. The share of repeated
    text is a lower bound.
    """
    if not repeats:
        return dict.fromkeys(
            ("repeated_records_share", "repeated_sequences_share", "repeated_text_share")
        )
    records, sequences, openings = (repeats[k] for k in ("records", "sequences", "openings"))
    passes = made_with.passes
    return {
        "repeated_records_share": _share(records.beyond(1), records.total),
        "repeated_sequences_share": _share(sequences.beyond(1), sequences.total),
        "repeated_text_share": _share(openings.beyond(passes), openings.total) if passes else None,
    }


def overlap_shares(
    repeats: Mapping[str, HashCounts], of_training: Mapping[str, HashCounts]
) -> dict[str, float | None]:
    """Returns the shares of held-out records whose text is in the training records too."""
    if not repeats or not of_training:
        return {"sequences_also_in_training": None, "openings_also_in_training": None}
    return {
        f"{kind}_also_in_training": _share(
            repeats[kind].also_in(of_training[kind]), repeats[kind].total
        )
        for kind in ("sequences", "openings")
    }


def overlap_warning(shares: Mapping[str, float | None], made_with: RecordsInfo) -> str:
    """Returns the warning about such shares, see `overlap_shares`; empty if they are small.

    Args:
      shares: the shares.
      made_with: info.json of the held-out records, as far as it is known.
    """
    sequences = shares["sequences_also_in_training"] or 0.0
    openings = shares["openings_also_in_training"] or 0.0
    if max(sequences, openings) <= MOST_OVERLAP:
        return ""
    remedies = []
    if not made_with.parameters.get("eval_fraction"):
        remedies.append("split by document with --eval_fraction")
    if made_with.parameters.get("duplicates") != "near":
        remedies.append("leave out similar documents with --duplicates=near")
    remedy = ", and ".join(remedies) or "look for passages that many of the documents share"
    return (
        f"{sequences:.1%} of the held-out records are whole in the training records, and "
        f"{openings:.1%} begin with the same {OPENING_TOKENS} tokens as a training record, so "
        f"results on them will look better than they are; {remedy}"
    )


def _bound(share: float, count: float) -> float:
    """Returns by how much a share of `count` draws may differ from its expected value by chance."""
    return STANDARD_ERRORS * math.sqrt(share * (1 - share) / count)
