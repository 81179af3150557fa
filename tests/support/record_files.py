"""Records that are written, changed and read back by tests."""

import pathlib

import tensorflow as tf

from beambert.pipelines.pretraining.masks import TokenIds
from beambert.pipelines.records.contract import RecordsInfo
from beambert.pipelines.records.reading import count_decoded, decode_rows, find_features
from beambert.pipelines.records.statistics import (
    RecordStatistics,
    count_hashes,
    restore_ids,
)
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
ORIGINAL = GOLDEN / "original.tfrecord"
RECORD = {
    "input_ids": [2, 10, 4, 12, 3, 13, 14, 20, 3, 0, 0, 0],
    "input_mask": [1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0],
    "segment_ids": [0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0],
    "masked_lm_positions": [2, 6, 7, 0],
    "masked_lm_ids": [11, 14, 15, 0],
    "masked_lm_weights": [1.0, 1.0, 1.0, 0.0],
    "next_sentence_labels": [1],
}
# A record of full sentences: two tokens of one document, two of the next, and no label.
PACKED = {
    "input_ids": [2, 10, 4, 3, 14, 15, 3, 0, 0, 0, 0, 0],
    "input_mask": [1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0],
    "segment_ids": [0] * 12,
    "masked_lm_positions": [2, 0, 0, 0],
    "masked_lm_ids": [12, 0, 0, 0],
    "masked_lm_weights": [1.0, 0.0, 0.0, 0.0],
}

# 0 [PAD], 1 [UNK], 2 [CLS], 3 [SEP], 4 [MASK], 5 [unused0], 6 and on words
IDS = TokenIds.of(Vocabulary((*SPECIAL_TOKENS, "[unused0]", *map(str, range(6, 40)))))


def made_with(used=None, vocab_size=None, counts=None, **parameters) -> RecordsInfo:
    """The info.json of records of so many documents."""
    documents = {"documents": {"used": used}}
    return RecordsInfo(parameters, {"size": vocab_size}, [], [], documents | (counts or {}), {})


def changed(of=RECORD, **features) -> dict:
    """The record with values put in: feature={index: value}, or a whole list, or None."""
    record = {name: list(values) for name, values in of.items()}
    for name, values in features.items():
        if values is None:
            del record[name]
        elif isinstance(values, dict):
            for index, value in values.items():
                record[name][index] = value
        else:
            record[name] = values
    return record


def serialize(record, renamed=()) -> bytes:
    """A tf.Example, made by TensorFlow."""
    example = tf.train.Example()
    for name, values in record.items():
        feature = example.features.feature[dict(renamed).get(name, name)]
        is_float = any(isinstance(value, float) for value in values)
        (feature.float_list if is_float else feature.int64_list).value.extend(values)
    return example.SerializeToString()


def write(path, records) -> str:
    """A TFRecord file, written by TensorFlow."""
    options = "GZIP" if str(path).endswith(".gz") else None
    with tf.io.TFRecordWriter(str(path), options) as writer:
        for record in records:
            writer.write(record if isinstance(record, bytes) else serialize(record))
    return str(path)


def read(path) -> list[bytes]:
    """The records of a plain TFRecord file, read by TensorFlow."""
    return list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())


def count(*records, vocabulary=IDS, limit=None):
    """Statistics and repeats of records; the first must be well-formed."""
    serialized = [r if isinstance(r, bytes) else serialize(r) for r in records]
    features = find_features(serialized[0], "a file")
    rows, faults = decode_rows(serialized, features)
    restored = restore_ids(rows)
    counted = count_decoded(rows, faults, vocabulary)
    return counted, {} if limit is None else count_hashes(rows, restored, limit)


def statistics(*records, vocabulary=IDS) -> RecordStatistics:
    return count(*records, vocabulary=vocabulary)[0]
