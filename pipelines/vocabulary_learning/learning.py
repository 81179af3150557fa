"""Learns vocabularies and tokenizers from word counts. Pure.

A WordPiece vocabulary has exactly the given size. An extension adds the pieces that save most
tokens of a corpus to an existing vocabulary. Byte-level BPE and Unigram are learned by the trainers
of Hugging Face's `tokenizers` library.
"""

import dataclasses
import functools
import heapq
import itertools
import json
import re
import string
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from beambert.errors import InputError
from beambert.pipelines.tokenizers.folders import framed
from beambert.pipelines.tokenizers.pieces import CONTINUES, cut, longest_of
from beambert.pipelines.tokenizers.vocabulary import (
    CLASSIFY,
    MASK,
    PADDING,
    SEPARATE,
    SPECIAL_TOKENS,
    UNKNOWN,
    TokenizerVocabulary,
    Vocabulary,
)
from beambert.pipelines.tokenizers.word_pieces import is_plain, words_of
from beambert.pipelines.vocabulary_learning.job import BPE, UNIGRAM, WORDPIECE

# Google's vocabularies begin with [PAD], 99 unused tokens, and [UNK] [CLS] [SEP] [MASK] at the ids
# 100 to 103. More unused tokens follow. In all they are [unused0] to [unused993] in the uncased
# vocabulary, and [unused1] to [unused101] in the cased one.
LEADING_UNUSED = 99
# Number of the unused tokens, and number of the first one, by do_lower_case.
UNUSED_TOKENS = {True: 994, False: 101}
FIRST_UNUSED = {True: 0, False: 1}
# Largest share of unused tokens in the vocabulary. It is also the share that single characters may
# take regardless of their frequency. Google's uncased vocabulary has 994 and 997 of them in 30,522.
RESERVED_SHARE = 1 / 30
# Number of characters that a small vocabulary has, too, but in at most a quarter of its tokens.
FEWEST_CHARACTERS = 100
# First bytes in EUC-JP of rows 1 and 2 of JIS X 0208, which hold its symbols.
_JIS_SYMBOL_ROWS = (0xA1, 0xA2)

# Number of words to learn from: some for each token, and a constant number more, which a small
# vocabulary needs for the pieces of rare words. The learner's time is proportional to it.
WORDS_PER_TOKEN = 3
MORE_WORDS = 20_000
# Number of the learner's iterations at a threshold. tensorflow-text's default is 4, which, compared
# with 2, shortens a text by 0.4 % of its tokens at a vocabulary size of 8,000, and by 0.02 % at
# 30,522.
ITERATIONS = 3
# First count threshold of the search for pieces, as a multiple of the count of the last word that
# fits. The search ends at 1.25 on 105 MB of English. It starts a little lower, because surplus
# pieces can be removed but missing ones cannot be added.
FIRST_THRESHOLD = 1.2
# Greatest surplus of pieces at which the search ends. A surplus of 14 % makes a text up to 0.1 %
# longer in tokens.
SURPLUS = 0.15
# The number of pieces is about proportional to this negative power of the threshold; measured were
# 0.6 at a vocabulary size of 30,522 and 0.9 at 8,000.
THRESHOLD_POWER = 0.75
# Number of thresholds that are estimated in this way; most searches end after three. Where no
# threshold gives the wanted number, as for a handful of pieces, estimates would move by 1, so the
# search bisects from then on.
ESTIMATES = 8
# Largest number of characters of a word that pieces are learned from. Longer ones are not words.
LONGEST_PIECE = 50
# The trainers take texts, so each word is given as often as it occurs. This is the number of words
# that they count again, some ten seconds of work. The counts of a larger corpus are divided by one
# number; a word that would be given less than once is given once.
MOST_OCCURRENCES = 20_000_000
# What the space before a word becomes, and the words of printable ASCII behind it; those of BPE are
# GPT-2's.
_SPACES = {BPE: "Ġ", UNIGRAM: "▁"}
_ASCII_WORDS = {
    BPE: re.compile("'(?:[sdmt]|ll|ve|re)|Ġ?[A-Za-z]+|Ġ?[0-9]+|Ġ?[^0-9A-Za-zĠ]+"),
    UNIGRAM: re.compile("▁[^▁]+"),
}
# Number of copies of a word in one text for the trainer.
_COPIES_AT_A_TIME = 1000
# Number of decimals of a Unigram score that are kept. The trainer adds up the words in a random
# order, so the last digits differ between runs.
_DECIMALS = 3
# The trainer gives rare characters the lowest score plus a multiple of this, in a random order.
_CHARACTER_STEP = 1e-4


@dataclasses.dataclass(frozen=True)
class CorpusWords:
    """The word counts of a corpus that a vocabulary is learned from.

    Attributes:
      words: count -> the words that occur so often, of the most frequent words, in any order.
      distinct: number of different words in the corpus.
      occurrences: number of all words in the corpus.
      characters: number of times that each character starts a word ("x") or continues one ("##x").
    """

    words: Mapping[int, Sequence[str]] = dataclasses.field(default_factory=dict)
    distinct: int = 0
    occurrences: int = 0
    characters: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, counts: Mapping[str, int], most: int) -> "CorpusWords":
        """Returns the sums of word counts, and keeps the `most` most frequent words."""
        characters: Counter[str] = Counter()
        by_count: defaultdict[int, list[str]] = defaultdict(list)
        for word, count in counts.items():
            by_count[count].append(word)
        for count, words in by_count.items():
            first = Counter(word[0] for word in words)
            for character, number in Counter("".join(words)).items():
                characters[character] += count * first[character]
                characters[CONTINUES + character] += count * (number - first[character])
        kept = _most_frequent(by_count, most)
        return cls(kept, len(counts), sum(counts.values()), dict(+characters))

    @classmethod
    def merge(cls, parts: Iterable["CorpusWords"], most: int) -> "CorpusWords":
        """Returns the sum of parts that have no word in common; their order doesn't matter."""
        parts = list(parts)
        characters: Counter[str] = Counter()
        by_count: defaultdict[int, list[str]] = defaultdict(list)
        for part in parts:
            characters.update(part.characters)
            for count, words in part.words.items():
                by_count[count] += words
        return cls(
            _most_frequent(by_count, most),
            sum(part.distinct for part in parts),
            sum(part.occurrences for part in parts),
            dict(characters),
        )

    @functools.cached_property
    def most_frequent(self) -> list[tuple[str, int]]:
        """The most frequent words and their counts, by falling count, then by word."""
        counts = sorted(self.words, reverse=True)
        return [(word, count) for count in counts for word in sorted(self.words[count])]


def _most_frequent(by_count: Mapping[int, list[str]], most: int) -> dict[int, list[str]]:
    """Returns the `most` first words by falling count, then by word."""
    found: dict[int, list[str]] = {}
    for count in sorted(by_count, reverse=True):
        words = by_count[count]
        found[count] = words if len(words) <= most else sorted(words)[:most]
        most -= len(found[count])
        if not most:
            break
    return found


def words_needed(vocab_size: int) -> int:
    """Returns the number of most frequent words that a vocabulary is learned from."""
    return WORDS_PER_TOKEN * vocab_size + MORE_WORDS


def special_tokens(vocab_size: int, do_lower_case: bool) -> list[str]:
    """Returns the first tokens: special and unused tokens in the order of Google's vocabularies.

    The unused tokens take at most `RESERVED_SHARE` of the vocabulary. An uncased vocabulary has all
    of Google's from 29,820 tokens on. From 2,970 tokens on, a vocabulary has the first 99, which
    put [UNK] at 100. A smaller one has none.
    """
    fitting = int(vocab_size * RESERVED_SHARE)
    number = next(n for n in (UNUSED_TOKENS[do_lower_case], LEADING_UNUSED, 0) if n <= fitting)
    names = list(itertools.islice(_unused_names(do_lower_case), number))
    others = [token for token in SPECIAL_TOKENS if token != PADDING]
    return [PADDING, *names[:LEADING_UNUSED], *others, *names[LEADING_UNUSED:]]


def _unused_names(do_lower_case: bool) -> Iterator[str]:
    return (f"[unused{number}]" for number in itertools.count(FIRST_UNUSED[do_lower_case]))


def common_characters(do_lower_case: bool, most: int) -> set[str]:
    """Returns characters that the vocabulary holds even if the corpus lacks them.

    They are ASCII and typographic symbols. If those are more than `most`, they are ASCII only, and
    if that is more, none. The symbols are those of Mac OS Roman and of JIS X 0208: quotes, dashes,
    currencies, arrows, mathematics, music. Google's uncased vocabulary has more than half of them.
    """
    symbols = bytes(range(0x80, 0x100)).decode("mac_roman")
    for row, cell in itertools.product(_JIS_SYMBOL_ROWS, range(0xA1, 0xFF)):
        symbols += bytes([row, cell]).decode("euc_jp", "ignore")  # Some cells are empty.
    ascii_characters = string.ascii_letters + string.digits + string.punctuation
    for characters in (ascii_characters + symbols, ascii_characters):
        # This selects letters, numbers, punctuation and symbols, but no spaces and no accents.
        found = {c for c in characters if unicodedata.category(c)[0] in "LNPS"}
        if do_lower_case:
            found = {c for c in found if unicodedata.normalize("NFD", c.lower()) == c}
        if len(found) <= most:
            return found
    return set()


def character_counts(words: CorpusWords) -> Counter[str]:
    """Returns the number of times that each character occurs."""
    counts: Counter[str] = Counter()
    for piece, count in words.characters.items():
        counts[piece[-1]] += count
    return counts


def frequent_characters(words: CorpusWords, coverage: float) -> set[str]:
    """Returns the most frequent characters that together make up a share of all occurrences.

    The share is what SentencePiece calls character_coverage (Kudo and Richardson 2018).
    """
    counts = character_counts(words)
    wanted, found = coverage * counts.total(), set()
    for character, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if wanted <= 0:
            break
        found.add(character)
        wanted -= count
    return found


def check_coverage(
    words: CorpusWords, characters: Sequence[str], vocab_size: int, coverage: float
) -> None:
    """Checks that a vocabulary has room for the characters that are wanted.

    Args:
      words: counts of words.
      characters: tokens of one character, see `choose_characters`.
      vocab_size: number of tokens.
      coverage: share of the characters' occurrences to cover.

    Raises:
      InputError: the characters cover less.
    """
    counts, alphabet = character_counts(words), {piece[-1] for piece in characters}
    if missing := frequent_characters(words, coverage) - alphabet:
        covered = sum(count for each, count in counts.items() if each in alphabet) / counts.total()
        raise InputError(
            f"--character_coverage={coverage:g}: --vocab_size={vocab_size} has room for "
            f"{covered:.3%} of the text's characters and lacks {len(missing):,} different ones; "
            "raise --vocab_size or lower the coverage"
        )


def choose_characters(
    words: CorpusWords, vocab_size: int, do_lower_case: bool, coverage: float | None = None
) -> list[str]:
    """Returns the tokens of one character, "x" and "##x".

    A word with any other character becomes [UNK]. Unless `coverage` says what share of the
    characters' occurrences is covered, the tokens cover:

    - every character that is as frequent as the last word that there is room for (in Chinese these
      are most tokens);
    - the `common_characters`;
    - the most frequent other characters, up to `RESERVED_SHARE` of the tokens.
    """
    counts = character_counts(words)
    wanted = None if coverage is None else frequent_characters(words, coverage)
    common = common_characters(do_lower_case, int(RESERVED_SHARE * vocab_size))
    room = vocab_size - len(special_tokens(vocab_size, do_lower_case))
    last_count = words.most_frequent[room - 1][1] if len(words.most_frequent) >= room else 1
    fewest = max(int(RESERVED_SHARE * vocab_size), min(FEWEST_CHARACTERS, vocab_size // 4))
    # ASCII punctuation never continues a word, because the tokenizer splits words at it.
    continuing = {c for c in common if c.isalnum() or unicodedata.category(c)[0] == "S"}
    continuing -= set(string.punctuation)
    continuing |= {piece[-1] for piece in words.characters if len(piece) > 1}
    chosen: list[str] = []
    ranked = sorted(counts.keys() | common, key=lambda c: (c not in common, -counts[c], c))
    for rank, character in enumerate(ranked):
        pieces = [character, f"##{character}"] if character in continuing else [character]
        is_wanted = rank < fewest or counts[character] >= last_count
        if wanted is not None:
            is_wanted = character in common or character in wanted
        if not is_wanted or len(chosen) + len(pieces) > room:
            break
        chosen += pieces
    return sorted(chosen, key=lambda piece: (len(piece), piece))


def learn_vocabulary(
    words: CorpusWords, characters: Sequence[str], vocab_size: int, do_lower_case: bool
) -> Vocabulary:
    """Returns a vocabulary: special tokens, characters, then word pieces by falling frequency.

    The result depends on the counts alone, not on their order.

    Args:
      words: counts of words, normalized as the tokenizer normalizes them.
      characters: tokens of one character, see `choose_characters`.
      vocab_size: number of tokens. If the words give fewer, `[unusedN]` tokens fill it up, as in
        the original vocabularies.
      do_lower_case: True if the words are in lower case.
    """
    tokens = [*special_tokens(vocab_size, do_lower_case), *characters]
    alphabet = {piece[-1] for piece in characters}
    covered = [
        (word, count)
        for word, count in words.most_frequent
        if len(word) <= LONGEST_PIECE and alphabet.issuperset(word)
    ]
    tokens += _learn_pieces(covered, vocab_size - len(tokens))
    held = set(tokens)
    unused = (name for name in _unused_names(do_lower_case) if name not in held)
    return Vocabulary((*tokens, *itertools.islice(unused, vocab_size - len(tokens))))


def _learn_pieces(words: list[tuple[str, int]], room: int) -> list[str]:
    """Returns the `room` most frequent pieces, found by a search for the count threshold."""
    if not words or not room:
        return []
    last_count = words[room - 1][1] if len(words) >= room else 1
    # The bounds of the search: a threshold that gives too many pieces, and one that gives too few.
    low, high = 0, words[0][1] + 1
    threshold = min(max(1, round(FIRST_THRESHOLD * last_count)), high - 1)
    pieces: list[str] = []
    trials = 0
    while low < threshold < high:
        trials += 1
        found = _pieces_from(words, threshold)
        if len(found) >= room:
            low, pieces = threshold, found
            if len(found) <= room * (1 + SURPLUS):
                break
        else:
            high = threshold
            if threshold == 1:
                pieces = found
        ratio = max(len(found), 1) / (room * (1 + SURPLUS / 2))
        threshold = round(threshold * ratio ** (1 / THRESHOLD_POWER))
        if trials >= ESTIMATES:
            threshold = (low + high) // 2
        threshold = min(max(threshold, low + 1), high - 1)
    return pieces[:room]


def _pieces_from(words: Sequence[tuple[str, int]], threshold: int) -> list[str]:
    """Returns the pieces of at least two characters that occur at least `threshold` times.

    A piece occurs where it ends a word and begins where the pieces of the last iteration began; at
    first these are the characters. So do the counts of tensorflow-text 2.21's learner come out
    (tools/wordpiece_vocab/wordpiece_tokenizer_learner_lib.py, learn_with_thresh), which counts all
    that begins there, and subtracts the result of each candidate from all of its prefixes.
    """
    characters = {character for word, _ in words for character in word}
    characters |= {CONTINUES + character for character in characters}
    kept: dict[str, int] = {}
    for _ in range(ITERATIONS):
        known = characters | kept.keys()
        longest, counts = longest_of(known), Counter()
        for word, count in words:
            start = 0
            for piece in cut(word, known, longest):
                counts[CONTINUES + word[start:] if start else word] += count
                start += len(piece) - (len(CONTINUES) if start else 0)
        kept = {piece: count for piece, count in counts.items() if count >= threshold}
    ranked = sorted(kept, key=lambda piece: (-kept[piece], piece))
    return [piece for piece in ranked if len(piece.removeprefix(CONTINUES)) > 1]


def extend_vocabulary(vocabulary: Vocabulary, words: Mapping[str, int], number: int) -> Vocabulary:
    """Returns a vocabulary with new pieces after its old ones, which keep their ids.

    A word is cut from left to right, and each piece is the longest one that fits (Wu et al. 2016,
    arXiv 1609.08144, section 4.1). So a new piece that joins neighbouring pieces of a word is found
    where the first of them began, the pieces after it stay, and it saves one token less than the
    number of pieces it joins.

    Args:
      vocabulary: the vocabulary.
      words: word -> its count in the corpus.
      number: number of new pieces.

    Raises:
      InputError: the corpus has too few words that the vocabulary cuts.
    """
    new = choose_pieces(vocabulary.tokens, words, number)
    if len(new) < number:
        raise InputError(
            f"--add={number}: only {len(new):,} new pieces would save a token of this text; add "
            "fewer, or give more text"
        )
    return Vocabulary((*vocabulary.tokens, *new))


def choose_pieces(pieces: Sequence[str], words: Mapping[str, int], number: int) -> list[str]:
    """Returns new pieces, each the one that saves most tokens after those before it are added.

    Args:
      pieces: the pieces of the vocabulary.
      words: word -> its count in the corpus.
      number: greatest number of pieces; there are fewer if no more would save a token.
    """
    known = set(pieces)
    longest = longest_of(known)
    usual = (word for word in words if len(word) <= LONGEST_PIECE)
    cuts = {word: found for word in usual if (found := cut(word, known, longest))}
    saved: defaultdict[str, int] = defaultdict(int)
    holders: defaultdict[str, set[str]] = defaultdict(set)
    for word in cuts:
        for joined, tokens in _joined(cuts[word]):
            saved[joined] += tokens * words[word]
            holders[joined].add(word)
    # Entries with an outdated number stay in the heap until they are popped.
    heap = [(-tokens, joined) for joined, tokens in saved.items()]
    heapq.heapify(heap)
    chosen: list[str] = []
    while heap and len(chosen) < number:
        tokens, joined = heapq.heappop(heap)
        if -tokens != saved[joined] or not tokens:
            continue
        chosen.append(joined)
        known.add(joined)
        longest = max(longest, len(joined.removeprefix(CONTINUES)))
        for word in sorted(holders[joined]):
            changed = dict.fromkeys(each for each, _ in _joined(cuts[word]))
            for each, tokens in _joined(cuts[word]):
                saved[each] -= tokens * words[word]
                holders[each].discard(word)
            cuts[word] = cut(word, known, longest)
            for each, tokens in _joined(cuts[word]):
                saved[each] += tokens * words[word]
                holders[each].add(word)
            for each in changed:
                heapq.heappush(heap, (-saved[each], each))
    return chosen


def _joined(pieces: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yields each join of neighbouring pieces, and the number of tokens that it saves."""
    ends: dict[str, int] = {}
    for first, end in itertools.combinations(range(len(pieces) + 1), 2):
        if end - first < 2:
            continue
        rest = (piece.removeprefix(CONTINUES) for piece in pieces[first + 1 : end])
        joined = pieces[first] + "".join(rest)
        # A piece that begins inside the same piece is not found there.
        if first >= ends.get(joined, 0):
            ends[joined] = end
            yield joined, end - first - 1


def unknown_words(pieces: Sequence[str], words: Mapping[str, int]) -> int:
    """Returns how many of the words become [UNK], since no pieces spell them."""
    known = set(pieces)
    longest = longest_of(known)
    return sum(times for word, times in words.items() if not cut(word, known, longest))


def tokens_of(pieces: Sequence[str], words: Mapping[str, int]) -> int:
    """Returns the number of tokens that words take; a word that cannot be spelled takes one."""
    known = set(pieces)
    longest = longest_of(known)
    return sum(times * len(cut(word, known, longest) or [word]) for word, times in words.items())


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


def splitter_of(kind: str, do_lower_case: bool) -> Callable[[Sequence[str]], list[str]]:
    """Returns a function from strings without spaces to all words that a kind of tokenizer cuts.

    Each string stands behind a space. A word of BPE or Unigram has the mark of the space before it,
    "Ġ" or "▁".
    """
    if kind == WORDPIECE:
        return lambda strings: words_of(" ".join(strings), do_lower_case)
    empty = empty_tokenizer(kind, do_lower_case)
    normalizer, pre_tokenizer = empty.normalizer, empty.pre_tokenizer
    mark, plain_words = _SPACES[kind], _ASCII_WORDS[kind].findall

    def split(strings: Sequence[str]) -> list[str]:
        text = " ".join(strings)
        if is_plain(text):
            return plain_words(mark + (text.lower() if do_lower_case else text).replace(" ", mark))
        found = []
        for each in strings:
            if text := each.encode("utf-8", "replace").decode().strip():
                pieces = pre_tokenizer.pre_tokenize_str(" " + normalizer.normalize_str(text))
                found += (piece for piece, _ in pieces)
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
      words: counts of words, cut by `splitter_of`.
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
    # A mask includes the space before it, as in the published tokenizers, since it hides both.
    mask = AddedToken(MASK, lstrip=True, special=True)
    tokenizer.add_special_tokens([*(each for each in SPECIAL_TOKENS if each != MASK), mask])
    first, last = ((name, tokenizer.token_to_id(name)) for name in (CLASSIFY, SEPARATE))
    content = json.loads(framed(tokenizer, first, last, 1, 1))
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
