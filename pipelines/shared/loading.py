"""Loading large libraries: quietly, quickly, and without what only notebooks show."""

import contextlib
import gc
import sys
from collections.abc import Iterator

from beambert.pipelines.shared.console import quiet_stderr

# Keras and the client of BigQuery load these where they are installed, for galleries of pictures,
# editors and progress bars in notebooks. Each costs half a second, and no command shows any of it.
# Who draws imports matplotlib after this.
_NOT_SHOWN = ("matplotlib", "IPython")


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Makes imports quiet and quick; put those of TensorFlow, Keras and Beam inside.

    What libraries print to stderr while they load is hidden. The garbage collector waits, as an
    import makes hundreds of thousands of objects that stay. A failing import still raises.
    """
    absent = [name for name in _NOT_SHOWN if name not in sys.modules]
    is_collecting = gc.isenabled()
    gc.disable()
    # An import of a module that is None here fails, which is what these libraries are ready for.
    sys.modules.update(dict.fromkeys(absent))
    try:
        with quiet_stderr():
            yield
    finally:
        for name in absent:
            sys.modules.pop(name, None)  # of two threads, the first to end removes it
        if is_collecting:
            gc.enable()
