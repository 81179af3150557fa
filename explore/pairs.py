"""Sentence pairs of a few documents, as the data job makes them, with where they come from. Pure.

The pairs are those of `instances.pairs.build_pairs`; only their origin is looked up here.
"""

import dataclasses
from collections.abc import Sequence
from random import Random

import numpy as np

from beambert.pipelines.instances.masking import TokenIds, assemble_rows, with_frame
from beambert.pipelines.instances.pairs import Balance, PairCounts, build_pairs
from beambert.pipelines.records.contract import IS_NEXT


@dataclasses.dataclass(frozen=True)
class Segment:
    """One of the two segments of a pair.

    Attributes:
      document: number of its document, from 0.
      first, last: numbers of its first and last sentence in that document, from 0.
      ids: its tokens.
      cut_front, cut_back: number of tokens that are missing of the first and the last sentence.
    """

    document: int
    first: int
    last: int
    ids: tuple[int, ...]
    cut_front: int
    cut_back: int


@dataclasses.dataclass(frozen=True)
class Pair:
    """A pair of segments.

    Attributes:
      a, b: the segments.
      is_next: whether B follows A in its document.
      inputs: feature -> [1, max_seq_length], the row of the record before masking.
    """

    a: Segment
    b: Segment
    is_next: bool
    inputs: dict[str, np.ndarray]


def make_pairs(
    documents: Sequence[Sequence[Sequence[int]]],
    ids: TokenIds,
    max_seq_length: int,
    short_seq_prob: float,
    seed: int,
) -> tuple[list[Pair], PairCounts]:
    """Pairs the sentences of documents in one pass.

    Args:
      documents: the ids of each sentence of each document; sentences without ids are left out.
      ids: ids of the vocabulary.
      max_seq_length: tokens of a pair, [CLS] and both [SEP] included.
      short_seq_prob: share of the documents whose pairs aim at a random shorter length.
      seed: seed of every draw.
    """
    documents = [
        [sentence for sentence in one_document if len(sentence)] for one_document in documents
    ]
    documents = [one_document for one_document in documents if one_document]
    lengths = [len(sentence) for one_document in documents for sentence in one_document]
    sentences = [len(one_document) for one_document in documents]
    if not lengths:
        return [], PairCounts()
    drawn, counts = build_pairs(
        lengths,
        sentences,
        max_seq_length=max_seq_length,
        short_seq_prob=short_seq_prob,
        balance=Balance(),
        random=Random(f"pairs {seed} 0 0"),
    )
    tokens = np.array(
        [index for one_document in documents for s in one_document for index in s], np.int32
    )
    starts = np.concatenate(([0], np.cumsum(lengths)))
    firsts = np.concatenate(([0], np.cumsum(sentences)))
    rows = assemble_rows(with_frame(tokens, max_seq_length), drawn, max_seq_length, ids)

    def segment(start: int, end: int) -> Segment:
        first = int(np.searchsorted(starts, start, "right")) - 1
        last = int(np.searchsorted(starts, end, "left")) - 1
        # A segment that lost all its tokens stands where it was cut.
        last = max(first, last)
        document = int(np.searchsorted(firsts, first, "right")) - 1
        return Segment(
            document,
            first - int(firsts[document]),
            last - int(firsts[document]),
            tuple(tokens[start:end].tolist()),
            start - int(starts[first]),
            max(0, int(starts[last + 1]) - end),
        )

    pairs = [
        Pair(
            segment(*pair[:2]),
            segment(*pair[2:4]),
            pair[4] == IS_NEXT,
            {name: rows[name][number : number + 1] for name in rows},
        )
        for number, pair in enumerate(drawn.tolist())
    ]
    return pairs, counts
