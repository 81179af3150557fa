"""Runs commands in this process, and judges how they end and what they leave."""

import contextlib
import dataclasses
import os
import pathlib
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence

from beambert import commands

# Parts of names that only work in progress has.
_UNFINISHED = ("_tmp-", "beam-temp-", ".unfinished")
# A sentence has no more characters, besides the names and values of the command line.
MOST_CHARACTERS = 4000
# Names that are told of a value's place in a traceback, and of a fault in native code.
_SIGNS_OF_A_FAULT = ("Traceback (most recent call last)", "Fatal Python error", "core dumped")


class FoundError(Exception):
    """The attempt has found a fault: its kind, and what shows it."""

    def __init__(self, kind: str, detail: str):
        """Takes the fault's kind in a word or two, and what shows it."""
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a command ended: its status, and what it printed on stdout and stderr."""

    command: Sequence[str]
    status: int
    out: str
    error: str


@dataclasses.dataclass(frozen=True)
class Trial:
    """One attempt.

    Attributes:
      generator: decides the attempt.
      material: folder of what is sound; nobody writes to it.
      folder: folder of this attempt alone, with the folder for temporary files in it.
      refusals: gets the sentence of each command that refused.
    """

    generator: random.Random
    material: pathlib.Path
    folder: pathlib.Path
    refusals: list[str] = dataclasses.field(default_factory=list)

    @property
    def temporary(self) -> pathlib.Path:
        """The folder for temporary files."""
        return self.folder / "temporary"

    def call(self, *arguments: object) -> Ended:
        """Runs a command in this process, and judges its end."""
        ended = judged(run(list(map(str, arguments)), self.folder))
        if ended.status == 2:
            self.refusals.append(ended.error.strip())
        return ended


@dataclasses.dataclass(frozen=True)
class Family:
    """Attempts of one kind.

    Attributes:
      name: value of --only.
      share: share of all attempts.
      attempt: makes one attempt and returns its outcome in a word or two.
      is_fresh: True if each attempt needs a process in which TensorFlow has not begun.
    """

    name: str
    share: float
    attempt: Callable[[Trial], str]
    is_fresh: bool = False


@contextlib.contextmanager
def captured(folder: pathlib.Path) -> Iterator[tuple[pathlib.Path, pathlib.Path]]:
    """Writes what this process prints, native code included, to files in a folder."""
    paths = folder / "stdout.log", folder / "stderr.log"
    sys.stdout.flush(), sys.stderr.flush()
    saved = [os.dup(1), os.dup(2)]
    for number, path in enumerate(paths, 1):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, number)
        os.close(descriptor)
    try:
        yield paths
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        for number, descriptor in enumerate(saved, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)


def run(arguments: Sequence[str], folder: pathlib.Path) -> Ended:
    """Runs a command in this process.

    Raises:
      FoundError: it ended with an exception.
    """
    with contextlib.suppress(OSError, UnicodeError):
        (folder / "command.txt").write_text("\0".join(arguments), "utf-8", "surrogateescape")
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    with captured(folder) as (out, error):
        try:
            status: object = commands.run(arguments)
        except SystemExit as end:
            status = end.code
        except BaseException as unexpected:
            import traceback

            text = "".join(traceback.format_exception(unexpected)[-12:])
            raise FoundError("traceback", text) from None
    code = status if isinstance(status, int) else int(status is not None)
    read = [path.read_text("utf-8", "replace") for path in (out, error)]
    return Ended(arguments, code, *read)


def judged(ended: Ended) -> Ended:
    """Returns a command's end if it is one of those that are promised.

    Raises:
      FoundError: it printed a traceback, or its status and its words don't fit.
    """
    for sign in _SIGNS_OF_A_FAULT:
        if sign in ended.error + ended.out:
            raise FoundError("traceback", (ended.error + ended.out)[-3000:])
    name = ended.command[0] if ended.command else ""
    if ended.status == 2:
        if not ended.error.startswith(f"beambert {name}: ") or ended.error.count("\n") != 1:
            raise FoundError("no sentence", ended.error[-2000:])
        named = sum(map(len, ended.command))
        if len(ended.error) > named * 2 + MOST_CHARACTERS:
            start = f"{ended.error[:1000]} …"
            raise FoundError("long sentence", f"{len(ended.error):,} characters: {start}")
    elif ended.status not in ((0, 1) if name == "verify" else (0, 75)):
        raise FoundError("status", f"{ended.status}: {ended.error[-2000:]}")
    return ended


def leftovers(folder: pathlib.Path) -> list[str]:
    """Returns what no command that has ended may leave in the folder of an attempt."""
    found = [str(path.relative_to(folder)) for path in (folder / "temporary").glob("*")]
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if any(part in name for part in _UNFINISHED):
                found.append(os.path.join(os.path.relpath(place, folder), name))
    return found
