"""Sentence lengths -> sentence pairs, as offsets. Pure functions of integers.

This is the original's algorithm (create_pretraining_data.py, create_instances_from_document)
without two of its flaws. The original labels every chunk of one sentence "random next", so that
more than half of its pairs have that label. And after ten unlucky draws it takes a "random" B from
A's own document. `--pairs=reference` asks for the algorithm with both flaws.

`--pairs=sop` asks for sentence-order prediction (ALBERT, Lan et al. 2020, arXiv 1909.11942,
section 3.1): A and B are consecutive, and half of the pairs are swapped. A chunk of one sentence
has nothing to swap. As in ALBERT's script its B comes from another document, and its label is that
of swapped pairs. That script's coin is fair, so that more than half of its pairs have this label;
here the coin's bias makes up for them.
"""

import dataclasses
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import NamedTuple

import numpy as np

from beambert.pipelines.records.contract import IS_NEXT, RANDOM_NEXT
from beambert.ragged import ranges, starts_of

# [CLS] A [SEP] B [SEP]
SPECIAL_TOKENS_A_PAIR = 3
# The original draws a short target of at least 2 tokens (one for A, one for B).
SHORTEST_TARGET = 2
# The coin's bias restores the balance of the labels over at least so many chunks. They are enough
# that a chunk's label tells nothing about the next one's, and few enough for a shard of a few
# thousand.
BALANCE_HORIZON = 100
# The original draws another document for B so many times before it takes A's own.
REFERENCE_DRAWS = 10


class Partners(NamedTuple):
    """The documents that a random B of a document may come from: a range without another one.

    Attributes:
      first, end: the first document, and the one after the last.
      own_first, own_end: the document itself, with the other pieces of it if it is divided.
    """

    first: int
    end: int
    own_first: int
    own_end: int

    @property
    def count(self) -> int:
        """Number of the documents."""
        return (self.end - self.first) - (self.own_end - self.own_first)


@dataclasses.dataclass
class Balance:
    """Counts of the labels so far, carried over from pass to pass of a shard.

    Chunks of long documents that aim at a shorter length are not among `forced` and `free`.

    Attributes:
      forced: number of chunks of one sentence, which had to be "random next".
      free: number of chunks whose label a coin decided. It starts above 0, so that the first
        forced chunk counts little.
      ahead: number of "random next" pairs minus the number of "is next" pairs.
    """

    forced: int = 0
    free: int = 10
    ahead: int = 0


@dataclasses.dataclass
class PairCounts:
    """Counts of what pairing made; they add up over shards.

    Attributes:
      is_next: number of pairs whose B follows A, or is a copy of it.
      random_next: number of pairs whose B comes from another document, or that are swapped.
      random_next_other_source: number of those whose B comes from another --input than A.
      forced_random_next: number of `random_next` pairs whose chunk had only one sentence. Their B
        comes from another document, also where pairs are swapped.
      without_partner: number of one-sentence chunks left out because there was no other document.
      truncated_tokens: number of tokens cut off to fit the sequence length.
    """

    is_next: int = 0
    random_next: int = 0
    random_next_other_source: int = 0
    forced_random_next: int = 0
    without_partner: int = 0
    truncated_tokens: int = 0


def build_pairs(
    sentence_lengths: Sequence[int],
    document_sentences: Sequence[int],
    *,
    max_seq_length: int,
    short_seq_prob: float,
    balance: Balance | None,
    random: Random,
    partners: Sequence[Partners] | None = None,
    swaps: bool = False,
    walked: int | None = None,
) -> tuple[np.ndarray, PairCounts]:
    """Goes over the documents once and pairs their sentences.

    Half of the pairs are "is next". A chunk of one sentence has to be "random next". A coin decides
    the label of every other chunk; its bias makes up for the forced ones. All chunks share that
    bias. If instead the chunk after a forced one were simply made "is next", the model could learn
    it: a forced chunk is mostly the last of its document, so the openings of documents would be
    "is next" more often than the rest.

    Long documents that aim at a shorter length come first. At a few tokens nearly all of their
    chunks have one sentence, and a book has thousands of them. All documents after them together
    then restore the balance of the labels.

    Args:
      sentence_lengths: tokens of each sentence, all documents end to end; none is 0.
      document_sentences: sentences of each document; none is 0.
      max_seq_length: tokens of a record, special tokens included.
      short_seq_prob: share of the documents whose pairs aim at a random shorter length (original:
        0.1).
      balance: counts of the passes before, to which this pass is added. None gives the original's
        distribution: a fair coin for chunks of several sentences, and rarely a "random" B from A's
        own document.
      random: source of every draw.
      partners: documents that each document may take a random B from; None for all others.
      swaps: whether a pair that is not "is next" has A and B swapped, instead of a random B.
      walked: number of documents, from the first on, that have an A. A random B may come from the
        others, too. None for all.

    Returns:
      int32 [n, 5] and the counts. The columns are start and end of A, start and end of B (offsets
      into the tokens, all sentences end to end), and the label.
    """
    limit = max_seq_length - SPECIAL_TOKENS_A_PAIR
    starts = [0, *np.cumsum(np.asarray(sentence_lengths, np.int64)).tolist()]
    firsts = [0, *np.cumsum(np.asarray(document_sentences, np.int64)).tolist()]
    documents = len(firsts) - 1
    walked = documents if walked is None else walked
    counts = PairCounts()
    rows: list[int] = []
    draw = random.random
    is_reference = balance is None
    balance = balance or Balance()
    forced, free, ahead = balance.forced, balance.free, balance.ahead
    tokens_left = starts[firsts[walked]]
    targets: Iterable[tuple[int, int]] = (
        (document, draw_target(limit, short_seq_prob, random)) for document in range(walked)
    )

    def is_steady(aim: tuple[int, int]) -> bool:
        sentences = firsts[aim[0] + 1] - firsts[aim[0]]
        return aim[1] == limit or sentences <= BALANCE_HORIZON

    for document, target in targets if is_reference else sorted(targets, key=is_steady):
        sentence, end = firsts[document], firsts[document + 1]
        counts_for_rate = is_steady((document, target))
        others = partners[document] if partners else Partners(0, documents, document, document + 1)
        is_alone = others.count == 0
        tokens_left -= starts[end] - starts[sentence]
        # The coin will decide about so many more chunks.
        horizon = max(BALANCE_HORIZON, tokens_left * free // (limit * (free + forced)))
        while sentence < end:
            a_start = starts[sentence]
            chunk_end = bisect_left(starts, a_start + target, sentence + 1, end)
            sentences = chunk_end - sentence
            a_last = sentence + 1
            if sentences > 1:
                a_last += int(draw() * (sentences - 1))
            a_end = starts[a_last]
            if sentences > 1 and is_reference:
                is_next = draw() >= 0.5
            elif sentences > 1:
                free += counts_for_rate
                share = 0.5 * (1 + forced / free) + 0.5 * ahead / horizon
                is_next = draw() < share or (is_alone and not swaps)
            elif is_alone and not is_reference:
                counts.without_partner += 1
                sentence = chunk_end
                continue
            else:
                counts.forced_random_next += 1
                forced += counts_for_rate
                is_next = False

            if is_next:
                ahead -= 1
                b_start, b_end = a_end, starts[chunk_end]
                sentence = chunk_end
            elif swaps and sentences > 1:
                ahead += 1
                b_start, b_end = a_start, a_end
                a_start, a_end = a_end, starts[chunk_end]
                sentence = chunk_end
            else:
                ahead += 1
                if is_reference:
                    other = _draw_as_the_original(others, random)
                else:
                    other = draw_partner(others, random)
                first, last = firsts[other], firsts[other + 1]
                b_first = first + int(draw() * (last - first))
                b_start = starts[b_first]
                wanted = target - (a_end - a_start)
                b_end = starts[bisect_left(starts, b_start + wanted, b_first + 1, last)]
                sentence = a_last  # the next chunk begins with the sentences that are not used

            excess = (a_end - a_start) + (b_end - b_start) - limit
            if excess > 0:
                counts.truncated_tokens += excess
                a_start, a_end, b_start, b_end = _truncate(
                    a_start, a_end, b_start, b_end, excess, random
                )
            rows += (a_start, a_end, b_start, b_end, IS_NEXT if is_next else RANDOM_NEXT)

    pairs = np.array(rows, np.int32).reshape(-1, 5)
    balance.forced, balance.free, balance.ahead = forced, free, ahead
    counts.random_next = int(pairs[:, 4].sum())
    counts.is_next = len(pairs) - counts.random_next
    return pairs, counts


def draw_target(limit: int, short_seq_prob: float, random: Random) -> int:
    """Returns the number of tokens that a document's pairs aim at in a pass."""
    if random.random() < short_seq_prob:
        return SHORTEST_TARGET + int(random.random() * (limit - SHORTEST_TARGET + 1))
    return limit


def draw_partner(others: Partners, random: Random) -> int:
    """Returns a random document of those that a random B may come from; there is one."""
    other = others.first + int(random.random() * others.count)
    return other if other < others.own_first else other + others.own_end - others.own_first


def _draw_as_the_original(others: Partners, random: Random) -> int:
    """Returns a random document: nearly always another one than A's own."""
    other = others.own_first
    for _ in range(REFERENCE_DRAWS):
        other = others.first + int(random.random() * (others.end - others.first))
        if not others.own_first <= other < others.own_end:
            break
    return other


def _truncate(
    a_start: int, a_end: int, b_start: int, b_end: int, excess: int, random: Random
) -> tuple[int, int, int, int]:
    """Cuts `excess` tokens off, one at a time from the longer of A and B.

    A coin decides at which end. This is the original's truncate_seq_pair in closed form. B is cut
    when the lengths are equal.
    """
    a, b = a_end - a_start, b_end - b_start
    from_longer = min(excess, abs(a - b))
    rest = excess - from_longer
    from_a = (from_longer if a > b else 0) + rest // 2
    from_b = excess - from_a
    a_front = random.getrandbits(from_a).bit_count() if from_a else 0
    b_front = random.getrandbits(from_b).bit_count() if from_b else 0
    a_back, b_back = from_a - a_front, from_b - b_front
    return a_start + a_front, a_end - a_back, b_start + b_front, b_end - b_back


# Noisy copies: pairs of a segment and a noisy copy of it, or of another segment.
#
# `--pairs=copy` asks for them. The label is whether both segments have the same content. Words are
# missing from the copy, stand in another order, or are replaced, so that no single word gives the
# label away and the encoder has to compare the segments. A BERT of a few minutes' training learns
# this, and with it attention from one segment to the other, which tasks of two sentences need. The
# ends of the segments say something, too: another segment is cut to the length of A, mostly inside
# a sentence.
#
# The noise is that of denoising autoencoders for sentences (Hill et al. 2016, arXiv 1602.03483,
# section 3.1; Lample et al. 2018, arXiv 1711.00043, section 2.3): words are dropped and moved.

# Share of the words of a copy that are left out, and of its tokens that are random ones of the
# corpus. Hill et al. and Lample et al. drop 0.1 of the words and replace none; more noise leaves
# more to compare.
DROPPED_WORDS, REPLACED_TOKENS = 0.3, 0.1
# A word's place is its number plus a uniform draw below this, so that it moves by at most 1 place.
_MOST_MOVED = 2.0


def build_copies(
    sentence_lengths: Sequence[int],
    document_sentences: Sequence[int],
    *,
    max_seq_length: int,
    short_seq_prob: float,
    random: Random,
    partners: Sequence[Partners] | None = None,
    walked: int | None = None,
) -> tuple[np.ndarray, PairCounts]:
    """Goes over the documents once: every token is in one A, which has whole sentences if it can.

    A fair coin decides whether B is A, or the text of a random other document, which is as long
    unless its document ends before. Where there is no other document, B is A.

    Args:
      sentence_lengths, document_sentences, max_seq_length, random, partners, walked: see
        `pairs.build_pairs`.
      short_seq_prob: share of the documents whose pairs aim at a random length, as in
        `pairs.build_pairs`, of which an A takes at most half of the longest.

    Returns:
      int32 [n, 5] and the counts, see `pairs.build_pairs`. B's tokens are those before
      `add_noise`; the label is `IS_NEXT` where it is a copy.
    """
    limit = max_seq_length - SPECIAL_TOKENS_A_PAIR
    most = limit // 2
    starts = [0, *np.cumsum(np.asarray(sentence_lengths, np.int64)).tolist()]
    firsts = [0, *np.cumsum(np.asarray(document_sentences, np.int64)).tolist()]
    documents = len(firsts) - 1
    rows: list[int] = []
    for document in range(documents if walked is None else walked):
        target = min(draw_target(limit, short_seq_prob, random), most)
        others = partners[document] if partners else Partners(0, documents, document, document + 1)
        a_start, document_end = starts[firsts[document]], starts[firsts[document + 1]]
        while a_start < document_end:
            a_end = _end_of_part(starts, a_start, target, most, firsts[document + 1])
            b_start, b_end, label = a_start, a_end, IS_NEXT
            if random.random() < 0.5 and others.count:
                other = draw_partner(others, random)
                first, last = firsts[other], firsts[other + 1]
                b_start = starts[first + int(random.random() * (last - first))]
                b_end = min(b_start + a_end - a_start, starts[last])
                label = RANDOM_NEXT
            rows += (a_start, a_end, b_start, b_end, label)
            a_start = a_end
    pairs = np.array(rows, np.int32).reshape(-1, 5)
    others_count = int((pairs[:, 4] == RANDOM_NEXT).sum())
    return pairs, PairCounts(is_next=len(pairs) - others_count, random_next=others_count)


def _end_of_part(starts: Sequence[int], start: int, target: int, most: int, last: int) -> int:
    """Returns the end of the sentences that reach a target; of one that doesn't fit, of a part.

    Args:
      starts: offset of each sentence, and the end of the last.
      start: offset of the part.
      target: number of tokens that are enough.
      most: greatest number of tokens; where the target takes more, it isn't reached.
      last: index in `starts` of the document's end.
    """
    fitting = bisect_right(starts, start + most, hi=last + 1) - 1
    end = starts[min(bisect_left(starts, start + target, hi=last), fitting)]
    return end if end > start else start + most


def add_noise(
    tokens: np.ndarray,
    pairs: np.ndarray,
    starts_word: Callable[[np.ndarray], np.ndarray],
    random: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Leaves words out of every B, moves and replaces others, and swaps half of the As and Bs.

    At least one word of a B is left. A B of another text has the noise, too, so that the noise
    tells nothing.

    Args:
      tokens: tokens of the documents, which random ones are also drawn from.
      pairs: int32 [n, 5], see `build_copies`.
      starts_word: function from tokens to whether each starts a word.
      random: source of every draw.

    Returns:
      the tokens of the pairs, and the pairs with offsets into them.
    """
    if not len(pairs):
        return tokens, pairs
    a_start, a_end, b_start, b_end, label = pairs.T
    lengths = b_end - b_start
    b_tokens = tokens[ranges(b_start, lengths)]
    is_start = starts_word(b_tokens)
    is_start[starts_of(lengths)] = True
    b_tokens = _with_random_tokens(b_tokens, tokens, random)
    word_starts = np.flatnonzero(is_start)
    word_lengths = np.diff(word_starts, append=len(b_tokens))
    row_of_word = np.repeat(np.arange(len(pairs)), lengths)[word_starts]
    order = _noisy_order(row_of_word, random)
    noisy = b_tokens[ranges(word_starts[order], word_lengths[order])]
    noisy_lengths = np.bincount(row_of_word[order], word_lengths[order], len(pairs)).astype(int)

    a_lengths = a_end - a_start
    together = np.concatenate([tokens[ranges(a_start, a_lengths)], noisy])
    first = starts_of(a_lengths)
    second = starts_of(noisy_lengths) + int(a_lengths.sum())
    moved = np.stack([first, first + a_lengths, second, second + noisy_lengths, label], axis=1)
    is_swapped = random.random(len(pairs)) < 0.5
    moved[is_swapped] = moved[is_swapped][:, [2, 3, 0, 1, 4]]
    return together, moved.astype(np.int32)


def _with_random_tokens(
    chosen: np.ndarray, tokens: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """Returns the tokens with some replaced by random ones of the corpus."""
    others = tokens[random.integers(0, len(tokens), len(chosen))]
    return np.where(random.random(len(chosen)) < REPLACED_TOKENS, others, chosen)


def _noisy_order(row_of_word: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Returns the numbers of the words that are left, in their new order, row by row.

    Args:
      row_of_word: number of the row of each word, ascending; no row is without a word.
    """
    words = len(row_of_word)
    roll = random.random(words)
    row_starts = np.flatnonzero(np.diff(row_of_word, prepend=-1))
    is_last_left = roll == np.maximum.reduceat(roll, row_starts)[row_of_word]
    place = np.arange(words) + _MOST_MOVED * random.random(words)
    order = np.lexsort((place, row_of_word))
    return order[((roll >= DROPPED_WORDS) | is_last_left)[order]]
