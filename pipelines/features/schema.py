"""The records of a features folder as a TensorFlow Metadata schema."""

from collections.abc import Sequence

import numpy as np
from tensorflow_metadata.proto.v0 import schema_pb2

from beambert.pipelines.features.contract import (
    ROW,
    SEQUENCE_LENGTHS,
    TARGETS,
    TOKEN_FEATURES,
    TOKEN_TARGETS,
)
from beambert.pipelines.model_inputs.examples import NO_LABEL
from beambert.pipelines.tasks.declarations import CHOICE, SPAN


def features_schema(
    kind: str,
    labels: int,
    choices: int,
    vocab_size: int,
    max_seq_length: int,
    splits: Sequence[str],
    unlabelled: Sequence[str],
) -> schema_pb2.Schema:
    """Returns the schema.

    Args:
      kind: of the task.
      labels: their number.
      choices: sequences of an example.
      vocab_size: ids are less than it.
      max_seq_length: most tokens of a sequence.
      splits: all; the schema's environments.
      unlabelled: those without targets.

    Returns:
      every feature with its type, its shape where it has one, and the values it may take.
    """
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
        if name in (*TARGETS[kind], *TOKEN_TARGETS[kind]):
            feature.not_in_environment.extend(unlabelled)

    add(ROW, 1)
    for name, highest in zip(TOKEN_FEATURES, (vocab_size - 1, 1), strict=True):
        add(name, None, highest=highest)
    if kind == CHOICE:
        add(SEQUENCE_LENGTHS, choices, 1, max_seq_length)
    for name, dtype in TARGETS[kind].items():
        add(name, 1, highest=max_seq_length - 1 if kind == SPAN else labels - 1)
        if dtype is np.float32:
            schema.feature[-1].type = schema_pb2.FLOAT
            schema.feature[-1].ClearField("int_domain")
    for name in TOKEN_TARGETS[kind]:
        add(name, None, NO_LABEL, labels - 1)
    return schema
