"""Fills up batches to a fixed size."""

from typing import Any

import tensorflow as tf


def fill_up(features: dict[str, tf.Tensor], batch_size: int) -> dict[str, Any]:
    """Adds empty rows up to a static batch size, and `example_weights`, which is 0 for those."""
    rows = tf.shape(next(iter(features.values())))[0]
    features = features | {"example_weights": tf.ones([rows], tf.float32)}
    filled = {}
    for name, value in features.items():
        paddings = [[0, batch_size - rows]] + [[0, 0]] * (value.shape.rank - 1)
        filled[name] = tf.ensure_shape(tf.pad(value, paddings), [batch_size, *value.shape[1:]])
    return filled
