"""The sources of --source: their names and patterns."""

import functools
import re
from collections.abc import Sequence

from beambert.errors import InputError

# The names of sources become names of folders.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def parse_sources(given: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Returns name -> patterns of values such as "books=books/*.txt,more/*.txt".

    Raises:
      InputError: a value lacks a name or a pattern, or a name is there twice.
    """
    found: dict[str, tuple[str, ...]] = {}
    for text in given:
        name, _, patterns = text.partition("=")
        if not _NAME.fullmatch(name):
            raise InputError(
                f"--source={text}: must begin with a name of letters, digits, _, - and ., and then "
                "=, as in --source=books='books/*.txt'"
            )
        if name in found:
            raise InputError(
                f"--source={text}: {name} is the name of another source; give all its patterns "
                "behind one name, with commas between them, or choose another name"
            )
        found[name] = tuple(patterns.split(","))
        if not all(found[name]):
            raise InputError(f"--source={text}: has an empty pattern; name the files to read")
    return found


class JobInput:
    """The files of a job that reads --input or --source; a base for the job's dataclass.

    Attributes:
      input: patterns of the files to read.
      source: sources of the files to read, each a text "NAME=PATTERN,PATTERN".
    """

    input: tuple[str, ...]
    source: tuple[str, ...]

    @functools.cached_property
    def sources(self) -> dict[str, tuple[str, ...]]:
        """Name -> patterns of each source of `source`."""
        return parse_sources(self.source)

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of all files to read."""
        return self.input or tuple(text for source in self.sources.values() for text in source)

    def check_input(self) -> None:
        """Checks that only one of `input` and `source` is given.

        Raises:
          InputError: both are, or a source isn't one.
        """
        if self.sources and self.input:
            raise InputError(
                f"--input={self.input[0]}: cannot be given beside --source; make it a source, or "
                "leave it out"
            )
