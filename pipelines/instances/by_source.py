"""Pairs, or packs, the documents of a shard source by source, each for an amount of its own.

A record is of one source: that of its A. So every source has as many "is next" as "random next"
pairs, and the label tells nothing of the source, unless it has more chunks of one sentence than
others: then other sources make up for these. An amount is one of tokens in the records. Passes
over the source follow each other until it is reached, and of the last one as many records are drawn
as are needed.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from random import Random

import numpy as np

from beambert.pipelines.instances.building import (
    InstanceCounts,
    find_partners,
    from_another_source,
    pair_once,
)
from beambert.pipelines.instances.compact_documents import CompactDocuments
from beambert.pipelines.instances.mixture import Amount
from beambert.pipelines.instances.packing import PackedRows, pack_documents
from beambert.pipelines.instances.pairs import Balance, PairCounts
from beambert.pipelines.instances.parameters import CORPUS, REFERENCE, InstanceParameters
from beambert.pipelines.records.contract import IS_NEXT, NONE
from beambert.ragged import ranges, starts_of

# Rows of a pass: int32 [pairs, 5], see `pairs.build_pairs`, or packed rows.
Rows = np.ndarray | PackedRows


@dataclasses.dataclass(frozen=True)
class SourceRecords:
    """Counts of the records of a source; they add up over shards.

    Attributes:
      instances: number of records.
      record_tokens: number of their tokens, special ones and padding not counted; of copies before
        the noise.
      is_next: number of pairs whose B follows A; 0 without pairs.
    """

    instances: int = 0
    record_tokens: int = 0
    is_next: int = 0

    def __add__(self, other: "SourceRecords") -> "SourceRecords":
        """Returns the counts of both."""
        mine, theirs = dataclasses.astuple(self), dataclasses.astuple(other)
        return SourceRecords(*map(sum, zip(mine, theirs, strict=True)))


@dataclasses.dataclass(frozen=True)
class _Walk:
    """What a pass goes over: the documents of a source, then others that a random B may come from.

    These are documents of all other sources, if a B may come from any, or if there is only one
    document of the source.

    Attributes:
      documents: the documents, without their tokens.
      starts: int64 [sentences], where each sentence starts in the tokens of the shard.
      walked: number of documents of the source.
      tokens: number of their tokens.
    """

    documents: CompactDocuments
    starts: np.ndarray
    walked: int
    tokens: int

    def go_over(
        self, parameters: InstanceParameters, balance: Balance | None, seed: str
    ) -> tuple[Rows, PairCounts]:
        """Pairs, or packs, the sentences once; see `pair_once` and `pack_documents`."""
        lengths, sentences = self.documents.sentence_lengths, self.documents.document_sentences
        if parameters.pairs == NONE:
            rows = pack_documents(
                lengths,
                sentences,
                max_seq_length=parameters.max_seq_length,
                random=Random(f"pack {seed}"),
            )
            starts, ends = (self._moved(each, rows.starts) for each in (rows.starts, rows.ends))
            return PackedRows(rows.spans, starts, ends), PairCounts()
        pairs, counts = pair_once(
            lengths.tolist(),
            sentences.tolist(),
            parameters,
            balance,
            seed,
            find_partners(self.documents, by_source=False),
            self.walked,
        )
        if len(pairs):
            pairs[:, :4] = self._moved(pairs[:, :4], pairs[:, [0, 0, 2, 2]])
        return pairs, counts

    def _moved(self, offsets: np.ndarray, firsts: np.ndarray) -> np.ndarray:
        """Returns offsets into the tokens of the shard in place of those into these documents.

        Args:
          offsets: offsets, of any shape.
          firsts: for each offset one of a token in the same document, which isn't behind it.
        """
        here = starts_of(self.documents.sentence_lengths)
        sentence = np.searchsorted(here, firsts, "right") - 1
        return (offsets + (self.starts - here)[sentence]).astype(np.int32)


@dataclasses.dataclass
class _Making:
    """What is made of a source, pass after pass.

    Attributes:
      source: number of the source.
      walk: what a pass goes over; None without a document.
      passes: greatest number of passes; None for any.
      wanted: number of tokens of the records that are still wanted.
      balance: counts of the labels; None for the original's distribution.
      rows, counts: the rows of each pass, and their counts.
    """

    source: int
    walk: _Walk | None
    passes: int | None
    wanted: float
    balance: Balance | None
    rows: list[Rows] = dataclasses.field(default_factory=list)
    counts: list[PairCounts] = dataclasses.field(default_factory=list)

    @classmethod
    def of(
        cls,
        documents: CompactDocuments,
        source: int,
        amount: Amount,
        parameters: InstanceParameters,
    ) -> "_Making":
        """Returns the beginning, of a shard's documents."""
        walk = _walk(documents, source, parameters)
        wanted = amount.record_tokens_a_token * walk.tokens if walk else 0.0
        balance = None if parameters.pairs == REFERENCE else Balance()
        return cls(source, walk, amount.passes, wanted, balance)

    def lacks(self, number: int) -> bool:
        """Returns whether the pass of this number is needed."""
        return self.wanted > 0 and (self.passes is None or number < self.passes)

    def go_on(self, number: int, parameters: InstanceParameters, stream: int, debt: int) -> int:
        """Makes the rows of a pass.

        Args:
          number: number of the pass.
          parameters, stream: see `pair_sources`.
          debt: number of "random next" pairs of other sources that these cannot make up for.

        Returns:
          the same after this pass.
        """
        if self.balance and not self._is_forced():
            self.balance.ahead, debt = self.balance.ahead + debt, 0
        seed = f"{parameters.random_seed} {stream} {number} {self.source}"
        rows, counts = self.walk.go_over(parameters, self.balance, seed)
        tokens = _tokens_of(rows)
        in_all = int(tokens.sum())
        if in_all > self.wanted:
            # They are drawn, as the first rows of a pass are of documents that aim at less.
            seeds = [parameters.random_seed, stream, self.source]
            order = np.random.Generator(np.random.PCG64(seeds)).permutation(len(rows))
            middles = np.cumsum(tokens[order]) - tokens[order] / 2
            kept = np.sort(order[: int(np.searchsorted(middles, self.wanted))])
            rows = rows.take(kept) if isinstance(rows, PackedRows) else rows[kept]
            counts = _counts_of_part(rows, counts, int(tokens[kept].sum()) / in_all)
        self.rows.append(rows)
        self.counts.append(counts)
        # Without a token, further passes would make none either.
        self.wanted = self.wanted - in_all if in_all else 0.0
        if self.balance and self._is_forced():
            self.balance.ahead, debt = 0, debt + self.balance.ahead
        return debt

    def _is_forced(self) -> bool:
        """Returns whether so many chunks have one sentence that no coin makes up for them."""
        return self.balance.forced >= self.balance.free


def pair_sources(
    documents: CompactDocuments,
    parameters: InstanceParameters,
    stream: int,
    counts: InstanceCounts,
    amounts: Sequence[Amount],
) -> tuple[Rows, list[SourceRecords]]:
    """Pairs, or packs, the sentences of a shard, source by source.

    Args:
      documents: documents of the shard, those of a source together, see
        `building.order_documents`.
      parameters: parameters of the job; its `dupe_factor` is in `amounts`
        already.
      stream: number of the shard, see `building.pair_documents`.
      counts: counts that are filled in here.
      amounts: how much is made of each source.

    Returns:
      pairs or packed rows as of `building.pair_documents`, and the counts of each source.
    """
    making = [
        _Making.of(documents, source, amount, parameters) for source, amount in enumerate(amounts)
    ]
    debt = 0
    for number in itertools.count():
        for each in making:
            if each.lacks(number):
                debt = each.go_on(number, parameters, stream, debt)
        if not any(each.lacks(number + 1) for each in making):
            break
    rows = [pairs for each in making for pairs in each.rows]
    for each in making:
        for made in each.counts:
            for name, value in dataclasses.asdict(made).items():
                setattr(counts, name, getattr(counts, name) + value)
    if parameters.pairs != NONE:
        counts.random_next_other_source = sum(from_another_source(documents, row) for row in rows)
    found = [sum(map(_counts, each.rows), SourceRecords()) for each in making]
    if parameters.pairs == NONE:
        none = np.zeros(0, np.int32)
        return PackedRows.concatenate([PackedRows(none, none, none), *rows]), found
    return np.concatenate([np.zeros((0, 5), np.int32), *rows]), found


def _tokens_of(rows: Rows) -> np.ndarray:
    """Returns the number of tokens of each row, special ones not counted, int64 [rows]."""
    if isinstance(rows, PackedRows):
        ends = np.cumsum(rows.spans, dtype=np.int64)
        tokens = np.concatenate(([0], np.cumsum(rows.ends - rows.starts, dtype=np.int64)))
        return tokens[ends] - tokens[ends - rows.spans]
    a_start, a_end, b_start, b_end, _ = rows.T.astype(np.int64)
    return a_end - a_start + b_end - b_start


def _counts(rows: Rows) -> SourceRecords:
    tokens = int(_tokens_of(rows).sum())
    is_next = 0 if isinstance(rows, PackedRows) else int((rows[:, 4] == IS_NEXT).sum())
    return SourceRecords(len(rows), tokens, is_next)


def _counts_of_part(rows: Rows, made: PairCounts, share: float) -> PairCounts:
    """Returns the counts of some of the rows of a pass, which have a share of its tokens.

    What isn't known of single rows is counted by that share.
    """
    if isinstance(rows, PackedRows):
        return made
    is_next = int((rows[:, 4] == IS_NEXT).sum())
    return PairCounts(
        is_next=is_next,
        random_next=len(rows) - is_next,
        forced_random_next=round(made.forced_random_next * share),
        without_partner=round(made.without_partner * share),
        truncated_tokens=round(made.truncated_tokens * share),
    )


def _walk(documents: CompactDocuments, source: int, parameters: InstanceParameters) -> _Walk | None:
    """Returns what a pass over a source goes over; None without a document."""
    first, end = np.searchsorted(documents.sources, [source, source + 1]).tolist()
    if first == end:
        return None
    own = np.arange(first, end)
    order = own
    takes_any = parameters.random_next == CORPUS or _is_one(documents, own)
    if parameters.pairs != NONE and takes_any:
        order = np.concatenate([own, np.delete(np.arange(len(documents.hashes)), own)])
    counts = documents.document_sentences[order]
    index = ranges(starts_of(documents.document_sentences)[order], counts)
    chosen = CompactDocuments(
        documents.hashes[order],
        documents.sources[order],
        documents.pieces[order],
        counts,
        documents.sentence_lengths[index],
        documents.tokens[:0],
    )
    tokens = int(documents.document_tokens()[own].sum())
    return _Walk(chosen, starts_of(documents.sentence_lengths)[index], len(own), tokens)


def _is_one(documents: CompactDocuments, order: np.ndarray) -> bool:
    """Returns whether there is one document, perhaps in several pieces."""
    hashes = documents.hashes[order]
    return len(order) == 1 or bool(documents.pieces[order].any() and (hashes == hashes[0]).all())
