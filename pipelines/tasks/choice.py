"""Choice: which of several endings continues a text."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from beambert.errors import InputError
from beambert.pipelines.tasks.classification import ClassOutcomes, OneLabel
from beambert.pipelines.tasks.table_task import TABLE_FLAGS, TextExample
from beambert.pipelines.tasks.tables import TableRow
from beambert.pipelines.tasks.task import CHOICE, Task, Texts


@dataclasses.dataclass(frozen=True)
class ChoiceExample(TextExample):
    """A text and its possible endings.

    The second text is what every ending begins with. The label is the index of the right ending.

    Attributes:
      choices: the endings.
    """

    choices: tuple[str, ...] = ()

    @property
    def endings(self) -> tuple[str, ...]:
        """The second segment of each sequence: an ending with the words that it begins with."""
        start = f"{self.text_b} " if self.text_b else ""
        return tuple(start + choice for choice in self.choices)

    def texts(self) -> Texts:
        """Returns the texts by the names of a SavedModel's inputs."""
        return super().texts() | {"choices": self.choices}


class ChoiceOutcomes(ClassOutcomes):
    """The outcomes of a choice; it has no metrics by class, as the indices mean nothing."""

    METRICS = ("accuracy", "cross_entropy")


@dataclasses.dataclass(frozen=True)
class Choice(OneLabel):
    """A task that asks which of several endings continues a text."""

    OUTCOMES = ChoiceOutcomes

    kind: ClassVar[str] = CHOICE
    OBJECTIVE: ClassVar[str] = "beambert.trainer.tasks.labels:ChoiceObjective"
    OWN: ClassVar[Mapping[str, Any] | None] = {**Task.OWN, "choice_columns": ("choice*",)}
    metrics: tuple[str, ...] = ("accuracy",)

    COLUMN_FLAGS = TABLE_FLAGS | {"choice_columns"}

    def _choice_columns(self, row: TableRow) -> tuple[str, ...]:
        names = self._columns_of_choices(row)
        if len(names) < 2:
            reason = f"has no two columns {self.choice_columns[0]} (it has {', '.join(row)})"
            remedy = "put each ending in a column of its own"
            raise row.lacks_column(reason, remedy)
        return names

    def _check_label(self, row: TableRow, label: str, possible: Sequence[str] | None) -> None:
        if label not in (str(index) for index in range(len(possible))):
            reason = f"has the label {label!r}, which is none of its {len(possible)} endings"
            raise row.bad(f"{reason}, counted from 0", "correct the row")

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

    @staticmethod
    def _columns(examples: Sequence[Any]) -> tuple[list[str], list[str | None], int]:
        choices = len(examples[0].choices)
        texts = [example.text for example in examples for _ in range(choices)]
        return texts, [ending for example in examples for ending in example.endings], choices

    @staticmethod
    def choice_columns_of(training: Mapping[str, Any]) -> list[str]:
        """Returns the columns of the endings; a pattern `choice*` gives choice_0, choice_1, …"""
        choices = training["columns"]["choice_columns"]
        if any(name.endswith("*") for name in choices):
            return [f"{choices[0][:-1]}_{label}" for label in training["labels"]]
        return choices

    @staticmethod
    def unlabelled(texts: Sequence[str], choices: Sequence[str]) -> ChoiceExample:
        """Returns a text with its endings."""
        text_b = texts[1] if len(texts) > 1 else None
        return ChoiceExample(texts[0], text_b, None, {}, tuple(choices))

    @staticmethod
    def _written(example: ChoiceExample, label: str) -> str:
        return example.choices[int(label)]
