"""What commands print: counts, sizes, durations, and a line about the progress of a job."""

import contextlib
import functools
import json
import math
import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# Type of a function from the summed counts and the seconds so far to a line, which may be empty.
Describe = Callable[[dict[str, int], float], str]
# Type of a function that is called with the numbers that are done and in all.
Report = Callable[[int, int], None]

SECONDS_BETWEEN_LINES = 5.0
SECONDS_BETWEEN_TALLIES = 0.5


def counted(count: int, noun: str) -> str:
    """Returns a count with its noun: 1 file, 2,000 files."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def size(number: int) -> str:
    """Formats a number of bytes as people read it: 12 bytes, 3.4 kB, 5.6 MB, 7.8 GB."""
    if number < 1000:
        return counted(number, "byte")
    units = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
    return next(f"{number / unit:.1f} {name}" for unit, name in units if number >= unit)


def duration(seconds: float) -> str:
    """Formats seconds as people read them: 42 s, 3 min 05 s, 2 h 10 min, 12 days."""
    seconds = int(seconds + 0.5)
    if seconds >= 7 * 24 * 3600:
        return f"{seconds // (24 * 3600):,} days"
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"


def json_line(row: Mapping[str, Any]) -> str:
    """Returns a row of JSON Lines, its numbers with seven significant digits, as float32 has."""
    return json.dumps(_rounded(row), ensure_ascii=False) + "\n"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, Mapping):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, (list, tuple)) else value


class Pace:
    """The rate of a job since its first progress was seen.

    What came before, such as loading a model and compiling it, is not repeated.
    """

    def __init__(self) -> None:
        """Has seen no progress yet."""
        self._first: tuple[float, float] | None = None

    def of(self, done: float, seconds: float) -> float | None:
        """Returns the amount a second; None until there is more than the first progress.

        Args:
          done: amount that is done, more than 0.
          seconds: time since any fixed moment.
        """
        if self._first is None:
            self._first = done, seconds
        before, then = self._first
        return (done - before) / (seconds - then) if done > before and seconds > then else None


class ProgressTally:
    """The counts of one worker, in a small file that the `ProgressDisplay` reads.

    It is a file because local workers may be threads or processes. Without a folder it does
    nothing: workers on other machines have none, and the runner's own page shows counters there.
    """

    def __init__(self, folder: str | None):
        """Takes the folder of the display, or None."""
        worker = f"{os.getpid()}-{threading.get_ident()}-{id(self)}"
        self._path = Path(folder, worker) if folder else None
        self._counts: dict[str, int] = {}
        self._last_written = 0.0

    def add(self, **counts: int) -> None:
        """Adds to this worker's counts; the display shows them a few seconds later."""
        if self._path is None:
            return
        for name, count in counts.items():
            self._counts[name] = self._counts.get(name, 0) + count
        if time.monotonic() - self._last_written > SECONDS_BETWEEN_TALLIES:
            self.flush()

    def flush(self) -> None:
        """Writes the counts to the file that the display reads."""
        if self._path is not None:
            with contextlib.suppress(OSError):  # A full disk must not stop the work.
                self._path.write_text(json.dumps(self._counts))
            self._last_written = time.monotonic()


def no_report(done: int, total: int) -> None:
    """Reports nothing."""


def further(report: Report, before: int, total: int) -> Report:
    """Returns a report about a part of all, before which some was done."""
    return lambda done, _: report(before + done, total)


def show_progress(
    things: str, show: Callable[[str], None] | None = None, most: float = math.inf
) -> Report:
    """Returns a function that shows a line about what is done, every few seconds.

    Args:
      things: what is counted, in the plural.
      show: function that shows a line; None for one that prints it.
      most: seconds after which the rest is left out.
    """
    pace, show = Pace(), show or functools.partial(print, flush=True)
    end, next_line = time.monotonic() + most, time.monotonic() + SECONDS_BETWEEN_LINES

    def report(done: int, total: int) -> None:
        nonlocal next_line
        now = time.monotonic()
        rate = pace.of(done, now)
        if rate and now >= next_line and done < total:
            next_line = now + SECONDS_BETWEEN_LINES
            left, digits = min((total - done) / rate, max(end - now, 0)), 0 if rate >= 10 else 2
            show(f"{done:,} of {total:,} {things}, {rate:,.{digits}f}/s, {duration(left)} left")

    return report


def describe_bytes(verb: str, things: str, total_bytes: int) -> Describe:
    """Returns a function that describes the progress through bytes; see `ProgressDisplay`.

    Its counts are those of the things and of the "bytes" (as stored) so far.

    Args:
      verb: what is done, as a participle.
      things: name of the count of what the bytes hold, in the plural.
      total_bytes: size of all, as stored.
    """
    pace = Pace()

    def describe(counts: dict[str, int], seconds: float) -> str:
        done = counts.get("bytes", 0)
        if not done:
            return ""
        line = f"{verb}: {counts.get(things, 0):,} {things}, {done / 1e6:.1f} of "
        line += f"{total_bytes / 1e6:.1f} MB"
        # All may be read long before its sentences are tokenized, or its words are counted.
        if done < total_bytes and (rate := pace.of(done, seconds)):
            line += f", {rate / 1e6:.2f} MB/s, {duration((total_bytes - done) / rate)} left"
        return line

    return describe


class ProgressDisplay:
    """Shows a line about the workers' counts every few seconds; a context manager."""

    def __init__(self, describe: Describe):
        """Takes the function that makes the line from the summed counts and the seconds so far."""
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
            with contextlib.suppress(OSError, ValueError):  # A worker is rewriting the file.
                for name, count in json.loads(path.read_text()).items():
                    total[name] = total.get(name, 0) + count
        return total

    def __enter__(self) -> "ProgressDisplay":
        """Starts showing lines."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops showing lines."""
        self._stop.set()
        self._thread.join()
        self._folder.cleanup()
