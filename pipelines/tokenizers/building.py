"""Builds the tokenizer that goes with a vocabulary, of whatever kind it is."""

from collections.abc import Sequence

import numpy as np

from beambert.pipelines.tokenizers.encoding import SubwordOffsets, SubwordTokenizer
from beambert.pipelines.tokenizers.vocabulary import TokenizerVocabulary
from beambert.pipelines.wordpiece.offsets import OffsetTokenizer
from beambert.pipelines.wordpiece.tokenization import Tokenizer
from beambert.pipelines.wordpiece.vocabulary import Vocabulary


def make_tokenizer(vocabulary: Vocabulary, do_lower_case: bool) -> Tokenizer | SubwordTokenizer:
    """Returns the tokenizer of a vocabulary.

    Args:
      vocabulary: vocabulary of the ids.
      do_lower_case: whether word pieces are of lower-cased text without accents. Other tokenizers
        have rules of their own.
    """
    if isinstance(vocabulary, TokenizerVocabulary):
        return SubwordTokenizer(vocabulary)
    return Tokenizer(vocabulary, do_lower_case)


def make_offset_tokenizer(
    vocabulary: Vocabulary, do_lower_case: bool
) -> OffsetTokenizer | SubwordOffsets:
    """Returns the tokenizer that tells where tokens come from; see `make_tokenizer`."""
    if isinstance(vocabulary, TokenizerVocabulary):
        return SubwordOffsets(vocabulary)
    return OffsetTokenizer(vocabulary, do_lower_case)


def tokenize_documents(
    tokenizer: Tokenizer | SubwordTokenizer,
    sentences: Sequence[Sequence[str]],
    space_before: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Tokenizes the sentences of documents, so that those of a document are those of its text.

    Args:
      tokenizer: the tokenizer.
      sentences: the sentences of each document.
      space_before: what stands before a sentence that follows another one, see `Vocabulary`.

    Returns:
      the ids of all sentences end to end, int32, and each sentence's number of ids, int64.
    """
    return tokenizer.tokenize_batch(with_space_before(sentences, space_before))


def with_space_before(sentences: Sequence[Sequence[str]], space_before: str) -> list[str]:
    """Returns the sentences of all documents as they are tokenized, see `tokenize_documents`."""
    return [
        space_before + text if place else text for of in sentences for place, text in enumerate(of)
    ]
