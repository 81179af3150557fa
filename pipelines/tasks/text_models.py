"""SavedModels that take ids, called on texts: the tokenizer runs in Python, before the graph.

The graph of a SavedModel can cut text into BERT's word pieces. It cannot run the `tokenizers`
library. A model with such a tokenizer takes what the tokenizer gives, as every model of questions
takes windows of ids, and this module puts the two together.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from beambert.pipelines.tasks.saved_models import ID_INPUTS
from beambert.pipelines.tasks.squad import Question
from beambert.pipelines.tasks.task import CHOICE, FIRST_PIECES, SPAN, TAGGING
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.pipelines.tasks.windows import (
    CERTAIN,
    SquadPredictions,
    Windows,
    decode,
    make_windows,
)
from beambert.pipelines.tokenizers.encoding import make_offset_tokenizer
from beambert.pipelines.tokenizers.vocabulary import Vocabulary

# Number of windows in a batch.
_WINDOWS_AT_A_TIME = 32

Tensors = Mapping[str, tf.Tensor]


class TextModel:
    """A loaded SavedModel that takes ids, with the signature of one that takes texts.

    Attributes:
      signatures: name -> function from named tensors to named tensors, as of a loaded SavedModel.
    """

    def __init__(
        self,
        model: Any,
        training: Mapping[str, Any],
        vocabulary: Vocabulary,
        allows_no_answer: bool = False,
    ):
        """Builds the tokenizer.

        Args:
          model: the loaded SavedModel.
          training: content of the model's training.json.
          vocabulary: tokenizer of its ids.
          allows_no_answer: whether "" is an allowed answer to a question (SQuAD v2.0).
        """
        self._model = model
        self._length = training["max_seq_length"]
        self._allows_no_answer = allows_no_answer
        lower = training["do_lower_case"]
        functions: dict[str, Callable[..., Tensors]] = {
            CHOICE: self._choose,
            TAGGING: self._tag,
            SPAN: self._answer,
        }
        if training["kind"] == SPAN:
            self._offsets = make_offset_tokenizer(vocabulary, lower)
        else:
            windows = training.get("windows", 1)
            self._text_features = TextFeatures(vocabulary, lower, self._length, windows)
        self.signatures = {"serving_default": functions.get(training["kind"], self._classify)}

    def _call(self, features: Mapping[str, np.ndarray]) -> Tensors:
        inputs = {name: tf.constant(value) for name, value in features.items()}
        return self._model.signatures["serving_default"](**inputs)

    def _classify(self, text: tf.Tensor, text_b: tf.Tensor | None = None) -> Tensors:
        texts = (text,) if text_b is None else (text, text_b)
        return self._call(self._text_features(*map(_strings, texts)))

    def _tag(self, text: tf.Tensor) -> Tensors:
        features, first_pieces = self._text_features.of_words(_strings(text))
        return self._call({**features, FIRST_PIECES: first_pieces})

    def _choose(
        self, text: tf.Tensor, choices: tf.Tensor, text_b: tf.Tensor | None = None
    ) -> Tensors:
        if text_b is not None:  # It is the beginning of every ending.
            choices = text_b[:, None] + " " + choices
        count = choices.shape[1]
        first, endings = tf.repeat(text, count), tf.reshape(choices, [-1])
        features = self._text_features(_strings(first), _strings(endings))
        shape = [-1, count, self._length]
        return self._call({name: feature.reshape(shape) for name, feature in features.items()})

    def _answer(self, question: tf.Tensor, context: tf.Tensor) -> Tensors:
        texts = zip(question.numpy(), context.numpy(), strict=True)
        questions = [
            Question(str(number), asked.decode(), within.decode(), (), False)
            for number, (asked, within) in enumerate(texts)
        ]
        found = self.decoded(questions)
        names = [question.id for question in questions]
        places = np.array([found.places[name] for name in names], np.int32).reshape(-1, 2)
        outputs: dict[str, Any] = {
            "answer": [found.answers[name].encode() for name in names],
            "start": places[:, 0],
            "end": places[:, 1],
            "score": np.array([found.scores[name] for name in names], np.float32),
        }
        if self._allows_no_answer:
            odds = [min(found.null_odds[name], CERTAIN) for name in names]
            outputs["null_odds"] = np.array(odds, np.float32)
        return {name: tf.constant(value) for name, value in outputs.items()}

    def decoded(self, questions: Sequence[Question]) -> SquadPredictions:
        """Returns the answers to questions."""
        windows = make_windows(questions, self._offsets, self._length)
        logits = self._window_logits(windows)
        return decode(questions, windows, *logits, self._allows_no_answer)

    def _window_logits(self, windows: Windows) -> tuple[np.ndarray, np.ndarray]:
        """Returns the logits of starts and ends, float32 [windows, L]."""
        is_token = np.arange(self._length) < windows.lengths[:, None]
        inputs = {name: np.zeros(is_token.shape, np.int32) for name in ID_INPUTS}
        inputs["input_mask"][is_token] = 1
        inputs["input_ids"][is_token] = windows.input_ids
        inputs["segment_ids"][is_token] = windows.segment_ids
        found = []
        for first in range(0, len(windows), _WINDOWS_AT_A_TIME):
            some = slice(first, first + _WINDOWS_AT_A_TIME)
            outputs = self._call({name: one_input[some] for name, one_input in inputs.items()})
            found.append([outputs[name].numpy() for name in ("start_logits", "end_logits")])
        starts, ends = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return starts, ends


def _strings(texts: tf.Tensor) -> list[str]:
    return [text.decode("utf-8", "replace") for text in texts.numpy()]
