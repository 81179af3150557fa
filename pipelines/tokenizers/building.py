"""Builds the tokenizer that goes with a vocabulary, of whatever kind it is."""

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
