"""Sentence lengths -> sentence pairs, as offsets. The loops over sentences are in `kernels`.

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
from bisect import bisect_right
from collections.abc import Callable, Sequence
from random import Random

import numpy as np

from beambert.pipelines.pretraining.documents import ranges, starts_of
from beambert.pipelines.pretraining.masks import TokenIds
from beambert.pipelines.records.contract import RANDOM_NEXT

# [CLS] A [SEP] B [SEP]
SPECIAL_TOKENS_A_PAIR = 3


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
    seed: int | str,
    partners: np.ndarray | None = None,
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
      seed: seed of every draw.
      partners: int [documents, 4], the documents that each document may take a random B from, see
        `instances.find_partners`; None for all others.
      swaps: whether a pair that is not "is next" has A and B swapped, instead of a random B.
      walked: number of documents, from the first on, that have an A. A random B may come from the
        others, too. None for all.

    Returns:
      int32 [n, 5] and the counts. The columns are start and end of A, start and end of B (offsets
      into the tokens, all sentences end to end), and the label.
    """
    from beambert.pipelines.pretraining import kernels

    before = dataclasses.astuple(balance or Balance())
    of_balance, of_counts = np.array(before, np.int64), np.zeros(3, np.int64)
    pairs = kernels.pair(
        *_as_arrays(sentence_lengths, document_sentences, partners, walked),
        max_seq_length - SPECIAL_TOKENS_A_PAIR,
        short_seq_prob,
        balance is None,
        swaps,
        of_balance,
        of_counts,
        random_state(seed),
    )
    if balance is not None:
        balance.forced, balance.free, balance.ahead = of_balance.tolist()
    counts = PairCounts(*_count_labels(pairs))
    counts.without_partner, counts.forced_random_next, counts.truncated_tokens = of_counts.tolist()
    return pairs, counts


def _as_arrays(
    sentence_lengths: Sequence[int],
    document_sentences: Sequence[int],
    partners: np.ndarray | None,
    walked: int | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Returns the first arguments of `kernels.pair`: starts, firsts, partners and walked."""
    documents = len(document_sentences)
    if partners is None:
        number = np.arange(documents)
        partners = np.stack([0 * number, 0 * number + documents, number, number + 1], axis=1)
    starts, firsts = (
        np.concatenate(([0], np.cumsum(np.asarray(each, np.int64))))
        for each in (sentence_lengths, document_sentences)
    )
    return starts, firsts, np.asarray(partners, np.int64), documents if walked is None else walked


def random_state(seed: int | str) -> np.ndarray:
    """Returns the state of `Random(seed)` for the draws of `kernels`, int64 [625]."""
    return np.array(Random(seed).getstate()[1], np.int64)


def _count_labels(pairs: np.ndarray) -> tuple[int, int]:
    """Returns the numbers of pairs with either label, "is next" and "random next"."""
    random_next = int((pairs[:, 4] == RANDOM_NEXT).sum())
    return len(pairs) - random_next, random_next


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
    seed: int | str,
    partners: np.ndarray | None = None,
    walked: int | None = None,
) -> tuple[np.ndarray, PairCounts]:
    """Goes over the documents once: every token is in one A, which has whole sentences if it can.

    A fair coin decides whether B is A, or the text of a random other document, which is as long
    unless its document ends before. Where there is no other document, B is A.

    Args:
      sentence_lengths, document_sentences, max_seq_length, seed, partners, walked: see
        `pairs.build_pairs`.
      short_seq_prob: share of the documents whose pairs aim at a random length, as in
        `pairs.build_pairs`, of which an A takes at most half of the longest.

    Returns:
      int32 [n, 5] and the counts, see `pairs.build_pairs`. B's tokens are those before
      `add_noise`; the label is `IS_NEXT` where it is a copy.
    """
    from beambert.pipelines.pretraining import kernels

    pairs = kernels.pair_copies(
        *_as_arrays(sentence_lengths, document_sentences, partners, walked),
        max_seq_length - SPECIAL_TOKENS_A_PAIR,
        short_seq_prob,
        random_state(seed),
    )
    return pairs, PairCounts(*_count_labels(pairs))


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


# Records of full sentences without pairs, as offsets.
#
# These are the FULL-SENTENCES of RoBERTa (Liu et al. 2019, arXiv 1907.11692, section 4.1): a record
# has sentences in their order, as many as fit. Where a document ends, those of the next document
# follow behind one more [SEP]. The paper says nothing of two things. Every pass has the documents
# in another order, so that each gets other neighbours. And a sentence that is longer than a record
# is divided over several ones, so that nothing is lost.
#
# Legend: N rows, L max_seq_length, S spans of all rows.

# [CLS] before the sentences, and [SEP] behind them.
SPECIAL_TOKENS_A_RECORD = 2


@dataclasses.dataclass(frozen=True)
class PackedRows:
    """Records as spans of tokens, a span for each document that a record has tokens of.

    Attributes:
      spans: int32 [N], each record's number of spans; none is 0.
      starts, ends: int32 [S], offsets into the tokens, record after record.
    """

    spans: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def __len__(self) -> int:
        """Returns the number of records."""
        return len(self.spans)

    @classmethod
    def concatenate(cls, parts: Sequence["PackedRows"]) -> "PackedRows":
        """Returns the records of all parts, in the order given."""
        columns = zip(*((part.spans, part.starts, part.ends) for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))

    def take(self, order: np.ndarray) -> "PackedRows":
        """Returns the chosen records in the order given (indices [records taken])."""
        index = ranges(starts_of(self.spans)[order], self.spans[order])
        return PackedRows(self.spans[order], self.starts[index], self.ends[index])


def pack_documents(
    sentence_lengths: np.ndarray,
    document_sentences: np.ndarray,
    *,
    max_seq_length: int,
    random: Random,
) -> PackedRows:
    """Goes over the documents once, in random order, and packs their sentences into records.

    Args:
      sentence_lengths: int [sentences], tokens of each sentence, all documents end to end; none
        is 0.
      document_sentences: int [documents], sentences of each document; none is 0.
      max_seq_length: tokens of a record, special tokens included.
      random: source of the order of the documents.
    """
    limit = max_seq_length - SPECIAL_TOKENS_A_RECORD
    order = list(range(len(document_sentences)))
    random.shuffle(order)
    order_D = np.array(order, np.int64)
    sentences_D = np.asarray(document_sentences)[order_D]
    lengths = np.asarray(sentence_lengths)[
        ranges(starts_of(document_sentences)[order_D], sentences_D)
    ]
    # The documents stand end to end in a line, with one place for a [SEP] between two of them.
    document = np.repeat(np.arange(len(order)), sentences_D)
    starts = starts_of(lengths) + document
    firsts, ends = _cut(starts.tolist(), (starts + lengths).tolist(), limit)

    token_starts = starts_of(sentence_lengths)[starts_of(document_sentences)][order_D]
    line_starts = starts[starts_of(sentences_D)]
    line_end = lengths.sum(dtype=np.int64) + len(order)
    line_ends = np.append(line_starts, line_end)[1:] - 1
    first_N = np.searchsorted(line_starts, firsts, "right") - 1
    spans_N = np.searchsorted(line_starts, ends, "left") - first_N
    document_S = ranges(first_N, spans_N)
    shift_S = (token_starts - line_starts)[document_S]
    starts_S = np.maximum(np.repeat(firsts, spans_N), line_starts[document_S])
    ends_S = np.minimum(np.repeat(ends, spans_N), line_ends[document_S])
    columns = (spans_N, starts_S + shift_S, ends_S + shift_S)
    return PackedRows(*(column.astype(np.int32) for column in columns))


def _cut(starts: list[int], ends: list[int], limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Cuts the line of sentences into records; returns where each begins and ends, int64 [N].

    Args:
      starts, ends: places of the sentences in the line.
      limit: greatest number of places of a record.
    """
    rows: list[int] = []
    sentence, place = 0, starts[0] if starts else 0
    while sentence < len(ends):
        following = bisect_right(ends, place + limit, sentence)
        if following > sentence:
            rows += (place, ends[following - 1])
            sentence = following
            place = starts[following] if following < len(starts) else 0
        else:  # The sentence is longer than a record.
            rows += (place, place + limit)
            place += limit
    return tuple(np.array(rows, np.int64).reshape(-1, 2).T)


def assemble_packed(
    tokens: np.ndarray, packed: PackedRows, max_seq_length: int, ids: TokenIds
) -> dict[str, np.ndarray]:
    """Lays records out as [CLS] span [SEP] span … [SEP] and padding.

    Args:
      tokens: ids that the spans' offsets point into.
      packed: the records; each fits into L tokens.
      max_seq_length: L.
      ids: ids of the special tokens.

    Returns:
      `input_ids` int32, `input_mask` and `segment_ids` uint8, each [N, L]; all segments are 0.
    """
    rows = len(packed)
    lengths_S = packed.ends - packed.starts
    # A span has a place more, which is that of the [SEP] behind it.
    taken_S = starts_of(lengths_S + 1)
    row_S = np.repeat(np.arange(rows), packed.spans)
    before_N = taken_S[starts_of(packed.spans)]
    place_S = row_S * max_seq_length + 1 + taken_S - before_N[row_S]
    input_ids_NL = np.full((rows, max_seq_length), ids.padding, np.int32)
    input_ids_NL[:, 0] = ids.classify
    flat = input_ids_NL.reshape(-1)
    flat[ranges(place_S, lengths_S)] = tokens[ranges(packed.starts, lengths_S)]
    flat[place_S + lengths_S] = ids.separate
    filled_N = 1 + np.bincount(row_S, lengths_S + 1, rows).astype(np.int64)
    mask_NL = np.arange(max_seq_length) < filled_N[:, None]
    return {
        "input_ids": input_ids_NL,
        "input_mask": mask_NL.view(np.uint8),
        "segment_ids": np.zeros((rows, max_seq_length), np.uint8),
    }
