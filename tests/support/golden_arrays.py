"""The batch of pre-training records in a file of golden arrays."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

_PREFIX = "features/"


def features_of(golden: Mapping[str, np.ndarray]) -> dict[str, tf.Tensor]:
    """Returns the features among the arrays, as the trainer has them."""
    return {
        name.removeprefix(_PREFIX): tf.constant(
            value if value.dtype == np.float32 else value.astype(np.int32)
        )
        for name, value in golden.items()
        if name.startswith(_PREFIX)
    }
