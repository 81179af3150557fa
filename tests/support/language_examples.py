"""The examples of docs/languages.md: an article's sentences, words and masks in each language.

PYTHONPATH=tests python -m support.language_examples
"""

from collections.abc import Iterator

import numpy as np

from beambert.pipelines.corpus.documents import Document
from beambert.pipelines.pretraining.masks import TokenIds, mask_rows
from beambert.pipelines.pretraining.tokenizing import DocumentTokenizer
from beambert.pipelines.text.preparation import TextOptions
from beambert.pipelines.text.sentences import SplitText, split_sentences
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary
from support.languages import ARTICLE_1

SEGMENTERS = {"zh": "icu", "ja": "sudachi", "th": "icu"}
# Share of the tokens that are hidden in the examples.
HIDDEN = 0.3


def words_of(language: str, sentences: list[str]) -> list[list[list[str]]]:
    """The pieces of each word of each sentence; every character is a piece."""
    vocabulary = characters_of(sentences)
    options = TextOptions(do_lower_case=False, segmenter=SEGMENTERS.get(language, "none"))
    documents = DocumentTokenizer(vocabulary, options).tokenize([SplitText(sentences)])
    begins = documents.begins_word
    if not len(begins):
        begins = ~vocabulary.is_continuation[documents.tokens]
    pieces = [vocabulary.tokens[number] for number in documents.tokens]
    found, place = [], 0
    for length in documents.sentence_lengths:
        found.append([])
        for piece, first in zip(
            pieces[place : place + length], begins[place : place + length], strict=True
        ):
            if first:
                found[-1].append([])
            found[-1][-1].append(piece)
        place += length
    return found


def characters_of(sentences: list[str]) -> Vocabulary:
    """A vocabulary of the characters of sentences."""
    characters = sorted({c for text in sentences for c in text if not c.isspace()})
    return Vocabulary((*SPECIAL_TOKENS, *characters, *(f"##{c}" for c in characters)))


def masked(words: list[list[str]], vocabulary: Vocabulary) -> str:
    """The words of a sentence with masks of whole words, all [MASK]; seeded."""
    ids = TokenIds.of(vocabulary)
    tokens = [vocabulary.id_of(piece) for word in words for piece in word]
    begins = [place == 0 for word in words for place in range(len(word))]
    row = np.array([[ids.classify, *tokens, ids.separate]], np.int32)
    rows = mask_rows(
        row,
        np.ones_like(row, np.uint8),
        max_predictions_per_seq=row.size,
        masked_lm_prob=HIDDEN,
        do_whole_word_mask=True,
        ids=ids,
        random=np.random.Generator(np.random.PCG64(7)),
        mask_share=1.0,
        random_share=0.0,
        begins_word=np.array([[True, *begins, True]]),
    )
    hidden = iter((rows["input_ids"][0, 1:-1] == ids.mask).tolist())
    shown = []
    for word in words:
        marks = [next(hidden) for _ in word]
        assert all(marks) or not any(marks), "a word is hidden in part"
        shown.append("█" * len(word) if all(marks) else text_of(word))
    return " ".join(shown)


def text_of(word: list[str]) -> str:
    return "".join(piece.removeprefix("##") for piece in word)


def lines_of(language: str) -> Iterator[str]:
    """The lines of a language's example."""
    sentences = split_sentences(Document(ARTICLE_1[language]), language)
    vocabulary = characters_of(sentences)
    for number, (sentence, words) in enumerate(
        zip(sentences, words_of(language, sentences), strict=True)
    ):
        yield f"{language if number == 0 else '  '}  sentence  {sentence}"
        if number == 0:
            yield f"    words     {' '.join(map(text_of, words))}"
            yield f"    masks     {masked(words, vocabulary)}"


if __name__ == "__main__":
    for code in ARTICLE_1:
        print("\n".join(lines_of(code)))
