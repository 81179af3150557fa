"""Compiles the inner loops of records with numba.

Import this, and what uses it, where it is needed: numba's import takes half a second.
"""

from collections.abc import Callable

import numba


def compiled(function: Callable) -> Callable:
    """Returns the function as machine code, which is compiled when it is first called.

    The code is kept beside the function's file or in the user's cache folder; where neither can be
    written, each process compiles it again. `py_func` is the plain function, which does the same.
    """
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:
        return numba.njit(nogil=True)(function)
