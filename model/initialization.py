"""Initial weights as a function of one seed and the place of each variable.

Every variable draws from a seed of its own, folded from the model's seed and the names on its path,
so its first value depends on nothing else: not on the order of construction, not on global state,
not on which other heads the model has.
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
    """Returns the initializer of every matrix: normal, redrawn beyond 2 standard deviations.

    Args:
      stddev: standard deviation before truncation (`create_initializer` in the original
        modeling.py).
      seed: this variable's own seed.

    Returns:
      The initializer.
    """
    return keras.initializers.TruncatedNormal(mean=0.0, stddev=stddev, seed=seed)
