"""Which files a command reads: the flags --input, --source and those of their formats."""

import dataclasses
import functools
import itertools
import re
from collections.abc import Collection, Mapping, Sequence

from beambert.config import as_tuple, setting
from beambert.errors import InputError
from beambert.io import has_wildcard
from beambert.pipelines.corpus.base import ReadOptions
from beambert.pipelines.corpus.cleaning import AUTO, LAYOUTS
from beambert.pipelines.corpus.encodings import encoding_setting, parse_encodings
from beambert.pipelines.corpus.formats import CHOICES, FORMATS

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


def _source_name(pattern: str, others: Collection[str]) -> str:
    """Returns a name for the source of a pattern: its last folder, or the file, as far as named."""
    named = [part for part in pattern.split("/") if part and not has_wildcard(part)]
    last = (named or ["source"])[-1].split(".")[0]
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", last).lstrip("_-") or "source"
    numbered = (f"{name}-{number}" if number > 1 else name for number in itertools.count(1))
    return next(each for each in numbered if each not in others)


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputSettings:
    """The files of a job that reads --input or --source; a base for the job's dataclass.

    In Python `input` may be a mapping from patterns to shares of the records' tokens, `source` one
    from names to a pattern or patterns, and `weights` of a job that has them one from names.
    """

    input: tuple[str, ...] = setting(
        (), metavar="GLOB", help="files to read, which may be compressed (.gz, .bz2, .zst)"
    )
    source: tuple[str, ...] = setting(
        (),
        metavar="NAME=GLOB[,GLOB]",
        help="in place of --input: a source of the text and its files; give the flag once for each "
        "source. `beambert data` makes each pair of one source and holds out records of each in "
        "DIR/eval/NAME; for `beambert vocab` all text counts as often as it occurs",
    )
    format: str = setting(AUTO, choices=[AUTO, *CHOICES], help="format of the files")
    text_column: str = setting(
        "text", help="column of JSON Lines, Parquet, CSV and TSV that holds the documents"
    )
    layout: str = setting(
        AUTO,
        choices=LAYOUTS,
        help="how the lines of a text are read; wrapped: they are joined up to a blank line; "
        "paragraphs: each is a paragraph; sentences: each is one sentence; auto: each text is "
        "looked at, and a line says what was found",
    )
    encoding: str = encoding_setting()
    max_reject_fraction: float = setting(
        0.0,
        minimum=0,
        below=1,
        metavar="SHARE",
        help="share of the documents that may be unreadable before the job fails",
    )

    @functools.cached_property
    def sources(self) -> dict[str, tuple[str, ...]]:
        """Name -> patterns of each source of `source`."""
        return parse_sources(self.source)

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of all files to read."""
        return self.input or tuple(text for source in self.sources.values() for text in source)

    def take_mappings(self) -> None:
        """Puts the strings of the flags in the place of mappings."""
        source, weights = self.source, getattr(self, "weights", "")
        if isinstance(self.input, Mapping):
            source, weights = {}, {}
            for pattern, share in self.input.items():
                name = _source_name(pattern, source)
                source[name], weights[name] = pattern, share
            object.__setattr__(self, "input", ())
        if isinstance(source, Mapping):
            named = (f"{name}={','.join(as_tuple(each))}" for name, each in source.items())
            object.__setattr__(self, "source", tuple(named))
        if isinstance(weights, Mapping) and hasattr(self, "weights"):
            shares = ",".join(f"{name}={share!r}" for name, share in weights.items())
            object.__setattr__(self, "weights", shares)

    def check_input(self) -> None:
        """Checks that only one of `input` and `source` is given, and that `layout` has an effect.

        Raises:
          InputError: both are, a source isn't one, or the format decides how lines are read.
        """
        if self.format != AUTO:
            FORMATS[self.format].check_layout(self.layout, f"--format={self.format}")
        if self.sources and self.input:
            raise InputError(
                f"--input={self.input[0]}: cannot be given with --source; make it a source, or "
                "leave it out"
            )

    def check_given(self) -> None:
        """Checks that there are files to read, which a pipeline of documents does without.

        Raises:
          InputError: there are none.
        """
        if not self.patterns:
            raise InputError("--input: missing; name the files to read, or give --source")

    def read_options(
        self, progress_folder: str | None = None, language_column: str = ""
    ) -> ReadOptions:
        """Returns the options for reading documents from the files.

        Raises:
          InputError: the encoding is not known.
        """
        encodings = parse_encodings(self.encoding)
        return ReadOptions(
            self.format, self.text_column, progress_folder, encodings, language_column, self.layout
        )


def describe_changes(what: str, counts: Mapping[str, int]) -> str:
    """Returns the part of a summary about what was "cleaned" or "replaced", by name; "" if none."""
    named = (f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items())
    return f"; {what}: {', '.join(named)}" if counts else ""
