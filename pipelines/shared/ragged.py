"""Rows of different lengths end to end in one array. Pure numpy."""

import numpy as np


def starts_of(lengths: np.ndarray) -> np.ndarray:
    """Returns where each row starts, int64 [rows]."""
    return np.cumsum(lengths, dtype=np.int64) - lengths


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns `start, start + 1, …` of each row, `length` integers a row, end to end, as int64."""
    shifts = np.asarray(starts, np.int64) - starts_of(lengths)
    return np.arange(int(np.sum(lengths))) + np.repeat(shifts, lengths)
