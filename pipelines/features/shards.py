"""The features of some examples of any kind, with counts. No Beam."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from beambert.pipelines.features.contract import LOST_TOKENS
from beambert.pipelines.model_inputs.examples import (
    TaskFeatures,
    count_cut,
    make_features,
    span_features,
)
from beambert.pipelines.model_inputs.texts import TextFeatures
from beambert.pipelines.model_inputs.windows import NO_ANSWER, WindowParameters, make_windows
from beambert.pipelines.tasks.declarations import SPAN
from beambert.pipelines.tasks.squad import Question
from beambert.pipelines.wordpiece.offsets import OffsetTokenizer
from beambert.pipelines.wordpiece.vocabulary import Vocabulary


class ShardFeatures:
    """Tokenizes and frames examples, as fine-tuning does."""

    def __init__(
        self,
        kind: str,
        labels: Sequence[str],
        vocabulary: Vocabulary,
        do_lower_case: bool,
        max_seq_length: int,
    ):
        """Builds the tokenizer."""
        self._kind, self._labels = kind, labels
        self._max_seq_length = max_seq_length
        if kind == SPAN:
            self._tokenizer = OffsetTokenizer(vocabulary, do_lower_case)
        else:
            self._text_features = TextFeatures(vocabulary, do_lower_case, max_seq_length)

    def make(self, examples: Sequence[Any]) -> tuple[TaskFeatures, np.ndarray, dict[str, int]]:
        """Converts examples, at least one.

        Returns:
          their features; int64 [records], the example that each record is of; and counts.
        """
        if self._kind == SPAN:
            return self._windows(examples)
        given = self._kind, examples, self._labels, self._text_features
        features = make_features(*given)
        counts = _counts(features) | {LOST_TOKENS: count_cut(*given, features)}
        return features, np.arange(len(features)), counts

    def _windows(
        self, questions: Sequence[Question]
    ) -> tuple[TaskFeatures, np.ndarray, dict[str, int]]:
        parameters = WindowParameters.of_length(self._max_seq_length)
        windows = make_windows(questions, self._tokenizer, parameters)
        pieces = self._tokenizer.tokenize_batch([question.question for question in questions])
        is_cut = (pieces.lengths > parameters.max_query_length)[windows.question_index]
        features = span_features(windows)
        counts = _counts(features) | {
            # Of their questions; contexts lose none.
            LOST_TOKENS: int(is_cut.sum()),
            "sequences_with_answer": int((windows.start_positions != NO_ANSWER).sum()),
        }
        return features, windows.question_index, counts


def _counts(features: TaskFeatures) -> dict[str, int]:
    return {"sequences": len(features.lengths), "tokens": len(features.input_ids)}
