"""Encodes a large batch a few texts at a time, for a loss that compares all of its vectors.

A loss of in-batch negatives needs the vectors of the whole batch, and its gradient the activations
behind them. Gradient caching (Gao et al. 2021, Scaling deep contrastive learning batch size under
memory limited setup, arXiv 2101.06983) keeps the vectors alone: it encodes a part of the batch
again when the gradient of its vectors is known. The gradient is the same.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

Encode = Callable[[Mapping[str, tf.Tensor], tf.Tensor | None], tf.Tensor]
# The seeds of the parts of a batch differ by this prime, by which no other seed steps.
_PART_SEED_STRIDE = 7_368_787


def encode_in_parts(
    encode: Encode, features: Mapping[str, tf.Tensor], dropout_seed: tf.Tensor | None, size: int
) -> tf.Tensor:
    """Returns the vectors of a batch, float32 [n, …], with the memory for `size` texts.

    Dropout has another seed in each part, and the same one when a part is encoded again.

    Args:
      encode: function from the features of some texts and a seed of dropout to their vectors.
      features: names -> int32 [n, L] with a static n.
      dropout_seed: int32 [2]; None switches dropout off.
      size: greatest number of texts that are encoded at a time; 0 for all.
    """
    rows = next(iter(features.values())).shape[0]
    if not size or rows is None or rows <= size:
        return encode(features, dropout_seed)
    parts = -(-rows // size)
    # The last part is filled up with the first texts again, whose vectors are left out.
    order = (np.arange(parts * size) % rows).reshape(parts, size)
    names = list(features)

    def encode_part(number: tf.Tensor, divided: tuple[tf.Tensor, ...]) -> tf.Tensor:
        some = {name: each[number] for name, each in zip(names, divided, strict=True)}
        return encode(some, part_seed(dropout_seed, number))

    @tf.custom_gradient
    def encode_parts(*divided: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
        vectors = tf.map_fn(
            lambda number: encode_part(number, divided),
            tf.range(parts),
            fn_output_signature=tf.float32,
            parallel_iterations=1,
        )

        def gradient(upstream: tf.Tensor, variables: list[tf.Variable]) -> tuple[Any, Any]:
            def add_part(number: tf.Tensor, totals: list[tf.Tensor]) -> tuple[Any, Any]:
                with tf.GradientTape() as tape:
                    again = encode_part(number, divided)
                more = tape.gradient(again, variables, upstream[number], "zero")
                added = [t + tf.convert_to_tensor(m) for t, m in zip(totals, more, strict=True)]
                return number + 1, added

            nothing = [tf.zeros(variable.shape, variable.dtype) for variable in variables]
            _, totals = tf.while_loop(
                lambda number, _: number < parts,
                add_part,
                (0, nothing),
                parallel_iterations=1,
                maximum_iterations=parts,
            )
            return [None] * len(divided), totals

        return vectors, gradient

    vectors = encode_parts(*(tf.gather(features[name], order) for name in names))
    return tf.reshape(vectors, [parts * size, *vectors.shape[2:]])[:rows]


def part_seed(dropout_seed: tf.Tensor | None, number: tf.Tensor | int) -> tf.Tensor | None:
    """Returns the seed of dropout for a part of a batch."""
    if dropout_seed is None:
        return None
    return dropout_seed + tf.stack([_PART_SEED_STRIDE * (number + 1), 0])
