"""SavedModels on raw text, question answering included."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from beambert import storage
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.late_interaction import DOCUMENTS, QUERIES
from beambert.pipelines.tasks.multi_label import THRESHOLD
from beambert.pipelines.tasks.task import (
    CHOICE,
    CLASSIFICATION,
    EMBEDDING,
    FIRST_PIECES,
    ID_INPUTS,
    LATE_INTERACTION,
    MULTI_LABEL,
    REGRESSION,
    RERANK,
    SIMILARITY,
    SPAN,
    TAGGING,
    WINDOWS_SIGNATURE,
)
from beambert.pipelines.tasks.text_models import id_inputs
from beambert.pipelines.tasks.texts import InteractionFeatures, TextFeatures
from beambert.pipelines.tasks.windows import (
    CERTAIN,
    SPECIAL_TOKENS,
    DecodingParameters,
    WindowParameters,
)
from beambert.pipelines.tokenizers.vocabulary import TokenizerVocabulary
from beambert.pipelines.tokenizers.wordpiece import OffsetTokenizer
from beambert.trainer.models import outside_index

# The number of windows in a batch of the model. A long context has hundreds of windows.
_WINDOWS_AT_A_TIME = 32
_DECODING = DecodingParameters()


class _WindowTensors:
    """Windows of [CLS] question [SEP] context [SEP], in the order of the questions.

    Attributes:
      owner: int64 [W], index of the window's question.
      first_piece: int64 [W], index of the window's first context piece among those of all contexts.
      context: int64 [W], position of that piece in the window.
      lengths: int64 [W], number of context pieces in the window.
      features: the model's inputs, int32 [W, L] each.
    """

    def __init__(
        self,
        queries: tf.RaggedTensor,
        contexts: tf.RaggedTensor,
        text_features: TextFeatures,
        doc_stride: int,
    ):
        room = text_features.max_seq_length - SPECIAL_TOKENS - queries.row_lengths()
        steps = tf.minimum(room, doc_stride)
        beyond = tf.maximum(contexts.row_lengths() - room, 0)
        counts = 1 + (beyond + steps - 1) // steps
        self.owner = tf.repeat(tf.range(queries.nrows()), counts)
        skipped = tf.ragged.range(counts).flat_values * tf.gather(steps, self.owner)
        self.first_piece = tf.gather(contexts.row_starts(), self.owner) + skipped
        left = tf.gather(contexts.row_lengths(), self.owner) - skipped
        self.lengths = tf.minimum(tf.gather(room, self.owner), left)
        self.context = tf.gather(queries.row_lengths(), self.owner) + 2
        pieces = tf.ragged.range(self.first_piece, self.first_piece + self.lengths)
        parts = [
            tf.gather(queries, self.owner),
            pieces.with_flat_values(tf.gather(contexts.flat_values, pieces.flat_values)),
        ]
        self.features = text_features.frame(parts)
        self._positions = tf.range(text_features.max_seq_length, dtype=tf.int64)

    def nrows(self) -> tf.Tensor:
        """Returns the number of windows W."""
        return tf.size(self.owner, tf.int64)

    def pieces(self) -> tf.Tensor:
        """Returns the index of each token's piece, int64 [W, L]; valid only in the context."""
        return self._positions + (self.first_piece - self.context)[:, None]

    def is_context(self) -> tf.Tensor:
        """Returns whether each token belongs to the context, bool [W, L]."""
        place = self._positions - self.context[:, None]
        return (place >= 0) & (place < self.lengths[:, None])

    def has_most_context(self) -> tf.Tensor:
        """Returns `windows.has_most_context` for each token, bool [W, L]."""
        numbers = tf.range(self.nrows())
        own = self._context_scores(numbers)
        found = tf.ones_like(own, tf.bool)
        for distance in (-1, 1):
            others = tf.clip_by_value(numbers + distance, 0, self.nrows() - 1)
            scores = self._context_scores(others)
            is_better = scores >= own if distance < 0 else scores > own
            is_other = (others != numbers) & (tf.gather(self.owner, others) == self.owner)
            found &= ~(is_other[:, None] & is_better)
        return found

    def _context_scores(self, windows: tf.Tensor) -> tf.Tensor:
        """Returns the context that other windows have around each piece, float64 [W, L]."""
        left = self.pieces() - tf.gather(self.first_piece, windows)[:, None]
        lengths = tf.gather(self.lengths, windows)[:, None]
        right = lengths - 1 - left
        scores = tf.cast(tf.minimum(left, right), tf.float64) + 0.01 * tf.cast(lengths, tf.float64)
        return tf.where((left >= 0) & (right >= 0), scores, -float("inf"))


class AnswerModule(tf.Module):
    """The signatures of a SQuAD model."""

    def __init__(self, model: keras.Model, text_features: TextFeatures, allows_no_answer: bool):
        """Traces the signatures.

        Args:
          model: fine-tuned model of a span task.
          text_features: makes the model's inputs, with the settings of its fine-tuning.
          allows_no_answer: whether "" is an allowed answer (SQuAD v2.0).
        """
        super().__init__()
        self._model = model
        self._text_features = text_features
        self._windows = WindowParameters.of_length(text_features.max_seq_length)
        self._allows_no_answer = allows_no_answer
        texts = [tf.TensorSpec([None], tf.string, name=name) for name in ("question", "context")]
        ids = [
            tf.TensorSpec([None, text_features.max_seq_length], tf.int32, name=name)
            for name in ID_INPUTS
        ]
        find = tf.function(self._find, autograph=False).get_concrete_function(*ids)
        if isinstance(text_features.vocabulary, TokenizerVocabulary):  # No graph can run it.
            self.functions = {"serving_default": find, WINDOWS_SIGNATURE: find}
            return
        self._tokenizer = OffsetTokenizer(text_features.vocabulary, text_features.do_lower_case)
        self.functions = {
            "serving_default": tf.function(self._answer, autograph=False).get_concrete_function(
                *texts
            ),
            WINDOWS_SIGNATURE: find,
        }

    def _find(
        self, input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        inputs = dict(zip(ID_INPUTS, (input_ids, input_mask, segment_ids), strict=True))
        starts, ends = tf.unstack(self._model(inputs), axis=-1)
        return {"start_logits": starts, "end_logits": ends}

    def _answer(self, question: tf.Tensor, context: tf.Tensor) -> dict[str, tf.Tensor]:
        queries = self._text_features.tokenizer.tokenize(question)
        # Positions are counted in characters, so invalid UTF-8 must be replaced first.
        context = tf.strings.unicode_transcode(context, "UTF-8", "UTF-8")
        pieces, starts, ends = self._tokenizer.tokenize(context)
        windows = _WindowTensors(
            queries[:, : self._windows.max_query_length],
            pieces,
            self._text_features,
            self._windows.doc_stride,
        )
        logits = self._logits(windows)
        score, first, last = _best_answers(windows, logits, _DECODING)
        # Questions without a possible answer get the index behind the last piece.
        nothing = tf.size(pieces.flat_values, tf.int64)
        is_answer = score > -float("inf")
        start, end = (
            tf.gather(tf.concat([each.flat_values, [0]], 0), tf.where(is_answer, piece, nothing))
            for each, piece in ((starts, first), (ends, last))
        )
        found = {"score": score}
        if self._allows_no_answer:
            null = tf.math.segment_min(tf.reduce_sum(logits[:, 0], axis=-1), windows.owner)
            found["null_odds"] = tf.where(is_answer, null - score, CERTAIN)
            is_answer &= found["null_odds"] <= _DECODING.null_score_diff_threshold
        start, end = tf.where(is_answer, start, 0), tf.where(is_answer, end, 0)
        answer = tf.strings.substr(context, start, end - start, unit="UTF8_CHAR")
        return found | {"answer": answer, "start": start, "end": end}

    def _logits(self, windows: _WindowTensors) -> tf.Tensor:
        """Returns the logits of the start and the end at each token, float32 [W, L, 2]."""

        def some(first: tf.Tensor) -> tf.Tensor:
            part = slice(first, first + _WINDOWS_AT_A_TIME)
            return self._model({name: value[part] for name, value in windows.features.items()})

        length = self._text_features.max_seq_length
        parts = tf.map_fn(
            some,
            tf.range(0, windows.nrows(), _WINDOWS_AT_A_TIME),
            fn_output_signature=tf.RaggedTensorSpec([None, length, 2], tf.float32, ragged_rank=0),
        )
        return tf.reshape(parts.values, [-1, length, 2])


def _best_answers(
    windows: _WindowTensors, logits: tf.Tensor, parameters: DecodingParameters
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the score, first piece and last piece of each question's best answer, [N] each.

    The score is -inf if a question has no possible answer.
    """
    length = logits.shape[1]
    is_token = windows.features["input_mask"][:, :, None] > 0
    starts_WL, ends_WL = tf.unstack(tf.where(is_token, logits, -float("inf")), axis=-1)
    is_context = windows.is_context()
    # The ends of answers, by their distance from the start.
    distances = tf.range(parameters.max_answer_length)
    places_LA = tf.range(length)[:, None] + distances
    is_inside = places_LA < length
    places_LA = tf.minimum(places_LA, length - 1)

    def of_ends(values_WL: tf.Tensor) -> tf.Tensor:
        return tf.gather(values_WL, places_LA, axis=1)

    may_start = is_context & windows.has_most_context()
    is_answer_WLA = may_start[:, :, None] & of_ends(is_context) & is_inside
    top_starts, top_ends = (_is_top(each, parameters.n_best_size) for each in (starts_WL, ends_WL))
    is_top_WLA = is_answer_WLA & top_starts[:, :, None] & of_ends(top_ends)
    # If no top start forms a valid answer with a top end, all starts and ends count.
    has_top = tf.cast(tf.reduce_any(is_top_WLA, axis=[1, 2]), tf.int32)
    has_top = tf.gather(tf.math.segment_max(has_top, windows.owner) > 0, windows.owner)
    counts_WLA = tf.where(has_top[:, None, None], is_top_WLA, is_answer_WLA)
    scores_WLA = tf.where(counts_WLA, starts_WL[:, :, None] + of_ends(ends_WL), -float("inf"))

    flat = tf.reshape(scores_WLA, [-1, length * parameters.max_answer_length])
    of_windows = tf.reduce_max(flat, axis=1)
    score = tf.math.segment_max(of_windows, windows.owner)
    is_best = of_windows == tf.gather(score, windows.owner)
    numbers = tf.where(is_best, tf.range(windows.nrows()), windows.nrows())
    window = tf.math.segment_min(numbers, windows.owner)
    place = tf.gather(tf.argmax(flat, axis=1), window)
    token = place // parameters.max_answer_length
    first = tf.gather(windows.first_piece - windows.context, window) + token
    return score, first, first + place % parameters.max_answer_length


def _is_top(logits: tf.Tensor, count: int) -> tf.Tensor:
    """Returns whether each token is among the `count` greatest of its window, bool [W, L]."""
    length = logits.shape[1]
    indices = tf.math.top_k(logits, min(count, length)).indices
    return tf.reduce_any(tf.one_hot(indices, length, True, False), axis=1)


_TEXT = tf.TensorSpec([None], tf.string, name="text")
_TEXT_B = tf.TensorSpec([None], tf.string, name="text_b")
_CHOICES = tf.TensorSpec([None, None], tf.string, name="choices")

# Number of texts in a batch of the model if they have windows, of which there may be many.
_TEXTS_AT_A_TIME = 8


def _traced(function: Callable[..., dict[str, tf.Tensor]], *texts: Any, **choices: Any) -> Any:
    # AutoGraph is not needed, because no Python condition depends on a tensor.
    return tf.function(function, autograph=False).get_concrete_function(*texts, **choices)


class IdFeatures(tf.Module):
    """Takes the ids of texts where `TextFeatures` takes texts."""

    def __init__(self, text_features: TextFeatures):
        """Takes the lengths of text features."""
        super().__init__()
        self.vocabulary = text_features.vocabulary
        self.do_lower_case = text_features.do_lower_case
        self.max_seq_length = text_features.max_seq_length
        self.longest = text_features.longest
        self.window_length = text_features.window_length

    def __call__(self, *ids: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns `ID_INPUTS` by their names, int32 [n, L]."""
        return dict(zip(ID_INPUTS, ids, strict=True))

    def of_words(self, *ids: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Returns `ID_INPUTS`, and the position of each word's first piece, int32 [n, words]."""
        return self(*ids[:-1]), ids[-1]

    def specs(self, kind: str) -> list[tf.TensorSpec]:
        """Returns the inputs of a signature for a kind of task."""
        shape = [None, None, self.longest] if kind == CHOICE else [None, self.longest]
        shapes = dict.fromkeys(id_inputs(kind), shape) | {FIRST_PIECES: [None, None]}
        return [tf.TensorSpec(shapes[name], tf.int32, name=name) for name in id_inputs(kind)]


def servable(text_features: TextFeatures) -> TextFeatures | IdFeatures:
    """Returns what makes the inputs in a graph that is saved."""
    if isinstance(text_features.vocabulary, TokenizerVocabulary):
        return IdFeatures(text_features)
    return text_features


class _TaskModule(tf.Module):
    """Takes raw text, or ids, and returns the answers of a fine-tuned model."""

    def __init__(
        self, model: keras.Model, text_features: TextFeatures, training: Mapping[str, Any]
    ):
        super().__init__()
        self._model = model
        self._text_features = servable(text_features)
        self._labels = tf.constant(training["labels"], tf.string)
        self._outside = outside_index(training["labels"])
        texts = [_TEXT, _TEXT_B] if training["is_pair"] else [_TEXT]
        if isinstance(self._text_features, IdFeatures):
            texts = self._text_features.specs(training["kind"])
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
            return self._model(
                {n: feature[part, : windows * width] for n, feature in features.items()}
            )

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


class _RelevanceScorer(_TaskModule):
    def _answer(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"score": tf.sigmoid(self._model(self._text_features(*texts))[:, 0])}


class _Chooser(_TaskModule):
    def _trace(self, texts: list[tf.TensorSpec]) -> Any:
        if isinstance(self._text_features, IdFeatures):
            return _traced(self._choose_ids, *texts)
        return _traced(self._choose, *texts, choices=_CHOICES)

    def _choose_ids(self, *ids: tf.Tensor) -> dict[str, tf.Tensor]:
        count, length = tf.shape(ids[0])[1], self._text_features.longest
        features = self._text_features(*(tf.reshape(token_id, [-1, length]) for token_id in ids))
        return self._likeliest(tf.reshape(self._model(features), [-1, count]))

    def _choose(self, *texts: tf.Tensor, choices: tf.Tensor) -> dict[str, tf.Tensor]:
        if len(texts) > 1:  # text_b is the beginning of every ending, as in `ChoiceExample.endings`
            choices = texts[1][:, None] + " " + choices
        count = tf.shape(choices)[1]
        first = tf.repeat(texts[0], count)
        logits = self._model(self._text_features(first, tf.reshape(choices, [-1])))
        return self._likeliest(tf.reshape(logits, [-1, count]))


class _Tagger(_TaskModule):
    def _answer(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        features, pieces = self._text_features.of_words(*texts)
        of_pieces = tf.argmax(self._model(features), axis=-1, output_type=tf.int32)
        of_words = tf.gather(of_pieces, tf.maximum(pieces, 0), batch_dims=1)
        of_words = tf.where(pieces == 0, self._outside, of_words)
        return {"tags": tf.where(pieces < 0, "", tf.gather(self._labels, of_words))}


class _Embedder(_TaskModule):
    def _answer(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"embedding": self._model(self._text_features(*texts))}


class _Interaction(_TaskModule):
    """Scores documents, and has signatures for the vectors of the tokens of both."""

    def __init__(
        self, model: keras.Model, text_features: InteractionFeatures, training: Mapping[str, Any]
    ):
        super().__init__(model, text_features, training)
        self.functions = {
            **self.functions,
            QUERIES: _traced(self._queries, _TEXT),
            DOCUMENTS: _traced(self._documents, _TEXT),
        }

    def _queries(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        features = self._text_features.expanded(self._text_features.queries(text))
        return {"embeddings": self._model(features)}

    def _documents(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        features = self._text_features.documents(text)
        counts = tf.cast(self._text_features.counting(features), tf.int32)
        return {"embeddings": self._model(features), "counts": counts}

    def _answer(self, text: tf.Tensor, text_b: tf.Tensor) -> dict[str, tf.Tensor]:
        queries, documents = self._queries(text)["embeddings"], self._documents(text_b)
        # The cosines [n, query length, length] of each query with its own document.
        cosines = tf.matmul(queries, documents["embeddings"], transpose_b=True)
        # No cosine is less than -1.
        cosines = tf.where(documents["counts"][:, None] > 0, cosines, -2.0)
        return {"score": tf.reduce_sum(tf.reduce_max(cosines, axis=2), axis=1)}


def _finder(
    model: keras.Model, text_features: TextFeatures, training: Mapping[str, Any]
) -> AnswerModule:
    return AnswerModule(model, text_features, find_task(training["task"]).allows_no_answer)


# The module for each kind of task.
ANSWER_MODULES: dict[str, Callable[..., _TaskModule | AnswerModule]] = {
    CLASSIFICATION: _Classifier,
    MULTI_LABEL: _MultiLabelClassifier,
    REGRESSION: _Scorer,
    RERANK: _RelevanceScorer,
    CHOICE: _Chooser,
    TAGGING: _Tagger,
    SPAN: _finder,
    EMBEDDING: _Embedder,
    SIMILARITY: _Embedder,
    LATE_INTERACTION: _Interaction,
}


class EncoderModule(tf.Module):
    """Takes raw text and returns the hidden states of an encoder.

    Its `serving_default` takes `text`, string [n], or ids (see `IdFeatures`). It returns
    `sequence_output`, float32 [n, L, H], `pooled_output`, float32 [n, H], if the encoder has a
    pooler, and `input_mask`, int32 [n, L].
    """

    def __init__(self, model: keras.Model, text_features: TextFeatures):
        """Traces the signature."""
        super().__init__()
        self._encoder = model
        self._text_features = servable(text_features)
        takes_ids = isinstance(self._text_features, IdFeatures)
        texts = self._text_features.specs(CLASSIFICATION) if takes_ids else [_TEXT]
        self.functions = {"serving_default": _traced(self._encode, *texts)}

    def _encode(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        features = self._text_features(*texts)
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
    * Regression and reranking return `score`, float32 [n]; a reranking's is from 0 to 1.
    * Embedding and similarity take `text` alone. They return `embedding`, float32 [n, H].
    * Late interaction returns `score`, float32 [n]. Its signatures `queries` and `documents` take
      `text` and return `embeddings`, float32 [n, L, D], one for each token; the second one also
      returns `counts`, int32 [n, L], 1 for the tokens that count in the score.
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

    With the tokenizer of a tokenizer.json, a model takes `input_ids`, `input_mask` and
    `segment_ids` in the place of texts, int32 [n, L], and for a choice [n, N, L]. Tagging also
    takes `first_pieces`, int32 [n, most words], as `TextFeatures.of_words` returns them. Span has
    the inputs and outputs of `windows` only.

    Args:
      model: fine-tuned model.
      text_features: makes the model's inputs, with the settings of its fine-tuning.
      training: content of the training.json in the model folder.
      path: path of the folder to write.

    Raises:
      InputError: the folder cannot be written.
    """
    module = task_module(model, text_features, training)
    with storage.temporary_path(path) as temporary:
        save_module(module, module.functions, temporary)
        storage.move(temporary, path)


def task_module(
    model: keras.Model, text_features: TextFeatures, training: Mapping[str, Any]
) -> _TaskModule | AnswerModule:
    """Returns a module that takes raw text; the arguments are those of `save_task_model`."""
    return ANSWER_MODULES[training["kind"]](model, text_features, training)


def save_module(module: tf.Module, signatures: Mapping[str, Any], path: str) -> None:
    """Writes a module as a SavedModel with the given signatures."""
    tf.saved_model.save(module, path, signatures=dict(signatures))
