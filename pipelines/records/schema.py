"""The features of a record as a TensorFlow Metadata schema, for TFX's tools."""

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from beambert.pipelines.records.contract import LABEL_FEATURE, feature_shapes

SCHEMA_FILE = "schema.pbtxt"


def records_schema(
    max_seq_length: int, max_predictions_per_seq: int, vocab_size: int, has_label: bool = True
) -> schema_pb2.Schema:
    """Returns the schema of a records folder.

    Args:
      max_seq_length: tokens of a record, padding included.
      max_predictions_per_seq: prediction slots of a record.
      vocab_size: number of ids.
      has_label: whether the records have `LABEL_FEATURE`.

    Returns:
      every feature with its type, its fixed shape, and the range of its values.
    """
    highest = {
        "input_ids": vocab_size - 1,
        "input_mask": 1,
        "segment_ids": int(has_label),
        "masked_lm_positions": max_seq_length - 1,
        "masked_lm_ids": vocab_size - 1,
        "masked_lm_weights": 1,
        LABEL_FEATURE: 1,
    }
    schema = schema_pb2.Schema()
    shapes = feature_shapes(max_seq_length, max_predictions_per_seq, has_label)
    for name, (length, kind) in shapes.items():
        feature = schema.feature.add(name=name)
        feature.shape.dim.add(size=length)
        # Every record has the feature.
        feature.presence.min_fraction = 1.0
        if kind == "int64":
            feature.type = schema_pb2.INT
            feature.int_domain.min, feature.int_domain.max = 0, highest[name]
        else:
            feature.type = schema_pb2.FLOAT
            feature.float_domain.min, feature.float_domain.max = 0.0, highest[name]
    return schema


def serialize_schema(schema: schema_pb2.Schema) -> bytes:
    """Returns the bytes of schema.pbtxt."""
    return text_format.MessageToString(schema).encode()
