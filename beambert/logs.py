"""Python's logging, which libraries change and a caller from Python wants back."""

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def logging_as_it_was() -> Iterator[None]:
    """Undoes what TensorFlow and Beam change in logging; a decorator of functions, too.

    The library absl adds a handler to a root logger that has none as soon as it logs anything.
    Writing a SavedModel changes the level of absl's logger.
    """
    root, absl = logging.root, logging.getLogger("absl")
    handlers, level = list(root.handlers), absl.level
    try:
        yield
    finally:
        for handler in [added for added in root.handlers if added not in handlers]:
            root.removeHandler(handler)
        absl.setLevel(level)
