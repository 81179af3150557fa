"""What commands print: one-sentence errors, quiet imports, progress with rate and ETA."""

import argparse
import contextlib
import json
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from pipelines.errors import InputError

SECONDS_BETWEEN_LINES = 5.0
SECONDS_BETWEEN_TALLIES = 0.5


class _Quiet:
    """Who hides stderr right now: the process has one, which threads hide at the same time.

    The first saves it and the last puts it back; nobody waits for another's work.
    """

    lock = threading.Lock()
    depth = 0
    saved = -1


_quiet = _Quiet()


class FlagParser(argparse.ArgumentParser):
    """A parser of a command's flags whose errors are one sentence, as all others."""

    def error(self, message: str) -> NoReturn:
        """Refuses what can't be parsed.

        Raises:
          InputError: always.
        """
        raise InputError(f"{message}; see --help")


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
    pattern = r"^(?:pipelines\.errors\.)?InputError: (.+?)(?: \[while running .*)?$"
    found = re.findall(pattern, text, re.MULTILINE)
    return InputError(found[-1]) if found else None


def parse_bool(text: str) -> bool:
    """Reads a flag's value as absl does (`--do_lower_case=False`), for argparse's `type=`."""
    lowered = text.lower()
    if lowered in ("true", "t", "1", "yes"):
        return True
    if lowered in ("false", "f", "0", "no"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither True nor False")


def duration(seconds: float) -> str:
    """Formats seconds as people read them: 42 s, 3 min 05 s, 2 h 10 min."""
    seconds = int(seconds + 0.5)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"


class ProgressTally:
    """A worker's share of the progress: a small file that the `ProgressDisplay` sums.

    Files, because local workers may be threads or processes. Without a folder (workers on other
    machines; the runner's own page shows counters there) it does nothing.
    """

    def __init__(self, folder: str | None):
        """Takes the display's folder, or None."""
        worker = f"{os.getpid()}-{threading.get_ident()}-{id(self)}"
        self._path = Path(folder, worker) if folder else None
        self._counts: dict[str, int] = {}
        self._last_told = 0.0

    def add(self, **counts: int) -> None:
        """Adds to this worker's counts; the display learns of it within a second or so."""
        if self._path is None:
            return
        for name, count in counts.items():
            self._counts[name] = self._counts.get(name, 0) + count
        if time.monotonic() - self._last_told > SECONDS_BETWEEN_TALLIES:
            self.flush()

    def flush(self) -> None:
        """Tells the display all that was counted."""
        if self._path is not None:
            with contextlib.suppress(OSError):  # progress must never stop the work
                self._path.write_text(json.dumps(self._counts))
            self._last_told = time.monotonic()


class ProgressDisplay:
    """Prints a line every few seconds from what the workers tally. Use as a context manager."""

    def __init__(self, describe: Callable[[dict[str, int], float], str]):
        """Takes a function of (summed counts, seconds so far) that returns the line."""
        self._describe = describe
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._folder = tempfile.TemporaryDirectory(prefix="beambert-progress-")
        self.folder = self._folder.name

    def _loop(self) -> None:
        started = time.monotonic()
        last = ""
        while not self._stop.wait(SECONDS_BETWEEN_LINES):
            line = self._describe(self._sum(), time.monotonic() - started)
            if line and line != last:
                print(line, flush=True)
                last = line

    def _sum(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for path in Path(self.folder).iterdir():
            with contextlib.suppress(OSError, ValueError):  # a file being rewritten right now
                for name, count in json.loads(path.read_text()).items():
                    total[name] = total.get(name, 0) + count
        return total

    def __enter__(self) -> "ProgressDisplay":
        """Starts printing."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops printing."""
        self._stop.set()
        self._thread.join()
        self._folder.cleanup()
