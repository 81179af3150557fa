"""Learns a byte-level BPE or a Unigram tokenizer from word counts.

The trainers of Hugging Face's `tokenizers` library learn them. They take texts, so each word is
given as often as it occurs.
"""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from tokenizers.processors import TemplateProcessing

from beambert.pipelines.tokenizers.vocabulary import (
    CLASSIFY,
    MASK,
    SEPARATE,
    SPECIAL_TOKENS,
    UNKNOWN,
    TokenizerVocabulary,
)
from beambert.pipelines.vocabulary_learning.job import BPE
from beambert.pipelines.vocabulary_learning.learning import CorpusWords, frequent_characters

# Number of words that the trainer counts again, some ten seconds of work. The counts of a larger
# corpus are divided by one number; a word that would be given less than once is given once.
MOST_OCCURRENCES = 20_000_000
# Number of copies of a word in one text for the trainer.
_COPIES_AT_A_TIME = 1000
# Number of decimals of a Unigram score that are kept. The trainer adds up the words in a random
# order, so that its last digits differ from one run to the next.
_DECIMALS = 3
# The trainer gives rare characters the lowest score plus a multiple of this, in a random order.
_CHARACTER_STEP = 1e-4


def empty_tokenizer(kind: str, do_lower_case: bool) -> Tokenizer:
    """Returns a tokenizer that has all steps but no tokens.

    BPE cuts text where GPT-2 and RoBERTa do, after the normalization of ModernBERT. Unigram cuts at
    white space, after the normalization of ALBERT if text is lower-cased, and otherwise nearly that
    of XLM-R.
    """
    if kind == BPE:
        tokenizer = Tokenizer(models.BPE())
        lower = [normalizers.Lowercase()] if do_lower_case else []
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), *lower])
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer
    tokenizer = Tokenizer(models.Unigram())
    lower = [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
    tokenizer.normalizer = normalizers.Sequence(lower if do_lower_case else [normalizers.NFKC()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def word_splitter(kind: str, do_lower_case: bool) -> Callable[[Sequence[str]], list[bytes]]:
    """Returns a function from stretches between spaces to all words that a tokenizer cuts.

    A word has the mark of the space before it, "Ġ" or "▁".
    """
    empty = empty_tokenizer(kind, do_lower_case)
    normalizer, pre_tokenizer = empty.normalizer, empty.pre_tokenizer

    def split(stretches: Sequence[str]) -> list[bytes]:
        found: list[bytes] = []
        for stretch in stretches:
            if text := stretch.encode("utf-8", "replace").decode().strip():
                pieces = pre_tokenizer.pre_tokenize_str(" " + normalizer.normalize_str(text))
                found += [piece.encode() for piece, _ in pieces]
        return found

    return split


def learn_tokenizer(
    words: CorpusWords,
    kind: str,
    vocab_size: int,
    do_lower_case: bool,
    coverage: float | None = None,
) -> TokenizerVocabulary:
    """Returns a tokenizer of at most `vocab_size` tokens; the special ones come first.

    Args:
      words: counts of words, cut by `word_splitter`.
      kind: "bpe" or "unigram".
      vocab_size: number of tokens.
      do_lower_case: whether text is lower-cased.
      coverage: share of the characters' occurrences to cover. Words are learned from in parts
        without the other ones, which become [UNK]. None covers all.
    """
    given = words.most_frequent
    if coverage is not None:
        given = _covered(given, frequent_characters(words, coverage))
    tokenizer = empty_tokenizer(kind, do_lower_case)
    learner = Tokenizer(type(tokenizer.model)())
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    settings = {"vocab_size": vocab_size, "special_tokens": list(SPECIAL_TOKENS)}
    settings["show_progress"] = False
    if kind == BPE:
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(initial_alphabet=alphabet, **settings)
    else:
        trainer = trainers.UnigramTrainer(unk_token=UNKNOWN, **settings)
    learner.train_from_iterator(_texts(given), trainer)
    tokenizer.model = learner.model
    # A mask takes the space before it, as in the published tokenizers: it hides a word with it.
    mask = AddedToken(MASK, lstrip=True, special=True)
    tokenizer.add_special_tokens([*(each for each in SPECIAL_TOKENS if each != MASK), mask])
    first, last = ((name, tokenizer.token_to_id(name)) for name in (CLASSIFY, SEPARATE))
    tokenizer.post_processor = TemplateProcessing(
        single=f"{CLASSIFY} $A {SEPARATE}",
        pair=f"{CLASSIFY} $A {SEPARATE} $B:1 {SEPARATE}:1",
        special_tokens=[first, last],
    )
    content = json.loads(tokenizer.to_str())
    if kind != BPE:
        content["model"]["vocab"] = _rounded(content["model"]["vocab"])
    data = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
    return TokenizerVocabulary.read(data.encode(), f"--kind={kind}")


def _covered(counts: Sequence[tuple[str, int]], alphabet: Collection[str]) -> list[tuple[str, int]]:
    """Returns the longest parts of words that have characters of an alphabet alone."""
    parts: Counter[str] = Counter()
    for word, count in counts:
        for is_covered, characters in itertools.groupby(word, alphabet.__contains__):
            if is_covered:
                parts["".join(characters)] += count
    return sorted(parts.items(), key=lambda item: (-item[1], item[0]))


def _texts(counts: Sequence[tuple[str, int]]) -> Iterator[str]:
    """Yields each word as often as it occurs, several in a text."""
    share = min(1.0, MOST_OCCURRENCES / max(sum(count for _, count in counts), 1))
    for word, count in counts:
        left = max(1, round(count * share))
        while left > 0:
            yield " ".join([word] * min(left, _COPIES_AT_A_TIME))
            left -= _COPIES_AT_A_TIME


def _rounded(tokens: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Returns tokens and scores that do not depend on the order in which the trainer took words."""
    special = [(token, score) for token, score in tokens if token in SPECIAL_TOKENS]
    others = [(token, score) for token, score in tokens if token not in SPECIAL_TOKENS]
    lowest = min((score for _, score in others), default=0.0)
    characters = sum(len(token) == 1 for token, _ in others)
    rare = lowest + characters * _CHARACTER_STEP
    scored = [
        (token, round(lowest if len(token) == 1 and score <= rare else score, _DECIMALS))
        for token, score in others
    ]
    return special + sorted(scored, key=lambda item: (-item[1], item[0]))
