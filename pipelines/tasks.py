"""Tasks: which files, columns and labels a supervised data folder has, and how to read them.

A task is one declaration in `TASKS`. The reader needs only the standard library, so that this
module can be imported wherever a model is fine-tuned.

Reading is strict: a row that cannot be used stops the job with the file and the row named, and
no row is ever dropped.
"""

import collections
import csv
import dataclasses
import io
import json
import pathlib
from collections.abc import Iterator, Sequence

from pipelines.errors import InputError

SPLITS = ("train", "dev", "test")
_ENDINGS = (".tsv", ".csv", ".jsonl")


@dataclasses.dataclass(frozen=True)
class Task:
    """Where a classification task keeps its examples.

    Attributes:
      name: what `--task=` takes.
      train_file: file of the train split. A name without an ending stands for that name with
        `.tsv`, `.csv` or `.jsonl`.
      dev_file: file of the dev split, likewise.
      test_file: file of the test split, likewise.
      text_columns: the column of the text and, for a task on pairs, of the second text.
      label_column: the column of the label.
      labels: the labels in index order, or None to take those of the train split, sorted.
      text_b_is_optional: the second text column counts only where the file has it.
      headerless_columns: names of the columns of train and dev where those files have no header
        line; the test file always has one.
    """

    name: str
    train_file: str = "train.tsv"
    dev_file: str = "dev.tsv"
    test_file: str = "test.tsv"
    text_columns: tuple[str, ...] = ("sentence",)
    label_column: str = "label"
    labels: tuple[str, ...] | None = None
    text_b_is_optional: bool = False
    headerless_columns: tuple[str, ...] = ()

    def file_name(self, split: str) -> str:
        """Returns the declared file name of `train`, `dev` or `test`."""
        return {"train": self.train_file, "dev": self.dev_file, "test": self.test_file}[split]


@dataclasses.dataclass(frozen=True)
class Example:
    """One row of a task.

    Attributes:
      text: the text to classify, or the first of a pair.
      text_b: the second text of a pair, or None.
      label: the label as written in the file, or None in a test file without labels.
      columns: the other columns of the row by name.
    """

    text: str
    text_b: str | None
    label: str | None
    columns: dict[str, str]


_ENTAILMENT_LABELS = ("entailment", "not_entailment")

# The layouts of the GLUE release, https://gluebenchmark.com/tasks, and the user's own folder.
TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            name="classification",
            train_file="train",
            dev_file="dev",
            test_file="test",
            text_columns=("text", "text_b"),
            text_b_is_optional=True,
        ),
        Task(
            name="cola",
            labels=("0", "1"),
            headerless_columns=("source", "label", "original_judgement", "sentence"),
        ),
        Task(
            name="mnli",
            dev_file="dev_matched.tsv",
            test_file="test_matched.tsv",
            text_columns=("sentence1", "sentence2"),
            label_column="gold_label",
            labels=("contradiction", "entailment", "neutral"),
        ),
        Task(
            name="mrpc",
            text_columns=("#1 String", "#2 String"),
            label_column="Quality",
            labels=("0", "1"),
        ),
        Task(name="qnli", text_columns=("question", "sentence"), labels=_ENTAILMENT_LABELS),
        Task(name="rte", text_columns=("sentence1", "sentence2"), labels=_ENTAILMENT_LABELS),
        Task(name="sst-2", labels=("0", "1")),
        Task(name="wnli", text_columns=("sentence1", "sentence2"), labels=("0", "1")),
    )
}


def find_task(name: str) -> Task:
    """Returns the task of that name; case and hyphens do not matter.

    Raises:
      InputError: no task has that name.
    """
    by_plain_name = {_plain(known): task for known, task in TASKS.items()}
    if _plain(name) not in by_plain_name:
        raise InputError(f"--task={name} is not a task: choose one of {', '.join(TASKS)}.")
    return by_plain_name[_plain(name)]


def read_examples(
    task: Task, data_dir: str, split: str, labels: Sequence[str] | None = None
) -> list[Example]:
    """Reads every row of one split, in the order of the file.

    Args:
      task: what to read.
      data_dir: the folder with the task's files.
      split: `train`, `dev` or `test`.
      labels: the labels that rows may have; where None, the task's, and where that has none
        either, any.

    Returns:
      One example for each row.

    Raises:
      InputError: the folder, the file or a column is missing, there are no rows, or a row has the
        wrong number of fields, bytes that are not UTF-8, an empty text, an empty label or a label
        not in `labels`. The message names the file and the row.
    """
    path = split_path(task, data_dir, split)
    rows = _read_rows(path, task.headerless_columns if split != "test" else ())
    known_labels = labels if labels is not None else task.labels
    examples = [_example(task, path, split, line, row, known_labels) for line, row in rows]
    if not examples:
        raise InputError(f"{path} has no examples: put at least one row under its header.")
    if len({example.text_b is None for example in examples}) > 1:
        raise InputError(
            f"{path} has {task.text_columns[1]!r} in some rows only: fill it in for all of them or "
            "for none."
        )
    return examples


def discover_labels(task: Task, data_dir: str) -> tuple[str, ...]:
    """Returns the task's labels in index order: declared ones, or those of train, sorted.

    Raises:
      InputError: as `read_examples`, or the train split has fewer than two labels.
    """
    if task.labels is not None:
        return task.labels
    labels = sorted({example.label or "" for example in read_examples(task, data_dir, "train")})
    if len(labels) < 2:
        raise InputError(
            f"{split_path(task, data_dir, 'train')} has the one label {labels[0]!r} only: "
            f"a classifier needs rows of at least two labels in column {task.label_column!r}."
        )
    return tuple(labels)


def split_path(task: Task, data_dir: str, split: str) -> pathlib.Path:
    """Returns the file of a split.

    Raises:
      InputError: the split name is unknown, or the folder or the file is missing, or two files
        could be meant.
    """
    if split not in SPLITS:
        raise InputError(f"--split={split} is not a split: choose one of {', '.join(SPLITS)}.")
    folder = pathlib.Path(data_dir)
    if not folder.is_dir():
        raise InputError(
            f"--data_dir={data_dir} is not a local folder: name that of the {task.name} files."
        )
    declared = task.file_name(split)
    names = [declared] if "." in declared else [declared + ending for ending in _ENDINGS]
    found = [folder / name for name in names if (folder / name).is_file()]
    if not found:
        raise InputError(
            f"--data_dir={data_dir} has no {' or '.join(names)}: the {split} split of "
            f"{task.name} is read from there."
        )
    if len(found) > 1:
        raise InputError(
            f"--data_dir={data_dir} has both {found[0].name} and {found[1].name}: keep one of them."
        )
    return found[0]


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _read_rows(
    path: pathlib.Path, headerless_columns: tuple[str, ...]
) -> list[tuple[int, dict[str, str]]]:
    """Returns (line number, fields by column) for every row of a file."""
    text = _read_text(path)
    if path.suffix == ".jsonl":
        return list(_json_rows(path, text))
    records = _comma_separated(path, text) if path.suffix == ".csv" else _tab_separated(text)
    if headerless_columns:
        return list(_named_fields(path, records, headerless_columns))
    header = next(records, None)
    if header is None:
        raise InputError(f"{path} is empty: it needs a header line and one row for each example.")
    repeated = [name for name, count in collections.Counter(header[1]).items() if count > 1]
    if repeated:
        raise InputError(f"{path} has two columns named {repeated[0]!r}: rename one of them.")
    return list(_named_fields(path, records, tuple(header[1])))


def _read_text(path: pathlib.Path) -> str:
    content = path.read_bytes()
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}, line {line}, byte {error.start} is not UTF-8: convert the file, for example "
            "with iconv -t UTF-8."
        ) from error


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields (line number, line); only line feeds end a line, the rest is text."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    for number, line in enumerate(lines, start=1):
        yield number, line.removesuffix("\r")


def _tab_separated(text: str) -> Iterator[tuple[int, list[str]]]:
    # GLUE's quotes are literal: a reader that interprets them joins rows of MRPC and loses them.
    for number, line in _lines(text):
        yield number, line.split("\t")


def _comma_separated(path: pathlib.Path, text: str) -> Iterator[tuple[int, list[str]]]:
    # The standard library's 128 KiB limit on a field is for untrusted input; texts can be longer.
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    first_line = 1
    try:
        for record in reader:
            yield first_line, record
            first_line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{path}, line {first_line} is not CSV ({error}): put the field in double quotes and "
            "double the quotes inside it."
        ) from error


def _named_fields(
    path: pathlib.Path, records: Iterator[tuple[int, list[str]]], columns: tuple[str, ...]
) -> Iterator[tuple[int, dict[str, str]]]:
    for number, fields in records:
        if len(fields) != len(columns):
            raise InputError(
                f"{path}, line {number} has not {len(columns)} fields ({', '.join(columns)}) "
                f"but {len(fields)}: correct that row."
            )
        yield number, dict(zip(columns, fields, strict=True))


def _json_rows(path: pathlib.Path, text: str) -> Iterator[tuple[int, dict[str, str]]]:
    for number, line in _lines(text):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(
                f"{path}, line {number} is not JSON ({error.msg}): put one object on each line."
            ) from error
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number} is not a JSON object: write one on each line.")
        yield number, {name: _json_field(value) for name, value in row.items()}


def _json_field(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _example(
    task: Task,
    path: pathlib.Path,
    split: str,
    line: int,
    row: dict[str, str],
    labels: Sequence[str] | None,
) -> Example:
    texts = [_text(path, line, row, name) for name in _present_text_columns(task, row)]
    label = None
    if split != "test" or task.label_column in row:
        label = _label(path, line, row, task.label_column, labels)
    used = {*task.text_columns, task.label_column}
    return Example(
        text=texts[0],
        text_b=texts[1] if len(texts) > 1 else None,
        label=label,
        columns={name: field for name, field in row.items() if name not in used},
    )


def _present_text_columns(task: Task, row: dict[str, str]) -> tuple[str, ...]:
    if task.text_b_is_optional and task.text_columns[1] not in row:
        return task.text_columns[:1]
    return task.text_columns


def _field(path: pathlib.Path, line: int, row: dict[str, str], name: str) -> str:
    if name not in row:
        raise InputError(
            f"{path}, line {line} has no column {name!r} (it has {', '.join(row)}): "
            "rename the column that holds it."
        )
    return row[name]


def _text(path: pathlib.Path, line: int, row: dict[str, str], name: str) -> str:
    text = _field(path, line, row, name)
    if not text.strip():
        raise InputError(
            f"{path}, line {line} has an empty {name!r}: fill it in or delete the row."
        )
    return text


def _label(
    path: pathlib.Path, line: int, row: dict[str, str], name: str, labels: Sequence[str] | None
) -> str:
    label = _field(path, line, row, name)
    if not label.strip():
        raise InputError(
            f"{path}, line {line} has an empty {name!r}: fill it in or delete the row."
        )
    if labels is not None and label not in labels:
        raise InputError(
            f"{path}, line {line} has the label {label!r}, which is not one of "
            f"{', '.join(labels)}: correct the row, or train with that label first."
        )
    return label
