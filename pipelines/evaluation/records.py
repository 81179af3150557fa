"""What a prediction record holds by kind of task: the truth, the answer, and how both are told.

A record is a tf.Example. Each has `row`, the example's position, and the value of every slice, and
besides, by the kind of the task:

    classification, choice   label, label_index, prediction, prediction_index, probabilities
    regression               number (the label), score
    tagging                  tags, predicted_tags: one for each word
    span                     impossible, answer, probability, n_best, null_odds, exact_match,
                             squad_f1
"""

import abc
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beambert.pipelines.evaluation.outcomes import Record
from beambert.pipelines.prediction.saved_models import Model
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.tasks.entities import entities
from beambert.pipelines.tasks.examples import ChoiceExample, TaggedExample, TextExample
from beambert.pipelines.tasks.squad import Question
from beambert.pipelines.tasks.task import CHOICE, CLASSIFICATION, REGRESSION, SPAN, TAGGING, Task

# What a record has besides slices by columns.
OWN_FEATURES = (
    *("row", "label_index", "prediction_index", "probabilities", "number", "score"),
    *("tags", "predicted_tags", "impossible", "answer", "probability", "n_best", "null_odds"),
    *("exact_match", "squad_f1"),
)
# Labels and predictions of questions where some have no answer.
ANSWER, NO_ANSWER = "answer", "no answer"

# The value of each example in a slicing, and the values in the order of reports.
Slices = tuple[tuple[str, ...], tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A wrong answer.

    Attributes:
      text: what the model was given.
      expected: the right answer.
      predicted: the model's.
      weight: how bad it is; see `Records.WEIGHT`.
    """

    text: str
    expected: str
    predicted: str
    weight: float


class Records(abc.ABC):
    """The records of a kind of task."""

    # What the weight of a mistake is, and which are shown.
    WEIGHT: tuple[str, str]

    @staticmethod
    @abc.abstractmethod
    def truth(example: Any, labels: Sequence[str]) -> dict[str, list[Any]]:
        """Returns what a record holds of an example's label."""

    @staticmethod
    def label_slices(examples: Sequence[Any], labels: Sequence[str]) -> Slices | None:
        """Returns how the label parts the examples, if it does."""
        return None

    @staticmethod
    def predictions(task: Task, labels: Sequence[str]) -> tuple[str, ...] | None:
        """Returns the predictions that part the examples, if they do."""
        return None

    @staticmethod
    def answer(
        model: Model, record: Record, outputs: Mapping[str, np.ndarray], i: int
    ) -> Mapping[str, Sequence[Any]]:
        """Returns what a record holds of row i of a SavedModel's outputs.

        Args:
          model: the SavedModel.
          record: what it holds of the example.
          outputs: the model's.
          i: the row.
        """
        raise NotImplementedError

    @staticmethod  # noqa: B027  (the predictor of a span checks)
    def check(record: Record, model: Model) -> None:
        """Refuses an answer that makes no sense.

        Raises:
          InputError: naming the model.
        """

    @staticmethod
    @abc.abstractmethod
    def mistake(record: Record, example: Any) -> Mistake:
        """Returns how wrong an answer is; of the weight 0 where it is right."""


class ClassRecords(Records):
    """Labels of texts."""

    WEIGHT = ("probability", "that the model was surest of")

    @staticmethod
    def truth(example: Any, labels: Sequence[str]) -> dict[str, list[Any]]:
        """Returns the index of the label."""
        return {"label_index": [labels.index(example.label)]}

    @staticmethod
    def label_slices(examples: Sequence[Any], labels: Sequence[str]) -> Slices | None:
        """Returns a slice for each label."""
        return tuple(example.label for example in examples), tuple(labels)

    @staticmethod
    def predictions(task: Task, labels: Sequence[str]) -> tuple[str, ...] | None:
        """Returns the labels."""
        return tuple(labels)

    @staticmethod
    def answer(
        model: Model, record: Record, outputs: Mapping[str, np.ndarray], i: int
    ) -> Mapping[str, Sequence[Any]]:
        """Returns the label, its index and the probabilities of all."""
        name = outputs["label"][i]
        # A name that labels.txt lacks is found by `check`.
        known = name.decode(errors="replace") in model.labels
        return {
            "prediction": [name],
            "prediction_index": [model.labels.index(name.decode()) if known else -1],
            "probabilities": outputs["probabilities"][i].tolist(),
        }

    @staticmethod
    def check(record: Record, model: Model) -> None:
        """Refuses probabilities that are not numbers, and a label that is not the likeliest."""
        _check_finite(record, "probabilities", model)
        index, probabilities = record["prediction_index"][0], record["probabilities"]
        if index < 0 or probabilities[index] < max(probabilities):
            prediction = record["prediction"][0].decode(errors="replace")
            raise InputError(
                f"--model={model.path} answers {prediction!r}, which is not the likeliest line of "
                "labels.txt: put the model's own labels.txt beside it."
            )

    @classmethod
    def mistake(cls, record: Record, example: Any) -> Mistake:
        """Returns a wrong label with its probability."""
        index = record["prediction_index"][0]
        weight = record["probabilities"][index] if index != record["label_index"][0] else 0.0
        predicted = record["prediction"][0].decode()
        written = (cls._written(example, label) for label in (example.label, predicted))
        return Mistake(_text(example), *written, weight)

    @staticmethod
    def _written(example: Any, label: str) -> str:
        return label


class ChoiceRecords(ClassRecords):
    """Choices of endings."""

    @staticmethod
    def _written(example: ChoiceExample, label: str) -> str:
        return example.choices[int(label)]


class NumberRecords(Records):
    """Numbers for texts."""

    WEIGHT = ("difference", "that are furthest off")

    @staticmethod
    def truth(example: TextExample, labels: Sequence[str]) -> dict[str, list[Any]]:
        """Returns the number."""
        return {"number": [float(example.label)]}

    @staticmethod
    def label_slices(examples: Sequence[TextExample], labels: Sequence[str]) -> Slices | None:
        """Returns four ranges of about as many examples; equal numbers stay together."""
        numbers = [float(example.label) for example in examples]
        edges = np.quantile(numbers, [0.25, 0.5, 0.75], method="inverted_cdf")
        quarters = np.searchsorted(edges, numbers)
        names = {}
        for quarter in sorted(set(quarters.tolist())):
            inside = np.array(numbers)[quarters == quarter]
            names[quarter] = f"{inside.min():g} to {inside.max():g}"
        return tuple(names[quarter] for quarter in quarters.tolist()), tuple(names.values())

    @staticmethod
    def answer(
        model: Model, record: Record, outputs: Mapping[str, np.ndarray], i: int
    ) -> Mapping[str, Sequence[Any]]:
        """Returns the number."""
        return {"score": [float(outputs["score"][i])]}

    @staticmethod
    def check(record: Record, model: Model) -> None:
        """Refuses what is not a number."""
        _check_finite(record, "score", model)

    @staticmethod
    def mistake(record: Record, example: TextExample) -> Mistake:
        """Returns how far a number is off."""
        score, number = record["score"][0], record["number"][0]
        return Mistake(_text(example), example.label, f"{score:.3f}", abs(score - number))


class TagRecords(Records):
    """Tags of words."""

    WEIGHT = ("wrong entities", "with the most wrong or missed entities")

    @staticmethod
    def truth(example: TaggedExample, labels: Sequence[str]) -> dict[str, list[Any]]:
        """Returns the tags."""
        return {"tags": [tag.encode() for tag in example.tags]}

    @staticmethod
    def answer(
        model: Model, record: Record, outputs: Mapping[str, np.ndarray], i: int
    ) -> Mapping[str, Sequence[Any]]:
        """Returns the tags of the words."""
        return {"predicted_tags": outputs["tags"][i][: len(record["tags"])].tolist()}

    @staticmethod
    def check(record: Record, model: Model) -> None:
        """Refuses tags that labels.txt lacks, and other than one a word."""
        tags = [tag.decode(errors="replace") for tag in record["predicted_tags"]]
        unknown = [tag for tag in tags if tag not in model.labels]
        if unknown or len(tags) != len(record["tags"]):
            raise InputError(
                f"--model={model.path} gives {unknown[0]!r}, which is not in labels.txt: put the "
                "model's own labels.txt beside it."
                if unknown
                else f"--model={model.path} gives {len(tags)} tags for {len(record['tags'])} "
                "words: export the model again."
            )

    @staticmethod
    def mistake(record: Record, example: TaggedExample) -> Mistake:
        """Returns how many entities are wrong or missed."""
        predicted = [tag.decode() for tag in record["predicted_tags"]]
        wrong = set(entities(example.tags)) ^ set(entities(predicted))
        return Mistake(
            " ".join(example.words),
            _named(example.words, example.tags),
            _named(example.words, predicted),
            float(len(wrong)),
        )


class SpanRecords(Records):
    """Answers to questions; `SpanPredictor` makes and checks them."""

    WEIGHT = ("probability", "without a right word that the model was surest of")

    @staticmethod
    def truth(example: Question, labels: Sequence[str]) -> dict[str, list[Any]]:
        """Returns whether the context has no answer."""
        return {"impossible": [int(example.is_impossible)]}

    @staticmethod
    def label_slices(examples: Sequence[Question], labels: Sequence[str]) -> Slices | None:
        """Returns those with and without an answer, if there are both."""
        if not any(question.is_impossible for question in examples):
            return None
        values = tuple(NO_ANSWER if q.is_impossible else ANSWER for q in examples)
        return values, (ANSWER, NO_ANSWER)

    @staticmethod
    def predictions(task: Task, labels: Sequence[str]) -> tuple[str, ...] | None:
        """Returns an answer and none, where there may be none."""
        return (ANSWER, NO_ANSWER) if task.allows_no_answer else None

    @staticmethod
    def mistake(record: Record, example: Question) -> Mistake:
        """Returns an answer that shares no word with a right one, with its probability."""
        answers = dict.fromkeys(answer.text for answer in example.answers)
        return Mistake(
            f"{example.question}\n\n{example.context}",
            "\n".join(answers) or "–",
            record["answer"][0].decode() or "–",
            0.0 if record["squad_f1"][0] else record["probability"][0],
        )


RECORDS: dict[str, type[Records]] = {
    CLASSIFICATION: ClassRecords,
    REGRESSION: NumberRecords,
    CHOICE: ChoiceRecords,
    TAGGING: TagRecords,
    SPAN: SpanRecords,
}


def _check_finite(record: Record, name: str, model: Model) -> None:
    if not all(math.isfinite(value) for value in record[name]):
        raise InputError(
            f"--model={model.path} gives {name} that are not numbers: fine-tune it again, with a "
            "lower learning rate."
        )


def _named(words: Sequence[str], tags: Sequence[str]) -> str:
    found = entities(tags)
    return "\n".join(f"{' '.join(words[one.start : one.end])} ({one.type})" for one in found) or "–"


def _text(example: TextExample | ChoiceExample) -> str:
    return example.text if example.text_b is None else f"{example.text}\n{example.text_b}"
