"""Sentence lengths -> records of full sentences without pairs, as offsets. Pure numpy.

These are the FULL-SENTENCES of RoBERTa (Liu et al. 2019, arXiv 1907.11692, section 4.1): a record
has sentences in their order, as many as fit. Where a document ends, those of the next document
follow behind one more [SEP]. The paper says nothing of two things. Every pass has the documents in
another order, so that each gets other neighbours. And a sentence that is longer than a record is
divided over several ones, so that nothing is lost.

Legend: N rows, L max_seq_length, S spans of all rows.
"""

import dataclasses
from bisect import bisect_right
from collections.abc import Sequence
from random import Random

import numpy as np

from beambert.pipelines.pretraining.masks import TokenIds
from beambert.ragged import ranges, starts_of

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
