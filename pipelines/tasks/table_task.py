"""The base class of the kinds whose examples are rows of tables, and what all kinds check."""

import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from beambert.errors import InputError
from beambert.pipelines.tasks import tables
from beambert.pipelines.tasks.tables import BadRow, TableRow
from beambert.pipelines.tasks.task import (
    ExampleFile,
    Task,
    TaskFeatures,
    Texts,
)

if TYPE_CHECKING:
    from beambert.pipelines.tasks.texts import TextFeatures

# The flags that name the columns of tables.
TABLE_FLAGS = frozenset({"text_columns", "label_column"})


@dataclasses.dataclass(frozen=True)
class TextExample:
    """A text or a pair of texts with a label, labels or a number.

    Attributes:
      text: the text, or the first of a pair.
      text_b: the second text of a pair, or None.
      label: the label as written in the file, or if there may be several the labels, each once;
        None in a test file without labels.
      columns: the other columns of the row by name.
    """

    text: str
    text_b: str | None
    label: Any
    columns: dict[str, str]

    @property
    def truth(self) -> Any:
        """The right answer as written, or None."""
        return self.label

    def texts(self) -> Texts:
        """Returns the texts by the names of a SavedModel's inputs."""
        return {"text": self.text} | ({} if self.text_b is None else {"text_b": self.text_b})

    @property
    def sides(self) -> tuple[str, ...]:
        """The text, or both of a pair."""
        return tuple(self.texts().values())


class TableTask(Task):
    """A task whose examples are the rows of tables."""

    ENDINGS = tables.ENDINGS
    COLUMN_FLAGS = TABLE_FLAGS
    # Type of `label_ids`.
    TARGET_TYPE: ClassVar[type] = np.int32
    OUTPUTS = ("label", "probabilities")

    def read(
        self, path: pathlib.Path, is_labelled: bool, labels: Sequence[str] | None
    ) -> ExampleFile:
        """Reads the rows."""
        columns = self.headerless_columns if is_labelled else ()
        blanks = []

        def examples() -> Iterator[Any]:
            for line, row in tables.read_rows(path, columns, self.encoding):
                field = row.get(self.label_column, "") if isinstance(row, dict) else ""
                if field != field.strip():
                    blanks.append(line)
                yield self._example(row, is_labelled, labels)

        file = parted(examples())
        if not blanks or not self.HAS_LABELS:
            return file
        note = (
            f"{path}: blanks around the label were removed in {len(blanks):,} rows, such as line "
        )
        note += f"{blanks[0]:,}"
        return dataclasses.replace(file, notes=[note])

    def _example(
        self, row: TableRow | BadRow, is_labelled: bool, labels: Sequence[str] | None
    ) -> Any:
        if isinstance(row, BadRow):
            return row
        try:
            texts = [row.filled(name) for name in self._text_columns(row)]
            choices = self._choice_columns(row)
            endings = tuple(row.filled(name) for name in choices)
            label = None
            if self.label_column in row or (is_labelled and self._needs_label(row)):
                label = self._label(row, endings or labels)
        except BadRow as error:
            return error
        used = {*self.text_columns, *choices, self.label_column}
        others = {name: field for name, field in row.items() if name not in used}
        text_b = texts[1] if len(texts) > 1 else None
        return self._make(endings, text=texts[0], text_b=text_b, label=label, columns=others)

    def _needs_label(self, row: TableRow) -> bool:
        """Returns whether a row of a file with labels must have one."""
        return True

    def _text_columns(self, row: TableRow) -> tuple[str, ...]:
        if self.text_b_is_optional and self.text_columns[1] not in row:
            return self.text_columns[:1]
        return self.text_columns

    def _choice_columns(self, row: TableRow) -> tuple[str, ...]:
        return ()

    def _columns_of_choices(self, row: TableRow) -> tuple[str, ...]:
        """Returns the columns of a row that `choice_columns` names; "ending*" names several."""
        names: list[str] = []
        for column in self.choice_columns:
            if column.endswith("*"):
                names += [name for name in row if name.startswith(column[:-1])]
            else:
                names.append(column)
        return tuple(names)

    def _label(self, row: TableRow, possible: Sequence[str] | None) -> Any:
        """Returns the truth of a row.

        Raises:
          BadRow: the label cannot be used.
          InputError: there is no column of labels.
        """
        label = row.filled(self.label_column).strip()
        self._check_label(row, label, possible)
        return label

    def _check_label(self, row: TableRow, label: str, possible: Sequence[str] | None) -> None:
        """Refuses a label that cannot be used.

        Raises:
          BadRow: it has several lines, or is not among the possible labels.
        """
        if len(label.splitlines()) > 1:
            raise row.bad("has a label of several lines", "correct the row")
        if possible is not None and label not in possible:
            raise row.unknown_label(label, possible)

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

    @classmethod
    def features(
        cls, examples: Sequence[Any], labels: Sequence[str], text_features: "TextFeatures"
    ) -> TaskFeatures:
        """See `Task.features`."""
        texts, others, choices = cls._columns(examples)
        columns = [texts] if others[0] is None else [texts, others]
        targets = {}
        if examples[0].truth is not None:
            found = cls._targets([example.truth for example in examples], labels)
            targets = {"label_ids": np.array(found, cls.TARGET_TYPE)}
        return TaskFeatures(*tokens_of(text_features, columns), targets, {}, choices)

    @staticmethod
    def _columns(examples: Sequence[Any]) -> tuple[list[str], list[str | None], int]:
        """Returns the first and second texts of all sequences, and the sequences per example."""
        return [example.text for example in examples], [e.text_b for e in examples], 1

    @staticmethod
    def _targets(written: Sequence[str], labels: Sequence[str]) -> list[float]:
        index = {label: i for i, label in enumerate(labels)}
        return [index[label] for label in written]

    @staticmethod
    def unlabelled(texts: Sequence[str], choices: Sequence[str]) -> TextExample:
        """Returns a text or a pair."""
        return TextExample(texts[0], texts[1] if len(texts) > 1 else None, None, {})

    @staticmethod
    def answer(
        labels: Sequence[str], example: Any, outputs: Mapping[str, Any], i: int
    ) -> dict[str, Any]:
        """Returns the likeliest label, and the probability of each label."""
        probabilities = outputs["probabilities"][i].tolist()
        return {
            "label": outputs["label"][i].decode(),
            "probabilities": dict(zip(labels, probabilities, strict=True)),
        }


def tokens_of(
    text_features: "TextFeatures", columns: Sequence[Sequence[str]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns ids, segments and lengths of columns of texts, see `texts.without_padding`."""
    from beambert.pipelines.tasks.texts import converted, without_padding

    return without_padding(list(converted(text_features, columns)))


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
