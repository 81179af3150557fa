"""Kinds of tasks: how their examples are read and checked, what their truth and labels are.

A kind is one class here. A new one takes:

1. here: a class, and an entry of `KINDS`; its example has `truth`, `columns` and `texts`;
2. in `model_inputs`: an entry of `examples.MODEL_INPUTS`, its inputs and targets;
3. in `prediction`: an entry of `answers.ANSWERS`, what its SavedModel takes and gives;
4. in `evaluation`: an entry of `outcomes.OUTCOMES`, `records.RECORDS` and
   `span_predictions.PREDICTORS`: how its answers are scored, told and computed;
5. in `trainer`: an entry of `task_models.MODELS`, `finetuning.objectives.OBJECTIVES`,
   `finetuning.plan.DATA`, `serving.saved_model.ANSWER_MODULES` and `weights.export.HUGGING_FACE`.
"""

import abc
import dataclasses
import math
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.tasks import tables
from beambert.pipelines.tasks.entities import is_entity_tag
from beambert.pipelines.tasks.examples import ChoiceExample, TaggedExample, TextExample
from beambert.pipelines.tasks.squad import Question, read_questions
from beambert.pipelines.tasks.tables import BadRow
from beambert.pipelines.tasks.task import (
    CHOICE,
    CLASSIFICATION,
    DEFAULT_SPAN_LENGTH,
    REGRESSION,
    SPAN,
    TAGGING,
    ExampleFile,
    Task,
)
from beambert.pipelines.tasks.word_tags import read_sentences

_TABLE_FLAGS = frozenset({"text_columns", "label_column"})
NO_ANSWER_REASON = "has no answer that is in its context"


class TableTask(Task):
    """A task whose examples are the rows of tables."""

    ENDINGS = tables.ENDINGS
    COLUMN_FLAGS = _TABLE_FLAGS

    def read(
        self, path: pathlib.Path, is_labelled: bool, labels: Sequence[str] | None
    ) -> ExampleFile:
        """Reads the rows."""
        rows = tables.read_rows(path, self.headerless_columns if is_labelled else ())
        return _parted(self._example(path, line, row, is_labelled, labels) for line, row in rows)

    def _example(
        self,
        path: pathlib.Path,
        line: int,
        row: dict[str, str] | BadRow,
        is_labelled: bool,
        labels: Sequence[str] | None,
    ) -> TextExample | ChoiceExample | BadRow:
        if isinstance(row, BadRow):
            return row
        try:
            texts = [tables.filled(path, line, row, name) for name in self._text_columns(row)]
            choices = self._choice_columns(path, line, row)
            endings = tuple(tables.filled(path, line, row, name) for name in choices)
            label = None
            if is_labelled or self.label_column in row:
                label = tables.filled(path, line, row, self.label_column)
                self._check_label(path, line, label, endings or labels)
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

    @abc.abstractmethod
    def _check_label(
        self, path: pathlib.Path, line: int, label: str, possible: Sequence[str] | None
    ) -> None:
        """Refuses a label that is none of the possible labels, or endings."""

    def _make(self, endings: tuple[str, ...], **fields: Any) -> TextExample | ChoiceExample:
        return TextExample(**fields)

    def check_file(self, path: pathlib.Path, examples: Sequence[Any]) -> None:
        """Refuses a file in which some rows only have a second text."""
        if len({example.text_b is None for example in examples}) > 1:
            raise InputError(
                f"{path} has {self.text_columns[1]!r} in some rows only: fill it in for all of "
                "them or for none."
            )

    def check_split(
        self, path: pathlib.Path, is_labelled: bool, examples: Sequence[Any], first: Any
    ) -> None:
        """Refuses a split that has labels in some rows only, or a second text unlike train."""
        _check_labels(path, examples)
        if (examples[0].text_b is None) != (first.text_b is None):
            raise InputError(
                f"{path}: text_b stands in one of it and the train file only; add the column to "
                "the other or delete it"
            )

    def label_names(self, example: TextExample | ChoiceExample) -> Iterable[str]:
        """Returns the label."""
        return () if example.label is None else (example.label,)


@dataclasses.dataclass(frozen=True)
class Classification(TableTask):
    """A label of a text or of a pair."""

    kind: str = dataclasses.field(default=CLASSIFICATION, init=False)
    metrics: tuple[str, ...] = ("accuracy",)

    COLUMN_FLAGS = _TABLE_FLAGS | {"labels"}

    def _check_label(
        self, path: pathlib.Path, line: int, label: str, possible: Sequence[str] | None
    ) -> None:
        if len(label.splitlines()) > 1:
            raise BadRow(path, line, "has a label of several lines", "correct the row.")
        if possible is not None and label not in possible:
            raise tables.unknown_label(path, line, label, possible)

    def find_labels(self, path: pathlib.Path, train: Sequence[TextExample]) -> tuple[str, ...]:
        """Returns the declared labels, or those of train, sorted."""
        if self.labels is not None:
            return self.labels
        where = f"in column {self.label_column!r}"
        return _several(path, {example.label for example in train}, where)


@dataclasses.dataclass(frozen=True)
class Regression(TableTask):
    """A number for a text or for a pair."""

    kind: str = dataclasses.field(default=REGRESSION, init=False)
    metrics: tuple[str, ...] = ("pearson", "spearman")

    HAS_LABELS = False

    def _check_label(
        self, path: pathlib.Path, line: int, label: str, possible: Sequence[str] | None
    ) -> None:
        if not _is_number(label):
            raise BadRow(path, line, f"has {label!r} for a number", "correct the row.")

    def label_names(self, example: TextExample) -> Iterable[str]:
        """Returns nothing: numbers are not counted."""
        return ()


@dataclasses.dataclass(frozen=True)
class Choice(TableTask):
    """One of several endings of a text."""

    kind: str = dataclasses.field(default=CHOICE, init=False)
    metrics: tuple[str, ...] = ("accuracy",)

    COLUMN_FLAGS = _TABLE_FLAGS | {"choice_columns"}

    def _choice_columns(
        self, path: pathlib.Path, line: int, row: dict[str, str]
    ) -> tuple[str, ...]:
        names: list[str] = []
        for column in self.choice_columns:
            if column.endswith("*"):
                names += [name for name in row if name.startswith(column[:-1])]
            else:
                names.append(column)
        if len(names) < 2:
            reason = f"has no two columns {self.choice_columns[0]} (it has {', '.join(row)})"
            remedy = "put each ending in a column of its own."
            raise tables.lacks_column(path, line, reason, remedy)
        return tuple(names)

    def _check_label(
        self, path: pathlib.Path, line: int, label: str, possible: Sequence[str] | None
    ) -> None:
        if label not in (str(index) for index in range(len(possible))):
            reason = f"has the label {label!r}, which is none of its {len(possible)} endings"
            raise BadRow(path, line, f"{reason}, counted from 0", "correct the row.")

    def _make(self, endings: tuple[str, ...], **fields: Any) -> ChoiceExample:
        return ChoiceExample(choices=endings, **fields)

    def check_split(
        self, path: pathlib.Path, is_labelled: bool, examples: Sequence[Any], first: Any
    ) -> None:
        """Refuses other numbers of choices, too."""
        super().check_split(path, is_labelled, examples, first)
        if len({len(example.choices) for example in (*examples, first)}) > 1:
            raise InputError(
                f"{path} has rows of different numbers of choices: give every row "
                f"{len(first.choices)}, as the first row of train"
            )

    def check_choices(
        self, path: pathlib.Path, examples: Sequence[ChoiceExample], labels: Sequence[str]
    ) -> None:
        """Refuses endings that are more or fewer than the labels."""
        uneven = [example for example in examples if len(example.choices) != len(labels)]
        if uneven:
            raise InputError(
                f"{path} has {len(uneven[0].choices)} endings in some rows but --model chooses "
                f"from {len(labels)}: name a model of that many."
            )

    def find_labels(self, path: pathlib.Path, train: Sequence[ChoiceExample]) -> tuple[str, ...]:
        """Returns the indices of the endings."""
        return tuple(str(index) for index in range(len(train[0].choices)))

    def sequences(self, example: ChoiceExample) -> int:
        """Returns the number of endings."""
        return len(example.choices)


@dataclasses.dataclass(frozen=True)
class Tagging(Task):
    """A label of every word of a sentence."""

    kind: str = dataclasses.field(default=TAGGING, init=False)
    metrics: tuple[str, ...] = ("entity_f1", "entity_precision", "entity_recall")

    ENDINGS = (".conll", ".txt", ".tsv")
    COLUMN_FLAGS = frozenset({"labels"})

    def read(
        self, path: pathlib.Path, is_labelled: bool, labels: Sequence[str] | None
    ) -> ExampleFile:
        """Reads the sentences."""
        return _parted(read_sentences(path, labels))

    def check_split(
        self, path: pathlib.Path, is_labelled: bool, examples: Sequence[Any], first: Any
    ) -> None:
        """Refuses a split without tags that must have them."""
        _check_labels(path, examples)
        if is_labelled and examples[0].tags is None:
            raise InputError(f"{path} has no column of tags: put each word's tag behind it")

    def find_labels(self, path: pathlib.Path, train: Sequence[TaggedExample]) -> tuple[str, ...]:
        """Returns the declared tags, or those of train, sorted."""
        labels = self.labels
        if labels is None:
            tags = {tag for example in train for tag in example.tags or ()}
            labels = _several(path, tags, "as tags of words")
        others = [label for label in labels if not is_entity_tag(label)]
        if others and self.metrics == type(self).metrics:
            raise InputError(
                f"{path} has the tag {others[0]!r}, which is none of O, B-type and I-type: "
                "name entities so, or take --task=word_labels"
            )
        return labels

    def label_names(self, example: TaggedExample) -> Iterable[str]:
        """Returns the tags of the words."""
        return example.tags or ()


@dataclasses.dataclass(frozen=True)
class Span(Task):
    """An answer's place in the context of a question."""

    kind: str = dataclasses.field(default=SPAN, init=False)
    metrics: tuple[str, ...] = ("squad_f1", "exact_match")

    ENDINGS = (".json",)
    HAS_LABELS = False

    def read(
        self, path: pathlib.Path, is_labelled: bool, labels: Sequence[str] | None
    ) -> ExampleFile:
        """Reads the questions."""
        found = read_questions(path, self.allows_no_answer)
        return ExampleFile(found.questions, notes=found.notes())

    def read_to_learn(
        self, path: pathlib.Path, is_labelled: bool, labels: Sequence[str] | None
    ) -> ExampleFile:
        """Reads the questions that have an answer in their context, or none at all."""
        found = read_questions(path, self.allows_no_answer)
        left_out = {NO_ANSWER_REASON: len(found.rejected)} if found.rejected else {}
        return ExampleFile(found.learnable(), notes=found.notes(), unlearnable=left_out)

    def label_names(self, example: Question) -> Iterable[str]:
        """Returns whether there is an answer."""
        return ("impossible" if example.is_impossible else "answerable",)

    def default_length(self, trained_length: int | None = None) -> int:
        """Returns run_squad.py's."""
        return DEFAULT_SPAN_LENGTH


KINDS: dict[str, type[Task]] = {
    CLASSIFICATION: Classification,
    REGRESSION: Regression,
    CHOICE: Choice,
    TAGGING: Tagging,
    SPAN: Span,
}


def _parted(found: Iterable[Any]) -> ExampleFile:
    """Sets bad rows apart from examples."""
    examples: list[Any] = []
    bad: list[BadRow] = []
    for example in found:
        (bad if isinstance(example, BadRow) else examples).append(example)
    return ExampleFile(examples, bad)


def _check_labels(path: pathlib.Path, examples: Sequence[Any]) -> None:
    if len({example.truth is None for example in examples}) > 1:
        raise InputError(f"{path} has labels in some rows only: fill them in, or remove all.")


def _several(path: pathlib.Path, found: set[str], where: str) -> tuple[str, ...]:
    """Returns labels, sorted, if there are at least two."""
    labels = sorted(found)
    if len(labels) < 2:
        has = f"has the one label {labels[0]!r} only" if labels else "has no labels"
        raise InputError(f"{path} {has}: a classifier needs at least two, {where}.")
    return tuple(labels)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
