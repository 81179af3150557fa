"""What commands print: one-sentence errors, nothing of quiet imports, durations."""

import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence

from beambert.pipelines.shared.errors import InputError


class _Quiet:
    """Who hides stderr right now: the process has one, which threads hide at the same time.

    The first saves it and the last puts it back; nobody waits for another's work.
    """

    lock = threading.Lock()
    depth = 0
    saved = -1


_quiet = _Quiet()


def run_main(command: str, main: Callable[[Sequence[str]], None], argv: Sequence[str]) -> int:
    """Runs a command's `main` and returns its exit status.

    An `InputError` becomes one line on stderr and status 2; an interrupt becomes status 130.
    Anything else is a fault of ours and keeps its traceback.
    """
    try:
        main(argv)
    except InputError as error:
        print(f"beambert {command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"beambert {command}: interrupted", file=sys.stderr)
        return 130
    return 0


@contextlib.contextmanager
def quiet_stderr() -> Iterator[None]:
    """Hides what native libraries print while they load; put heavy imports inside.

    TensorFlow logs its probes for CUDA before any log level applies. A failing import still
    raises, so nothing that matters is hidden.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    with _quiet.lock:
        _quiet.depth += 1
        if _quiet.depth == 1:
            _quiet.saved = os.dup(2)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 2)
            os.close(nowhere)
    try:
        yield
    finally:
        with _quiet.lock:
            _quiet.depth -= 1
            if _quiet.depth == 0:
                os.dup2(_quiet.saved, 2)
                os.close(_quiet.saved)


def input_error_in(error: BaseException) -> InputError | None:
    """Finds the `InputError` in a runner's exception, which carries it as text only."""
    text = f"InputError: {error}" if isinstance(error, InputError) else str(error)
    pattern = (
        r"^(?:beambert\.pipelines\.shared\.errors\.)?InputError: (.+?)(?: \[while running .*)?$"
    )
    found = re.findall(pattern, text, re.MULTILINE)
    return InputError(found[-1]) if found else None


def duration(seconds: float) -> str:
    """Formats seconds as people read them: 42 s, 3 min 05 s, 2 h 10 min."""
    seconds = int(seconds + 0.5)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"
