"""The kinds of tasks: how their examples are read and checked, and which labels they have.

Each kind is one class of this module. To add a kind, add:

1. here: a class and an entry of `KINDS`; its examples have `truth`, `columns` and `texts`;
2. in `model_inputs`: an entry of `examples.MODEL_INPUTS` for its inputs and targets;
3. in `prediction`: an entry of `answers.ANSWERS` for the inputs and outputs of its SavedModel;
4. in `evaluation`: entries of `outcomes.OUTCOMES`, `records.RECORDS` and
   `span_predictions.PREDICTORS`, which score, describe and compute its answers;
5. in `trainer`: entries of `task_models.MODELS`, `finetuning.objectives.OBJECTIVES`,
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
from beambert.pipelines.tasks.word_tags import WORDS_ENDING, read_sentences

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
        """Refuses a label that is not among the possible labels or endings.

        Raises:
          BadRow: the label cannot be used.
        """

    def _make(self, endings: tuple[str, ...], **fields: Any) -> TextExample | ChoiceExample:
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
        _check_labels(path, examples)
        if (examples[0].text_b is None) != (first.text_b is None):
            raise InputError(
                f"{path}: either this file or the train file lacks the second text, "
                f"{self.text_columns[1]!r}; add the column there or delete it here"
            )

    def label_names(self, example: TextExample | ChoiceExample) -> Iterable[str]:
        """Returns the label."""
        return () if example.label is None else (example.label,)


@dataclasses.dataclass(frozen=True)
class Classification(TableTask):
    """A task that asks for the label of a text or of a pair of texts."""

    kind: str = dataclasses.field(default=CLASSIFICATION, init=False)
    metrics: tuple[str, ...] = ("accuracy",)

    COLUMN_FLAGS = _TABLE_FLAGS | {"labels"}

    def _check_label(
        self, path: pathlib.Path, line: int, label: str, possible: Sequence[str] | None
    ) -> None:
        if len(label.splitlines()) > 1:
            raise BadRow(path, line, "has a label of several lines", "correct the row")
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
    """A task that asks for a number for a text or for a pair of texts."""

    kind: str = dataclasses.field(default=REGRESSION, init=False)
    metrics: tuple[str, ...] = ("pearson", "spearman")

    HAS_LABELS = False

    def _check_label(
        self, path: pathlib.Path, line: int, label: str, possible: Sequence[str] | None
    ) -> None:
        if not _is_number(label):
            raise BadRow(path, line, f"has {label!r} for a number", "correct the row")

    def label_names(self, example: TextExample) -> Iterable[str]:
        """Returns nothing: numbers are not counted."""
        return ()


@dataclasses.dataclass(frozen=True)
class Choice(TableTask):
    """A task that asks which of several endings continues a text."""

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
            remedy = "put each ending in a column of its own"
            raise tables.lacks_column(path, line, reason, remedy)
        return tuple(names)

    def _check_label(
        self, path: pathlib.Path, line: int, label: str, possible: Sequence[str] | None
    ) -> None:
        if label not in (str(index) for index in range(len(possible))):
            reason = f"has the label {label!r}, which is none of its {len(possible)} endings"
            raise BadRow(path, line, f"{reason}, counted from 0", "correct the row")

    def _make(self, endings: tuple[str, ...], **fields: Any) -> ChoiceExample:
        return ChoiceExample(choices=endings, **fields)

    def check_split(
        self, path: pathlib.Path, is_labelled: bool, examples: Sequence[Any], first: Any
    ) -> None:
        """Refuses also examples that differ in their number of endings."""
        super().check_split(path, is_labelled, examples, first)
        if len({len(example.choices) for example in (*examples, first)}) > 1:
            raise InputError(
                f"{path}: has rows with different numbers of endings; give every row "
                f"{len(first.choices)}, like the first row of train"
            )

    def check_choices(
        self, path: pathlib.Path, examples: Sequence[ChoiceExample], labels: Sequence[str]
    ) -> None:
        """Refuses examples with more or fewer endings than the model has labels."""
        uneven = [example for example in examples if len(example.choices) != len(labels)]
        if uneven:
            raise InputError(
                f"{path}: has {len(uneven[0].choices)} endings in some rows but --model chooses "
                f"from {len(labels)}; name a model with as many endings"
            )

    def find_labels(self, path: pathlib.Path, train: Sequence[ChoiceExample]) -> tuple[str, ...]:
        """Returns the indices of the endings."""
        return tuple(str(index) for index in range(len(train[0].choices)))

    def sequences(self, example: ChoiceExample) -> int:
        """Returns the number of endings."""
        return len(example.choices)


@dataclasses.dataclass(frozen=True)
class Tagging(Task):
    """A task that asks for the label of each word of a sentence."""

    kind: str = dataclasses.field(default=TAGGING, init=False)
    metrics: tuple[str, ...] = ("entity_f1", "entity_precision", "entity_recall")

    ENDINGS = (WORDS_ENDING, ".txt", ".tsv")
    COLUMN_FLAGS = frozenset({"labels"})

    def read(
        self, path: pathlib.Path, is_labelled: bool, labels: Sequence[str] | None
    ) -> ExampleFile:
        """Reads the sentences."""
        return _parted(read_sentences(path, labels))

    def check_split(
        self, path: pathlib.Path, is_labelled: bool, examples: Sequence[Any], first: Any
    ) -> None:
        """Refuses a split that must have tags and has none."""
        _check_labels(path, examples)
        if is_labelled and examples[0].tags is None:
            raise InputError(f"{path}: has no column of tags; put each word's tag behind it")

    def find_labels(self, path: pathlib.Path, train: Sequence[TaggedExample]) -> tuple[str, ...]:
        """Returns the declared tags, or those of train, sorted."""
        labels = self.labels
        if labels is None:
            tags = {tag for example in train for tag in example.tags or ()}
            labels = _several(path, tags, "as tags of words")
        others = [label for label in labels if not is_entity_tag(label)]
        if others and self.metrics == type(self).metrics:
            raise InputError(
                f"{path}: has the tag {others[0]!r}, which is none of O, B-type and I-type; "
                "rename the tags, or take --task=word_labels"
            )
        return labels

    def label_names(self, example: TaggedExample) -> Iterable[str]:
        """Returns the tags of the words."""
        return example.tags or ()


@dataclasses.dataclass(frozen=True)
class Span(Task):
    """A task that asks where in its context a question is answered."""

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
        """Reads the questions that are impossible or have an answer that is in their context."""
        found = read_questions(path, self.allows_no_answer)
        left_out = {NO_ANSWER_REASON: len(found.rejected)} if found.rejected else {}
        return ExampleFile(found.learnable(), notes=found.notes(), unlearnable=left_out)

    def label_names(self, example: Question) -> Iterable[str]:
        """Returns `impossible` or `answerable`."""
        return ("impossible" if example.is_impossible else "answerable",)

    def default_length(self, trained_length: int | None = None) -> int:
        """Returns the default of run_squad.py."""
        return DEFAULT_SPAN_LENGTH


KINDS: dict[str, type[Task]] = {
    CLASSIFICATION: Classification,
    REGRESSION: Regression,
    CHOICE: Choice,
    TAGGING: Tagging,
    SPAN: Span,
}


def _parted(found: Iterable[Any]) -> ExampleFile:
    """Separates examples from bad rows."""
    examples: list[Any] = []
    bad: list[BadRow] = []
    for example in found:
        (bad if isinstance(example, BadRow) else examples).append(example)
    return ExampleFile(examples, bad)


def _check_labels(path: pathlib.Path, examples: Sequence[Any]) -> None:
    if len({example.truth is None for example in examples}) > 1:
        raise InputError(f"{path}: has labels in some rows only; fill them in, or remove all")


def _several(path: pathlib.Path, found: set[str], where: str) -> tuple[str, ...]:
    """Returns the labels, sorted.

    Raises:
      InputError: there are fewer than two.
    """
    labels = sorted(found)
    if len(labels) < 2:
        has = f"has the one label {labels[0]!r} only" if labels else "has no labels"
        raise InputError(f"{path}: {has}; a classifier needs at least two, {where}")
    return tuple(labels)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
