"""Turns the sentences of documents into tokens, and finds where their words begin."""

from collections.abc import Sequence

import numpy as np

from beambert.pipelines.instances.compact_documents import CompactDocuments, compact_documents
from beambert.pipelines.text.preparation import TextOptions
from beambert.pipelines.text.sentences import (
    BEGINS,
    BY_VOCABULARY,
    NO_SEGMENTER,
    SplitText,
    mark_words,
)
from beambert.pipelines.tokenizers.encoding import (
    make_offset_tokenizer,
    make_tokenizer,
    part_lengths,
    running_texts,
    tokenize_documents,
)
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.pipelines.tokenizers.wordpiece import OffsetPieces


class DocumentTokenizer:
    """The tokenizer of a job."""

    def __init__(self, vocabulary: Vocabulary, options: TextOptions):
        """Builds the tokenizer."""
        self._vocabulary = vocabulary
        self._segmenter = options.segmenter
        make = make_tokenizer if options.segmenter == NO_SEGMENTER else make_offset_tokenizer
        self._tokenizer = make(vocabulary, options.do_lower_case)

    def tokenize(
        self, documents: Sequence[SplitText], sources: Sequence[int] | None = None
    ) -> CompactDocuments:
        """Returns documents as tokens, without those that have none.

        Args:
          documents: at least one document in sentences.
          sources: number of the --input of each document; None if they have the same one.
        """
        vocabulary, begins_word = self._vocabulary, None
        space_before = vocabulary.space_before
        if self._segmenter == NO_SEGMENTER:
            tokens, lengths = tokenize_documents(self._tokenizer, documents, space_before)
        else:
            texts = running_texts(documents, space_before)
            pieces = self._tokenizer.tokenize_batch(list(map("".join, texts)))
            tokens, lengths = pieces.ids, sentence_lengths(pieces, texts)
            is_continuation = vocabulary.is_continuation[tokens]
            begins_word = word_starts(pieces, texts, self._segmenter, is_continuation)
        sentences, unspaced = zip(*documents, strict=True)
        size = len(vocabulary)
        return compact_documents(sentences, tokens, lengths, size, sources, begins_word, unspaced)


def sentence_lengths(pieces: OffsetPieces, texts: Sequence[Sequence[str]]) -> np.ndarray:
    """Returns the number of tokens of each sentence, int64, see `word_starts`."""
    starts = np.split(pieces.starts, np.cumsum(pieces.lengths)[:-1])
    lengths = [
        length
        for sentences, of_text in zip(texts, starts, strict=True)
        for length in part_lengths(sentences, of_text)
    ]
    return np.array(lengths, np.int64)


def word_starts(
    pieces: OffsetPieces,
    texts: Sequence[Sequence[str]],
    segmenter: str,
    is_continuation: np.ndarray,
) -> np.ndarray:
    """Returns whether each token begins a word, bool [tokens].

    In scripts without spaces a token begins a word where a word of the segmenter begins. One that
    reaches over the end of a word joins it with the next one. In other scripts the vocabulary
    tells.

    Args:
      pieces: tokens of the texts.
      texts: the texts, each in its sentences, see `running_texts`.
      segmenter: name of the segmenter, see `sentences.mark_words`.
      is_continuation: bool [tokens], what the vocabulary says.
    """
    codes = mark_words([text for one_text in texts for text in one_text], segmenter)
    characters = np.array([sum(map(len, one_text)) for one_text in texts], np.int64)
    firsts = np.repeat(np.cumsum(characters) - characters, pieces.lengths)
    places = firsts + pieces.starts
    code = codes[places]
    # Tokens of one character, such as its bytes, are of one word.
    begins = (code == BEGINS) & (np.diff(places, prepend=-1) != 0)
    return np.where(code == BY_VOCABULARY, ~is_continuation, begins)
