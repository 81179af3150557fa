"""Decodes records to arrays by tfx-bsl, whoever made them, and counts them."""

import contextlib
import dataclasses
import hashlib
import io
from collections.abc import Iterator, Mapping
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders import example_coder

from beambert.errors import InputError
from beambert.io import open_file
from beambert.pipelines.pretraining.masks import TokenIds
from beambert.pipelines.records.batches import CorruptRecordsError, read_frames
from beambert.pipelines.records.contract import (
    LABEL_FEATURE,
    PREDICTION_FEATURES,
    records_schema,
)
from beambert.pipelines.records.statistics import (
    FEATURES,
    RecordStatistics,
    count_records,
)

# Number of records of every file that are read back as soon as they are encoded.
CHECKED_RECORDS = 256
# Project -> our feature -> its name for that feature.
OTHER_NAMES = {
    # TensorFlow Model Garden, create_pretraining_data.py --use_v2_feature_names
    "Model Garden": {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"},
    # keras-hub, examples/bert_pretraining/bert_create_pretraining_data.py
    "keras-hub": {"input_ids": "token_ids", "input_mask": "padding_mask"},
}


class HashedFile(io.RawIOBase):
    """A file that hashes and counts the bytes that are read from it."""

    def __init__(self, file: BinaryIO):
        """Takes a file that is open for reading."""
        self._file = file
        self._sha256 = hashlib.sha256()
        self.bytes = 0

    def readable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer: memoryview) -> int:
        """Reads into a buffer and returns the number of bytes."""
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self._sha256.update(data)
        self.bytes += len(data)
        return len(data)

    @property
    def sha256(self) -> str:
        """Hash of the bytes read so far."""
        return self._sha256.hexdigest()


def read_batches(file: io.BufferedReader, size: int) -> Iterator[list[bytes]]:
    """Yields the records of a TFRecord file in lists of at most `size`.

    Raises:
      CorruptRecordsError: a record cannot be read; the records before it are yielded first.
    """
    batch: list[bytes] = []
    damage = None
    try:
        for record in read_frames(file):
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


def first_record(path: str) -> bytes | None:
    """Returns the first record of a file; None if it has none or the first cannot be read."""
    with open_file(path) as file, contextlib.suppress(CorruptRecordsError):
        return next(read_frames(io.BufferedReader(file)), None)
    return None


def find_features(record: bytes, path: str) -> RecordFeatures:
    """Recognizes a project's records by the names of their features.

    Args:
      record: one of the records, serialized.
      path: path of its file, for error messages.

    Raises:
      InputError: no known project has these names, or the record is not a tf.Example.
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
        # Examples of a task have these features too, and others.
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
    # A decoder that failed keeps what it read of the batch, so each call gets a new one.
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


def count_decoded(
    rows: Mapping[str, np.ndarray],
    faults: Mapping[str, int],
    vocabulary: TokenIds | None,
) -> RecordStatistics:
    """Counts the results of `decode_rows`.

    Args:
      rows, faults: results of `decode_rows`.
      vocabulary: ids of the vocabulary; None leaves out the counts that need them.
    """
    counted = count_records(rows, vocabulary)
    return dataclasses.replace(
        counted,
        instances=counted.instances + sum(faults.values()),
        faults={**faults, **counted.faults},
    )


def check_encoded(
    rows: Mapping[str, np.ndarray], examples: list[bytes], vocabulary: TokenIds
) -> None:
    """Decodes a file's first records and compares their statistics with those of the rows.

    `beambert verify` checks the others, since reading takes about as long as encoding.

    Args:
      rows: feature -> [rows, length].
      examples: the rows, serialized.
      vocabulary: ids of the vocabulary.

    Raises:
      RuntimeError: the statistics differ.
    """
    first = {name: array[:CHECKED_RECORDS] for name, array in rows.items()}
    expected = count_records(first, vocabulary)
    lengths = (first["input_ids"].shape[1], first["masked_lm_ids"].shape[1])
    names = {name: name for name, array in rows.items() if array.shape[1]}
    features = RecordFeatures(names, *lengths)
    read, faults = decode_rows(examples[:CHECKED_RECORDS], features)
    found = count_decoded(read, faults, vocabulary)
    if found.to_json() != expected.to_json():
        raise RuntimeError("records that were read back differ from what was encoded")
