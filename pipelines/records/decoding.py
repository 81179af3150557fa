"""Record files -> their statistics, through the decoder of tfx-bsl's TFXIO.

A file is read once, from end to end: its bytes are hashed, its framing and checksums are checked,
and its records are decoded to Arrow columns and counted.
"""

import dataclasses
import io
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders import example_coder

from beambert.pipelines.records.reading import CorruptRecordsError, open_hashed, read_records
from beambert.pipelines.records.repeats import HashCounts, count_hashes, sum_repeats
from beambert.pipelines.records.schema import records_schema
from beambert.pipelines.records.statistics import (
    FEATURES,
    RecordStatistics,
    VocabularyIds,
    count_records,
    restore_ids,
)
from beambert.pipelines.shared.errors import InputError

# Positions decoded at a time: 4,096 rows of 128. More would leave the processor's cache.
POSITIONS_AT_A_TIME = 1 << 19

# Records of every file that are read back as soon as they are encoded.
CHECKED_RECORDS = 256

# What other projects call our features.
OTHER_NAMES = {
    # TensorFlow Model Garden, create_pretraining_data.py --use_v2_feature_names
    "Model Garden": {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"},
    # keras-hub, examples/bert_pretraining/bert_create_pretraining_data.py
    "keras-hub": {"input_ids": "token_ids", "input_mask": "padding_mask"},
}


@dataclasses.dataclass(frozen=True)
class RecordLayout:
    """How a folder's records are made up.

    Attributes:
      names: our feature -> what it is called there.
      max_seq_length: tokens of a record.
      max_predictions_per_seq: slots for predictions of a record.
    """

    names: Mapping[str, str]
    max_seq_length: int
    max_predictions_per_seq: int

    def decoding_schema(self) -> schema_pb2.Schema:
        """Returns the features and types to decode, under the names they have there."""
        schema = records_schema(self.max_seq_length, self.max_predictions_per_seq, 1)
        for feature in schema.feature:
            feature.name = self.names[feature.name]
        return schema


@dataclasses.dataclass(frozen=True)
class FileReport:
    """What was found in a file.

    Attributes:
      path: of the file.
      bytes: as stored.
      sha256: of those bytes.
      records: that could be read.
      damage: where and how the file is damaged; empty if it isn't.
      statistics: of its records; None without a layout.
      repeats: kind -> count, see `repeats.KINDS`.
    """

    path: str
    bytes: int
    sha256: str
    records: int
    damage: str
    statistics: RecordStatistics | None
    repeats: Mapping[str, HashCounts]


def first_record(path: str) -> bytes | None:
    """Returns the first record of a file, None if there is none that can be read."""
    with open_hashed(path) as file:
        try:
            return next(read_records(io.BufferedReader(file)), None)
        except CorruptRecordsError:
            return None


def find_layout(record: bytes, path: str) -> RecordLayout:
    """Recognises a project's records by the names of their features.

    Args:
      record: any of them.
      path: of its file, for messages.

    Raises:
      InputError: the names are no known project's.
    """
    try:
        columns = example_coder.ExamplesToRecordBatchDecoder().DecodeBatch([record])
    except RuntimeError as error:
        raise InputError(f"{path}: its records aren't tf.Examples; name other files") from error
    found = {name for name in columns.schema.names if columns.column(name)[0].as_py()}
    for renamed in ({}, *OTHER_NAMES.values()):
        names = {name: renamed.get(name, name) for name in FEATURES}
        if set(names.values()) <= found:
            length, predictions = (
                len(columns.column(names[name])[0]) for name in ("input_ids", "masked_lm_ids")
            )
            return RecordLayout(names, length, predictions)
    raise InputError(
        f"{path}: its records have the features {', '.join(sorted(found)) or '(none)'}, which are "
        f"neither the original release's ({', '.join(FEATURES)}) nor Model Garden's or "
        "keras-hub's; name other files"
    )


def decode_rows(
    records: list[bytes], layout: RecordLayout
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Decodes records to arrays.

    Args:
      records: serialized tf.Examples.
      layout: of the folder.

    Returns:
      our feature -> [rows, length] of the well-shaped records; and kind of fault -> number of the
      others.
    """
    schema = layout.decoding_schema().SerializeToString()
    parts = [_decode(records, schema)]
    if parts == [None]:
        parts = [_decode([record], schema) for record in records]
    decoded = [part for part in parts if part is not None]
    types = example_coder.ExamplesToRecordBatchDecoder(schema).ArrowSchema()
    rows, wrong = _well_shaped(pa.Table.from_batches(decoded, types), layout)
    faults = {"not_an_example": len(parts) - len(decoded), "wrong_lengths": wrong}
    return rows, {kind: count for kind, count in faults.items() if count}


def _decode(records: list[bytes], schema: bytes) -> pa.RecordBatch | None:
    """Returns the records as columns, None if one of them isn't a tf.Example of the schema."""
    # After an error a decoder keeps what it had read of that batch, so each call gets a new one.
    decoder = example_coder.ExamplesToRecordBatchDecoder(schema)
    try:
        return decoder.DecodeBatch(records)
    except RuntimeError:
        return None


def _well_shaped(table: pa.Table, layout: RecordLayout) -> tuple[dict[str, np.ndarray], int]:
    """Returns the records whose features all have their length, and the number of the others."""
    shapes = {f.name: f.shape.dim[0].size for f in layout.decoding_schema().feature}
    columns = {name: table.column(name).combine_chunks() for name in shapes}
    fits = np.ones(len(table), bool)
    for name, column in columns.items():
        lengths = np.diff(column.offsets.to_numpy())
        fits &= (lengths == shapes[name]) & column.is_valid().to_numpy(zero_copy_only=False)
    if not fits.all():
        columns = {name: column.filter(pa.array(fits)) for name, column in columns.items()}
    rows = {
        ours: columns[theirs].flatten().to_numpy().reshape(-1, shapes[theirs])
        for ours, theirs in layout.names.items()
    }
    return rows, int((~fits).sum())


def count_batch(
    records: list[bytes],
    layout: RecordLayout,
    vocabulary: VocabularyIds | None,
    limit: int | None,
) -> tuple[RecordStatistics, dict[str, HashCounts]]:
    """Decodes and counts records; see `examine_file`."""
    rows, faults = decode_rows(records, layout)
    restored = restore_ids(rows)
    unmeasured = dataclasses.replace(
        RecordStatistics.empty(layout.max_seq_length, layout.max_predictions_per_seq),
        instances=sum(faults.values()),
        faults=faults,
    )
    statistics = count_records(rows, restored, vocabulary) + unmeasured
    return statistics, {} if limit is None else count_hashes(rows, restored, limit)


def examine_file(
    path: str,
    layout: RecordLayout | None,
    vocabulary: VocabularyIds | None,
    limit: int | None,
    tell: Callable[[int, int], None] = lambda new_bytes, new_records: None,
) -> FileReport:
    """Reads a file from end to end.

    Args:
      path: on any file system that Beam knows.
      layout: of the folder; None only hashes and checks the framing.
      vocabulary: None leaves out what needs it.
      limit: see `repeats.hash_limit`; None leaves out what repeats.
      tell: called with the bytes and records read since it was last called.

    Raises:
      InputError: the file can't be opened.
    """
    statistics, rows_at_a_time = None, POSITIONS_AT_A_TIME
    if layout is not None:
        statistics = RecordStatistics.empty(layout.max_seq_length, layout.max_predictions_per_seq)
        rows_at_a_time = max(1, POSITIONS_AT_A_TIME // layout.max_seq_length)
    repeats: list[Mapping[str, HashCounts]] = []
    damage, count, told = "", 0, 0
    with open_hashed(path) as opened:
        file = io.BufferedReader(opened, 1 << 20)
        try:
            for records in _batches(read_records(file), rows_at_a_time):
                count += len(records)
                if layout is not None:
                    counted, repeated = count_batch(records, layout, vocabulary, limit)
                    statistics += counted
                    repeats.append(repeated)
                tell(opened.bytes - told, len(records))
                told = opened.bytes
        except CorruptRecordsError as error:
            damage = str(error)
            while file.read(1 << 20):
                pass  # what stands behind the damage still belongs to the hash
        tell(opened.bytes - told, 0)
        found = (opened.bytes, opened.sha256, count, damage, statistics)
        return FileReport(path, *found, sum_repeats(repeats))


def check_encoded(
    rows: Mapping[str, np.ndarray], examples: list[bytes], vocabulary: VocabularyIds
) -> None:
    """Reads a file's first records back, as any trainer would, before it is trusted.

    Not all of them: reading costs about as much as making them, and `beambert verify` does.

    Args:
      rows: feature -> [rows, length].
      examples: the rows, serialized.
      vocabulary: of their ids.

    Raises:
      RuntimeError: they say something else.
    """
    first = {name: array[:CHECKED_RECORDS] for name, array in rows.items()}
    expected = count_records(first, restore_ids(first), vocabulary)
    lengths = (first["input_ids"].shape[1], first["masked_lm_ids"].shape[1])
    layout = RecordLayout({name: name for name in FEATURES}, *lengths)
    found, _ = count_batch(examples[:CHECKED_RECORDS], layout, vocabulary, limit=None)
    if found.to_json() != expected.to_json():
        raise RuntimeError("records that were read back differ from what was encoded")


def _batches(records: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    """Yields lists of at most `size`; where reading fails, first what was read before."""
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
