"""Loading large libraries: quietly and, in a command, without what only notebooks show."""

import contextlib
import gc
import sys
import warnings
from collections.abc import Iterator

from beambert.console import quiet_stderr

# Keras and the client of BigQuery load these where they are installed, for galleries of pictures,
# editors and progress bars in notebooks. Each costs half a second, and no command shows any of it.
# Who draws imports matplotlib after this.
_NOT_SHOWN = ("matplotlib", "IPython")
# A process that began as a module of these packages is ours: `python -m beambert`, or
# a worker of Beam in a process of its own, here or elsewhere.
_OWN_PROCESSES = ("beambert.", "apache_beam.runners.worker.")


class _Loading:
    """Whether a command runs in this process, which ends with it. A notebook's goes on."""

    has_command = False


@contextlib.contextmanager
def in_command() -> Iterator[None]:
    """Lets `loading` change the process for good, in ways that only suit a command."""
    before, _Loading.has_command = _Loading.has_command, True
    try:
        yield
    finally:
        _Loading.has_command = before


def _is_own_process() -> bool:
    begun_as = getattr(sys.modules["__main__"], "__spec__", None)
    name = begun_as.name if begun_as else ""
    return _Loading.has_command or name.startswith(_OWN_PROCESSES)


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
    of objects that stay, so the garbage collector waits. In a process of our own it doesn't look at
    them later either, which took it a third of a second each time; in a notebook that would also
    keep the garbage of others for ever. A failing import still raises.
    """
    is_collecting, is_own = gc.isenabled(), _is_own_process()
    gc.disable()
    try:
        # Beam adds filters of its own to those of warnings.
        with warnings.catch_warnings(), quiet_stderr(), hidden(*_NOT_SHOWN if is_own else ()):
            yield
    finally:
        if is_collecting:
            if is_own:
                gc.freeze()
            gc.enable()
