"""Turns the sentences of documents into tokens, and finds where their words begin."""

from collections.abc import Sequence

import numpy as np

from beambert.pipelines.instances.compact_documents import CompactDocuments, compact_documents
from beambert.pipelines.text import segmenters
from beambert.pipelines.text.preparation import TextOptions
from beambert.pipelines.tokenizers.building import (
    make_offset_tokenizer,
    make_tokenizer,
    tokenize_documents,
    with_space_before,
)
from beambert.pipelines.wordpiece.offsets import OffsetPieces
from beambert.pipelines.wordpiece.vocabulary import Vocabulary


class DocumentTokenizer:
    """The tokenizer of a job."""

    def __init__(self, vocabulary: Vocabulary, options: TextOptions):
        """Builds the tokenizer."""
        self._vocabulary = vocabulary
        self._segmenter = options.segmenter
        make = make_tokenizer if options.segmenter == segmenters.NONE else make_offset_tokenizer
        self._tokenizer = make(vocabulary, options.do_lower_case)

    def tokenize(
        self, sentences: Sequence[Sequence[str]], sources: Sequence[int] | None = None
    ) -> CompactDocuments:
        """Returns documents as tokens, without those that have none.

        Args:
          sentences: the sentences of each document.
          sources: number of the --input of each document; None if they have the same one.
        """
        vocabulary, begins_word = self._vocabulary, None
        space_before = vocabulary.space_before
        if self._segmenter == segmenters.NONE:
            tokens, lengths = tokenize_documents(self._tokenizer, sentences, space_before)
        else:
            texts = with_space_before(sentences, space_before)
            pieces = self._tokenizer.tokenize_batch(texts)
            tokens, lengths = pieces.ids, pieces.lengths
            is_continuation = vocabulary.is_continuation[tokens]
            begins_word = word_starts(pieces, texts, self._segmenter, is_continuation)
        return compact_documents(sentences, tokens, lengths, len(vocabulary), sources, begins_word)


def word_starts(
    pieces: OffsetPieces, texts: Sequence[str], segmenter: str, is_continuation: np.ndarray
) -> np.ndarray:
    """Returns whether each token begins a word, bool [tokens].

    In scripts without spaces a token begins a word where a word of the segmenter begins. One that
    reaches over the end of a word joins it with the next one. In other scripts the vocabulary
    tells.

    Args:
      pieces: tokens of the texts.
      texts: sentences.
      segmenter: name of the segmenter, see `segmenters`.
      is_continuation: bool [tokens], what the vocabulary says.
    """
    codes = segmenters.mark_words(texts, segmenter)
    characters = np.array([len(text) for text in texts], np.int64)
    firsts = np.repeat(np.cumsum(characters) - characters, pieces.lengths)
    places = firsts + pieces.starts
    code = codes[places]
    # Tokens of one character, such as its bytes, are of one word.
    begins = (code == segmenters.BEGINS) & (np.diff(places, prepend=-1) != 0)
    return np.where(code == segmenters.BY_VOCABULARY, ~is_continuation, begins)
