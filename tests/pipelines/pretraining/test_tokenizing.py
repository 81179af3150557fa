"""Which tokens begin a word, for every kind of tokenizer, and the examples of the documents."""

from collections import Counter

import numpy as np
import pytest
from support.languages import ARTICLE_1

from beambert.pipelines.pretraining.tokenizing import DocumentTokenizer
from beambert.pipelines.text.preparation import TextOptions
from beambert.pipelines.text.sentences import SplitText
from beambert.pipelines.tokenizers.encoding import make_tokenizer
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary
from beambert.pipelines.vocabulary_learning.learning import (
    CorpusWords,
    learn_tokenizer,
    subword_splitter,
)


def shown(documents, vocabulary) -> str:
    """The tokens of documents, with a bar before each that begins a word."""
    pairs = zip(documents.tokens, documents.begins_word, strict=True)
    return "".join("|" * bool(first) + vocabulary.tokens[number] for number, first in pairs)


def word_pieces(*pieces: str) -> Vocabulary:
    return Vocabulary((*SPECIAL_TOKENS, *pieces))


def test_word_pieces_of_chinese():
    """BERT makes a token of each character; Latin words keep their pieces."""
    vocabulary = word_pieces(*"我们在北京学习。", "be", "##rt", "##2", "0")
    options = TextOptions(do_lower_case=True, segmenter="icu")
    found = DocumentTokenizer(vocabulary, options).tokenize(
        [SplitText(["我们在北京学习BERT2。", "0"])]
    )
    assert shown(found, vocabulary) == "|我们|在|北京|学习|be##rt##2|。|0"


@pytest.mark.slow
def test_a_piece_that_crosses_words_joins_them():
    """WordPiece knows no words in kana: しました is one piece of 食べ|まし|た's kana."""
    vocabulary = word_pieces("リンゴ", "を", "食", "べ", "##まし", "##た", "リ", "##ンゴを")
    options = TextOptions(do_lower_case=False, segmenter="sudachi")
    tokenizer = DocumentTokenizer(vocabulary, options)
    assert (
        shown(tokenizer.tokenize([SplitText(["リンゴ を食べました"])]), vocabulary)
        == "|リンゴ|を|食べ|##まし|##た"
    )
    # Without the space the longest match is リンゴ, and "##を" is missing: a word that is unknown.
    assert shown(tokenizer.tokenize([SplitText(["リンゴを食べました"])]), vocabulary).startswith(
        "|[UNK]|食べ"
    )
    crossing = word_pieces("食", "べ", "##ました")
    tokenizer = DocumentTokenizer(crossing, options)
    assert shown(tokenizer.tokenize([SplitText(["食べました"])]), crossing) == "|食べ|##ました"
    crossing = word_pieces("食", "べまし", "##た")
    tokenizer = DocumentTokenizer(crossing, options)
    assert shown(tokenizer.tokenize([SplitText(["食べました"])]), crossing) == "|食べまし|##た"


def learned(kind: str):
    split, parts = subword_splitter(kind, False), " ".join([*ARTICLE_1.values()] * 3).split()
    counts = Counter(word for part in parts for word in split(part))
    return learn_tokenizer(CorpusWords.of(counts, 10_000), kind, 400, False)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_other_tokenizers(kind):
    """Tokens of bytes and of segments: words begin where the segmenter has them."""
    vocabulary = learned(kind)
    options = TextOptions(do_lower_case=False, segmenter="icu")
    sentences = [["我们在北京学习。", "مرحبا"], ["ฉันไปตลาด ok"]]
    found = DocumentTokenizer(vocabulary, options).tokenize(
        [SplitText(sentence) for sentence in sentences]
    )
    texts = ["我们在北京学习。", " مرحبا", "ฉันไปตลาด ok"]
    plain = make_tokenizer(vocabulary, False).tokenize_batch(
        [text if kind == "bpe" else text.strip() for text in texts]
    )
    assert np.array_equal(found.tokens, plain[0])
    cut, place = [], 0
    for length in found.sentence_lengths:
        cut.append(int(found.begins_word[place : place + length].sum()))
        place += length
    # 我们 在 北京 学习 and the full stop; one word of Arabic; ฉัน ไป ตลาด ok.
    assert cut[0] in (4, 5) and cut[1] == 1 and 3 <= cut[2] <= 5


def test_without_a_segmenter_nothing_is_marked():
    vocabulary = word_pieces(*"我们在")
    found = DocumentTokenizer(vocabulary, TextOptions()).tokenize([SplitText(["我们在"])])
    assert len(found.begins_word) == 0 and len(found.tokens) == 3
