"""Progress of workers: their tallies, and the line that sums them."""

import contextlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

SECONDS_BETWEEN_LINES = 5.0
SECONDS_BETWEEN_TALLIES = 0.5


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
