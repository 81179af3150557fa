"""Shares of the sources -> the number of passes over each. Pure.

A share is one of the tokens of the records, special tokens and padding not counted. So the size of
a source is the number of tokens that one pass over it gives the records: long documents give more
than short ones. The records have as many tokens as without shares.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np

from beambert.errors import InputError
from beambert.pipelines.pretraining.documents import CompactDocuments, ranges, starts_of
from beambert.pipelines.pretraining.instances import (
    CORPUS,
    REFERENCE,
    InstanceCounts,
    InstanceParameters,
    find_partners,
    from_another_source,
    pair_once,
)
from beambert.pipelines.pretraining.pairs import Balance, PackedRows, PairCounts, pack_documents
from beambert.pipelines.records.contract import IS_NEXT, NONE
from beambert.pipelines.records.statistics import describe_source

# Weights add up to 1 within so much, for those that are written with few digits.
_TOLERANCE = 1e-6


class Amount(NamedTuple):
    """How much of a source there is in the records.

    Attributes:
      passes: greatest number of passes over it; None for any.
      record_tokens_a_token: number of tokens of the records for each token of its documents.
    """

    passes: int | None
    record_tokens_a_token: float = math.inf


@dataclasses.dataclass(frozen=True)
class SourceSizes:
    """Sizes of the sources; they add up over shards.

    Attributes:
      text: int64 [sources], number of tokens of the documents.
      records: int64 [lengths, sources], number of tokens that one pass gives the records.
    """

    text: np.ndarray
    records: np.ndarray

    def __add__(self, other: "SourceSizes") -> "SourceSizes":
        """Returns the sizes of both."""
        return SourceSizes(self.text + other.text, self.records + other.records)


@dataclasses.dataclass(frozen=True)
class Mixture:
    """How the sources of a corpus are mixed.

    Attributes:
      names: names of the sources.
      weights: name -> share of the tokens; empty for shares that follow from the sizes.
      temperature: exponent of the sizes that the shares are proportional to, from 0 to 1. None, as
        1, leaves the sources as they are. It is S = 0.7 of multilingual BERT
        (google-research/bert, multilingual.md), alpha = 0.5 of XLM (arXiv 1901.07291, section 3.1)
        and alpha = 0.3 of XLM-R (arXiv 1911.02116, section 3.1).
      max_epochs: greatest number of passes over a source; None for any.
    """

    names: Sequence[str]
    weights: Mapping[str, float] = dataclasses.field(default_factory=dict)
    temperature: float | None = None
    max_epochs: float | None = None

    @property
    def needs_sizes(self) -> bool:
        """Whether the number of passes depends on the sizes of the sources."""
        return bool(self.weights) or self.temperature is not None

    def shares(self, sizes: Sequence[int]) -> list[float]:
        """Returns the share that is asked for of each source.

        Args:
          sizes: tokens that one pass over each source gives the records.

        Raises:
          InputError: a source has no token.
        """
        self.check_sizes(sizes)
        if self.weights:
            return [self.weights[name] for name in self.names]
        exponent = 1.0 if self.temperature is None else self.temperature
        powers = [size**exponent for size in sizes]
        return [power / math.fsum(powers) for power in powers]

    def check_sizes(self, sizes: Sequence[int]) -> None:
        """Refuses a source without a token.

        Raises:
          InputError: there is one.
        """
        for name, size in zip(self.names, sizes, strict=True):
            if not size:
                raise InputError(
                    f"--source={name}: no document of it gave an instance; check its files and the "
                    "flags that leave documents out, or leave it out"
                )

    def passes(self, sizes: Sequence[int], dupe_factor: int) -> list[float]:
        """Returns the number of passes over each source.

        What a source with too many passes cannot give, the others do, by their shares.

        Args:
          sizes: tokens that one pass over each source gives the records.
          dupe_factor: number of passes over a corpus whose sources are not weighted.

        Raises:
          InputError: a source has no token.
        """
        if not self.needs_sizes:
            return [float(dupe_factor)] * len(self.names)
        shares, most = self.shares(sizes), self.max_epochs or math.inf
        passes = [0.0] * len(sizes)
        left, free = dupe_factor * sum(sizes), set(range(len(sizes)))
        while free:
            of_free = math.fsum(shares[i] for i in free)
            for i in free:
                passes[i] = left * shares[i] / of_free / sizes[i]
            too_many = {i for i in free if passes[i] > most}
            if not too_many:
                break
            for i in too_many:
                passes[i] = float(most)
            left -= most * sum(sizes[i] for i in too_many)
            free -= too_many
        return passes

    def amounts(self, sizes: SourceSizes | None, length: int, dupe_factor: int) -> list[Amount]:
        """Returns how much of each source there is in the records of a length.

        Args:
          sizes: sizes of the sources; None where they are not needed.
          length: index of the length.
          dupe_factor: see `passes`.

        Raises:
          InputError: a source has no token.
        """
        if sizes is None:
            return [Amount(dupe_factor)] * len(self.names)
        of_length = sizes.records[length].tolist()
        most = math.ceil(self.max_epochs) if self.max_epochs else None
        return [
            Amount(most, number * size / text)
            for number, size, text in zip(
                self.passes(of_length, dupe_factor), of_length, sizes.text.tolist(), strict=True
            )
        ]


def parse_weights(text: str, names: Sequence[str]) -> dict[str, float]:
    """Returns name -> weight of a value such as "wiki=0.7,books=0.3"; none of an empty one.

    Raises:
      InputError: it does not give each name one positive number, or they do not add up to 1.
    """
    pairs = [item.partition("=")[::2] for item in text.split(",")] if text else []
    try:
        weights = {name: float(number) for name, number in pairs}
    except ValueError:
        weights = {}
    if pairs and not (
        sorted(name for name, _ in pairs) == sorted(names) == sorted(weights)
        and all(0 < weight < math.inf for weight in weights.values())
    ):
        raise InputError(
            f"--weights={text}: must give each --source ({', '.join(names) or 'there is none'}) "
            "one number above 0, as in wiki=0.7,books=0.3; leave out the --source of other text"
        )
    total = math.fsum(weights.values())
    if weights and abs(total - 1) > _TOLERANCE:
        raise InputError(f"--weights={text}: they add up to {total:g}, but must add up to 1")
    return weights


# Pairing or packing the documents of a shard source by source, each for its own amount.
#
# A record is of one source: that of its A. So every source has as many "is next" as "random next"
# pairs, and the label tells nothing of the source, unless it has more chunks of one sentence than
# others: then other sources make up for these. An amount is a number of tokens in the records.
# Passes over the source follow each other until it is reached, and of the last one as many records
# are drawn as are needed.

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
            lengths,
            sentences,
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
        `instances.order_documents`.
      parameters: parameters of the job; its `dupe_factor` is in `amounts`
        already.
      stream: number of the shard, see `instances.pair_documents`.
      counts: counts that are filled in here.
      amounts: how much is made of each source.

    Returns:
      pairs or packed rows as of `instances.pair_documents`, and the counts of each source.
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


# The shares of the sources of --source: as info.json has them, and as the console says them.

# A share that differs by more from the one that was asked for is named in a warning. It is one of
# very little text, or --max_epochs_per_source stands against it.
_MOST_BESIDE = 0.005


def source_shares(
    mixture: Mixture,
    records: Sequence[SourceRecords],
    sizes: Sequence[int],
    dupe_factor: int,
    has_label: bool,
) -> dict[str, dict[str, Any]]:
    """Returns name -> counts of the records of each source, and its shares, for info.json.

    Args:
      mixture: how the sources are mixed.
      records: counts of each source's records.
      sizes: see `Mixture.passes`; empty where they are not needed.
      dupe_factor: number of passes where no shares are asked for.
      has_label: whether the records have a label.

    Raises:
      InputError: a source has no record.
    """
    has_tokens = [record.record_tokens for record in records]
    mixture.check_sizes(has_tokens)
    passes = mixture.passes(sizes, dupe_factor)
    asked = mixture.shares(sizes) if mixture.needs_sizes else [None] * len(records)
    found = {}
    for name, record, number, share in zip(mixture.names, records, passes, asked, strict=True):
        found[name] = {
            "instances": record.instances,
            "record_tokens": record.record_tokens,
            **({"is_next": record.is_next} if has_label else {}),
            "share": round(record.record_tokens / sum(has_tokens), 6),
            **({} if share is None else {"asked_share": round(share, 6)}),
            "passes": round(number, 6),
        }
    return found


def describe_sources(counts: Mapping[str, Any]) -> list[str]:
    """Returns a line for each source of --source; none without that flag.

    Args:
      counts: counts of info.json.
    """
    sources = counts.get("sources", {}).items()
    return [f"  {name}: {describe_source(each)}" for name, each in sources if "passes" in each]


def source_warnings(counts: Mapping[str, Any], max_epochs: float | None) -> list[str]:
    """Returns a warning for each source that has less than the share asked for, or more.

    Args:
      counts: counts of info.json.
      max_epochs: value of --max_epochs_per_source, or None. What a source with so many passes
        lacks the others have, so that only it is named.
    """
    found = []
    for name, each in counts.get("sources", {}).items():
        if "asked_share" not in each or abs(each["share"] - each["asked_share"]) <= _MOST_BESIDE:
            continue
        told = (
            f"{name} has {each['share']:.2%} of the tokens, not the {each['asked_share']:.2%} asked"
        )
        if max_epochs is None:
            found.append(f"{told}: the corpus is so small that single documents decide it")
        elif each["passes"] >= max_epochs:
            found.append(
                f"{told}: --max_epochs_per_source={max_epochs:g} is reached; raise it, or give "
                "more text of this source"
            )
    return found
