"""Texts -> model inputs, as one graph for fine-tuning and for the exported model."""

import tensorflow as tf
import tensorflow_text as tf_text

from pipelines.records import CLASSIFY, PADDING, SEPARATE, Vocabulary
from pipelines.tokenization import Tokenizer


class TextFeatures(tf.Module):
    """[CLS] text [SEP] or [CLS] text [SEP] text_b [SEP], cut and padded to a fixed length.

    As the original's run_classifier.py, convert_single_example: what is too long loses tokens at
    its end, the longer of a pair first.
    """

    def __init__(self, vocabulary: Vocabulary, do_lower_case: bool, max_seq_length: int):
        """Builds the tokenizer."""
        super().__init__()
        self.max_seq_length = max_seq_length
        self._tokenizer = Tokenizer(vocabulary, do_lower_case)
        self._classify = vocabulary.id_of(CLASSIFY)
        self._separate = vocabulary.id_of(SEPARATE)
        self._padding = vocabulary.id_of(PADDING)

    def __call__(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Converts one string [n] tensor, or two for pairs.

        Returns:
          `input_ids`, `input_mask` and `segment_ids`, int32 [n, max_seq_length].
        """
        segments = [self._tokenizer.tokenize(text) for text in texts]
        segments = cut_longest(segments, self.max_seq_length - 1 - len(segments))
        ids, segment_ids = tf_text.combine_segments(segments, self._classify, self._separate)
        ids, mask = tf_text.pad_model_inputs(ids, self.max_seq_length, self._padding)
        segment_ids, _ = tf_text.pad_model_inputs(segment_ids, self.max_seq_length)
        features = {"input_ids": ids, "input_mask": mask, "segment_ids": segment_ids}
        return {name: tf.cast(value, tf.int32) for name, value in features.items()}


def cut_longest(segments: list[tf.RaggedTensor], room: int) -> list[tf.RaggedTensor]:
    """Cuts one or two segments at their ends until they fit.

    run_classifier.py, _truncate_seq_pair, in closed form: tokens go from the longer, from the
    second where both are equally long.

    Args:
      segments: each [n, (tokens)].
      room: tokens for all of them.
    """
    if len(segments) == 1:
        return [segments[0][:, :room]]
    first, second = segments
    halves = (room - room // 2, room // 2)
    others = (second.row_lengths(), first.row_lengths())
    cut = []
    for segment, other, half in zip((first, second), others, halves, strict=True):
        kept = tf.maximum(room - other, half)
        positions = tf.ragged.range(segment.row_lengths())
        is_kept = positions.values < tf.gather(kept, segment.value_rowids())
        cut.append(tf.ragged.boolean_mask(segment, segment.with_values(is_kept)))
    return cut
