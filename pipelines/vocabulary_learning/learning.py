"""Learns a WordPiece vocabulary of exactly the given size from word counts. Pure."""

import dataclasses
import itertools
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

from beambert.errors import InputError
from beambert.pipelines.tokenizers.vocabulary import PADDING, SPECIAL_TOKENS, Vocabulary
from beambert.pipelines.vocabulary_learning.extension import LONGEST_PIECE

# Google's vocabularies begin with [PAD], 99 unused tokens, and [UNK] [CLS] [SEP] [MASK] at the ids
# 100 to 103. More unused tokens follow. In all they are [unused0] to [unused993] in the uncased
# vocabulary, and [unused1] to [unused101] in the cased one.
LEADING_UNUSED = 99
# Number of the unused tokens, and number of the first one, by do_lower_case.
UNUSED_TOKENS = {True: 994, False: 101}
FIRST_UNUSED = {True: 0, False: 1}
# Greatest share of unused tokens in the vocabulary. It is also the share that single characters may
# take regardless of their frequency. Google's uncased vocabulary has 994 and 997 of them in 30,522.
RESERVED_SHARE = 1 / 30
# Number of characters that also a small vocabulary holds, but in at most a quarter of its tokens.
FEWEST_CHARACTERS = 100
# First bytes in EUC-JP of rows 1 and 2 of JIS X 0208, which hold its symbols.
_JIS_SYMBOL_ROWS = (0xA1, 0xA2)

# Number of words to learn from: some for each token, and a constant number on top, which a small
# vocabulary needs for the pieces of rare words. The learner's time is proportional to it.
WORDS_PER_TOKEN = 3
MORE_WORDS = 20_000
# Number of the learner's iterations at a threshold. The first takes every substring as a piece. The
# library's default is 4; compared with 2, it shortens a text by 0.4 % of its tokens at a vocabulary
# size of 8,000, and by 0.02 % at 30,522.
ITERATIONS = 3
# First count threshold of the search for pieces, as a multiple of the count of the last word that
# there is room for. The search ends at 1.25 on 105 MB of English. It starts a little lower, because
# surplus pieces can be cut but missing ones cannot be filled in.
FIRST_THRESHOLD = 1.2
# Greatest surplus of pieces at which the search ends. A surplus of 14 % makes a text up to 0.1 %
# longer in tokens.
SURPLUS = 0.15
# The number of pieces is about proportional to this negative power of the threshold; measured were
# 0.6 at a vocabulary size of 30,522 and 0.9 at 8,000.
THRESHOLD_POWER = 0.75
# Number of thresholds that are estimated so; most searches end after three. Where no threshold
# gives the wanted number, as for a handful of pieces, estimates would go on by ones, so the search
# halves its bounds from there.
ESTIMATES = 8


@dataclasses.dataclass(frozen=True)
class CorpusWords:
    """The word counts of a corpus, as far as a vocabulary needs them.

    Attributes:
      most_frequent: words and their counts, sorted by falling count, then by word.
      distinct: number of different words in the corpus.
      occurrences: number of all words in the corpus.
      characters: number of times that each character starts a word ("x") or continues one ("##x").
    """

    most_frequent: tuple[tuple[str, int], ...] = ()
    distinct: int = 0
    occurrences: int = 0
    characters: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, counts: Mapping[str, int], most: int) -> "CorpusWords":
        """Returns the sums of word counts, and keeps the `most` most frequent words."""
        characters: Counter[str] = Counter()
        for word, count in counts.items():
            characters[word[0]] += count
            for character in word[1:]:
                characters["##" + character] += count
        most_frequent = _most_frequent(counts.items(), most)
        return cls(most_frequent, len(counts), sum(counts.values()), dict(characters))

    @classmethod
    def merge(cls, parts: Iterable["CorpusWords"], most: int) -> "CorpusWords":
        """Returns the sum of parts that have no word in common; their order doesn't matter."""
        parts = list(parts)
        characters: Counter[str] = Counter()
        for part in parts:
            characters.update(part.characters)
        words = itertools.chain.from_iterable(part.most_frequent for part in parts)
        return cls(
            _most_frequent(words, most),
            sum(part.distinct for part in parts),
            sum(part.occurrences for part in parts),
            dict(characters),
        )


def _most_frequent(words: Iterable[tuple[str, int]], most: int) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(words, key=lambda item: (-item[1], item[0]))[:most])


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
    """Refuses a vocabulary that has no room for the characters that are wanted.

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


def _pieces_from(words: list[tuple[str, int]], threshold: int) -> list[str]:
    """Returns the pieces of at least two characters that occur at least `threshold` times."""
    learned = learner.learn(
        words,
        vocab_size=len(words),
        reserved_tokens=[],
        lower_thresh=threshold,
        upper_thresh=threshold,  # Equal bounds switch off the library's own search.
        num_iterations=ITERATIONS,
        max_token_length=LONGEST_PIECE,
        max_unique_chars=len(words) * LONGEST_PIECE,  # No limit: they are chosen already.
    )
    return [piece for piece in learned if len(piece.removeprefix("##")) > 1]
