"""Record files -> statistics, through the decoder of tfx-bsl's TFXIO.

A file is read once, from end to end. Its bytes are hashed, its framing and checksums are checked,
and its records are decoded to Arrow columns and counted.
"""

import dataclasses
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders import example_coder

from beambert.errors import InputError
from beambert.pipelines.records.artefacts import ArtefactCounts, TokenTable, count_artefacts
from beambert.pipelines.records.contract import LABEL_FEATURE, PREDICTION_FEATURES
from beambert.pipelines.records.reading import CorruptRecordsError, open_hashed, read_records
from beambert.pipelines.records.repeats import (
    HashCounts,
    count_hashes,
    hash_records,
    sum_repeats,
)
from beambert.pipelines.records.samples import SampledRecord, merge_samples, sample_rows
from beambert.pipelines.records.schema import records_schema
from beambert.pipelines.records.statistics import (
    FEATURES,
    RecordStatistics,
    VocabularyIds,
    count_records,
    restore_ids,
)

# Number of positions decoded at a time: 4,096 rows of 128. More do not fit the processor's cache.
POSITIONS_AT_A_TIME = 1 << 19

# So many records of every file are read back as soon as they are encoded.
CHECKED_RECORDS = 256

# Project -> our feature -> its name for that feature.
OTHER_NAMES = {
    # TensorFlow Model Garden, create_pretraining_data.py --use_v2_feature_names
    "Model Garden": {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"},
    # keras-hub, examples/bert_pretraining/bert_create_pretraining_data.py
    "keras-hub": {"input_ids": "token_ids", "input_mask": "padding_mask"},
}


@dataclasses.dataclass(frozen=True)
class RecordFeatures:
    """Names and lengths of the features of a folder's records.

    Attributes:
      names: our feature -> its name in the folder's records; without the label if they have none,
        and without the prediction features if they have no masks.
      max_seq_length: tokens of a record, padding included.
      max_predictions_per_seq: prediction slots of a record; 0 without masks.
    """

    names: Mapping[str, str]
    max_seq_length: int
    max_predictions_per_seq: int

    @property
    def has_label(self) -> bool:
        """Whether the records have a label."""
        return LABEL_FEATURE in self.names

    @property
    def has_masks(self) -> bool:
        """Whether the records have masks."""
        return self.max_predictions_per_seq > 0

    def decoding_schema(self) -> schema_pb2.Schema:
        """Returns the features and types to decode, under their names in the records."""
        lengths = (self.max_seq_length, self.max_predictions_per_seq)
        schema = records_schema(*lengths, 1, self.has_label)
        for feature in schema.feature:
            feature.name = self.names[feature.name]
        return schema


@dataclasses.dataclass(frozen=True)
class FileReport:
    """The results of reading a file.

    Attributes:
      path: path of the file.
      bytes: number of bytes as stored.
      sha256: hash of those bytes.
      records: number of records that could be read.
      damage: place and kind of the damage; empty if it is not.
      statistics: statistics of the records; None where the features are not known.
      repeats: kind -> hashes and their counts, see `repeats.HASH_KINDS`.
      sample: some of the records, see `samples.merge_samples`.
      artefacts: traces of faulty input; None without a vocabulary.
    """

    path: str
    bytes: int
    sha256: str
    records: int
    damage: str
    statistics: RecordStatistics | None
    repeats: Mapping[str, HashCounts]
    sample: Sequence[SampledRecord] = ()
    artefacts: ArtefactCounts | None = None


def first_record(path: str) -> bytes | None:
    """Returns the first record of a file; None if it has none or the first cannot be read."""
    with open_hashed(path) as file:
        try:
            return next(read_records(io.BufferedReader(file)), None)
        except CorruptRecordsError:
            return None


def find_features(record: bytes, path: str) -> RecordFeatures:
    """Recognises a project's records by the names of their features.

    Args:
      record: one of the records, serialized.
      path: path of its file, for error messages.

    Raises:
      InputError: no known project has these names, or the record is no tf.Example.
    """
    try:
        columns = example_coder.ExamplesToRecordBatchDecoder().DecodeBatch([record])
    except RuntimeError as error:
        raise InputError(f"{path}: its records are not tf.Examples; name other files") from error
    found = {name for name in columns.schema.names if columns.column(name)[0].as_py()}
    for renamed in ({}, *OTHER_NAMES.values()):
        names = {name: renamed.get(name, name) for name in FEATURES}
        if names[LABEL_FEATURE] not in found:
            del names[LABEL_FEATURE]
        tokens = {
            ours: one_name for ours, one_name in names.items() if ours not in PREDICTION_FEATURES
        }
        # Examples of a task have these too, and labels of their own.
        if set(tokens.values()) == found:
            names = tokens
        if set(names.values()) <= found:
            length, predictions = (
                len(columns.column(names[name])[0]) if name in names else 0
                for name in ("input_ids", "masked_lm_ids")
            )
            return RecordFeatures(names, length, predictions)
    raise InputError(
        f"{path}: its records have the features {', '.join(sorted(found)) or '(none)'}, which are "
        f"neither those of the original release ({', '.join(FEATURES)}) nor those of Model Garden "
        "or keras-hub; name other files"
    )


def decode_rows(
    records: list[bytes], features: RecordFeatures
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Decodes records to arrays.

    Args:
      records: serialized tf.Examples.
      features: features of the folder's records.

    Returns:
      our feature -> [rows, length], for the records that have all features in the right lengths,
      without masks [rows, 0] for the prediction features; and kind of fault -> number of the other
      records.
    """
    schema = features.decoding_schema().SerializeToString()
    parts = [_decode(records, schema)]
    if parts == [None]:
        parts = [_decode([record], schema) for record in records]
    decoded = [part for part in parts if part is not None]
    types = example_coder.ExamplesToRecordBatchDecoder(schema).ArrowSchema()
    rows, wrong = _well_shaped(pa.Table.from_batches(decoded, types), features)
    faults = {"not_an_example": len(parts) - len(decoded), "wrong_lengths": wrong}
    return rows, {kind: count for kind, count in faults.items() if count}


def _decode(records: list[bytes], schema: bytes) -> pa.RecordBatch | None:
    """Returns the records as columns; None if one of them is not a tf.Example of the schema."""
    # A decoder that failed keeps the part of the batch that it read, so each call gets a new one.
    decoder = example_coder.ExamplesToRecordBatchDecoder(schema)
    try:
        return decoder.DecodeBatch(records)
    except RuntimeError:
        return None


def _well_shaped(table: pa.Table, features: RecordFeatures) -> tuple[dict[str, np.ndarray], int]:
    """Returns the records whose features all have the right length, and the number of others."""
    shapes = {f.name: f.shape.dim[0].size for f in features.decoding_schema().feature}
    columns = {name: table.column(name).combine_chunks() for name in shapes}
    fits = np.ones(len(table), bool)
    for name, column in columns.items():
        lengths = np.diff(column.offsets.to_numpy())
        fits &= (lengths == shapes[name]) & column.is_valid().to_numpy(zero_copy_only=False)
    if not fits.all():
        columns = {name: column.filter(pa.array(fits)) for name, column in columns.items()}
    rows = {
        ours: columns[theirs].flatten().to_numpy().reshape(-1, shapes[theirs])
        for ours, theirs in features.names.items()
    }
    if not features.has_masks:
        rows |= dict.fromkeys(PREDICTION_FEATURES, np.zeros((int(fits.sum()), 0), np.int64))
    return rows, int((~fits).sum())


def count_batch(
    records: list[bytes],
    features: RecordFeatures,
    vocabulary: VocabularyIds | None,
    limit: int | None,
) -> tuple[RecordStatistics, dict[str, HashCounts]]:
    """Decodes and counts records; see `examine_file`."""
    rows, faults = decode_rows(records, features)
    return _count_rows(rows, restore_ids(rows), faults, features, vocabulary, limit)


def _count_rows(
    rows: Mapping[str, np.ndarray],
    restored: np.ndarray,
    faults: Mapping[str, int],
    features: RecordFeatures,
    vocabulary: VocabularyIds | None,
    limit: int | None,
) -> tuple[RecordStatistics, dict[str, HashCounts]]:
    unmeasured = dataclasses.replace(
        RecordStatistics.empty(features.max_seq_length, features.max_predictions_per_seq),
        instances=sum(faults.values()),
        faults=faults,
    )
    statistics = count_records(rows, restored, vocabulary) + unmeasured
    return statistics, {} if limit is None else count_hashes(rows, restored, limit)


def examine_file(
    path: str,
    features: RecordFeatures | None,
    vocabulary: VocabularyIds | None,
    limit: int | None,
    tell: Callable[[int, int], None] = lambda new_bytes, new_records: None,
    table: TokenTable | None = None,
    phrase_limit: int = 0,
) -> FileReport:
    """Reads a file from end to end.

    Args:
      path: path on any file system that Beam knows.
      features: features of the folder's records; with None they are not decoded.
      vocabulary: ids of the vocabulary; None leaves out the counts that need them.
      limit: largest hash to keep, see `repeats.hash_limit`; None leaves out the repeats.
      tell: function that is called with the numbers of bytes and records read since its last call.
      table: table of the vocabulary; None leaves out the artefacts.
      phrase_limit: see `artefacts.phrase_limit`.

    Raises:
      InputError: the file cannot be opened.
    """
    statistics, rows_at_a_time = None, POSITIONS_AT_A_TIME
    sample: Sequence[SampledRecord] = ()
    artefacts: ArtefactCounts | None = None
    if features is not None:
        statistics = RecordStatistics.empty(
            features.max_seq_length, features.max_predictions_per_seq
        )
        rows_at_a_time = max(1, POSITIONS_AT_A_TIME // features.max_seq_length)
    repeats: list[Mapping[str, HashCounts]] = []
    damage, count, told = "", 0, 0
    with open_hashed(path) as opened:
        file = io.BufferedReader(opened, 1 << 20)
        try:
            for records in _batches(read_records(file), rows_at_a_time):
                if features is not None:
                    rows, faults = decode_rows(records, features)
                    restored = restore_ids(rows)
                    counted, repeated = _count_rows(
                        rows, restored, faults, features, vocabulary, limit
                    )
                    statistics += counted
                    repeats.append(repeated)
                    hashes = hash_records(rows, restored)
                    drawn = sample_rows(rows, hashes, path, count + 1)
                    sample = merge_samples((sample, drawn))
                    if table is not None:
                        found = count_artefacts(restored, hashes, table, phrase_limit)
                        artefacts = found if artefacts is None else artefacts + found
                count += len(records)
                tell(opened.bytes - told, len(records))
                told = opened.bytes
        except CorruptRecordsError as error:
            damage = str(error)
            while file.read(1 << 20):
                pass  # the hash covers the bytes behind the damage too
        tell(opened.bytes - told, 0)
        read = (opened.bytes, opened.sha256, count, damage)
        return FileReport(path, *read, statistics, sum_repeats(repeats), sample, artefacts)


def check_encoded(
    rows: Mapping[str, np.ndarray], examples: list[bytes], vocabulary: VocabularyIds
) -> None:
    """Decodes a file's first records and compares their statistics with those of the rows.

    The other records are left to `beambert verify`, since reading costs about as much as encoding.

    Args:
      rows: feature -> [rows, length].
      examples: the rows, serialized.
      vocabulary: ids of the vocabulary.

    Raises:
      RuntimeError: the statistics differ.
    """
    first = {name: array[:CHECKED_RECORDS] for name, array in rows.items()}
    expected = count_records(first, restore_ids(first), vocabulary)
    lengths = (first["input_ids"].shape[1], first["masked_lm_ids"].shape[1])
    names = {name: name for name, array in rows.items() if array.shape[1]}
    features = RecordFeatures(names, *lengths)
    found, _ = count_batch(examples[:CHECKED_RECORDS], features, vocabulary, limit=None)
    if found.to_json() != expected.to_json():
        raise RuntimeError("records that were read back differ from what was encoded")


def _batches(records: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    """Yields lists of at most `size` records. Where reading fails, those read before come first."""
    batch: list[bytes] = []
    damage = None
    try:
        for record in records:
            batch.append(record)
            if len(batch) == size:
                yield batch
                batch = []
    except CorruptRecordsError as error:
        damage = error
    if batch:
        yield batch
    if damage:
        raise damage
