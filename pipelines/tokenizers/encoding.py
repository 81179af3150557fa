"""Text -> ids with any vocabulary: makes its tokenizer, and tokenizes documents.

`word_pieces` has the tokenizer of a vocab.txt. The tokenizers here follow the rules of a
tokenizer.json, with Hugging Face's `tokenizers` library.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from beambert.pipelines.tokenizers.vocabulary import NO_ID, TokenizerVocabulary, Vocabulary, load
from beambert.pipelines.tokenizers.word_pieces import OffsetPieces, OffsetTokenizer, Tokenizer

if TYPE_CHECKING:
    from tokenizers import Encoding


# Number of texts in a call of the library: enough that the call costs next to nothing.
_TEXTS_AT_A_TIME = 1024
# Number of characters above which sentences without spaces between them are cut as several texts.
# Tokenizers take much memory for a long text.
LONGEST_RUN = 1 << 16


class SubwordTokenizer:
    """The tokenizer of a tokenizer.json, over batches of strings.

    It has the methods of `word_pieces.Tokenizer`. A SavedModel cannot hold it.
    """

    def __init__(self, vocabulary: TokenizerVocabulary, spells_special: bool = True):
        """Builds the tokenizer (0.1 s for 50,000 tokens).

        Args:
          vocabulary: vocabulary of the ids.
          spells_special: whether "[SEP]" in text is spelled as other text is; False for the
            special token, as `transformers` reads it.
        """
        self.vocabulary = vocabulary
        self._tokenizer = load(vocabulary.data, vocabulary.name, vocabulary.roles)
        self._of_text = ids_of_text(vocabulary)
        if not spells_special:
            self._tokenizer.encode_special_tokens = False
            self._of_text = np.arange(len(vocabulary), dtype=np.int32)

    def tokenize_batch(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the ids of all strings end to end, int32, and the ids of each, int64 [n]."""
        return self.tokenize_parts([(text,) for text in texts])

    def tokenize_parts(self, texts: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the ids of texts that are given in parts, and the number of ids of each part.

        The ids are those of the whole text. An id belongs to the part in which it begins.
        """
        ids: list[list[int]] = []
        lengths: list[int] = []
        for start in range(0, len(texts), _TEXTS_AT_A_TIME):
            some = texts[start : start + _TEXTS_AT_A_TIME]
            found = self._encode(some)
            ids += [each.ids for each in found]
            for parts, each in zip(some, found, strict=True):
                if len(parts) == 1:
                    lengths.append(len(each.ids))
                else:
                    lengths += part_lengths(parts, [first for first, _ in each.offsets])
        return self._of_text[_flat(ids)], np.array(lengths, np.int64)

    def _encode(self, texts: Sequence[Sequence[str]]) -> list["Encoding"]:
        """Encodes texts, with offsets for those of several parts."""
        joined = _whole_characters(map("".join, texts))
        found: list[Encoding | None] = [None] * len(texts)
        # Offsets take more time.
        for has_parts, encode in (
            (False, self._tokenizer.encode_batch_fast),
            (True, self._tokenizer.encode_batch),
        ):
            numbers = [number for number, text in enumerate(texts) if (len(text) > 1) == has_parts]
            encoded = encode([joined[number] for number in numbers], add_special_tokens=False)
            for number, each in zip(numbers, encoded, strict=True):
                found[number] = each
        return found

    def tokenize_with_masks(self, text: str) -> np.ndarray:
        """Returns the ids of a string, int32 [tokens], in which the mask's token is a mask.

        A mask may include the space before it, which belongs to the hidden word.
        """
        self._tokenizer.encode_special_tokens = False
        try:
            found = self._tokenizer.encode(*_whole_characters([text]), add_special_tokens=False)
        finally:
            self._tokenizer.encode_special_tokens = True
        ids = np.array(found.ids, np.int32)
        return np.where(ids == self.vocabulary.special.mask, ids, self._of_text[ids])


class SubwordOffsets:
    """The tokenizer of a tokenizer.json, with the characters that each token comes from.

    It has the methods of `word_pieces.OffsetTokenizer`. White space at the ends of a token, such as
    the space before a word, is left out of its offsets.
    """

    def __init__(self, vocabulary: TokenizerVocabulary):
        """Builds the tokenizer."""
        self.vocabulary = vocabulary
        self._tokenizer = load(vocabulary.data, vocabulary.name, vocabulary.roles)
        self._of_text = ids_of_text(vocabulary)

    def tokenize_batch(self, texts: Sequence[str]) -> OffsetPieces:
        """Returns the tokens of all texts."""
        ids, offsets = [], []
        for start in range(0, len(texts), _TEXTS_AT_A_TIME):
            some = _whole_characters(texts[start : start + _TEXTS_AT_A_TIME])
            found = self._tokenizer.encode_batch(some, add_special_tokens=False)
            ids += [each.ids for each in found]
            offsets += [
                _without_space(offset, text)
                for text, each in zip(some, found, strict=True)
                for offset in each.offsets
            ]
        starts, ends = np.array(offsets, np.int32).reshape(-1, 2).T
        lengths = np.array([len(token_id) for token_id in ids], np.int64)
        return OffsetPieces(self._of_text[_flat(ids)], starts, ends, lengths)


def part_lengths(parts: Sequence[str], starts: Sequence[int] | np.ndarray) -> list[int]:
    """Returns the number of tokens that begin in each part of a text.

    Args:
      parts: the text.
      starts: first character of each token, ascending.
    """
    ends = np.cumsum([len(part) for part in parts[:-1]])
    return np.diff(np.searchsorted(starts, ends), prepend=0, append=len(starts)).tolist()


def ids_of_text(vocabulary: TokenizerVocabulary) -> np.ndarray:
    """Returns the id to use for each id that the library finds in text, int32 [tokens].

    A Unigram tokenizer may spell "</s>" in a text as the separator, which would end the sequence
    there. It becomes an unknown token.
    """
    ids, special = np.arange(len(vocabulary), dtype=np.int32), vocabulary.special
    if special.unknown != NO_ID:
        roles = special.padding, special.classify, special.separate, special.mask
        ids[list(roles)] = special.unknown
    return ids


def _without_space(offset: tuple[int, int], text: str) -> tuple[int, int]:
    """Returns the start and end of a token without the white space at its ends."""
    start, end = offset
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    # A token of white space alone keeps its offset.
    return (start, end) if start < end else offset


def _whole_characters(texts: Iterable[str]) -> list[str]:
    """Replaces lone surrogates (half a character, from broken JSON escapes) with "?"."""
    return [text.encode("utf-8", "replace").decode() for text in texts]


def _flat(ids: Sequence[Sequence[int]]) -> np.ndarray:
    return np.fromiter(itertools.chain.from_iterable(ids), np.int32, sum(map(len, ids)))


def tokenize_documents(
    tokenizer: Tokenizer | SubwordTokenizer,
    documents: Sequence[tuple[Sequence[str], Sequence[int]]],
    space_before: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Tokenizes the sentences of documents; the ids equal those of the whole document.

    Byte-level BPE and Unigram mark words that follow a space. A sentence after a space is tokenized
    by itself, with the space. Sentences without a space between them are tokenized as one text, and
    each gets the tokens that begin in it.

    Args:
      tokenizer: the tokenizer.
      documents, space_before: see `running_texts`.

    Returns:
      the ids of all sentences end to end, int32, and the number of ids of each sentence, int64.
    """
    if any(unspaced for _, unspaced in documents):
        return tokenizer.tokenize_parts(running_texts(documents, space_before))
    return tokenizer.tokenize_batch(
        [
            space_before + sentence if number else sentence
            for sentences, _ in documents
            for number, sentence in enumerate(sentences)
        ]
    )


def running_texts(
    documents: Sequence[tuple[Sequence[str], Sequence[int]]], space_before: str
) -> list[list[str]]:
    """Returns the texts to tokenize, each as a list of sentences.

    Args:
      documents: for each document its sentences, and the numbers of those without a space between
        them and the sentence before.
      space_before: string to put before a sentence that follows a space, see `Vocabulary`.
    """
    texts: list[list[str]] = []
    for sentences, unspaced in documents:
        numbers, size = set(unspaced), 0
        for number, sentence in enumerate(sentences):
            is_after_space = number > 0 and number not in numbers
            size += len(sentence)
            if number and not is_after_space and size <= LONGEST_RUN:
                texts[-1].append(sentence)
            else:
                texts.append([space_before + sentence if is_after_space else sentence])
                size = len(sentence)
    return texts


def make_tokenizer(vocabulary: Vocabulary, do_lower_case: bool) -> Tokenizer | SubwordTokenizer:
    """Returns the tokenizer of a vocabulary.

    Args:
      vocabulary: vocabulary of the ids.
      do_lower_case: whether WordPiece lower-cases text and strips accents. Other tokenizers have
        their own rules.
    """
    if isinstance(vocabulary, TokenizerVocabulary):
        return SubwordTokenizer(vocabulary)
    return Tokenizer(vocabulary, do_lower_case)


def make_corpus_tokenizer(vocabulary: Vocabulary, do_lower_case: bool) -> Any:
    """Returns a tokenizer with the ids of `make_tokenizer` for much text.

    For word pieces it is ten times as fast, after a second for loading its compiled code.
    """
    if isinstance(vocabulary, TokenizerVocabulary):
        return SubwordTokenizer(vocabulary)
    from beambert.pipelines.tokenizers import compiled_pieces

    return compiled_pieces.Tokenizer(vocabulary, do_lower_case)


def make_offset_tokenizer(
    vocabulary: Vocabulary, do_lower_case: bool
) -> OffsetTokenizer | SubwordOffsets:
    """Returns the tokenizer with the offsets of tokens; see `make_tokenizer`."""
    if isinstance(vocabulary, TokenizerVocabulary):
        return SubwordOffsets(vocabulary)
    return OffsetTokenizer(vocabulary, do_lower_case)
