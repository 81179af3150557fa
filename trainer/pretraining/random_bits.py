"""Random numbers that follow from two integers alone: those of TensorFlow's stateless functions.

Philox4x32 with ten rounds (Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3"), and
the key and the counter that TensorFlow makes of a seed (`StatelessRandomGetKeyCounter`).
"""

from collections.abc import Sequence

import numpy as np

_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = 0x9E3779B9, 0xBB67AE85
_FIRST_KEY = 0x3EC8F720, 0x02461E29
_ROUNDS = 10
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def _philox(counter: Sequence[np.ndarray], key: Sequence[int]) -> np.ndarray:
    """Returns the words of blocks, uint32 [n, 4], of their counters, four times uint64 [n]."""
    a, b, c, d = counter
    first, second = (int(word) for word in key)
    for _ in range(_ROUNDS):
        of_a, of_c = _MULTIPLIERS[0] * a, _MULTIPLIERS[1] * c
        a = (of_c >> _HALF) ^ b ^ np.uint64(first)
        b = of_c & _LOW
        c = (of_a >> _HALF) ^ d ^ np.uint64(second)
        d = of_a & _LOW
        first, second = first + _WEYL[0] & 0xFFFFFFFF, second + _WEYL[1] & 0xFFFFFFFF
    return np.stack([a, b, c, d], axis=-1).astype(np.uint32)


def uniform_bits(seed: tuple[int, int], count: int) -> np.ndarray:
    """Returns 32-bit words that are all equally likely, uint32 [count]."""
    words = [
        np.array([number >> shift & 0xFFFFFFFF], np.uint64)
        for number in (each & 0xFFFFFFFFFFFFFFFF for each in seed)
        for shift in (0, 32)
    ]
    key = _philox(words, _FIRST_KEY)[0]
    blocks = np.arange(-(-count // 4), dtype=np.uint64)
    above = (np.full(len(blocks), word, np.uint64) for word in key[2:])
    return _philox([blocks & _LOW, blocks >> _HALF, *above], key[:2]).ravel()[:count]


def folded_seed(seed: tuple[int, int], number: int) -> tuple[int, int]:
    """Returns another seed for each number."""
    return int(uniform_bits(seed, 2).view(np.int64)[0]), number


def shuffled(count: int, seed: tuple[int, int]) -> list[int]:
    """Returns the numbers below `count` in an order that the seed decides."""
    order = list(range(count))
    for place, bits in enumerate(uniform_bits(seed, count)[:-1].tolist()):
        other = place + bits % (count - place)
        order[place], order[other] = order[other], order[place]
    return order
