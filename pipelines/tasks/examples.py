"""The examples of a task's files, read strictly; the standard library alone.

A row that cannot be used stops the job with the file and the row named; or, where that is asked
for, is left out and told. None is dropped silently.
"""

import dataclasses
import math
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.tasks import tables
from beambert.pipelines.tasks.declarations import CHOICE, REGRESSION, SPAN, TAGGING, Task
from beambert.pipelines.tasks.files import is_labelled, split_path
from beambert.pipelines.tasks.tables import BadRow

# What CoNLL's files have between documents.
_DOCUMENT_START = "-DOCSTART-"


@dataclasses.dataclass(frozen=True)
class TextExample:
    """A text, or a pair, to classify or to give a number.

    Attributes:
      text: the text, or the first of a pair.
      text_b: the second text of a pair, or None.
      label: as written in the file, or None in a test file without labels.
      columns: the other columns of the row by name.
    """

    text: str
    text_b: str | None
    label: str | None
    columns: dict[str, str]


@dataclasses.dataclass(frozen=True)
class ChoiceExample:
    """A text and its possible endings.

    Attributes:
      text: what comes before.
      text_b: what every ending begins with, or None.
      choices: the endings.
      label: the index of the right one, as written, or None in a test file.
      columns: the other columns of the row by name.
    """

    text: str
    text_b: str | None
    choices: tuple[str, ...]
    label: str | None
    columns: dict[str, str]

    @property
    def endings(self) -> tuple[str, ...]:
        """The second segments."""
        start = f"{self.text_b} " if self.text_b else ""
        return tuple(start + choice for choice in self.choices)


@dataclasses.dataclass(frozen=True)
class TaggedExample:
    """A sentence whose words have labels.

    Attributes:
      words: of the sentence.
      tags: as many, as written, or None in a file of words alone.
      columns: none; as the other examples have it.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    columns: dict[str, str] = dataclasses.field(default_factory=dict)


Example = TextExample | ChoiceExample | TaggedExample


def read_examples(
    task: Task,
    data_dir: str,
    split: str,
    labels: Sequence[str] | None = None,
    on_bad_row: Callable[[BadRow], None] | None = None,
) -> list[Example]:
    """Reads every row of one split, in the order of the file.

    Args:
      task: what to read; not of the kind span.
      data_dir: the folder with the task's files.
      split: of the task's files.
      labels: the labels that rows may have; where None, the task's, and where that has none
        either, any.
      on_bad_row: is told of every row that can't be used, which is then left out; without it, the
        first stops the job.

    Returns:
      One example for each row.

    Raises:
      InputError: the folder, the file or a column is missing, there are no rows, or a row has the
        wrong number of fields, bytes that are not UTF-8, an empty text, an empty label or a label
        not in `labels`. The message names the file and the row.
    """
    path = split_path(task, data_dir, split)
    known = labels if labels is not None else task.labels
    if task.kind == TAGGING:
        found: Iterable[Example | BadRow] = _tagged(path, known)
    else:
        rows = tables.read_rows(path, task.headerless_columns if is_labelled(split) else ())
        found = (_example(task, path, split, line, row, known) for line, row in rows)
    examples = _without_bad_rows(found, on_bad_row)
    if not examples:
        raise InputError(f"{path} has no examples: put at least one row in it.")
    if task.kind != TAGGING and len({example.text_b is None for example in examples}) > 1:
        raise InputError(
            f"{path} has {task.text_columns[1]!r} in some rows only: fill it in for all of them or "
            "for none."
        )
    return examples


def discover_labels(task: Task, train: Sequence[Example], path: pathlib.Path) -> tuple[str, ...]:
    """Returns the task's labels in index order: declared ones, or those of train, sorted.

    A regression has none; a choice has the indices of its endings.

    Args:
      task: whose labels.
      train: its examples for training.
      path: their file, for messages.

    Raises:
      InputError: the train split has fewer than two labels.
    """
    if task.labels is not None:
        return task.labels
    if task.kind in (REGRESSION, SPAN):
        return ()
    if task.kind == CHOICE:
        return tuple(str(index) for index in range(len(train[0].choices)))
    if task.kind == TAGGING:
        labels, where = sorted({tag for of in train for tag in of.tags or ()}), "as tags of words"
    else:
        labels, where = sorted({of.label for of in train}), f"in column {task.label_column!r}"
    if len(labels) < 2:
        found = f"has the one label {labels[0]!r} only" if labels else "has no labels"
        raise InputError(f"{path} {found}: a classifier needs at least two, {where}.")
    return tuple(labels)


def _without_bad_rows(
    found: Iterable[Example | BadRow], on_bad_row: Callable[[BadRow], None] | None
) -> list[Example]:
    examples, bad = [], []
    for example in found:
        (bad if isinstance(example, BadRow) else examples).append(example)
    if bad and on_bad_row is None:
        others = (
            "" if len(bad) == 1 else f" ({len(bad):,} such rows; --skip_bad_rows leaves them out)"
        )
        raise InputError(f"{bad[0]}{others}")
    if bad and not examples:
        raise InputError(f"{bad[0]} (none of {len(bad):,} rows can be used)")
    for row in bad:
        on_bad_row(row)
    return examples


def _example(
    task: Task,
    path: pathlib.Path,
    split: str,
    line: int,
    row: dict[str, str] | BadRow,
    labels: Sequence[str] | None,
) -> Example | BadRow:
    if isinstance(row, BadRow):
        return row
    try:
        columns = _present_text_columns(task, row)
        texts = [_filled(path, line, row, name) for name in columns]
        choices = _choice_columns(task, path, line, row)
        endings = tuple(_filled(path, line, row, name) for name in choices)
        label = None
        if is_labelled(split) or task.label_column in row:
            label = _label(task, path, line, row, labels, len(endings))
    except BadRow as error:
        return error
    used = {*task.text_columns, *choices, task.label_column}
    others = {name: field for name, field in row.items() if name not in used}
    text_b = texts[1] if len(texts) > 1 else None
    if task.kind == CHOICE:
        return ChoiceExample(texts[0], text_b, endings, label, others)
    return TextExample(texts[0], text_b, label, others)


def _present_text_columns(task: Task, row: dict[str, str]) -> tuple[str, ...]:
    if task.text_b_is_optional and task.text_columns[1] not in row:
        return task.text_columns[:1]
    return task.text_columns


def _choice_columns(
    task: Task, path: pathlib.Path, line: int, row: dict[str, str]
) -> tuple[str, ...]:
    names: list[str] = []
    for column in task.choice_columns:
        if column.endswith("*"):
            names += [name for name in row if name.startswith(column[:-1])]
        else:
            names.append(column)
    if task.kind == CHOICE and len(names) < 2:
        reason = f"has no two columns {task.choice_columns[0]} (it has {', '.join(row)})"
        raise _lacks_column(path, line, reason, "put each ending in a column of its own.")
    return tuple(names)


def _lacks_column(path: pathlib.Path, line: int, reason: str, remedy: str) -> InputError:
    """Returns a fault of the row in JSON Lines, whose rows may differ, else of the file."""
    bad = BadRow(path, line, reason, remedy)
    return bad if path.suffix == ".jsonl" else InputError(str(bad))


def _filled(path: pathlib.Path, line: int, row: dict[str, str], name: str) -> str:
    if name not in row:
        reason = f"has no column {name!r} (it has {', '.join(row)})"
        remedy = "rename the column that holds it, or name it, if the task is your own, with "
        raise _lacks_column(path, line, reason, f"{remedy}--text_columns or --label_column.")
    if not row[name].strip():
        raise BadRow(path, line, f"has an empty {name!r}", "fill it in or delete the row.")
    return row[name]


def _label(
    task: Task,
    path: pathlib.Path,
    line: int,
    row: dict[str, str],
    labels: Sequence[str] | None,
    choices: int,
) -> str:
    label = _filled(path, line, row, task.label_column)
    if task.kind == REGRESSION:
        if not _is_number(label):
            raise BadRow(path, line, f"has {label!r} for a number", "correct the row.")
    elif task.kind == CHOICE:
        if label not in (str(index) for index in range(choices)):
            reason = f"has the label {label!r}, which is none of its {choices} endings"
            raise BadRow(path, line, f"{reason}, counted from 0", "correct the row.")
    elif len(label.splitlines()) > 1:
        raise BadRow(path, line, "has a label of several lines", "correct the row.")
    elif labels is not None and label not in labels:
        raise _unknown_label(path, line, label, labels)
    return label


def _unknown_label(path: pathlib.Path, line: int, label: str, labels: Sequence[str]) -> BadRow:
    reason = f"has the label {label!r}, which is not one of {', '.join(labels)}"
    return BadRow(path, line, reason, "correct the row, or train with that label first.")


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _tagged(path: pathlib.Path, labels: Sequence[str] | None) -> Iterator[TaggedExample | BadRow]:
    """Yields the sentences of a file of columns: the word first, its tag last."""
    words: list[str] = []
    tags: list[str] = []
    bad: BadRow | None = None
    width = None
    numbered = [*tables.lines(tables.read_text(path)), (0, "")]
    for number, line in numbered:
        # Columns are set apart by tabs, or by spaces.
        fields = line.split("\t") if "\t" in line else line.split()
        if not any(field.strip() for field in fields):
            if bad or words:
                yield bad or TaggedExample(tuple(words), tuple(tags) if width > 1 else None)
            words, tags, bad = [], [], None
            continue
        if fields[0] == _DOCUMENT_START:
            continue
        width = width or len(fields)
        word, tag = fields[0].strip(), fields[-1].strip()
        if len(fields) != width:
            remedy = "correct it, or put an empty line between sentences."
            found = BadRow(path, number, f"has not {width} columns but {len(fields)}", remedy)
        elif len(word.split()) != 1:
            found = BadRow(path, number, f"has no single word ({word!r})", "correct it.")
        elif not tag:
            found = BadRow(path, number, "has an empty tag", "fill it in.")
        elif width > 1 and labels is not None and tag not in labels:
            found = _unknown_label(path, number, tag, labels)
        else:
            found = None
        bad = bad or found
        words.append(word)
        tags.append(tag)
