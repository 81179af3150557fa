"""Questions on contexts, and the graph that answers them in windows of any number."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from beambert.model.classifier import BertTokenClassifier, Head
from beambert.model.config import EncoderConfig
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.feature_folder import TaskFeatureFiles
from beambert.pipelines.tasks.squad import score
from beambert.pipelines.tasks.task import DEV, ID_INPUTS, TRAIN, WINDOWS_SIGNATURE, Task
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.pipelines.tasks.windows import (
    CERTAIN,
    SPECIAL_TOKENS,
    DecodingParameters,
    SquadPredictions,
    WindowParameters,
    Windows,
    decode,
    lost_answers,
    make_windows,
    span_features,
)
from beambert.pipelines.tokenizers.encoding import make_offset_tokenizer
from beambert.pipelines.tokenizers.vocabulary import TokenizerVocabulary
from beambert.pipelines.tokenizers.wordpiece import OffsetTokenizer
from beambert.trainer.loop.objectives import (
    Features,
    Sums,
    cross_entropy,
    example_weights,
    is_correct,
)
from beambert.trainer.tasks.base import TaskData, TaskObjective, traced

# The number of windows in a batch of the model. A long context has hundreds of windows.
_WINDOWS_AT_A_TIME = 32
_DECODING = DecodingParameters()


class SpanData(TaskData):
    """The examples of SQuAD; an input holds a question and a window of its context."""

    def __init__(
        self, task: Task, data_dir: str, tell: Callable[[str], None], skip_bad_rows: bool = False
    ):
        """Reads the splits train and dev; see `TaskData`.

        It also reports a v2.0 task without unanswerable questions in train.
        """
        super().__init__(task, data_dir, tell, skip_bad_rows)
        if task.allows_no_answer and not any(
            example.is_impossible for example in self.examples[TRAIN]
        ):
            tell(
                f"{self._read.files[TRAIN]}: no question is marked as impossible, so the model "
                "cannot learn when to give no answer; the task squad1.1 always gives one"
            )

    def tokenize(self, text_features: TextFeatures, made: TaskFeatureFiles | None = None) -> None:
        """Makes the features of both splits, or reads those of train.

        The windows of dev are always made, because decoding reads answers off them.
        """
        tokenizer = make_offset_tokenizer(text_features.vocabulary, text_features.do_lower_case)
        parameters = WindowParameters.of_length(text_features.max_seq_length)

        def windows_of(split: str) -> Windows:
            return make_windows(self.examples[split], tokenizer, parameters)

        self._dev_windows = windows_of(DEV)
        self._features = {
            TRAIN: made.read(TRAIN) if made else span_features(windows_of(TRAIN)),
            DEV: span_features(self._dev_windows),
        }

    def notes(self) -> list[str]:
        """Returns a sentence on the answers of dev that no tokens match exactly, if any."""
        lost = lost_answers(self.examples[DEV], self._dev_windows)
        if not lost:
            return []
        return [
            f"dev: {len(lost):,} of {self.counts[DEV]:,} questions have no answer that consists of "
            f"whole tokens of one window, and cannot be answered exactly; the first is "
            f"{lost[0].id!r}"
        ]

    def _decode(self, outputs: Mapping[str, np.ndarray]) -> SquadPredictions:
        return decode(
            self.examples[DEV],
            self._dev_windows,
            outputs["start_logits"],
            outputs["end_logits"],
            self.task.allows_no_answer,
            DecodingParameters(),
        )

    def results(self, outputs: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Returns the metrics of dev as shares, and those of the official scorer in per cent."""
        predictions = self._decode(outputs)
        return self._scores(predictions.answers, predictions.null_odds or None)

    def prediction_files(self, outputs: Mapping[str, np.ndarray]) -> dict[str, str]:
        """Returns the contents of the files for the official scorers, by file name."""
        return self._decode(outputs).files()

    def baseline(self) -> dict[str, float]:
        """Returns the metrics for giving no answer to any question."""
        return self._scores({question.id: "" for question in self.examples[DEV]})

    def _scores(
        self, answers: Mapping[str, str], null_odds: Mapping[str, float] | None = None
    ) -> dict[str, float]:
        found = score(self.examples[DEV], answers, self.task.allows_no_answer, null_odds)
        metrics = {"squad_f1": found.f1.mean(), "exact_match": found.exact.mean()}
        metrics |= {f"official_{name}": value for name, value in found.metrics.items()}
        return {name: float(value) for name, value in metrics.items()}


class SpanObjective(TaskObjective):
    """The mean of two losses over the tokens, one for start and one for end (run_squad.py)."""

    DATA = SpanData
    losses = ("cross_entropy",)
    weight_of = {"cross_entropy": "examples", "accuracy": "examples"}
    token_outputs = ("start_logits", "end_logits")

    @staticmethod
    def model(config: EncoderConfig, num_labels: int, seed: int, head: Head) -> keras.Model:
        """Returns a classifier with two logits for each token, without dropout (run_squad.py)."""
        return BertTokenClassifier(config, 2, seed, head, head_dropout=0.0)

    def logits(
        self, model: keras.Model, features: Features, dropout_seed: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the logits of the answer's first and last token, float32 [B, L] each."""
        start_logits, end_logits = tf.unstack(model(features, dropout_seed=dropout_seed), axis=-1)
        return start_logits, end_logits

    def sums_of(self, logits: tuple[tf.Tensor, tf.Tensor], features: Features) -> Sums:
        """Returns the sums over the examples of the loss (nats) and of exactly right answers."""
        starts, ends = logits
        rows = example_weights(features)
        start, end = features["start_positions"], features["end_positions"]
        loss = (cross_entropy(starts, start) + cross_entropy(ends, end)) / 2.0
        both_right = is_correct(starts, start) * is_correct(ends, end)
        return {
            "cross_entropy": tf.reduce_sum(rows * loss),
            "accuracy": tf.reduce_sum(rows * both_right),
        }

    def outputs_of(self, logits: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns `start_logits` and `end_logits` float32 [B, L]."""
        start_logits, end_logits = logits
        return {"start_logits": start_logits, "end_logits": end_logits}

    @classmethod
    def graph(
        cls, model: keras.Model, text_features: TextFeatures, training: Mapping[str, Any]
    ) -> "AnswerModule":
        """Returns the module that answers questions."""
        allows_no_answer = find_task(training["task"]).allows_no_answer
        return AnswerModule(model, text_features, allows_no_answer)


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
        find = traced(self._find, *SpanObjective.id_specs(text_features.max_seq_length))
        if isinstance(text_features.vocabulary, TokenizerVocabulary):  # No graph can run it.
            self.functions = {"serving_default": find, WINDOWS_SIGNATURE: find}
            return
        self._tokenizer = OffsetTokenizer(text_features.vocabulary, text_features.do_lower_case)
        self.functions = {
            "serving_default": traced(self._answer, *texts),
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
