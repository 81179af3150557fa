"""The records of a features folder as a TensorFlow Metadata schema."""

from collections.abc import Sequence

import numpy as np
from tensorflow_metadata.proto.v0 import schema_pb2

from beambert.pipelines.features.contract import ROW, SEQUENCE_LENGTHS, TOKEN_FEATURES
from beambert.pipelines.model_inputs.examples import MODEL_INPUTS
from beambert.pipelines.model_inputs.features import NO_LABEL


def features_schema(
    kind: str,
    labels: int,
    choices: int,
    vocab_size: int,
    max_seq_length: int,
    splits: Sequence[str],
    unlabelled: Sequence[str],
) -> schema_pb2.Schema:
    """Returns the schema of the records.

    Args:
      kind: kind of the task.
      labels: number of labels.
      choices: number of sequences of an example.
      vocab_size: number of tokens in the vocabulary.
      max_seq_length: greatest number of tokens in a sequence.
      splits: names of all splits, which become the environments of the schema.
      unlabelled: names of the splits without targets.

    Returns:
      A schema with the type, the range of values and, if it is fixed, the shape of each feature.
    """
    inputs = MODEL_INPUTS[kind]
    schema = schema_pb2.Schema()
    schema.default_environment.extend(splits)

    def add(name: str, size: int | None, lowest: int = 0, highest: int | None = None) -> None:
        feature = schema.feature.add(name=name, type=schema_pb2.INT)
        feature.presence.min_fraction = 1.0
        feature.int_domain.min = lowest
        if highest is not None:
            feature.int_domain.max = highest
        if size:
            feature.shape.dim.add(size=size)
        else:
            feature.value_count.min = 1
        if name in (*inputs.TARGETS, *inputs.TOKEN_TARGETS):
            feature.not_in_environment.extend(unlabelled)

    add(ROW, 1)
    for name, highest in zip(TOKEN_FEATURES, (vocab_size - 1, 1), strict=True):
        add(name, None, highest=highest)
    if inputs.HAS_CHOICES:
        add(SEQUENCE_LENGTHS, choices, 1, max_seq_length)
    for name, dtype in inputs.TARGETS.items():
        size = labels if inputs.HAS_TARGET_PER_LABEL else 1
        add(name, size, highest=inputs.greatest_target(labels, max_seq_length))
        if dtype is np.float32:
            schema.feature[-1].type = schema_pb2.FLOAT
            schema.feature[-1].ClearField("int_domain")
    for name in inputs.TOKEN_TARGETS:
        add(name, None, NO_LABEL, labels - 1)
    return schema
