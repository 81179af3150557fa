"""Decides for a corpus how text that isn't UTF-8 is decoded, from samples of its files.

One file may have too few bytes beyond ASCII to tell its encoding: a single pound sign, say. The
files in its folder tell it then. The decision is made before a pipeline starts and sent to all
workers, so that they agree.
"""

import codecs
import dataclasses
import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from beambert.pipelines.corpus import charsets
from beambert.pipelines.corpus.charsets import Assumed
from beambert.pipelines.corpus.escapes import escaped_encoding

if TYPE_CHECKING:  # A machine that trains has no Beam.
    from beambert.pipelines.files.input_files import InputFile

# Greatest number of files to sample on this machine and elsewhere. A file elsewhere takes a request
# of up to 16 MiB.
SAMPLED_FILES = 1000
SAMPLED_FILES_ELSEWHERE = 64
# Share of a folder's files with a certain encoding that must have the same one.
_AGREEMENT = 0.9
# Stands for the encoding of text that has UTF-8 and another one.
_MIXED = "mixed"


@dataclasses.dataclass(frozen=True)
class Encodings:
    """How text that isn't UTF-8 is decoded.

    Attributes:
      given: encoding that the user names; "" if it is decided.
      by_folder: folder -> the encoding that is assumed for its files.
      elsewhere: the encoding that is assumed in other folders; "" for none.
    """

    given: str = ""
    by_folder: Mapping[str, str] = dataclasses.field(default_factory=dict)
    elsewhere: str = ""

    def of(self, path: str) -> Assumed:
        """Returns what is assumed for a file."""
        if self.given:
            return Assumed(self.given, is_given=True)
        return Assumed(self.by_folder.get(posixpath.dirname(path), self.elsewhere))

    def to_json(self) -> dict[str, str]:
        """Returns what is assumed, by folder; "*" stands for all others."""
        return dict(self.by_folder) | ({"*": self.elsewhere} if self.elsewhere else {})


@dataclasses.dataclass(frozen=True)
class Sample:
    """The beginning of a file that isn't UTF-8.

    Attributes:
      path: path of the file.
      raw: its first bytes, up to the end of a line if possible.
      encoding: the encoding that it shows; "" if none is certain.
    """

    path: str
    raw: bytes
    encoding: str


def choose_files(files: "Sequence[InputFile]", most: int) -> "list[InputFile]":
    """Returns the files to sample, spread evenly over all files."""
    step = max(1.0, len(files) / most)
    return [files[int(n * step)] for n in range(min(most, len(files)))]


def sample_of(path: str, raw: bytes) -> Sample | None:
    """Returns the sample of a file, given its first bytes; None if it is UTF-8 or damaged UTF-8."""
    if charsets.find_mark(raw) or charsets.wide_encoding(raw, charsets.NOTHING_ASSUMED):
        return None
    if raw.isascii():
        raw = raw[: raw.rfind(b"\n") + 1] or raw  # The last character may be cut.
        return Sample(path, raw, escaped) if (escaped := escaped_encoding(raw)) else None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(raw)  # The last character may be cut.
    except UnicodeDecodeError:
        if not charsets.is_damaged_utf8(raw):
            whole_lines = raw[: raw.rfind(b"\n") + 1]
            raw = raw if whole_lines.isascii() else whole_lines
            return Sample(path, raw, charsets.detect_encoding(raw) or "")
    return None


def assume(samples: Sequence[Sample]) -> Encodings:
    """Returns what is assumed for each folder whose encoding is certain.

    A folder's encoding is that of nearly all its files whose own encoding is certain. If there is
    no such file, all samples of the folder are judged as one text, and then the other folders are
    asked.
    """
    folders: dict[str, list[Sample]] = {}
    for sample in samples:
        folders.setdefault(posixpath.dirname(sample.path), []).append(sample)
    everywhere = _agreed(samples)
    found = {}
    for folder, inside in folders.items():
        if any(sample.encoding for sample in inside):
            found[folder] = _agreed(inside)
        else:
            joined = b"\n".join(sample.raw for sample in inside)
            found[folder] = charsets.detect_encoding(joined) or everywhere
    # A folder whose files disagree has none, whatever the others have.
    told = {folder: found[folder] for folder in sorted(found) if found[folder] or everywhere}
    return Encodings("", told, everywhere)


def _agreed(samples: Iterable[Sample]) -> str:
    """Returns the encoding of nearly all samples that show one, or ""."""
    votes = Counter(sample.encoding for sample in samples if sample.encoding)
    if not votes:
        return ""
    (encoding, most) = votes.most_common(1)[0]
    return encoding if most >= _AGREEMENT * votes.total() else ""


def sample_files(
    files: "Sequence[InputFile]", begin: "Callable[[InputFile], bytes]"
) -> tuple[list[Sample], int]:
    """Returns the samples of those of some files that aren't UTF-8, and the number looked at.

    Args:
      files: the files of the corpus.
      begin: function that returns the first bytes of a file, or b"" if its format is always UTF-8.
    """
    is_here = all("://" not in file.path for file in files)
    chosen = choose_files(files, SAMPLED_FILES if is_here else SAMPLED_FILES_ELSEWHERE)
    # Files elsewhere take most of the time to wait for them.
    with ThreadPoolExecutor(16) as pool:
        found = pool.map(lambda file: sample_of(file.path, begin(file)), chosen)
        return [sample for sample in found if sample], len(chosen)


def decide(
    files: "Sequence[InputFile]", begin: "Callable[[InputFile], bytes]"
) -> tuple[Encodings, list[str]]:
    """Returns how files that aren't UTF-8 are decoded, and the lines that say what is assumed.

    Args:
      files, begin: see `sample_files`.
    """
    samples, sampled = sample_files(files, begin)
    found = assume(samples)
    return found, describe(samples, found, sampled if sampled < len(files) else 0)


def describe(samples: Sequence[Sample], encodings: Encodings, sampled: int = 0) -> list[str]:
    """Returns the lines that say what is assumed, each with an example.

    Args:
      samples: samples of the files that aren't UTF-8.
      encodings: what is assumed.
      sampled: number of files that were looked at; 0 if these were all.
    """
    of_all = f" of {sampled:,} sampled" if sampled else ""
    by_encoding: dict[str, list[Sample]] = {}
    for sample in samples:
        encoding = charsets.choose_encoding(sample.raw, encodings.of(sample.path))
        if not encoding and charsets.utf8_lines_of_mixed(sample.raw):
            encoding = _MIXED
        by_encoding.setdefault(encoding, []).append(sample)
    lines = []
    for encoding, found in sorted(by_encoding.items(), key=lambda item: -len(item[1])):
        count = f"{len(found):,}{of_all} file{'' if max(len(found), sampled) == 1 else 's'}"
        name = found[0].path
        if encoding == _MIXED:
            numbered = enumerate(found[0].raw.splitlines(), 1)
            bad = next(at for at, line in numbered if not charsets.can_decode(line, "utf-8"))
            lines.append(
                f"encodings are mixed in {count}, such as {name}: line {bad} is not UTF-8, but "
                "others are; convert its lines to UTF-8"
            )
        elif encoding:
            lines.append(
                f"assumed {charsets.web_name(encoding)} for {count}, such as {name}: "
                f"“{charsets.example(found[0].raw, encoding)}”; give --encoding= to decide"
            )
        else:
            lines.append(
                f"no encoding is certain from the beginning of {count}, such as {name}: "
                f"{_around(found[0].raw)!r}; give --encoding= to decide"
            )
    return lines


def _around(raw: bytes) -> bytes:
    """Returns the bytes around the first byte beyond ASCII."""
    at = next(at for at, byte in enumerate(raw) if byte >= 0x80)
    return raw[max(0, at - charsets.EXAMPLE_CHARACTERS) : at + charsets.EXAMPLE_CHARACTERS]
