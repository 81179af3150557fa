"""SavedModels that take raw text: tokenization, encoder and head in one graph."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from beambert.pipelines.model_inputs.texts import TextFeatures
from beambert.pipelines.storage import tensorflow_files
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.multi_label import THRESHOLD
from beambert.pipelines.tasks.task import (
    CHOICE,
    CLASSIFICATION,
    MULTI_LABEL,
    REGRESSION,
    SPAN,
    TAGGING,
)
from beambert.trainer.serving.question_answering import AnswerModule
from beambert.trainer.task_models import outside_index

_TEXT = tf.TensorSpec([None], tf.string, name="text")
_TEXT_B = tf.TensorSpec([None], tf.string, name="text_b")
_CHOICES = tf.TensorSpec([None, None], tf.string, name="choices")

# Number of texts in a batch of the model if they have windows, of which there may be many.
_TEXTS_AT_A_TIME = 8


def _traced(function: Callable[..., dict[str, tf.Tensor]], *texts: Any, **choices: Any) -> Any:
    # AutoGraph is not needed, because no Python condition depends on a tensor.
    return tf.function(function, autograph=False).get_concrete_function(*texts, **choices)


class _TaskModule(tf.Module):
    """Takes raw text and returns the answers of a fine-tuned model."""

    def __init__(
        self, model: keras.Model, text_features: TextFeatures, training: Mapping[str, Any]
    ):
        super().__init__()
        self._model = model
        self._text_features = text_features
        self._labels = tf.constant(training["labels"], tf.string)
        self._outside = outside_index(training["labels"])
        texts = [_TEXT, _TEXT_B] if training["is_pair"] else [_TEXT]
        self.functions = {"serving_default": self._trace(texts)}

    def _trace(self, texts: list[tf.TensorSpec]) -> Any:
        return _traced(self._answer, *texts)

    def _answer(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        raise NotImplementedError

    def _logits(self, *texts: tf.Tensor) -> tf.Tensor:
        """Returns the logits of texts; those in windows are computed a few texts at a time."""
        features = self._text_features(*texts)
        width = self._text_features.window_length
        if width is None:
            return self._model(features)
        lengths = tf.reduce_sum(features["input_mask"], axis=1)

        def some(first: tf.Tensor) -> tf.Tensor:
            part = slice(first, first + _TEXTS_AT_A_TIME)
            windows = (tf.reduce_max(lengths[part]) + width - 1) // width
            return self._model({n: of[part, : windows * width] for n, of in features.items()})

        labels = len(self._labels)
        parts = tf.map_fn(
            some,
            tf.range(0, tf.size(lengths), _TEXTS_AT_A_TIME),
            fn_output_signature=tf.RaggedTensorSpec([None, labels], tf.float32, ragged_rank=0),
        )
        return tf.reshape(parts.values, [-1, labels])

    def _likeliest(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            "label": tf.gather(self._labels, tf.argmax(logits, axis=-1)),
            "probabilities": tf.nn.softmax(logits),
        }


class _Classifier(_TaskModule):
    def _answer(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._likeliest(self._logits(*texts))


class _MultiLabelClassifier(_TaskModule):
    def _answer(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        probabilities = tf.sigmoid(self._logits(*texts))
        names = tf.broadcast_to(self._labels, tf.shape(probabilities))
        applying = tf.ragged.boolean_mask(names, probabilities > THRESHOLD)
        return {"labels": applying.to_tensor(""), "probabilities": probabilities}


class _Scorer(_TaskModule):
    def _answer(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"score": self._model(self._text_features(*texts))[:, 0]}


class _Chooser(_TaskModule):
    def _trace(self, texts: list[tf.TensorSpec]) -> Any:
        return _traced(self._choose, *texts, choices=_CHOICES)

    def _choose(self, *texts: tf.Tensor, choices: tf.Tensor) -> dict[str, tf.Tensor]:
        if len(texts) > 1:  # text_b is the beginning of every ending, as in `ChoiceExample.endings`
            choices = texts[1][:, None] + " " + choices
        count = tf.shape(choices)[1]
        first = tf.repeat(texts[0], count)
        logits = self._model(self._text_features(first, tf.reshape(choices, [-1])))
        return self._likeliest(tf.reshape(logits, [-1, count]))


class _Tagger(_TaskModule):
    def _answer(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        features, pieces = self._text_features.of_words(text)
        of_pieces = tf.argmax(self._model(features), axis=-1, output_type=tf.int32)
        of_words = tf.gather(of_pieces, tf.maximum(pieces, 0), batch_dims=1)
        of_words = tf.where(pieces == 0, self._outside, of_words)
        return {"tags": tf.where(pieces < 0, "", tf.gather(self._labels, of_words))}


def _finder(
    model: keras.Model, text_features: TextFeatures, training: Mapping[str, Any]
) -> AnswerModule:
    return AnswerModule(model, text_features, find_task(training["task"]).allows_no_answer)


# The module for each kind of task.
ANSWER_MODULES: dict[str, Callable[..., _TaskModule | AnswerModule]] = {
    CLASSIFICATION: _Classifier,
    MULTI_LABEL: _MultiLabelClassifier,
    REGRESSION: _Scorer,
    CHOICE: _Chooser,
    TAGGING: _Tagger,
    SPAN: _finder,
}


class EncoderModule(tf.Module):
    """Takes raw text and returns the hidden states of an encoder.

    Its `serving_default` takes `text`, string [n], and returns `sequence_output`, float32
    [n, L, H], `pooled_output`, float32 [n, H], if the encoder has a pooler, and `input_mask`, int32
    [n, L].
    """

    def __init__(self, model: keras.Model, text_features: TextFeatures):
        """Traces the signature."""
        super().__init__()
        self._encoder = model
        self._text_features = text_features
        self.functions = {"serving_default": _traced(self._encode, _TEXT)}

    def _encode(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        features = self._text_features(text)
        sequence_output, pooled_output = self._encoder(**features)
        pooled = {} if pooled_output is None else {"pooled_output": pooled_output}
        return {
            "sequence_output": sequence_output,
            **pooled,
            "input_mask": features["input_mask"],
        }


def save_task_model(
    model: keras.Model, text_features: TextFeatures, training: Mapping[str, Any], path: str
) -> None:
    """Writes a fine-tuned model as a SavedModel, replacing one at the same path.

    The inputs and outputs of its signature `serving_default` depend on the kind of the task. All
    kinds but span take `text`, string [n], and for pairs `text_b`, string [n].

    * Classification returns `label`, string [n], and `probabilities`, float32 [n, labels].
    * Multi-label classification returns `labels`, string [n, most labels of a text], with empty
      labels behind the last one, and `probabilities`, float32 [n, labels].
    * Regression returns `score`, float32 [n].
    * Choice also takes `choices`, string [n, N]. It returns `label`, string [n], and
      `probabilities`, float32 [n, N].
    * Tagging takes words separated by single spaces. It returns `tags`, string [n, most words],
      with empty tags behind the last word of a text.
    * Span takes `question` and `context`, string [n], of any length. It returns `answer`, string
      [n], its first character `start` in the context and the character `end` behind it, int32 [n],
      and its `score`, float32 [n]. If "" is an allowed answer, it also returns `null_odds`, float32
      [n], the score of "" minus that of the answer. Its second signature, `windows`, takes
      `input_ids`, `input_mask` and `segment_ids`, int32 [n, L], and returns `start_logits` and
      `end_logits`, float32 [n, L].

    Args:
      model: fine-tuned model.
      text_features: makes the model's inputs, with the settings of its fine-tuning.
      training: content of the training.json in the model folder.
      path: path of the folder to write.

    Raises:
      InputError: the folder cannot be written.
    """
    module = task_module(model, text_features, training)
    with tensorflow_files.written_aside(path) as temporary:
        save_module(module, module.functions, temporary)
        tensorflow_files.move(temporary, path)


def task_module(
    model: keras.Model, text_features: TextFeatures, training: Mapping[str, Any]
) -> _TaskModule | AnswerModule:
    """Returns a module that takes raw text; the arguments are those of `save_task_model`."""
    return ANSWER_MODULES[training["kind"]](model, text_features, training)


def save_module(module: tf.Module, signatures: Mapping[str, Any], path: str) -> None:
    """Writes a module as a SavedModel with the given signatures."""
    tf.saved_model.save(module, path, signatures=dict(signatures))
