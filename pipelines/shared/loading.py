"""Loading large libraries: quietly and, in a command, without what only notebooks show."""

import contextlib
import gc
import sys
import warnings
from collections.abc import Iterator
from contextvars import ContextVar

from beambert.pipelines.shared.console import quiet_stderr

# Keras and the client of BigQuery load these where they are installed, for galleries of pictures,
# editors and progress bars in notebooks. Each costs half a second, and no command shows any of it.
# Who draws imports matplotlib after this.
_NOT_SHOWN = ("matplotlib", "IPython")
# Whether a command runs, whose process ends with it. A notebook's goes on with other work.
_in_command = ContextVar("in_command", default=False)


@contextlib.contextmanager
def in_command() -> Iterator[None]:
    """Lets `loading` change the process for good, in ways that only suit a command."""
    token = _in_command.set(True)
    try:
        yield
    finally:
        _in_command.reset(token)


@contextlib.contextmanager
def hidden(*names: str) -> Iterator[None]:
    """Makes libraries that aren't loaded yet look as if they weren't installed."""
    absent = [name for name in names if name not in sys.modules]
    # Importing a module that is None here fails, and whoever wants one of these is ready for that.
    sys.modules.update(dict.fromkeys(absent))
    try:
        yield
    finally:
        for name in absent:
            sys.modules.pop(name, None)  # of two threads, the first to end removes it


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Makes imports quiet and quick; put those of TensorFlow, Keras and Beam inside.

    What libraries print to stderr while they load is hidden. An import makes hundreds of thousands
    of objects that stay, so the garbage collector waits. In a command it doesn't look at them later
    either, which took it a third of a second each time; in a notebook that would also keep the
    garbage of others for ever. A failing import still raises.
    """
    is_collecting, is_command = gc.isenabled(), _in_command.get()
    gc.disable()
    try:
        # Beam adds filters of its own to those of warnings.
        with warnings.catch_warnings(), quiet_stderr(), hidden(*_NOT_SHOWN if is_command else ()):
            yield
    finally:
        if is_collecting:
            if is_command:
                gc.freeze()
            gc.enable()
