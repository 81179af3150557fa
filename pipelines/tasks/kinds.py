"""The kinds of tasks: how their examples are read and checked, and which labels they have.

Each kind is one class of this module or of `vector_kinds`. To add a kind, add:

1. here: a class and an entry of `KINDS`, of a name in `task`; its examples have `truth`, `columns`
   and `texts`;
2. in `model_inputs`: an entry of `examples.MODEL_INPUTS` for its inputs and targets;
3. in `prediction`: an entry of `answers.ANSWERS` for the inputs and outputs of its SavedModel;
4. in `evaluation`: entries of `outcomes.OUTCOMES`, `records.RECORDS` and
   `predictors.PREDICTORS`, which score, describe and compute its answers;
5. in `trainer`: entries of `task_models.MODELS`, `finetuning.objectives.OBJECTIVES`,
   `finetuning.plan.DATA`, `serving.saved_model.ANSWER_MODULES`, `weights.export.HUGGING_FACE` and
   `weights.model_card`, and the meanings of new outputs in `serving.card`; for vectors and rankings
   also of `weights.initial`, `serving.onnx_export`, `embedding.sentence_export` and
   `retrieval.reranking`;
6. an entry of `declarations.OWN_TASKS`, so that users' own files can be of the kind.
"""

import dataclasses
import json
import math
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from beambert.errors import InputError
from beambert.pipelines.tasks import tables
from beambert.pipelines.tasks.class_folders import FOLDER, LabelledText, read_folder
from beambert.pipelines.tasks.entities import is_entity_tag
from beambert.pipelines.tasks.examples import (
    ChoiceExample,
    MultiLabelExample,
    TaggedExample,
    TextExample,
)
from beambert.pipelines.tasks.squad import Question, read_questions
from beambert.pipelines.tasks.table_task import (
    TABLE_FLAGS,
    LabelledTextTask,
    TableTask,
    check_labels,
    check_name,
    parted,
    several,
)
from beambert.pipelines.tasks.tables import BadRow
from beambert.pipelines.tasks.task import (
    CHOICE,
    CLASSIFICATION,
    DEFAULT_SPAN_LENGTH,
    EMBEDDING,
    LATE_INTERACTION,
    MULTI_LABEL,
    REGRESSION,
    RERANK,
    SIMILARITY,
    SPAN,
    TAGGING,
    ExampleFile,
    Task,
)
from beambert.pipelines.tasks.vector_kinds import Embedding, LateInteraction, Similarity
from beambert.pipelines.tasks.word_tags import WORDS_ENDINGS, read_sentences

# How relevance is learnt: of each candidate by itself, or of those of a query beside each other.
POINTWISE, LISTWISE = "pointwise", "listwise"
NO_ANSWER_REASON = "has no answer that is in its context"


@dataclasses.dataclass(frozen=True)
class Classification(LabelledTextTask):
    """A task that asks for the label of a text or of a pair of texts."""

    kind: str = dataclasses.field(default=CLASSIFICATION, init=False)
    metrics: tuple[str, ...] = ("accuracy",)

    COLUMN_FLAGS = TABLE_FLAGS | {"labels"}
    ENDINGS = (*tables.ENDINGS, FOLDER)

    def read(
        self, path: pathlib.Path, is_labelled: bool, labels: Sequence[str] | None
    ) -> ExampleFile:
        """Reads the rows of a table, or the texts in the folders of the labels."""
        if not path.is_dir():
            return super().read(path, is_labelled, labels)
        texts, notes = read_folder(path, self.labels, self.encoding)
        found = parted(self._text_example(text, labels) for text in texts)
        return dataclasses.replace(found, notes=notes)

    def _text_example(
        self, found: LabelledText, labels: Sequence[str] | None
    ) -> TextExample | BadRow:
        if isinstance(found.text, BadRow):
            return found.text
        columns = {self.text_columns[0]: found.text, self.label_column: found.label}
        return self._example(found.path, 1, {"file": found.name} | columns, True, labels)

    def _check_label(
        self, path: pathlib.Path, line: int, label: str, possible: Sequence[str] | None
    ) -> None:
        check_name(path, line, label, possible)

    def find_labels(self, path: pathlib.Path, train: Sequence[TextExample]) -> tuple[str, ...]:
        """Returns the declared labels, or those of train, sorted."""
        if self.labels is not None:
            return self.labels
        where = "each with its folder" if path.is_dir() else f"in column {self.label_column!r}"
        return several(path, {example.label for example in train}, where)


@dataclasses.dataclass(frozen=True)
class MultiLabel(LabelledTextTask):
    """A task that asks for any number of labels of a text or of a pair of texts.

    Attributes:
      label_separator: what stands between the labels of a row; a row may have none.
    """

    kind: str = dataclasses.field(default=MULTI_LABEL, init=False)
    metrics: tuple[str, ...] = ("micro_f1", "macro_f1", "exact_match")
    label_separator: str = ","

    COLUMN_FLAGS = TABLE_FLAGS | {"labels", "label_separator"}

    def _label(
        self,
        path: pathlib.Path,
        line: int,
        row: dict[str, str],
        possible: Sequence[str] | None,
    ) -> tuple[str, ...]:
        found = self._divided(path, line, tables.field(path, line, row, self.label_column))
        for label in found:
            self._check_label(path, line, label, possible)
        return found

    def _divided(self, path: pathlib.Path, line: int, field: str) -> tuple[str, ...]:
        """Returns the labels of a field, each once: a JSON list, or names with separators.

        Raises:
          BadRow: it begins like a JSON list and is none of names, or a label is empty.
        """
        names = field.split(self.label_separator) if field.strip() else []
        if field.lstrip().startswith("["):
            names = _json_names(field)
            if names is None:
                reason = f"has the labels {field:.40}, which are no JSON list of names"
                raise BadRow(path, line, reason, 'correct the row, such as ["a", "b"]')
        labels = tuple(dict.fromkeys(name.strip() for name in names))
        if "" in labels:
            reason = f"has an empty label in {field:.40}"
            raise BadRow(path, line, reason, "fill it in or remove its separator")
        return labels

    def _check_label(
        self, path: pathlib.Path, line: int, label: str, possible: Sequence[str] | None
    ) -> None:
        check_name(path, line, label, possible)

    def _make(self, endings: tuple[str, ...], **fields: Any) -> MultiLabelExample:
        return MultiLabelExample(labels=fields.pop("label"), **fields)

    def read_to_learn(
        self, path: pathlib.Path, is_labelled: bool, labels: Sequence[str] | None
    ) -> ExampleFile:
        """Reads a file, and notes whether each text has one label, as in a classification."""
        file = super().read_to_learn(path, is_labelled, labels)
        if not file.examples or any(len(example.labels or ()) != 1 for example in file.examples):
            return file
        note = (
            f"{path}: every text has exactly one label, such as {file.examples[0].labels[0]!r}; "
            f"--task={CLASSIFICATION} is for that, and --label_separator for labels that stand in "
            "one field"
        )
        return dataclasses.replace(file, notes=[*file.notes, note])

    def find_labels(
        self, path: pathlib.Path, train: Sequence[MultiLabelExample]
    ) -> tuple[str, ...]:
        """Returns the declared labels, or those of train, sorted."""
        if self.labels is not None:
            return self.labels
        found = {label for example in train for label in example.labels or ()}
        return several(path, found, f"in column {self.label_column!r}")

    def label_names(self, example: MultiLabelExample) -> Iterable[str]:
        """Returns the labels."""
        return example.labels or ()


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
class Rerank(Regression):
    """A task that asks how relevant a text is for another, of which a query has several.

    Attributes:
      loss: `POINTWISE` or `LISTWISE`.
    """

    kind: str = dataclasses.field(default=RERANK, init=False)
    metrics: tuple[str, ...] = ("ndcg_at_10", "mrr_at_10")
    loss: str = POINTWISE

    COMPARES_TEXTS = True
    LEARNING_FLAGS = frozenset({"loss"})
    LOSSES = (POINTWISE, LISTWISE)

    def learning_settings(self) -> dict[str, Any]:
        """Returns how the relevance is learnt."""
        return {"loss": self.loss} if self.loss != POINTWISE else {}

    def _check_label(
        self, path: pathlib.Path, line: int, label: str, possible: Sequence[str] | None
    ) -> None:
        if not _is_number(label) or not 0 <= float(label) <= 1:
            reason = f"has {label!r} for a relevance, which is a number from 0 to 1"
            raise BadRow(path, line, reason, "correct the row, or divide all by the greatest")

    def check_file(self, path: pathlib.Path, examples: Sequence[TextExample]) -> None:
        """Refuses also a file none of whose candidates is relevant; a test file has no labels."""
        super().check_file(path, examples)
        labels = [float(example.label) for example in examples if example.label is not None]
        if labels and not any(labels):
            reason = f"has no relevant candidate, as no {self.label_column!r} is above 0"
            raise InputError(f"{path}: {reason}; add some")


@dataclasses.dataclass(frozen=True)
class Choice(TableTask):
    """A task that asks which of several endings continues a text."""

    kind: str = dataclasses.field(default=CHOICE, init=False)
    metrics: tuple[str, ...] = ("accuracy",)

    COLUMN_FLAGS = TABLE_FLAGS | {"choice_columns"}

    def _choice_columns(
        self, path: pathlib.Path, line: int, row: dict[str, str]
    ) -> tuple[str, ...]:
        names = self._columns_of_choices(row)
        if len(names) < 2:
            reason = f"has no two columns {self.choice_columns[0]} (it has {', '.join(row)})"
            remedy = "put each ending in a column of its own"
            raise tables.lacks_column(path, line, reason, remedy)
        return names

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

    ENDINGS = (*WORDS_ENDINGS, ".txt", ".tsv")
    COLUMN_FLAGS = frozenset({"labels"})

    def read(
        self, path: pathlib.Path, is_labelled: bool, labels: Sequence[str] | None
    ) -> ExampleFile:
        """Reads the sentences."""
        return parted(read_sentences(path, labels, self.encoding))

    def check_split(
        self, path: pathlib.Path, is_labelled: bool, examples: Sequence[Any], first: Any
    ) -> None:
        """Refuses a split that must have tags and has none."""
        check_labels(path, examples)
        if is_labelled and examples[0].tags is None:
            raise InputError(f"{path}: has no column of tags; put each word's tag behind it")

    def find_labels(self, path: pathlib.Path, train: Sequence[TaggedExample]) -> tuple[str, ...]:
        """Returns the declared tags, or those of train, sorted."""
        labels = self.labels
        if labels is None:
            tags = {tag for example in train for tag in example.tags or ()}
            labels = several(path, tags, "as tags of words")
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
    MULTI_LABEL: MultiLabel,
    REGRESSION: Regression,
    RERANK: Rerank,
    CHOICE: Choice,
    TAGGING: Tagging,
    SPAN: Span,
    EMBEDDING: Embedding,
    SIMILARITY: Similarity,
    LATE_INTERACTION: LateInteraction,
}


def _json_names(text: str) -> list[str] | None:
    """Returns the names in a JSON list, whose labels may also be whole numbers; None if invalid."""
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_valid = isinstance(names, list) and all(type(name) in (str, int) for name in names)
    return [str(name) for name in names] if is_valid else None


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
