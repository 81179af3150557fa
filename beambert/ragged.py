"""Ragged arrays: rows of different lengths, end to end in one array. Pure numpy."""

import numpy as np


def starts_of(lengths: np.ndarray) -> np.ndarray:
    """Returns the index at which each row starts, int64 [rows]."""
    return np.cumsum(lengths, dtype=np.int64) - lengths


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns the integers `start, start + 1, …` of each row, end to end.

    Args:
      starts: first integer of each row, [rows].
      lengths: number of integers in each row, [rows].

    Returns:
      int64 [sum of the lengths].
    """
    shifts = np.asarray(starts, np.int64) - starts_of(lengths)
    return np.arange(int(np.sum(lengths))) + np.repeat(shifts, lengths)
