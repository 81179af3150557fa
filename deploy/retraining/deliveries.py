"""Deliveries: files of text, and the manifests that say which of them are complete.

A manifest is `{"files": [{"path": …, "bytes": …}, …]}`. Its paths are full, or relative to its
folder. It is written after all of its files. A run takes the files that a correct manifest names.
It leaves a wrong manifest and its files out and says so, so that one bad delivery doesn't stop the
others.
"""

import dataclasses
import datetime
import os
from collections.abc import Sequence

from beambert.errors import InputError
from beambert.json_objects import parse_object
from beambert.pipelines.storage import tensorflow_files
from beambert.pipelines.storage.claims import absolute

# The clocks of two machines may differ by so many seconds.
CLOCK_DIFFERENCE = 300.0
# The form of a manifest, for messages.
FORM = '{"files": [{"path": …, "bytes": …}, …]}'


@dataclasses.dataclass(frozen=True)
class Deliveries:
    """What the manifests of a corpus say.

    Attributes:
      files: paths that correct manifests name.
      count: number of correct manifests.
      newest: time at which the newest one was written, in seconds since 1970.
      faults: a sentence for each manifest that is wrong.
    """

    files: frozenset[str] = frozenset()
    count: int = 0
    newest: float = 0.0
    faults: tuple[str, ...] = ()


def read_deliveries(
    patterns: Sequence[str], left_out: frozenset[str], now: float, until: float | None = None
) -> Deliveries:
    """Reads and checks the manifests of a corpus.

    Args:
      patterns: globs of the manifests.
      left_out: paths of manifests and files that are left out.
      now: present time in seconds since 1970.
      until: time from which on manifests are left out; None to take all.

    Raises:
      InputError: the manifests cannot be listed.
    """
    files: set[str] = set()
    faults, count, newest = [], 0, 0.0
    for path in (path for pattern in patterns for path in tensorflow_files.match(pattern)):
        if absolute(path) in left_out:
            continue
        try:
            written = tensorflow_files.modified(path)
            if until is not None and written >= until:
                continue
            named, fault = _check(path, left_out, written, now)
        except InputError as error:
            fault = (
                f"manifest, or a file that it names, cannot be read ({error}); mend that, or "
                "delete the manifest and its files"
            )
        if fault:
            faults.append(f"{path}: {fault}")
        else:
            files |= named
            count, newest = count + 1, max(newest, written)
    return Deliveries(frozenset(files), count, newest, tuple(faults))


def _check(
    path: str, left_out: frozenset[str], written: float, now: float
) -> tuple[set[str], str | None]:
    """Returns the files that a manifest names, and what is wrong with it."""
    if written > now + CLOCK_DIFFERENCE:
        date = f"{datetime.datetime.fromtimestamp(written, datetime.UTC):%Y-%m-%d %H:%M} UTC"
        return set(), f"manifest is of the future ({date}); mend the clock and write it again"
    try:
        found = parse_object(tensorflow_files.read_bytes(path))["files"]
        listed = [(os.fspath(each["path"]), int(each["bytes"])) for each in found]
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        what = f"manifest is half-written or none ({error})"
        return set(), f"{what}; write it again as {FORM}, or delete it and its files"
    if not listed:
        return set(), "manifest names no file; write it again with its files, or delete it"
    named = set()
    for name, size in listed:
        file = name if "://" in name else os.path.join(os.path.dirname(path), name)
        if absolute(file) in left_out:
            continue
        there = tensorflow_files.size(file)
        if there != size and tensorflow_files.is_folder(file):
            return set(), f"manifest names {file}, which is a folder; name its files"
        if there != size:
            what = "is missing" if there is None else f"has {there} bytes"
            return set(), (
                f"manifest names {file}, which {what}; it should have {size} bytes; "
                "complete the delivery or correct the manifest"
            )
        named.add(absolute(file))
    return named, None


def find_left_out(patterns: Sequence[str]) -> frozenset[str]:
    """Returns the paths that the configuration's `leave_out` names.

    Raises:
      InputError: the storage doesn't answer.
    """
    found = {path for pattern in patterns for path in tensorflow_files.match(pattern)}
    return frozenset(map(absolute, found))
