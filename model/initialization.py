"""Initial weights as a function of one seed and the path of each variable.

Every variable has a seed of its own, folded from the model's seed and the names on its path. So its
initial value does not depend on the order of construction, on global state, or on the other heads
of the model.
"""

import zlib

import keras


def fold_seed(seed: int, name: str) -> int:
    """Derives the seed of a part from its owner's seed and its name.

    Args:
      seed: the owner's seed, any integer.
      name: the part's name within its owner.

    Returns:
      An integer in [0, 2**31).
    """
    return zlib.crc32(f"{seed}/{name}".encode()) & 0x7FFFFFFF


def truncated_normal(stddev: float, seed: int) -> keras.initializers.Initializer:
    """Returns the initializer of a matrix: normal, with values beyond 2 deviations drawn again.

    Args:
      stddev: standard deviation before truncation (`create_initializer` in the original
        modeling.py).
      seed: the variable's own seed.

    Returns:
      The initializer.
    """
    return keras.initializers.TruncatedNormal(mean=0.0, stddev=stddev, seed=seed)
