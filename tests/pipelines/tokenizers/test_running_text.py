"""The tokens of sentences are those that the `tokenizers` library gives for their document."""

import itertools
from collections import Counter

import numpy as np
import pytest
from support.languages import ARTICLE_1
from support.tokenizer_kinds import ALBERT, MODERNBERT, ROBERTA, XLMR, train
from tokenizers import Tokenizer

from beambert.pipelines.corpus.documents import Document
from beambert.pipelines.pretraining.tokenizing import DocumentTokenizer
from beambert.pipelines.text.cleaning import normalize_text
from beambert.pipelines.text.preparation import TextOptions, prepare_documents
from beambert.pipelines.text.sentences import SplitText
from beambert.pipelines.tokenizers import encoding as running_text
from beambert.pipelines.tokenizers.encoding import (
    make_tokenizer,
    part_lengths,
    running_texts,
    tokenize_documents,
)
from beambert.pipelines.tokenizers.vocabulary import TokenizerVocabulary

MARKING = (ROBERTA, MODERNBERT, ALBERT, XLMR)
# Ends of sentences with and without a space, in the same paragraph and not.
HARD = [
    "See `process.env.ComSpec`. On Windows.Only there.\n\nA new paragraph.No space.",
    "「はい。」「いいえ。」と言った。cafe\u0301。\u0301次の文。ｶﾅ。 空白。",
    "第一句。“第二句！”（第三句？）……第四句。①。½。",
    "A.B. C.d.e. He said.\u201cNo.\u201d\u3000Then.\u00a0He went\u2026And came!?No.",
    "。。。！？\n！\n?",
]


@pytest.fixture(scope="module")
def trained() -> dict[str, Tokenizer]:
    """kind -> a tokenizer that has merges of the languages."""
    texts = [*ARTICLE_1.values(), *HARD]
    return {kind: train(kind, texts, 700) for kind in MARKING}


def vocabulary_of(tokenizer: Tokenizer) -> TokenizerVocabulary:
    return TokenizerVocabulary.read(tokenizer.to_str().encode(), "tokenizer.json")


def prepared(texts, language: str, **options) -> list[SplitText]:
    documents = [Document(text) for text in texts]
    settings = TextOptions(language=language, finds_unspaced=True, **options)
    return prepare_documents(documents, settings, Counter())


def by_document(found) -> list[list[int]]:
    """The tokens of each document."""
    lengths = iter(found.sentence_lengths.tolist())
    sizes = [sum(itertools.islice(lengths, count)) for count in found.document_sentences.tolist()]
    return [part.tolist() for part in np.split(found.tokens, np.cumsum(sizes)[:-1])]


def expected(tokenizer: Tokenizer, texts) -> list[list[int]]:
    """The library's ids of the running text: white space of any kind is one space."""
    running = [" ".join(normalize_text(text).split()) for text in texts]
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in running]


@pytest.mark.parametrize("kind", MARKING)
@pytest.mark.parametrize("language", ["en", "ja", "th"])
def test_documents_have_the_tokens_of_their_running_text(trained, kind, language):
    article = ARTICLE_1[language]
    gap = "" if language in ("ja", "zh") else " "
    texts = [article, gap.join([article] * 3), f"{article}\n\n{article}{gap}{article}", *HARD]
    documents = prepared(texts, language)
    vocabulary = vocabulary_of(trained[kind])
    found = DocumentTokenizer(vocabulary, TextOptions()).tokenize(documents)
    assert by_document(found) == expected(trained[kind], texts)
    assert sum(len(document.unspaced) for document in documents) >= 10
    assert max(len(document.sentences) for document in documents) > 0


@pytest.mark.parametrize("kind", [ROBERTA, ALBERT])
def test_real_text_has_the_tokens_of_its_running_text(trained, shared_data, kind):
    pages = (shared_data / "wiki_extracted" / "wiki_07").read_text("utf-8")[:80_000]
    novel = (shared_data / "novels" / "Doyle_Hound_1902.txt").read_text("utf-8")[:30_000]
    texts = [text for text in pages.split("</doc>") if text.strip()] + [novel]
    documents = prepared(texts, "en")
    vocabulary = vocabulary_of(trained[kind])
    found = DocumentTokenizer(vocabulary, TextOptions()).tokenize(documents)
    assert by_document(found) == expected(trained[kind], texts)
    assert sum(len(document.unspaced) for document in documents) > 0


@pytest.mark.parametrize("kind", MARKING)
@pytest.mark.parametrize("text", [*HARD[:4], ARTICLE_1["ja"] * 2])
def test_each_sentence_has_the_tokens_that_begin_in_it(trained, kind, text):
    """The places are those that the library tells for the whole text."""
    text = " ".join(normalize_text(text).split())
    documents = prepared([text], "ja")
    vocabulary = vocabulary_of(trained[kind])
    tokenizer = make_tokenizer(vocabulary, False)
    _, lengths = tokenize_documents(tokenizer, documents, vocabulary.space_before)
    starts = [start for start, _ in trained[kind].encode(text, add_special_tokens=False).offsets]
    wanted, last = [], 0
    for sentence in documents[0].sentences:
        end = text.index(sentence, last) + len(sentence)
        wanted.append(sum(last <= start < end for start in starts))
        last = end
    assert lengths.tolist() == wanted


def test_a_token_over_the_end_of_a_sentence_belongs_to_the_first():
    assert part_lengths(["ab", "c", "de"], [0, 1, 3]) == [2, 0, 1]
    assert part_lengths(["ab", "c"], []) == [0, 0]


def test_sentences_of_their_own_lines_stand_behind_spaces(trained):
    """The convention for documents that are split already, such as files with a sentence a line."""
    text = "第一句。\n第二句。\n\n第三句。"
    documents = prepare_documents(
        [Document(text, is_split=True)], TextOptions(finds_unspaced=True), Counter()
    )
    assert documents == [SplitText(["第一句。", "第二句。", "第三句。"])]
    tokenizer = DocumentTokenizer(vocabulary_of(trained[ROBERTA]), TextOptions())
    assert by_document(tokenizer.tokenize(documents)) == expected(trained[ROBERTA], [text])


def test_very_long_runs_are_cut_as_several_texts(trained, monkeypatch):
    """Byte-level BPE still has no space there."""
    monkeypatch.setattr(running_text, "LONGEST_RUN", 30)
    text = "これは文です。" * 20
    documents = prepared([text], "ja")
    texts = running_texts(documents, " ")
    assert {sum(map(len, one_text)) for one_text in texts} == {28}
    vocabulary = vocabulary_of(trained[ROBERTA])
    found = DocumentTokenizer(vocabulary, TextOptions()).tokenize(documents)
    assert trained[ROBERTA].decode(found.tokens.tolist()) == text
