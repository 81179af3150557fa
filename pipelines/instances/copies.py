"""Sentence lengths -> pairs of a text and its noisy copy, or that of another. Pure numpy.

`--pairs=copy` asks for them. The label tells whether both segments have the same text. Words are
missing from the copy, stand in another order, or are other ones, so that no single word tells and
the encoder has to compare what the two segments say. A BERT of a few minutes' training learns this,
and with it attention from one segment to the other, which tasks of two sentences need. The ends of
the segments tell something, too: another text is cut to the length of A, mostly inside a sentence.

The noise is that of denoising autoencoders for sentences (Hill et al. 2016, arXiv 1602.03483,
section 3.1; Lample et al. 2018, arXiv 1711.00043, section 2.3): words are dropped and moved.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from random import Random

import numpy as np

from beambert.pipelines.instances.pairs import (
    SPECIAL_TOKENS_A_PAIR,
    PairCounts,
    Partners,
    draw_partner,
    draw_target,
)
from beambert.pipelines.records.contract import IS_NEXT, RANDOM_NEXT
from beambert.ragged import ranges, starts_of

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
