"""Reads the examples of a task's files, and refuses rows that it cannot use.

A row that cannot be used stops the job with an error that names the file and the line. With
`--skip_bad_rows` the row is left out and reported instead. No row is dropped silently. This module
needs only the standard library.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from beambert.errors import InputError
from beambert.pipelines.tasks.files import is_labelled, split_path
from beambert.pipelines.tasks.tables import BadRow
from beambert.pipelines.tasks.task import ExampleFile, Task

# The texts of an example by the names of a SavedModel's inputs; a choice's endings are a tuple.
Texts = dict[str, str | tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class TextExample:
    """A text or a pair of texts with a label or a number.

    Attributes:
      text: the text, or the first of a pair.
      text_b: the second text of a pair, or None.
      label: the label as written in the file, or None in a test file without labels.
      columns: the other columns of the row by name.
    """

    text: str
    text_b: str | None
    label: str | None
    columns: dict[str, str]

    @property
    def truth(self) -> str | None:
        """The right answer as written, or None."""
        return self.label

    def texts(self) -> Texts:
        """Returns the texts by the names of a SavedModel's inputs."""
        return {"text": self.text} | ({} if self.text_b is None else {"text_b": self.text_b})


@dataclasses.dataclass(frozen=True)
class MultiLabelExample:
    """A text or a pair of texts with any number of labels.

    Attributes:
      text: the text, or the first of a pair.
      text_b: the second text of a pair, or None.
      labels: the labels that apply, each once, or None in a test file without labels.
      columns: the other columns of the row by name.
    """

    text: str
    text_b: str | None
    labels: tuple[str, ...] | None
    columns: dict[str, str]

    @property
    def truth(self) -> tuple[str, ...] | None:
        """The right labels, or None."""
        return self.labels

    def texts(self) -> Texts:
        """Returns the texts by the names of a SavedModel's inputs."""
        return {"text": self.text} | ({} if self.text_b is None else {"text_b": self.text_b})


@dataclasses.dataclass(frozen=True)
class VectorExample:
    """Texts that each become a vector: one, a pair, or a pair with texts that are no answer.

    Attributes:
      text: the text, or the one that searches.
      text_b: the text that it must find, or that it is compared with; None in a single text.
      negatives: texts that it must not find.
      label: score of the pair as written in the file; None without one.
      columns: the other columns of the row by name.
    """

    text: str
    text_b: str | None
    negatives: tuple[str, ...]
    label: str | None
    columns: dict[str, str]

    @property
    def truth(self) -> str | None:
        """The score, or the text that must be found; None in a single text."""
        return self.text_b if self.label is None else self.label

    @property
    def sequences(self) -> tuple[str, ...]:
        """All texts, each of which becomes a vector."""
        return (self.text, *(() if self.text_b is None else (self.text_b, *self.negatives)))

    def texts(self) -> Texts:
        """Returns the text and the second one, by the names of columns."""
        return {"text": self.text} | ({} if self.text_b is None else {"text_b": self.text_b})


@dataclasses.dataclass(frozen=True)
class ChoiceExample:
    """A text and its possible endings.

    Attributes:
      text: the text before the endings.
      text_b: the words that every ending begins with, or None.
      choices: the endings.
      label: the index of the right ending as written in the file, or None in a test file.
      columns: the other columns of the row by name.
    """

    text: str
    text_b: str | None
    choices: tuple[str, ...]
    label: str | None
    columns: dict[str, str]

    @property
    def endings(self) -> tuple[str, ...]:
        """The second segment of each sequence: an ending with the words that it begins with."""
        start = f"{self.text_b} " if self.text_b else ""
        return tuple(start + choice for choice in self.choices)

    @property
    def truth(self) -> str | None:
        """The right answer as written, or None."""
        return self.label

    def texts(self) -> Texts:
        """Returns the texts by the names of a SavedModel's inputs."""
        texts: Texts = {"text": self.text}
        if self.text_b is not None:
            texts["text_b"] = self.text_b
        return texts | {"choices": self.choices}


@dataclasses.dataclass(frozen=True)
class TaggedExample:
    """A sentence whose words have labels.

    Attributes:
      words: words of the sentence.
      tags: one tag for each word as written in the file, or None in a file without tags.
      columns: always empty; it exists because the other kinds of examples have it.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    columns: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def truth(self) -> tuple[str, ...] | None:
        """The right tags, or None."""
        return self.tags

    def texts(self) -> Texts:
        """Returns the texts by the names of a SavedModel's inputs."""
        return {"text": " ".join(self.words)}


Example = TextExample | MultiLabelExample | VectorExample | ChoiceExample | TaggedExample


def read_file(
    task: Task,
    data_dir: str,
    split: str,
    labels: Sequence[str] | None = None,
    skip_bad_rows: bool = False,
    to_learn: bool = False,
) -> ExampleFile:
    """Reads one split of a task of any kind.

    Args:
      task: the task to read.
      data_dir: the folder of the task's files.
      split: name of the split, a key of `task.files`.
      labels: the labels that rows may have (default: those the task declares; any label if it
        declares none).
      skip_bad_rows: whether to leave out rows that cannot be used instead of stopping.
      to_learn: whether to leave out examples that nothing can be learned from.

    Raises:
      InputError: the folder, the file or a column is missing, there are no examples, or a row has
        the wrong number of fields, bytes that are not UTF-8, an empty text, an empty label or a
        label not in `labels`. The message names the file and the row.
    """
    path = split_path(task, data_dir, split)
    read = task.read_to_learn if to_learn else task.read
    file = read(path, is_labelled(split), labels if labels is not None else task.labels)
    bad = file.bad_rows
    if bad and not file.examples:
        none = f" (none of {len(bad):,} rows can be used)" if len(bad) > 1 else ""
        raise InputError(f"{bad[0]}{none}")
    if bad and not skip_bad_rows:
        others = (
            "" if len(bad) == 1 else f" ({len(bad):,} such rows; --skip_bad_rows leaves them out)"
        )
        raise InputError(f"{bad[0]}{others}")
    if not file.examples:
        raise InputError(f"{path}: has no examples; put at least one row in it")
    task.check_file(path, file.examples)
    return file


def read_examples(
    task: Task,
    data_dir: str,
    split: str,
    labels: Sequence[str] | None = None,
    on_bad_row: Callable[[BadRow], None] | None = None,
) -> list[Any]:
    """Returns the examples that `read_file` reads.

    Args:
      task, data_dir, split, labels: see `read_file`.
      on_bad_row: function that is called with each row that cannot be used; the row is then left
        out. Without it, the first such row stops the job.
    """
    file = read_file(task, data_dir, split, labels, on_bad_row is not None)
    for row in file.bad_rows:
        on_bad_row(row)
    return list(file.examples)
