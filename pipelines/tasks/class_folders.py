"""Reads texts in folders that are named by their labels, such as train/pos/1.txt.

Each file is one text, as in the folders of 20 Newsgroups and of the Large Movie Review Dataset.
"""

import dataclasses
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from beambert.errors import InputError
from beambert.file_kinds import not_text
from beambert.pipelines.corpus.encodings import WrongEncodingError, decode, parse_encodings
from beambert.pipelines.tasks.tables import BadRow

# Ending of a split's name that stands for a folder with a folder for each label.
FOLDER = "/"
# Times that the most frequent label may be as frequent as the rarest one without advice.
_UNEVEN = 10
# Number of labels that a note lists.
_LISTED = 10


@dataclasses.dataclass(frozen=True)
class LabelledText:
    """A text in a folder that is named by its label.

    Attributes:
      path: path of its file.
      name: path of the file in the folder of the split.
      label: name of its folder.
      text: the text, or the error about it.
    """

    path: pathlib.Path
    name: str
    label: str
    text: str | BadRow


def read_folder(
    folder: pathlib.Path, labels: Sequence[str] | None, encoding: str
) -> tuple[list[LabelledText], list[str]]:
    """Returns the texts of a split in the order of their names, and notes about it.

    Args:
      folder: folder of the split.
      labels: labels whose folders are read; None for all folders.
      encoding: value of --encoding, see `corpus.encodings.parse_encodings`.

    Raises:
      InputError: there is no folder of a label, or a folder or file cannot be read.
    """
    try:
        paths, notes = _find(folder, labels)
        contents = {path: path.read_bytes() for one_path in paths.values() for path in one_path}
    except OSError as error:
        raise InputError(
            f"{error.filename}: cannot be read ({error.strerror}); fix that or delete it"
        ) from error
    if not contents:
        raise InputError(
            f"{folder}: has no folders with texts; put the texts of each label in a folder of its "
            "name"
        )
    texts = [
        LabelledText(path, _printable(path.relative_to(folder)), label, text)
        for label, one_path in paths.items()
        for path in one_path
        for text in [_text(path, contents[path], encoding)]
    ]
    return texts, [
        *notes,
        balance(folder, {name: len(one_path) for name, one_path in paths.items()}),
    ]


def contents_of(folder: pathlib.Path) -> Iterator[bytes]:
    """Yields the names and contents of a split's files, in the order of their names."""
    for each in _find(folder, None)[0].values():
        for path in each:
            content = path.read_bytes()
            yield f"{_printable(path.relative_to(folder))}\n{len(content)}\n".encode()
            yield content


def _find(
    folder: pathlib.Path, labels: Sequence[str] | None
) -> tuple[dict[str, list[pathlib.Path]], list[str]]:
    """Returns label -> its files, and notes about what is not read."""
    found: dict[str, list[pathlib.Path]] = {}
    notes: list[str] = []
    others: list[pathlib.Path] = []
    for path in _inside(folder):
        label = _printable(pathlib.Path(path.name))
        if not path.is_dir():
            others.append(path)
            continue
        files: list[pathlib.Path] = []
        for inside in _inside(path):
            (files if inside.is_file() else others).append(inside)
        if labels is None or label in labels:
            found[label] = files
        else:
            notes.append(f"{path}: is no label of --labels; its {len(files):,} files are not read")
    if others:
        notes.append(
            f"{folder}: {len(others):,} files and folders that are no texts of a label are not "
            f"read, such as {_printable(others[0].relative_to(folder))}"
        )
    return found, notes


def _inside(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns what is in a folder, except for hidden files, sorted by name."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _text(path: pathlib.Path, content: bytes, encoding: str) -> str | BadRow:
    if problem := not_text(content):
        reason, _, remedy = problem.partition("; ")
        return BadRow(path, 1, reason, remedy)
    try:
        return decode(content, parse_encodings(encoding))[0]
    except WrongEncodingError as error:
        reason, _, advice = str(error).partition("; ")
        return BadRow(path, error.line, reason, advice or "convert the file to UTF-8")


def balance(path: pathlib.Path, counts: Mapping[str, int]) -> str:
    """Returns the note about the number of texts of each label in a folder or a file."""
    listed = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    parts = [f"{count:,} {label:.40}" for label, count in listed[:_LISTED]]
    more = len(listed) - _LISTED
    note = f"{path}: {', '.join(parts)}{f' and {more:,} more labels' if more > 0 else ''}"
    if listed[0][1] > _UNEVEN * listed[-1][1]:
        note += "; --class_weights=balanced makes rare labels count as much as common ones"
    return note


def _printable(path: pathlib.Path) -> str:
    """Returns a path with the bytes that aren't UTF-8 written out."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
