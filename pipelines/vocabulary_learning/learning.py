"""Word counts -> a WordPiece vocabulary of exactly the size asked for. Pure."""

import dataclasses
import itertools
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

from beambert.pipelines.wordpiece.vocabulary import PADDING, SPECIAL_TOKENS, Vocabulary

# Google's vocabularies hold [PAD], 99 unused tokens, [UNK] [CLS] [SEP] [MASK] at 100 to 103, then
# more unused ones: [unused0] to [unused993] if uncased, [unused1] to [unused101] if cased.
LEADING_UNUSED = 99
UNUSED_TOKENS = {True: 994, False: 101}  # by do_lower_case
FIRST_UNUSED = {True: 0, False: 1}
# Share of the tokens that may be unused ones, and share that single characters may take whatever
# their frequency: 994 and 997 of 30,522 in Google's uncased vocabulary.
RESERVED_SHARE = 1 / 30
# A small vocabulary still holds an alphabet, of no more than a quarter of its tokens.
FEWEST_CHARACTERS = 100
# JIS X 0208, rows 1 and 2: its symbols, in the bytes of EUC-JP.
_JIS_SYMBOL_ROWS = (0xA1, 0xA2)

# Words to learn from: so many for each token wanted, and so many besides, which a small vocabulary
# needs for the pieces of rare words. The learner's time is proportional to their number.
WORDS_PER_TOKEN = 3
MORE_WORDS = 20_000
# Passes of the learner at a threshold. The first takes every substring for a piece. After the
# second, the library's fourth saves a text 0.4 % of its tokens at 8,000 tokens, 0.02 % at 30,522.
ITERATIONS = 3
MAX_TOKEN_LENGTH = 50
# Where the count threshold of pieces ends up, as a multiple of the count of the last word that
# there is room for: 1.25 on 105 MB of English. The search starts a little lower, because a surplus
# is cut and a lack can't be filled.
FIRST_THRESHOLD = 1.2
# The search ends at a surplus of up to this; a surplus of 14 % costs a text up to 0.1 %.
SURPLUS = 0.15
# The number of pieces falls as about this power of the threshold: 0.6 at 30,522, 0.9 at 8,000.
THRESHOLD_POWER = 0.75


@dataclasses.dataclass(frozen=True)
class CorpusWords:
    """What there is to know of a corpus to learn a vocabulary; sums over parts of it.

    Attributes:
      most_frequent: words and their counts, by falling count, then by word.
      distinct: number of different words, these and the rest.
      occurrences: of all of them.
      characters: how often each character starts a word ("x") or continues one ("##x").
    """

    most_frequent: tuple[tuple[str, int], ...] = ()
    distinct: int = 0
    occurrences: int = 0
    characters: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, counts: Mapping[str, int], most: int) -> "CorpusWords":
        """Sums up word counts, of which the `most` frequent ones are kept."""
        characters: Counter[str] = Counter()
        for word, count in counts.items():
            characters[word[0]] += count
            for character in word[1:]:
                characters["##" + character] += count
        most_frequent = _most_frequent(counts.items(), most)
        return cls(most_frequent, len(counts), sum(counts.values()), dict(characters))

    @classmethod
    def merge(cls, parts: Iterable["CorpusWords"], most: int) -> "CorpusWords":
        """Sums up parts that have no word in common; in any order, the result is the same."""
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
    """Returns how many of a corpus' most frequent words a vocabulary is learned from."""
    return WORDS_PER_TOKEN * vocab_size + MORE_WORDS


def special_tokens(vocab_size: int, do_lower_case: bool) -> list[str]:
    """Returns the first tokens: the special ones, with unused ones around them as in Google's.

    A vocabulary has the unused tokens that fit in `RESERVED_SHARE` of it: all of Google's from
    29,820 tokens on if uncased; the first 99, which put [UNK] at 100, from 2,970 on; else none.
    """
    fitting = int(vocab_size * RESERVED_SHARE)
    number = next(n for n in (UNUSED_TOKENS[do_lower_case], LEADING_UNUSED, 0) if n <= fitting)
    names = list(itertools.islice(_unused_names(do_lower_case), number))
    others = [token for token in SPECIAL_TOKENS if token != PADDING]
    return [PADDING, *names[:LEADING_UNUSED], *others, *names[LEADING_UNUSED:]]


def _unused_names(do_lower_case: bool) -> Iterator[str]:
    return (f"[unused{number}]" for number in itertools.count(FIRST_UNUSED[do_lower_case]))


def common_characters(do_lower_case: bool, most: int) -> set[str]:
    """Returns characters to hold even if the corpus lacks them, if they are no more than `most`.

    ASCII and typographers' symbols, else ASCII, else none. The symbols are those of Mac OS Roman
    and of JIS X 0208 (quotes, dashes, currencies, arrows, mathematics, music); more than half of
    them stand in Google's uncased vocabulary.
    """
    symbols = bytes(range(0x80, 0x100)).decode("mac_roman")
    for row, cell in itertools.product(_JIS_SYMBOL_ROWS, range(0xA1, 0xFF)):
        symbols += bytes([row, cell]).decode("euc_jp", "ignore")  # some cells are empty
    ascii_characters = string.ascii_letters + string.digits + string.punctuation
    for characters in (ascii_characters + symbols, ascii_characters):
        # Letters, numbers, punctuation, symbols; neither spaces nor accents nor private use.
        found = {c for c in characters if unicodedata.category(c)[0] in "LNPS"}
        if do_lower_case:
            found = {c for c in found if unicodedata.normalize("NFD", c.lower()) == c}
        if len(found) <= most:
            return found
    return set()


def choose_characters(words: CorpusWords, vocab_size: int, do_lower_case: bool) -> list[str]:
    """Returns the tokens of one character, "x" and "##x"; a word with another one is [UNK].

    Every character is held that is as frequent as the last word that there is room for (in Chinese
    those are most tokens). So are `common_characters` and, up to `RESERVED_SHARE` of the tokens,
    the most frequent others.
    """
    counts: Counter[str] = Counter()
    for piece, count in words.characters.items():
        counts[piece[-1]] += count
    common = common_characters(do_lower_case, int(RESERVED_SHARE * vocab_size))
    room = vocab_size - len(special_tokens(vocab_size, do_lower_case))
    last_count = words.most_frequent[room - 1][1] if len(words.most_frequent) >= room else 1
    fewest = max(int(RESERVED_SHARE * vocab_size), min(FEWEST_CHARACTERS, vocab_size // 4))
    # No piece holds punctuation: it is set apart from words.
    continuing = {c for c in common if c.isalnum() or unicodedata.category(c)[0] == "S"}
    continuing -= set(string.punctuation)
    continuing |= {piece[-1] for piece in words.characters if len(piece) > 1}
    chosen: list[str] = []
    ranked = sorted(counts.keys() | common, key=lambda c: (c not in common, -counts[c], c))
    for rank, character in enumerate(ranked):
        pieces = [character, f"##{character}"] if character in continuing else [character]
        is_wanted = rank < fewest or counts[character] >= last_count
        if not is_wanted or len(chosen) + len(pieces) > room:
            break
        chosen += pieces
    return sorted(chosen, key=lambda piece: (len(piece), piece))


def learn_vocabulary(
    words: CorpusWords, characters: Sequence[str], vocab_size: int, do_lower_case: bool
) -> Vocabulary:
    """Learns word pieces: special tokens, characters, then pieces by falling frequency.

    Args:
      words: normalized, as WordPiece will see them.
      characters: see `choose_characters`.
      vocab_size: number of tokens. Where the words give fewer, `[unusedN]` fill it up, as in the
        original vocabularies.
      do_lower_case: whether the words are.

    Returns:
      the vocabulary; a function of the counts alone.
    """
    tokens = [*special_tokens(vocab_size, do_lower_case), *characters]
    alphabet = {piece[-1] for piece in characters}
    covered = [
        (word, count)
        for word, count in words.most_frequent
        if len(word) <= MAX_TOKEN_LENGTH and alphabet.issuperset(word)
    ]
    tokens += _learn_pieces(covered, vocab_size - len(tokens))
    held = set(tokens)
    unused = (name for name in _unused_names(do_lower_case) if name not in held)
    return Vocabulary((*tokens, *itertools.islice(unused, vocab_size - len(tokens))))


def _learn_pieces(words: list[tuple[str, int]], room: int) -> list[str]:
    """Searches the count threshold that gives `room` pieces or a few more, which are cut."""
    if not words or not room:
        return []
    last_count = words[room - 1][1] if len(words) >= room else 1
    # Thresholds known to give too many pieces and too few.
    low, high = 0, words[0][1] + 1
    threshold = min(max(1, round(FIRST_THRESHOLD * last_count)), high - 1)
    pieces: list[str] = []
    while low < threshold < high:
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
        threshold = min(max(threshold, low + 1), high - 1)
    return pieces[:room]


def _pieces_from(words: list[tuple[str, int]], threshold: int) -> list[str]:
    """Returns the pieces of two characters and more that occur `threshold` times, as counted."""
    learned = learner.learn(
        words,
        vocab_size=len(words),
        reserved_tokens=[],
        lower_thresh=threshold,
        upper_thresh=threshold,  # no search in it
        num_iterations=ITERATIONS,
        max_token_length=MAX_TOKEN_LENGTH,
        max_unique_chars=len(words) * MAX_TOKEN_LENGTH,  # all: they are chosen already
    )
    return [piece for piece in learned if len(piece.removeprefix("##")) > 1]
