"""Loads the libraries that the page's answers need, in one thread at a time.

TensorFlow's and Keras's modules import each other in circles. Of two threads that import them at
once, each can wait for the other. Python ends that with an error, and a part of the modules stays
unusable for as long as the process lives.
"""

import contextlib
import threading
from collections.abc import Iterator

from beambert.loading import loading

_LOCK = threading.RLock()
_loaded = threading.Event()


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """`loading` that other threads wait for; put imports of large libraries inside."""
    with _LOCK, loading():
        yield


def load_libraries() -> None:
    """Loads TensorFlow and Keras, before the first answer of any tab."""
    if not _loaded.is_set():
        with importing():
            from beambert.explore import layers  # noqa: F401
        _loaded.set()
