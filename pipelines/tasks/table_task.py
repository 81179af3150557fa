"""The base class of the kinds whose examples are rows of tables, and what all kinds check."""

import abc
import collections
import dataclasses
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from beambert.errors import InputError
from beambert.pipelines.tasks import tables
from beambert.pipelines.tasks.class_folders import balance
from beambert.pipelines.tasks.examples import TextExample
from beambert.pipelines.tasks.tables import BadRow
from beambert.pipelines.tasks.task import ExampleFile, Task

# The flags that name the columns of tables.
TABLE_FLAGS = frozenset({"text_columns", "label_column"})
# How a text is read that is longer than an input: its beginning, or windows of it.
TRUNCATE, WINDOWS = "truncate", "windows"
# Greatest number of windows without --max_windows.
DEFAULT_WINDOWS = 8
# Weights of labels with which all labels count alike.
BALANCED = "balanced"


class TableTask(Task):
    """A task whose examples are the rows of tables."""

    ENDINGS = tables.ENDINGS
    COLUMN_FLAGS = TABLE_FLAGS

    def read(
        self, path: pathlib.Path, is_labelled: bool, labels: Sequence[str] | None
    ) -> ExampleFile:
        """Reads the rows."""
        columns = self.headerless_columns if is_labelled else ()
        rows = tables.read_rows(path, columns, self.encoding)
        return parted(self._example(path, line, row, is_labelled, labels) for line, row in rows)

    def _example(
        self,
        path: pathlib.Path,
        line: int,
        row: dict[str, str] | BadRow,
        is_labelled: bool,
        labels: Sequence[str] | None,
    ) -> Any:
        if isinstance(row, BadRow):
            return row
        try:
            texts = [tables.filled(path, line, row, name) for name in self._text_columns(row)]
            choices = self._choice_columns(path, line, row)
            endings = tuple(tables.filled(path, line, row, name) for name in choices)
            label = None
            if is_labelled or self.label_column in row:
                label = self._label(path, line, row, endings or labels)
        except BadRow as error:
            return error
        used = {*self.text_columns, *choices, self.label_column}
        others = {name: field for name, field in row.items() if name not in used}
        text_b = texts[1] if len(texts) > 1 else None
        return self._make(endings, text=texts[0], text_b=text_b, label=label, columns=others)

    def _text_columns(self, row: dict[str, str]) -> tuple[str, ...]:
        if self.text_b_is_optional and self.text_columns[1] not in row:
            return self.text_columns[:1]
        return self.text_columns

    def _choice_columns(
        self, path: pathlib.Path, line: int, row: dict[str, str]
    ) -> tuple[str, ...]:
        return ()

    def _columns_of_choices(self, row: dict[str, str]) -> tuple[str, ...]:
        """Returns the columns of a row that `choice_columns` names; "ending*" names several."""
        names: list[str] = []
        for column in self.choice_columns:
            if column.endswith("*"):
                names += [name for name in row if name.startswith(column[:-1])]
            else:
                names.append(column)
        return tuple(names)

    def _label(
        self,
        path: pathlib.Path,
        line: int,
        row: dict[str, str],
        possible: Sequence[str] | None,
    ) -> Any:
        """Returns the truth of a row.

        Raises:
          BadRow: the label cannot be used.
          InputError: there is no column of labels.
        """
        label = tables.filled(path, line, row, self.label_column)
        self._check_label(path, line, label, possible)
        return label

    @abc.abstractmethod
    def _check_label(
        self, path: pathlib.Path, line: int, label: str, possible: Sequence[str] | None
    ) -> None:
        """Refuses a label that is not among the possible labels or endings.

        Raises:
          BadRow: the label cannot be used.
        """

    def _make(self, endings: tuple[str, ...], **fields: Any) -> Any:
        return TextExample(**fields)

    def check_file(self, path: pathlib.Path, examples: Sequence[Any]) -> None:
        """Refuses a file in which only some rows have a second text."""
        if len({example.text_b is None for example in examples}) > 1:
            raise InputError(
                f"{path}: has {self.text_columns[1]!r} in some rows only; fill it in for all of "
                "them or for none"
            )

    def check_split(
        self, path: pathlib.Path, is_labelled: bool, examples: Sequence[Any], first: Any
    ) -> None:
        """Refuses labels in some rows only, and pairs if train has none or the reverse."""
        check_labels(path, examples)
        if (examples[0].text_b is None) != (first.text_b is None):
            raise InputError(
                f"{path}: either this file or the train file lacks the second text, "
                f"{self.text_columns[1]!r}; add the column there or delete it here"
            )

    def label_names(self, example: Any) -> Iterable[str]:
        """Returns the label."""
        return () if example.label is None else (example.label,)


@dataclasses.dataclass(frozen=True)
class LabelledTextTask(TableTask):
    """A task that asks for labels of a text or of a pair of texts.

    Attributes:
      long_documents: how a text is read that is longer than an input: `TRUNCATE` or `WINDOWS`.
      max_windows: greatest number of windows of a text.
      class_weights: see `class_weights.label_weights`; None if all labels count alike.
    """

    long_documents: str = TRUNCATE
    max_windows: int = DEFAULT_WINDOWS
    class_weights: str | Mapping[str, float] | None = None

    LEARNING_FLAGS = frozenset({"long_documents", "max_windows", "class_weights"})

    def read_to_learn(
        self, path: pathlib.Path, is_labelled: bool, labels: Sequence[str] | None
    ) -> ExampleFile:
        """Reads a file, and notes how many texts of a table have each label."""
        file = super().read_to_learn(path, is_labelled, labels)
        counts = collections.Counter(
            name for example in file.examples for name in self.label_names(example)
        )
        if path.is_dir() or not counts:  # A folder's note counts its files.
            return file
        return dataclasses.replace(file, notes=[*file.notes, balance(path, counts)])

    @property
    def windows(self) -> int:
        """The greatest number of windows that a text becomes."""
        return self.max_windows if self.long_documents == WINDOWS else 1

    def learning_settings(self) -> dict[str, Any]:
        """Returns the windows and the weights, if there are any."""
        found: dict[str, Any] = {"windows": self.windows} if self.windows > 1 else {}
        return found | ({"class_weights": self.class_weights} if self.class_weights else {})

    def check_split(
        self, path: pathlib.Path, is_labelled: bool, examples: Sequence[Any], first: Any
    ) -> None:
        """Refuses also pairs, if long texts are read in windows."""
        super().check_split(path, is_labelled, examples, first)
        if self.windows > 1 and first.text_b is not None:
            raise InputError(
                f"--long_documents={self.long_documents}: {path} has pairs of texts, which have no "
                "windows; leave the flag out"
            )


def parted(found: Iterable[Any]) -> ExampleFile:
    """Separates examples from bad rows."""
    examples: list[Any] = []
    bad: list[BadRow] = []
    for example in found:
        (bad if isinstance(example, BadRow) else examples).append(example)
    return ExampleFile(examples, bad)


def check_labels(path: pathlib.Path, examples: Sequence[Any]) -> None:
    """Refuses a file with labels in some rows only.

    Raises:
      InputError: it has.
    """
    if len({example.truth is None for example in examples}) > 1:
        raise InputError(f"{path}: has labels in some rows only; fill them in, or remove all")


def check_name(path: pathlib.Path, line: int, label: str, possible: Sequence[str] | None) -> None:
    """Refuses a name that cannot be a label.

    Raises:
      BadRow: it has several lines, or is not among the possible labels.
    """
    if len(label.splitlines()) > 1:
        raise BadRow(path, line, "has a label of several lines", "correct the row")
    if possible is not None and label not in possible:
        raise tables.unknown_label(path, line, label, possible)


def several(path: pathlib.Path, found: set[str], where: str) -> tuple[str, ...]:
    """Returns the labels, sorted.

    Raises:
      InputError: there are fewer than two.
    """
    labels = sorted(found)
    if len(labels) < 2:
        has = f"has the one label {labels[0]!r} only" if labels else "has no labels"
        raise InputError(f"{path}: {has}; a classifier needs at least two, {where}")
    return tuple(labels)
