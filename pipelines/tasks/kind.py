"""The parts of a kind of task: its model inputs, answers, records, outcomes and predictor."""

import abc
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from beambert.errors import InputError
from beambert.pipelines.tasks.saved_models import Model, check_signature, load
from beambert.pipelines.tasks.task import (
    Example,
    MadeInputs,
    Task,
    TaskFeatures,
)
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.saved_models import call_on_texts

if TYPE_CHECKING:
    from beambert.pipelines.tasks.texts import TextFeatures

# Folder of the records of predictions in the output of an evaluation.
PREDICTIONS_FOLDER = "predictions"
# Slicings by the number of words, by label and by prediction.
LENGTH, LABEL, PREDICTION = "length", "label", "prediction"
# A prediction record as `predictions` writes it is a mapping: name -> values.
Record = Mapping[str, Sequence[Any]]


class Outcomes(abc.ABC):
    """The outcomes of some examples, in a fixed order."""

    # Names of the features of a record that the outcomes are made from.
    FEATURES: tuple[str, ...]
    # Metrics that are shares of the examples.
    SHARES: frozenset[str] = frozenset()
    # Metrics that are reported besides the task's own.
    METRICS: tuple[str, ...]

    @classmethod
    @abc.abstractmethod
    def of_records(cls, records: Sequence[Record]) -> Self:
        """Returns the outcomes of prediction records."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """The number of examples."""

    @abc.abstractmethod
    def take(self, examples: NDArray[np.int64]) -> Self:
        """Returns the outcomes at some indices, which may repeat."""

    @abc.abstractmethod
    def scores(self, names: Sequence[str], positive: int) -> dict[str, float]:
        """Returns metrics by name; `positive` is the id of the class whose F1 is computed."""

    @abc.abstractmethod
    def constants(self) -> list[tuple[Any, Self]]:
        """Returns the constant answers that are tried as a baseline, each with its outcomes."""

    def written(self, answer: Any, labels: Sequence[str]) -> Any:
        """Returns a constant answer in the form of the report."""
        return answer

    def undefined(self) -> frozenset[str]:
        """Returns the metrics that say nothing about these examples, such as F1 of one class."""
        return frozenset()

    def confidence(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]] | None:
        """Returns the probability of each answer and whether it is right, if there are any."""
        return None

    def details(self, labels: Sequence[str]) -> dict[str, Any]:
        """Returns further results besides metrics and calibration.

        Args:
          labels: labels in index order.
        """
        return {}


class ArrayOutcomes(Outcomes):
    """Outcomes whose attributes are arrays with one row for each example; a dataclass."""

    def __len__(self) -> int:
        """The number of examples."""
        return len(self._arrays()[0])

    def take(self, examples: NDArray[np.int64]) -> Self:
        """Returns the outcomes at some indices, which may repeat."""
        return type(self)(*(array[examples] for array in self._arrays()))

    def _arrays(self) -> list[NDArray]:
        return [getattr(self, field.name) for field in dataclasses.fields(self)]


def column(records: Sequence[Record], name: str) -> NDArray:
    """Returns the first value of a feature of each record, numbers as float64."""
    values = np.array([record[name][0] for record in records])
    # TFMA passes float32, whose means would differ from those of the same numbers in float64.
    return values.astype(float) if values.dtype.kind == "f" else values


# A slicing: the value of each example, and all values in the order of reports.
Slices = tuple[tuple[str, ...], tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A wrong answer.

    Attributes:
      text: text of the example.
      expected: right answer.
      predicted: answer of the model.
      weight: measure of how bad the mistake is, see `PredictionRecords.WEIGHT`.
      row: position of the example in its file, from 0.
      slices: slicing -> the example's slice.
    """

    text: str
    expected: str
    predicted: str
    weight: float
    row: int = 0
    slices: Mapping[str, str] = dataclasses.field(default_factory=dict)


class PredictionRecords(abc.ABC):
    """Writes and reads the records of a kind of task."""

    # Name of the weight of a mistake, and a description of the mistakes that are shown.
    WEIGHT: tuple[str, str]

    @staticmethod
    @abc.abstractmethod
    def truth(example: Any, labels: Sequence[str]) -> dict[str, list[Any]]:
        """Returns the features that hold the truth of an example."""

    @staticmethod
    def label_slices(examples: Sequence[Any], labels: Sequence[str]) -> Slices | None:
        """Returns the slicing by label; None for kinds without one."""
        return None

    @staticmethod
    def query(example: Any) -> str | None:
        """Returns the query, whose candidates a slice has together; None for kinds without one."""
        return None

    @staticmethod
    def predictions(task: Task, labels: Sequence[str]) -> tuple[str, ...] | None:
        """Returns the values of the slicing by prediction; None for kinds without one."""
        return None

    @staticmethod
    def answer(
        model: Model, record: Record, outputs: Mapping[str, np.ndarray], i: int
    ) -> Mapping[str, Sequence[Any]]:
        """Returns the features that hold row i of a SavedModel's outputs.

        Args:
          model: the SavedModel.
          record: features of the example.
          outputs: outputs of the model for a batch.
          i: index of the row in the batch.
        """
        raise NotImplementedError

    @staticmethod  # noqa: B027  (the predictor of spans checks its answers itself)
    def check(record: Record, model: Model) -> None:
        """Refuses an invalid answer.

        Raises:
          InputError: the answer is invalid; the message names the model.
        """

    @staticmethod
    @abc.abstractmethod
    def mistake(record: Record, example: Any) -> Mistake:
        """Returns the mistake of an answer; its weight is 0 if the answer is right."""

    @classmethod
    def mistakes(cls, records: Sequence[Record], examples: Sequence[Any]) -> list[Mistake]:
        """Returns the mistake of each answer, see `mistake`."""
        return [cls.mistake(*both) for both in zip(records, examples, strict=True)]


def check_finite(record: Record, name: str, model: Model) -> None:
    """Refuses numbers of a model that are not finite.

    Raises:
      InputError: one is not.
    """
    if not all(math.isfinite(value) for value in record[name]):
        raise InputError(
            f"--model={model.path}: gives {name} that are not numbers; fine-tune it again, with a "
            "lower learning rate"
        )


def text_of(example: Any) -> str:
    """Returns the text of an example, or both of a pair, below each other."""
    return example.text if example.text_b is None else f"{example.text}\n{example.text_b}"


def excerpt(text: str, most: int, start: int = 0) -> str:
    """Returns at most some characters of a text, with `…` where words are left out.

    Args:
      text: the text.
      most: greatest number of characters without the marks.
      start: position at or behind which the excerpt begins, if the text is longer than that.
    """
    text = text.strip()
    if len(text) <= most:
        return text
    start = min(start, len(text) - most)
    if start > 0:  # the excerpt begins and ends with a whole word where it can
        space = text.find(" ", start, start + most // 2)
        start = start if space < 0 else space + 1
    end = min(start + most, len(text))
    if end < len(text):
        space = text.rfind(" ", start + most // 2, end + 1)
        end = end if space < 0 else space
    return ("… " if start > 0 else "") + text[start:end] + (" …" if end < len(text) else "")


class Answers(abc.ABC):
    """Makes examples of texts without labels, and answers of a model's outputs."""

    # Whether an example has several endings.
    HAS_CHOICES = False
    # Outputs that an evaluation needs.
    OUTPUTS: tuple[str, ...]

    @staticmethod
    def text_columns(training: Mapping[str, Any]) -> list[str]:
        """Returns the text columns that a model was trained on, from its training.json."""
        return training["columns"]["text_columns"][: 1 + training["is_pair"]]

    @staticmethod
    def choice_columns(training: Mapping[str, Any]) -> list[str]:
        """Returns the columns of the endings; empty for kinds without endings."""
        return []

    @staticmethod
    @abc.abstractmethod
    def example(texts: Sequence[str], choices: Sequence[str]) -> Any:
        """Returns the example of one or two texts and, for a choice, their endings."""

    @staticmethod
    @abc.abstractmethod
    def answer(
        labels: Sequence[str], example: Any, outputs: Mapping[str, Any], i: int
    ) -> dict[str, Any]:
        """Returns row i of a SavedModel's outputs, for the example, in plain types."""


class ModelInputs(abc.ABC):
    """Turns the examples of a kind of task into inputs and targets."""

    # Names and types of the targets that an example has one of.
    TARGETS: Mapping[str, type] = {}
    # Names of the targets that each token has one of.
    TOKEN_TARGETS: tuple[str, ...] = ()
    # Whether an example has several sequences.
    HAS_CHOICES = False
    # Whether a target has a value for each label, rather than one value.
    HAS_TARGET_PER_LABEL = False

    def __init__(
        self,
        labels: Sequence[str],
        vocabulary: Vocabulary,
        do_lower_case: bool,
        max_seq_length: int,
    ):
        """Builds the tokenizer.

        Args:
          labels: labels in index order.
          vocabulary: vocabulary of the ids.
          do_lower_case: whether text is lower-cased and loses its accents.
          max_seq_length: greatest number of tokens in a sequence.
        """
        self._labels = labels
        self._tokenizer = self._build_tokenizer(vocabulary, do_lower_case, max_seq_length)

    @abc.abstractmethod
    def _build_tokenizer(
        self, vocabulary: Vocabulary, do_lower_case: bool, max_seq_length: int
    ) -> Any:
        """Returns the tokenizer of the kind."""

    @abc.abstractmethod
    def make(self, examples: Sequence[Any]) -> MadeInputs:
        """Converts examples, at least one."""

    @staticmethod
    def greatest_target(labels: int, max_seq_length: int) -> int:
        """Returns the greatest integer that a target may be."""
        return labels - 1


class ExampleInputs(ModelInputs):
    """Turns examples into sequences; each example is one record."""

    def _build_tokenizer(
        self, vocabulary: Vocabulary, do_lower_case: bool, max_seq_length: int
    ) -> "TextFeatures":
        from beambert.pipelines.tasks.texts import TextFeatures

        return TextFeatures(vocabulary, do_lower_case, max_seq_length)

    def make(self, examples: Sequence[Example]) -> MadeInputs:
        """Converts examples, at least one."""
        features = self.features(examples, self._labels, self._tokenizer)
        lost = self.count_cut(examples, self._labels, self._tokenizer, features)
        return MadeInputs(features, np.arange(len(features)), lost)

    @classmethod
    @abc.abstractmethod
    def features(
        cls, examples: Sequence[Any], labels: Sequence[str], text_features: "TextFeatures"
    ) -> TaskFeatures:
        """See `make_features`."""

    @classmethod
    def count_cut(
        cls,
        examples: Sequence[Example],
        labels: Sequence[str],
        text_features: "TextFeatures",
        features: TaskFeatures,
    ) -> int:
        """See the function `count_cut`."""
        from beambert.pipelines.tasks.texts import longer

        length = text_features.longest
        full = np.flatnonzero(features.example_lengths == length)
        if not len(full):
            return 0
        some = [examples[index] for index in full]
        found = cls.features(some, labels, longer(text_features))
        return int((found.lengths > length).sum())


@dataclasses.dataclass(frozen=True)
class Row:
    """An example, and the part of its record that is known before the prediction."""

    example: Example
    record: Record

    @property
    def characters(self) -> int:
        """The number of characters in the example."""
        return sum(len(part) for value in self.example.texts().values() for part in value)


class Predictor:
    """Turns a batch of rows into serialized tf.Examples with the model's predictions.

    The threads of a worker process share one loaded model.
    """

    # Name of the folder that Beam writes the records to.
    FOLDER: ClassVar[str] = PREDICTIONS_FOLDER

    def __init__(self, records: type[PredictionRecords], model: Model) -> None:
        """Takes the class of the kind's records and the SavedModel to load."""
        from apache_beam.utils import shared

        self._records = records
        self._model = model
        self._shared = shared.Shared()

    @classmethod
    def of_task(cls, task: Task, model: Model) -> "Predictor":
        """Returns the predictor of a task."""
        return cls(task.RECORDS, model)

    @staticmethod
    def check_model(task: Task, model: Model, example: Any) -> None:
        """Refuses a model that does not suit the task.

        Args:
          task: the task.
          model: the model.
          example: an example of the task.

        Raises:
          InputError: the model has other inputs or outputs.
        """
        check_signature(model, task.ANSWERS, example.texts())

    @staticmethod
    def official(
        task: Task, examples: Sequence[Any], records: Sequence[Record]
    ) -> tuple[dict[str, float], dict[str, str]] | None:
        """Returns the metrics of the official scorer and its input files; None without one."""
        return None

    def completed(self, rows: Sequence[Row], records: Sequence[Record]) -> Sequence[Record]:
        """Returns the records of all rows with what only all of them together tell.

        A predictor that adds to them has another `FOLDER`, so that the records are written again.
        """
        return records

    def __call__(self, rows: Sequence[Row]) -> list[bytes]:
        """Returns one serialized tf.Example for each row."""
        model = self._shared.acquire(lambda: load(self._model))
        outputs = call_on_texts(model, [row.example.texts() for row in rows])
        answer = self._records.answer
        return [
            encode_record({**row.record, **answer(self._model, row.record, outputs, i)})
            for i, row in enumerate(rows)
        ]


def encode_record(record: Record) -> bytes:
    """Returns a record as a serialized tf.Example."""
    import tensorflow as tf

    def feature(values: Sequence[Any]) -> tf.train.Feature:
        if isinstance(values[0], bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        if isinstance(values[0], float):
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    features = {name: feature(values) for name, values in record.items()}
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return example.SerializeToString(deterministic=True)
