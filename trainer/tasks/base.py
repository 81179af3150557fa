"""The base classes of the Keras half of a kind of task: data, objective and served graph.

All batches are padded to the same length. Each is computed at the shortest of a few lengths that
holds its sequences, so that short texts cost less than long ones and XLA compiles few programs.
"""

import abc
import dataclasses
import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import keras
from keras import ops

from beambert.model.classifier import Head
from beambert.model.config import EncoderConfig
from beambert.model.families.family import SEQUENCE_CLASSIFICATION
from beambert.pipelines.tasks.classification import loss_weights
from beambert.pipelines.tasks.declarations import kind_of
from beambert.pipelines.tasks.reading import read_splits
from beambert.pipelines.tasks.saved_models import ID_INPUTS
from beambert.pipelines.tasks.task import DEV, TRAIN, Outcomes, Task, TaskFeatures
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.trainer.loop.objectives import Features, Objective, Sums, Tensor, example_weights

if TYPE_CHECKING:
    import tensorflow as tf

    from beambert.trainer.tasks.graph import TaskGraph


class TaskData:
    """The training and dev examples of a task, and what a model's outputs on dev are worth.

    Attributes:
      task: declaration of the task.
      labels: labels in the order of their indices; empty if the task has none.
      examples: split -> its examples.
      counts: number of examples of each split.
      converter: what `tokenize` made the inputs with.
    """

    # Whether a sequence has two segments; None if it has as many as an example has texts.
    HAS_SEGMENTS: ClassVar[bool | None] = None

    def __init__(self, task: Task, data_dir: str, skip_bad_rows: bool = False):
        """Reads the splits train and dev.

        Args:
          task: declaration of the task.
          data_dir: folder of the task's files.
          skip_bad_rows: leave out rows that cannot be used instead of raising an error.

        Raises:
          InputError: a file cannot be read, or the two splits do not match.
        """
        self._read = read_splits(task, data_dir, (TRAIN, DEV), skip_bad_rows)
        self.task = task
        self.labels = list(self._read.labels)
        self.examples = self._read.examples
        self.counts = {split: len(examples) for split, examples in self.examples.items()}
        self._features: dict[str, TaskFeatures] = {}
        self._cut: dict[str, int] = {}

    def problems(self) -> list[str]:
        """Returns a sentence for each problem with the data."""
        return list(self._read.notes)

    @property
    def is_pair(self) -> bool:
        """Whether the model takes two texts."""
        return self.task.is_pair(self.examples[TRAIN][0])

    @property
    def has_segments(self) -> bool:
        """Whether a sequence has two segments."""
        return self.is_pair if self.HAS_SEGMENTS is None else self.HAS_SEGMENTS

    @property
    def sequences(self) -> int:
        """Number of sequences of an example: that of its endings, or else 1."""
        return self.task.sequences(self.examples[TRAIN][0])

    def check_job(self, job: Any, config: EncoderConfig) -> None:
        """Refuses settings of a `FinetuningJob`, or an encoder, that the kind cannot learn with.

        Raises:
          InputError: there is such a setting.
        """

    def check_batch(self, size: int, parts: int) -> None:
        """Refuses batches that nothing can be learned from.

        Args:
          size: number of examples in an update.
          parts: number of parts of it that are computed by themselves.

        Raises:
          InputError: it is such a batch.
        """

    def text_features(self, job: Any, *given: Any) -> TextFeatures:
        """Returns what makes the inputs: vocabulary, lower-casing and length are `given`.

        Raises:
          InputError: a setting of the job does not fit them.
        """
        return TextFeatures(*given, self.task.max_windows)

    def tokenize(self, text_features: TextFeatures) -> None:
        """Makes the features of both splits."""
        self.converter = text_features
        for split, examples in self.examples.items():
            given = examples, self.labels, text_features
            features = self.task.features(*given)
            cut = self.task.count_cut(*given, features)
            if self.task.class_weights and split == TRAIN:
                given = self.task.class_weights, self.labels, features.targets["label_ids"]
                targets = {**features.targets, "loss_weights": loss_weights(*given)}
                features = dataclasses.replace(features, targets=targets)
            self._features[split], self._cut[split] = features, cut

    def features(self, split: str) -> TaskFeatures:
        """Returns the model's inputs for a split."""
        return self._features[split]

    def notes(self) -> list[str]:
        """Returns a sentence for each split with sequences that were cut."""
        return [
            f"{split}: {cut:,} of {len(self._features[split].lengths):,} sequences lost tokens at "
            f"{self._room}; a greater one keeps more"
            for split, cut in self._cut.items()
            if cut
        ]

    @property
    def _room(self) -> str:
        """The flags that bound the number of tokens of a sequence."""
        windows = f" and --max_windows={self.task.max_windows}" if self.task.max_windows > 1 else ""
        return f"--max_seq_length={self.converter.max_seq_length}{windows}"

    def results(self, outputs: Mapping[str, Any]) -> dict[str, float]:
        """Returns the task's metrics for a model's outputs on dev."""
        return self._scores(self.task.outcomes(self.examples[DEV], self.labels, outputs))

    def baseline(self) -> dict[str, float]:
        """Returns the same metrics for a prediction that ignores the text: `WITHOUT_MODEL`."""
        return self._scores(self.task.baseline(*self.examples.values(), self.labels))

    def by_words(self) -> dict[str, float]:
        """Returns the same metrics of the task's model of words; empty for kinds without one."""
        outcomes = self.task.by_words(*self.examples.values(), self.labels)
        return self._scores(outcomes) if outcomes else {}

    def _scores(self, outcomes: Outcomes) -> dict[str, float]:
        return outcomes.scores(self.task.metrics, self.task.positive_index(self.labels))

    def sha256(self) -> dict[str, str]:
        """Returns the SHA-256 of each split's files."""
        return dict(self._read.sha256)


def objective_of_kind(kind: str) -> "type[TaskObjective]":
    """Returns the Keras half of a kind.

    Raises:
      InputError: no kind has that name.
    """
    module, _, name = kind_of(kind).OBJECTIVE.partition(":")
    return getattr(importlib.import_module(module), name)


class TaskObjective(Objective):
    """The Keras half of a kind: its model, the losses and metrics, and the answers of its graph.

    `input_ids`, `input_mask` and `segment_ids` are int32 [B, L]; [B, N, L] for N choices.
    """

    # What reads and scores the examples.
    DATA: ClassVar[type[TaskData]] = TaskData
    # Name of the model's output in an ONNX graph.
    ONNX_OUTPUT: ClassVar[str] = "logits"
    # What `transformers` loads an export as: the ending of the name of the class, which begins with
    # the family's prefix (None: no class has such a head), further entries of its configuration,
    # and whether it names the labels.
    HUGGING_FACE_CLASS: ClassVar[str | None] = SEQUENCE_CLASSIFICATION
    HUGGING_FACE_CONFIG: ClassVar[Mapping[str, Any]] = {}
    NAMES_LABELS: ClassVar[bool] = False
    # The Hub's name of what the model does (huggingface.co/tasks).
    HUB_TASK: ClassVar[str] = "text-classification"
    # Whether the model is an encoder, from which a training can start.
    IS_ENCODER: ClassVar[bool] = False
    # Why there is no folder for sentence-transformers, and what to do; "" if there is one.
    NOT_FOR_SENTENCES: ClassVar[str] = (
        "is no encoder that reads whole texts; name the folder of one that `beambert pretrain` "
        "made, or `finetune` for an embedding"
    )
    # Names of the features, besides the inputs, with a value for every token.
    token_features: tuple[str, ...] = ()
    # Names of the outputs with a value for every token.
    token_outputs: tuple[str, ...] = ()

    def __init__(self, lengths: Sequence[int]):
        """Takes the lengths to compute batches at, ascending; batches are padded to the last."""
        self.lengths = tuple(lengths)

    @classmethod
    def of_data(cls, data: TaskData, lengths: Sequence[int]) -> "TaskObjective":
        """Returns the objective for the examples of a task; they decide the loss of some kinds."""
        return cls(lengths)

    @staticmethod
    @abc.abstractmethod
    def model(config: EncoderConfig, num_labels: int, seed: int, head: Head) -> keras.Model:
        """Returns the model with initial weights."""

    def ways(self) -> Sequence[Callable[[keras.Model, Features, Tensor | None], Sums]]:
        """Returns `sums` for the full length, then for each shorter length."""

        def cut_sums(
            length: int, model: keras.Model, features: Features, dropout_seed: Tensor | None
        ) -> Sums:
            return self.sums(model, self.cut(features, length), dropout_seed)

        return [self.sums, *(functools.partial(cut_sums, length) for length in self.lengths[:-1])]

    def way(self, features: Features) -> Tensor | None:
        """Returns the index in `ways` for the shortest length that holds the batch."""
        if len(self.lengths) == 1:
            return None
        longest = ops.max(ops.sum(features["input_mask"], axis=-1))
        # The full length comes first.
        too_short = [ops.cast(longest > length, "int32") for length in self.lengths[:-1]]
        return (functools.reduce(ops.add, too_short) + 1) % len(self.lengths)

    def answers(self) -> Sequence[Callable[[keras.Model, Features], tuple[Sums, Sums]]]:
        """Returns functions as `ways` does, that also return the outputs of each row."""
        return [functools.partial(self._answers, n) for n in (None, *self.lengths[:-1])]

    def _answers(
        self, length: int | None, model: keras.Model, features: Features
    ) -> tuple[Sums, Sums]:
        if length is not None:
            features = self.cut(features, length)
        logits = self.logits(model, features, None)
        outputs = self.outputs_of(logits)
        # All ways return equal shapes.
        spare = 0 if length is None else self.lengths[-1] - length
        padded = {name: ops.pad(outputs[name], [[0, 0], [0, spare]]) for name in self.token_outputs}
        return self.sums_of(logits, features), outputs | padded

    def cut(self, features: Features, length: int) -> Features:
        """Returns the features of a batch, cut to a length."""
        return {
            name: value[..., :length] if name in (*ID_INPUTS, *self.token_features) else value
            for name, value in features.items()
        }

    def weights(self, features: Features) -> Sums:
        """Returns the number of examples."""
        return {"examples": ops.sum(example_weights(features))}

    def sums(self, model: keras.Model, features: Features, dropout_seed: Tensor | None) -> Sums:
        """Returns the sum of every metric over a replica's batch."""
        return self.sums_of(self.logits(model, features, dropout_seed), features)

    def logits(self, model: keras.Model, features: Features, dropout_seed: Tensor | None) -> Any:
        """Returns what the model computes, float32, with a row for each example."""
        return model(features, dropout_seed=dropout_seed)

    @abc.abstractmethod
    def sums_of(self, logits: Any, features: Features) -> Sums:
        """Returns the sums of the losses, in nats where they are entropies, and of the metrics."""

    @abc.abstractmethod
    def outputs_of(self, logits: Any) -> dict[str, Tensor]:
        """Returns the outputs that predictions are made from, with a row for each example."""

    @classmethod
    def signatures(cls, graph: "TaskGraph") -> dict[str, Any]:
        """Returns name -> function of each signature of a graph."""
        from beambert.trainer.tasks.graph import traced

        return {"serving_default": traced(lambda *texts: cls.answer(graph, *texts), *graph.inputs)}

    @classmethod
    def answer(cls, graph: "TaskGraph", *texts: Tensor) -> dict[str, Tensor]:
        """Returns the outputs of the signature `serving_default`."""
        raise NotImplementedError

    @classmethod
    def id_specs(cls, longest: int) -> "list[tf.TensorSpec]":
        """Returns the inputs of a graph that takes ids, of at most `longest` tokens."""
        import tensorflow as tf

        return [tf.TensorSpec([None, longest], tf.int32, name=name) for name in ID_INPUTS]
