"""Sentences as tokenizers take them, so that they have the tokens of the documents' text.

A byte-level BPE and a Unigram mark the words that stand behind a space. A sentence behind a space
is cut by itself, with the space. Sentences between which no space stands are cut as one text, and
each takes the tokens that begin in it.
"""

from collections.abc import Sequence

import numpy as np

from beambert.pipelines.tokenizers.encoding import SubwordTokenizer
from beambert.pipelines.wordpiece.tokenization import Tokenizer

# Number of characters above which sentences without spaces between them are cut as several texts.
# Tokenizers take much memory for a long text.
LONGEST_RUN = 1 << 16


def tokenize_documents(
    tokenizer: Tokenizer | SubwordTokenizer,
    documents: Sequence[tuple[Sequence[str], Sequence[int]]],
    space_before: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Tokenizes the sentences of documents, so that those of a document are those of its text.

    Args:
      tokenizer: the tokenizer.
      documents, space_before: see `running_texts`.

    Returns:
      the ids of all sentences end to end, int32, and each sentence's number of ids, int64.
    """
    if any(unspaced for _, unspaced in documents):
        return tokenizer.tokenize_parts(running_texts(documents, space_before))
    return tokenizer.tokenize_batch(
        [
            space_before + text if place else text
            for sentences, _ in documents
            for place, text in enumerate(sentences)
        ]
    )


def running_texts(
    documents: Sequence[tuple[Sequence[str], Sequence[int]]], space_before: str
) -> list[list[str]]:
    """Returns the texts to tokenize, each in its sentences.

    Args:
      documents: for each document its sentences, and the numbers of those that no space separates
        from the one before.
      space_before: what stands before a sentence behind a space, see `Vocabulary`.
    """
    texts: list[list[str]] = []
    for sentences, unspaced in documents:
        numbers, size = set(unspaced), 0
        for place, text in enumerate(sentences):
            is_behind_space = place > 0 and place not in numbers
            size += len(text)
            if place and not is_behind_space and size <= LONGEST_RUN:
                texts[-1].append(text)
            else:
                texts.append([space_before + text if is_behind_space else text])
                size = len(text)
    return texts
