"""Encodes features as serialized tf.Examples with tfx-bsl."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import tensorflow as tf
from tfx_bsl.coders import example_coder

from beambert.pipelines.features.contract import ROW, SEQUENCE_LENGTHS
from beambert.pipelines.model_inputs.examples import MODEL_INPUTS
from beambert.pipelines.model_inputs.features import TaskFeatures


def encode_features(kind: str, features: TaskFeatures, rows: np.ndarray) -> list[bytes]:
    """Returns a record for each example, see `contract`; the bytes are always the same.

    Args:
      kind: kind of the task.
      features: features of some examples.
      rows: int64 [examples], numbers of the examples in their split.
    """
    lengths = features.lengths.reshape(-1, features.choices)
    totals = lengths.sum(axis=1)
    ones = np.ones_like(totals)
    columns = {
        ROW: _lists(rows, ones),
        "input_ids": _lists(features.input_ids, totals),
        "segment_ids": _lists(features.segment_ids, totals),
    }
    if MODEL_INPUTS[kind].HAS_CHOICES:
        columns[SEQUENCE_LENGTHS] = _lists(features.lengths, ones * features.choices)
    columns |= {
        name: _lists(values.ravel(), ones * (values.size // max(len(values), 1)))
        for name, values in features.targets.items()
    }
    columns |= {name: _lists(values, totals) for name, values in features.token_targets.items()}
    batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    encoded = example_coder.RecordBatchToExamplesEncoder().encode(batch)
    # The features of a tf.Example are a map, whose order differs from call to call.
    return [
        tf.train.Example.FromString(record).SerializeToString(deterministic=True)
        for record in encoded
    ]


def _lists(values: np.ndarray, lengths: Sequence[int] | np.ndarray) -> pa.LargeListArray:
    """Returns an Arrow array of lists: the values, cut into parts of the given lengths."""
    is_float = np.issubdtype(values.dtype, np.floating)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    values = values.astype(np.float32 if is_float else np.int64)
    return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), pa.array(values))
