"""The graphs of fine-tuned models, which take raw text or ids. It imports TensorFlow."""

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import keras
import tensorflow as tf

from beambert.pipelines.tasks.saved_models import ID_INPUTS
from beambert.pipelines.tasks.texts import Pieces, TextFeatures
from beambert.pipelines.tokenizers.vocabulary import TokenizerVocabulary, Vocabulary
from beambert.pipelines.tokenizers.wordpiece import Tokenizer

if TYPE_CHECKING:
    from beambert.trainer.tasks.base import TaskObjective

TEXT = tf.TensorSpec([None], tf.string, name="text")
TEXT_B = tf.TensorSpec([None], tf.string, name="text_b")
# Number of texts in a batch of the model if they have windows, of which there may be many.
_TEXTS_AT_A_TIME = 8


def traced(function: Callable[..., dict[str, tf.Tensor]], *texts: Any, **choices: Any) -> Any:
    """Returns a function as a graph for inputs of some types."""
    # AutoGraph is not needed, because no Python condition depends on a tensor.
    return tf.function(function, autograph=False).get_concrete_function(*texts, **choices)


class GraphTexts(tf.Module):
    """Cuts texts into tokens and words in a graph, as `texts.HostTexts` does outside of it."""

    xp: ClassVar[Any] = tf.experimental.numpy

    def __init__(self, vocabulary: Vocabulary, do_lower_case: bool):
        """Builds the tokenizer."""
        super().__init__()
        self._tokenizer = Tokenizer(vocabulary, do_lower_case)

    def pieces(self, texts: tf.Tensor) -> Pieces:
        """Returns the ids of texts, string [n]."""
        found = self._tokenizer(texts)
        ids = tf.cast(found.flat_values, tf.int64)
        return Pieces(ids, found.row_starts(), found.row_lengths())

    @staticmethod
    def numbers(count: tf.Tensor) -> tf.Tensor:
        """Returns the numbers from 0 to before a number, int64."""
        return tf.range(count, dtype=tf.int64)

    def words(self, texts: tf.Tensor, space_before: str) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns all words of texts, and the number of words of each text; word pieces only."""
        words = tf.strings.split(texts, " ")
        return words.flat_values, words.row_lengths()


class IdFeatures(tf.Module):
    """Takes the ids of texts where `TextFeatures` takes texts."""

    def __init__(self, text_features: TextFeatures):
        """Takes the lengths of text features."""
        super().__init__()
        self.max_seq_length = text_features.max_seq_length
        self.longest = text_features.longest
        self.window_length = text_features.window_length

    def __call__(self, *ids: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns `ID_INPUTS` by their names, int32 [n, L]."""
        return dict(zip(ID_INPUTS, ids, strict=True))

    def of_words(self, *ids: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Returns `ID_INPUTS`, and the position of each word's first piece, int32 [n, words]."""
        return self(*ids[:-1]), ids[-1]


def servable(text_features: TextFeatures) -> TextFeatures | IdFeatures:
    """Returns what makes the inputs in a graph that is saved."""
    if isinstance(text_features.vocabulary, TokenizerVocabulary):
        return IdFeatures(text_features)
    in_graph = copy.copy(text_features)
    in_graph.texts = GraphTexts(text_features.vocabulary, text_features.do_lower_case)
    return in_graph


class TaskGraph(tf.Module):
    """Takes raw text, or ids, and returns the answers of a fine-tuned model.

    Attributes:
      model: the model.
      text_features: makes its inputs.
      labels: labels in index order, as a tensor.
      inputs: types of the inputs of `serving_default`.
      functions: name -> function of each signature.
    """

    def __init__(
        self,
        objective: "type[TaskObjective]",
        model: keras.Model,
        text_features: TextFeatures,
        training: Mapping[str, Any],
    ):
        """Traces the signatures of an objective; see `save_task_model` for the others."""
        super().__init__()
        self.model = model
        self.text_features = servable(text_features)
        # A SavedModel holds what is a module.
        self.texts = None if self.takes_ids else self.text_features.texts
        self.labels = tf.constant(training["labels"], tf.string)
        self.inputs = [TEXT, TEXT_B] if training["is_pair"] else [TEXT]
        if self.takes_ids:
            self.inputs = objective.id_specs(self.text_features.longest)
        self.functions = objective.signatures(self)

    @property
    def takes_ids(self) -> bool:
        """Whether the inputs are ids, as no graph can run the tokenizer."""
        return isinstance(self.text_features, IdFeatures)

    def logits(self, *texts: tf.Tensor) -> tf.Tensor:
        """Returns the logits of texts; those in windows are computed a few texts at a time."""
        features = self.text_features(*texts)
        width = self.text_features.window_length
        if width is None:
            return self.model(features)
        lengths = tf.reduce_sum(features["input_mask"], axis=1)

        def some(first: tf.Tensor) -> tf.Tensor:
            part = slice(first, first + _TEXTS_AT_A_TIME)
            windows = (tf.reduce_max(lengths[part]) + width - 1) // width
            return self.model(
                {n: feature[part, : windows * width] for n, feature in features.items()}
            )

        labels = len(self.labels)
        parts = tf.map_fn(
            some,
            tf.range(0, tf.size(lengths), _TEXTS_AT_A_TIME),
            fn_output_signature=tf.RaggedTensorSpec([None, labels], tf.float32, ragged_rank=0),
        )
        return tf.reshape(parts.values, [-1, labels])
