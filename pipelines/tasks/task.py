"""What a task declares, what a kind of task defines (a subclass of `Task`), and its outcomes."""

import abc
import dataclasses
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from beambert.errors import InputError
from beambert.pipelines.tasks.saved_models import Model, check_signature
from beambert.pipelines.tasks.tables import BadRow
from beambert.saved_models import call_on_texts

if TYPE_CHECKING:
    from beambert.pipelines.tasks.texts import TextFeatures

# Names of kinds that commands name.
CHOICE, TAGGING, SPAN = "choice", "tagging", "span"
EMBEDDING, SIMILARITY, RERANK = "embedding", "similarity", "rerank"
LATE_INTERACTION, SPARSE = "late_interaction", "sparse"
TRAIN, DEV, TEST = "train", "dev", "test"
# Default lengths of the inputs: that of run_classifier.py, where the length of the pre-training is
# not known, and that of run_squad.py for a question with a part of its context.
DEFAULT_LENGTH, DEFAULT_SPAN_LENGTH = 128, 384
# A shorter sequence has no room for a text.
SHORTEST_LENGTH = 8
# The files of a task on the user's own data.
OWN_FILES = {TRAIN: "train", DEV: "dev", TEST: "test"}

# Label of tokens without a label; the loss leaves these tokens out.
NO_LABEL = -1
# The further input of a tagging's signature that takes ids.
FIRST_PIECES = "first_pieces"


@dataclasses.dataclass(frozen=True)
class TaskFeatures:
    """The sequences of a task's examples; the sequences of one example follow each other.

    Attributes:
      input_ids: int32 [tokens], ids of all sequences end to end.
      segment_ids: int32 [tokens], 0 for the first and 1 for the second segment.
      lengths: int64 [sequences], number of tokens in each sequence.
      targets: name -> array with a row for each example (`label_ids`, `start_positions`,
        `end_positions`).
      token_targets: name -> array with a row for each token (`label_ids` of a tagging task).
      choices: number of sequences of an example; 1 except for a choice.
    """

    input_ids: np.ndarray
    segment_ids: np.ndarray
    lengths: np.ndarray
    targets: Mapping[str, np.ndarray]
    token_targets: Mapping[str, np.ndarray]
    choices: int = 1

    def __len__(self) -> int:
        """The number of examples."""
        return len(self.lengths) // self.choices

    @property
    def example_lengths(self) -> np.ndarray:
        """Number of tokens in each example's longest sequence, int64 [examples]."""
        return self.lengths.reshape(-1, self.choices).max(axis=1)


@dataclasses.dataclass(frozen=True)
class ExampleFile:
    """The content of a task's file.

    Attributes:
      examples: examples that can be used, in the order of the file.
      bad_rows: rows that cannot be used.
      notes: one sentence for each other problem.
      unlearnable: reason -> number of examples that were left out because nothing can be learned
        from them.
    """

    examples: Sequence[Any]
    bad_rows: Sequence[BadRow] = ()
    notes: Sequence[str] = ()
    unlearnable: Mapping[str, int] = dataclasses.field(default_factory=dict)


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

    def details(self, labels: Sequence[str]) -> dict[str, Any]:
        """Returns further results besides metrics.

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
      weight: measure of how bad the mistake is, see `Task.WEIGHT`.
      row: position of the example in its file, from 0.
      slices: slicing -> the example's slice.
    """

    text: str
    expected: str
    predicted: str
    weight: float
    row: int = 0
    slices: Mapping[str, str] = dataclasses.field(default_factory=dict)


def check_finite(values: ArrayLike, name: str, model: Model) -> None:
    """Refuses numbers of a model that are not finite.

    Raises:
      InputError: one is not.
    """
    if not np.isfinite(values).all():
        raise InputError(
            f"--model={model.path}: gives {name} that are not numbers; fine-tune it again, with a "
            "lower learning rate"
        )


def text_of(example: Any) -> str:
    """Returns the text of an example, or both of a pair, below each other."""
    return example.text if example.text_b is None else f"{example.text}\n{example.text_b}"


def words_in(example: Any) -> int:
    """Returns the number of words of an example: of both texts, and of the longest ending."""
    return sum(
        len(text.split()) if isinstance(text, str) else max(len(part.split()) for part in text)
        for text in example.texts().values()
    )


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


@dataclasses.dataclass(frozen=True)
class Row:
    """An example, and the part of its record that is known before the prediction."""

    example: Any
    record: Record

    @property
    def characters(self) -> int:
        """The number of characters in the example."""
        return sum(len(part) for value in self.example.texts().values() for part in value)


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


# Name -> kind, of all kinds whose modules are loaded; `declarations.kind_of` loads them.
KINDS: dict[str, type["Task"]] = {}


@dataclasses.dataclass(frozen=True)
class Task(abc.ABC):
    """The files, columns, labels and metrics of a task.

    Each kind of task is a subclass, which reads files, makes model inputs of examples and answers
    of outputs, and scores them.

    Attributes:
      name: name of the task, the value of `--task=`.
      files: split -> file name, or the names that the file may have. A name without an ending
        stands for that name with any ending of the kind.
      text_columns: column of the text and, for a pair, that of the second text. In a choice the
        second column holds the words that every ending begins with.
      label_column: column of the label; in a choice it holds the index of the right ending.
      labels: labels in index order, or None to take those of the train split, sorted.
      choice_columns: columns of the endings; a name that ends in `*` stands for all columns with
        this prefix.
      text_b_is_optional: whether files may lack the second text column.
      headerless_columns: names of the columns of train and dev if those files have no header
        line; the test file always has one.
      metrics: names of metrics, keys of `metrics.METRICS`; the first one chooses weights.
      positive_label: label whose precision, recall and F1 are computed, for tasks with F1.
      allows_no_answer: whether a question may have no answer; the right prediction is then "".
      encoding: value of --encoding, see `corpus.encodings.parse_encodings`. SQuAD's files are
        UTF-8.
      title: name of the task in GLUE's tables and folders; None for other tasks.
    """

    # Name of the kind. A class that has one enters itself in `KINDS`.
    kind: ClassVar[str]
    # Module and class of the Keras half, a `TaskObjective`: "package.module:Class".
    OBJECTIVE: ClassVar[str]
    # The fields of the task on the user's own data besides its name and files; None for no such.
    OWN: ClassVar[Mapping[str, Any] | None] = {
        "text_columns": ("text", "text_b"),
        "text_b_is_optional": True,
    }
    # Outputs of a SavedModel that an evaluation needs.
    OUTPUTS: ClassVar[tuple[str, ...]]
    # How an evaluation scores the records of predictions.
    OUTCOMES: ClassVar[type[Outcomes]]
    # Feature of a record whose numbers must be finite; "" for none.
    FINITE: ClassVar[str] = ""
    # Name of the weight of a mistake, and a description of the mistakes that are shown.
    WEIGHT: ClassVar[tuple[str, str]]
    # Folder that Beam writes predictions to; another one if `completed` adds to them.
    FOLDER: ClassVar[str] = PREDICTIONS_FOLDER
    # Endings that a file may have if the task does not declare one.
    ENDINGS: ClassVar[tuple[str, ...]]
    # Flags that a task on one's own data takes.
    COLUMN_FLAGS: ClassVar[frozenset[str]] = frozenset()
    # Flags about the learning that a task of the kind takes.
    LEARNING_FLAGS: ClassVar[frozenset[str]] = frozenset()
    # Greatest number of windows that a text becomes, and how much the labels count in the loss;
    # None if all count alike. They have no annotations, as some kinds make fields of them.
    max_windows, class_weights = 1, None
    # Whether an example compares two texts, so that two columns of texts have names.
    COMPARES_TEXTS: ClassVar[bool] = False
    # What `baseline` answers, in words.
    WITHOUT_MODEL: ClassVar[str]
    # The model of `by_words`, which takes seconds; "" for kinds without it.
    BY_WORDS: ClassVar[str] = ""
    # Whether the answers are labels; a model keeps them in labels.txt.
    HAS_LABELS: ClassVar[bool] = True

    name: str
    files: Mapping[str, str | tuple[str, ...]] = dataclasses.field(
        default_factory=lambda: {TRAIN: "train.tsv", DEV: "dev.tsv", TEST: "test.tsv"}
    )
    text_columns: tuple[str, ...] = ("sentence",)
    label_column: str = "label"
    labels: tuple[str, ...] | None = None
    choice_columns: tuple[str, ...] = ()
    text_b_is_optional: bool = False
    headerless_columns: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    positive_label: str | None = None
    allows_no_answer: bool = False
    encoding: str = "utf-8"
    title: str | None = None

    def __init_subclass__(cls, **given: Any) -> None:
        """Enters the kind in `KINDS`."""
        super().__init_subclass__(**given)
        if "kind" in vars(cls):
            KINDS[cls.kind] = cls

    @property
    def is_own(self) -> bool:
        """Whether it is a task on the user's own data, whose columns flags can name."""
        return self.files == OWN_FILES

    @abc.abstractmethod
    def read(
        self, path: pathlib.Path, is_labelled: bool, labels: Sequence[str] | None
    ) -> ExampleFile:
        """Reads all examples of a file.

        Args:
          path: path of the file.
          is_labelled: whether every row must have a label.
          labels: labels that rows may have; None for any.

        Raises:
          InputError: the file cannot be read.
        """

    def read_to_learn(
        self, path: pathlib.Path, is_labelled: bool, labels: Sequence[str] | None
    ) -> ExampleFile:
        """Reads a file like `read`, without the examples that nothing can be learned from."""
        return self.read(path, is_labelled, labels)

    def check_file(  # noqa: B027  (most kinds have nothing to check)
        self, path: pathlib.Path, examples: Sequence[Any]
    ) -> None:
        """Refuses a file whose examples do not fit together.

        Raises:
          InputError: they do not; the message names the file.
        """

    def check_split(  # noqa: B027
        self, path: pathlib.Path, is_labelled: bool, examples: Sequence[Any], first: Any
    ) -> None:
        """Refuses a split that does not fit the first example of train.

        Raises:
          InputError: it does not; the message names the file.
        """

    def check_choices(  # noqa: B027
        self, path: pathlib.Path, examples: Sequence[Any], labels: Sequence[str]
    ) -> None:
        """Refuses examples whose endings are not as many as the labels of a model.

        Raises:
          InputError: they are not; the message names the file and `--model`.
        """

    def find_labels(self, path: pathlib.Path, train: Sequence[Any]) -> tuple[str, ...]:
        """Returns the labels in index order, taken from the examples of train if none are declared.

        Raises:
          InputError: there are too few labels, or the metrics cannot use them.
        """
        return ()

    def label_names(self, example: Any) -> Iterable[str]:
        """Returns the labels of an example, to be counted; nothing for a number."""
        return ()

    def learning_settings(self) -> dict[str, Any]:
        """Returns the settings of the learning that differ from the defaults, for training.json."""
        return {}

    def sequences(self, example: Any) -> int:
        """Returns the number of sequences of tokens that an example becomes."""
        return 1

    def default_length(self, trained_length: int | None = None) -> int:
        """Returns the default length of the inputs, in tokens.

        Args:
          trained_length: greatest length of the pre-training; None if it is not known.
        """
        return trained_length or DEFAULT_LENGTH

    @classmethod
    def features(
        cls, examples: Sequence[Any], labels: Sequence[str], text_features: "TextFeatures"
    ) -> TaskFeatures:
        """Converts examples; examples without labels get no targets. A span has windows.

        Args:
          examples: at least one example.
          labels: labels in index order.
          text_features: converter of texts to inputs.
        """
        raise NotImplementedError

    @classmethod
    def count_cut(
        cls,
        examples: Sequence[Any],
        labels: Sequence[str],
        text_features: "TextFeatures",
        features: TaskFeatures,
    ) -> int:
        """Returns the number of sequences that lost tokens: those that more room would lengthen.

        Args:
          examples, labels, text_features: the arguments of `features`.
          features: its result.
        """
        length = text_features.longest
        full = np.flatnonzero(features.example_lengths == length)
        if not len(full):
            return 0
        some = [examples[index] for index in full]
        found = cls.features(some, labels, text_features.with_more_room())
        return int((found.lengths > length).sum())

    @staticmethod
    def text_columns_of(training: Mapping[str, Any]) -> list[str]:
        """Returns the text columns that a model was trained on, from its training.json."""
        return training["columns"]["text_columns"][: 1 + training["is_pair"]]

    @staticmethod
    def choice_columns_of(training: Mapping[str, Any]) -> list[str]:
        """Returns the columns of the endings; empty for kinds without endings."""
        return []

    def is_pair(self, example: Any) -> bool:
        """Whether a model of the task takes two texts, as an example of it has."""
        return example.text_b is not None

    def positive_index(self, labels: Sequence[str]) -> int:
        """Returns the id of the class whose F1 is computed: the positive label or the second."""
        return 1 if self.positive_label is None else labels.index(self.positive_label)

    def outcomes(
        self, examples: Sequence[Any], labels: Sequence[str], outputs: Mapping[str, Any]
    ) -> Outcomes:
        """Returns the outcomes of a model in training. Those of questions need their windows, too.

        Args:
          examples: examples with labels.
          labels: labels in index order.
          outputs: what the model gives, with a row for each example; see `outputs_of` of the
            kind's objective.
        """
        raise NotImplementedError

    def baseline(
        self, train: Sequence[Any], examples: Sequence[Any], labels: Sequence[str]
    ) -> Outcomes:
        """Returns the outcomes of `WITHOUT_MODEL`, which only train decides."""
        raise NotImplementedError

    def by_words(
        self, train: Sequence[Any], examples: Sequence[Any], labels: Sequence[str]
    ) -> Outcomes | None:
        """Returns the outcomes of `BY_WORDS`, learned from train; None for kinds without it."""
        return None

    @staticmethod
    @abc.abstractmethod
    def unlabelled(texts: Sequence[str], choices: Sequence[str]) -> Any:
        """Returns the example of one or two texts and, for a choice, their endings."""

    @staticmethod
    @abc.abstractmethod
    def answer(
        labels: Sequence[str], example: Any, outputs: Mapping[str, Any], i: int
    ) -> dict[str, Any]:
        """Returns row i of a SavedModel's outputs, for the example, in plain types."""

    def check_model(self, model: Model, example: Any) -> None:
        """Raises InputError unless the model has the inputs and outputs that an example needs."""
        check_signature(model, self.OUTPUTS, example.texts())

    def predict(self, model: Model, loaded: Any, rows: Sequence[Row]) -> list[Record]:
        """Returns the features of the records that hold the predictions for rows."""
        outputs = call_on_texts(loaded, [row.example.texts() for row in rows])
        return [self.recorded(model, row.record, outputs, i) for i, row in enumerate(rows)]

    def completed(
        self, model: Model, rows: Sequence[Row], records: Sequence[Record]
    ) -> Sequence[Record]:
        """Returns the records of all rows with what only all of them together tell."""
        return records

    def official(
        self, examples: Sequence[Any], records: Sequence[Record]
    ) -> tuple[dict[str, float], dict[str, str]] | None:
        """Returns the metrics of the official scorer and its input files; None without one."""
        return None

    @staticmethod
    @abc.abstractmethod
    def truth_of(example: Any, labels: Sequence[str]) -> dict[str, list[Any]]:
        """Returns the features of a record that hold the truth of an example."""

    @staticmethod
    def label_slices(examples: Sequence[Any], labels: Sequence[str]) -> Slices | None:
        """Returns the slicing by label; None for kinds without one."""
        return None

    @staticmethod
    def query(example: Any) -> str | None:
        """Returns the query, whose candidates a slice has together; None for kinds without one."""
        return None

    def predictions(self, labels: Sequence[str]) -> tuple[str, ...] | None:
        """Returns the values of the slicing by prediction; None for kinds without one."""
        return None

    @staticmethod
    def recorded(model: Model, record: Record, outputs: Mapping[str, np.ndarray], i: int) -> Record:
        """Returns the features of a record that hold row i of a SavedModel's outputs.

        Args:
          model: the SavedModel.
          record: features of the example.
          outputs: outputs of the model for a batch.
          i: index of the row in the batch.
        """
        raise NotImplementedError

    @classmethod
    def check_record(cls, record: Record, model: Model) -> None:
        """Raises InputError for an invalid answer; the message names the model."""
        if cls.FINITE:
            check_finite(record[cls.FINITE], cls.FINITE, model)

    @classmethod
    @abc.abstractmethod
    def mistake(cls, record: Record, example: Any) -> Mistake:
        """Returns the mistake of an answer; its weight is 0 if the answer is right."""

    @classmethod
    def mistakes(cls, records: Sequence[Record], examples: Sequence[Any]) -> list[Mistake]:
        """Returns the mistake of each answer, see `mistake`."""
        return [cls.mistake(*both) for both in zip(records, examples, strict=True)]


# The texts of an example by the names of a SavedModel's inputs; a choice's endings are a tuple.
Texts = dict[str, str | tuple[str, ...]]
# A dataclass of the kind, which has `truth`, `columns` and `texts()`.
Example = Any
