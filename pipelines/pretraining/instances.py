"""Compact documents -> the instances of one shard. Pure numpy, without Beam or files.

A document's hash decides its shard, so a shard is a uniform sample of the corpus. Its instances
depend on its documents and the seed alone, not on the order in which the documents arrive.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import numpy as np

from beambert.errors import InputError
from beambert.pipelines.pretraining.documents import HASH_BYTES, CompactDocuments
from beambert.pipelines.pretraining.masks import TokenIds, assemble_rows, mask_rows
from beambert.pipelines.pretraining.pairs import (
    Balance,
    PackedRows,
    PairCounts,
    add_noise,
    assemble_packed,
    build_copies,
    build_pairs,
    pack_documents,
)
from beambert.pipelines.records.contract import (
    COPY,
    LABEL_FEATURE,
    MASK_PARAMETERS,
    MASKED_LM_PROB,
    NONE,
    PREDICTION_FEATURES,
    SOP,
    STATIC,
)

# Values of --pairs, besides `NONE`, `SOP` and `COPY`.
NEXT, REFERENCE = "next", "reference"
PAIRS = (NEXT, REFERENCE, NONE, SOP, COPY)
# Values of --masks, besides `STATIC` and `NONE`.
WHOLE_WORD, SPAN = "whole_word", "span"
MASKS = (STATIC, WHOLE_WORD, SPAN, NONE)
# Values of --random_next.
CORPUS, SOURCE = "corpus", "source"


@dataclasses.dataclass(frozen=True)
class InstanceParameters:
    """Parameters of the instances. Names and defaults are those of the original script's flags.

    Attributes:
      max_seq_length: tokens of a record, special tokens and padding included.
      max_predictions_per_seq: prediction slots of a record; 0 without masks.
      masked_lm_prob: share of the tokens to predict.
      short_seq_prob: share of the documents whose pairs aim at a shorter length; 0 without pairs.
      dupe_factor: number of passes over the documents, each with other pairs and masks.
      random_seed: seed of every draw.
      masks: "static"; "whole_word" to hide all pieces of a word or none; "span" to hide spans of
        whole words; "none" for records without masks, on which the parameters of masks have no
        effect.
      random_next: "corpus", or "source" to draw a random B from a document of A's own --input.
      pairs: "next"; "reference" for the original's distribution of pairs and masks; "none" for
        full sentences without pairs, see `pairs`; "sop" for pairs in order and swapped ones;
        "copy" for pairs of a segment and a noisy copy of it, see `pairs`.
    """

    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    masked_lm_prob: float = MASKED_LM_PROB
    short_seq_prob: float = 0.1
    dupe_factor: int = 10
    random_seed: int = 12345
    pairs: str = NEXT
    random_next: str = CORPUS
    masks: str = STATIC

    def recorded(self) -> dict[str, Any]:
        """Returns name -> value for info.json, for what the records depend on."""
        values = dataclasses.asdict(self)
        if self.masks == NONE:
            return {name: value for name, value in values.items() if name not in MASK_PARAMETERS}
        # The form of the masks is recorded under the names of the original's flag and of its like.
        del values["masks"]
        return values | {
            "do_whole_word_mask": self.masks == WHOLE_WORD,
            "do_span_mask": self.masks == SPAN,
        }


# Number of rows made and encoded at a time: enough for numpy to be fast, few enough for the cache.
# Of rows of more than 512 tokens they are fewer, so that memory doesn't grow with the length.
ROWS_AT_A_TIME = 8192
_POSITIONS_AT_A_TIME = 512 * ROWS_AT_A_TIME
# The pairs' offsets into the tokens have 32 bits.
MOST_TOKENS = 2**31 - 8
# Memory that a worker takes for each token of a shard, besides what the shuffle gave it. Measured:
# 60 million tokens of copies of a document took 1,330 MB.
BYTES_PER_TOKEN = 22
# Bit of a token that begins a word, on the way into its row. No vocabulary has so many tokens.
_BEGINS_WORD = np.int32(1 << 30)


@dataclasses.dataclass
class DocumentCounts:
    """Counts of the text that a shard is made of; they add up over shards.

    Attributes:
      documents, sentences, tokens, unknown_tokens: number of those used; passes over the same text
        count once, and a divided document counts where its first piece is.
      duplicates: number of documents left out because an equal one is used.
      near_duplicates: number of documents left out because a similar one is used.
    """

    documents: int = 0
    sentences: int = 0
    tokens: int = 0
    unknown_tokens: int = 0
    duplicates: int = 0
    near_duplicates: int = 0


@dataclasses.dataclass
class InstanceCounts(PairCounts):
    """Counts of the instances of a shard; they add up over shards.

    Attributes:
      instances: number of instances, each of which becomes a record.
      filled_tokens: number of their positions that are not padding.
      predictions: number of tokens to predict; 0 without masks.
    """

    instances: int = 0
    filled_tokens: int = 0
    predictions: int = 0


def rows_at_a_time(max_seq_length: int) -> int:
    """Returns the number of rows of a length that are made and encoded at a time."""
    return max(1, min(ROWS_AT_A_TIME, _POSITIONS_AT_A_TIME // max_seq_length))


def order_documents(
    documents: CompactDocuments,
    ids: TokenIds,
    counts: DocumentCounts,
    *,
    drop_duplicates: bool = False,
    near_duplicates: np.ndarray | None = None,
    by_source: bool = False,
) -> CompactDocuments:
    """Puts a shard's documents in the order of their hashes, whatever order they arrived in.

    Args:
      documents: documents of the shard, in any order.
      ids: ids of the vocabulary.
      counts: counts that are filled in here.
      drop_duplicates: whether to keep only one of equal documents.
      near_duplicates: hashes of documents to leave out, `V16` [n]; None leaves out none.
      by_source: whether to put the documents of a source together, as `--random_next=source` needs.

    Raises:
      InputError: the shard is too large for offsets of 32 bits.
    """
    check_size([documents])
    words, pieces = _words(documents.hashes), documents.pieces
    # The copy from the first source comes first, in whatever order the copies arrived.
    order = np.lexsort((documents.sources, pieces, *words.T))
    if drop_duplicates and len(order):
        same = (words[order[1:]] == words[order[:-1]]).all(axis=1)
        same &= pieces[order[1:]] == pieces[order[:-1]]
        counts.duplicates = int((pieces[order[1:]][same] == 0).sum())
        order = order[np.concatenate(([True], ~same))]
    if near_duplicates is not None and len(near_duplicates):
        is_kept = ~np.isin(documents.hashes[order].view("S16"), near_duplicates.view("S16"))
        counts.near_duplicates = int((pieces[order[~is_kept]] == 0).sum())
        order = order[is_kept]
    if by_source:
        order = order[np.argsort(documents.sources[order], kind="stable")]
    documents = documents.take(order)
    count_text(documents, ids, counts)
    return documents


def count_text(documents: CompactDocuments, ids: TokenIds, counts: DocumentCounts) -> None:
    """Fills in the counts of the text of documents."""
    counts.documents = int((documents.pieces == 0).sum())
    counts.sentences = len(documents.sentence_lengths)
    counts.tokens = len(documents.tokens)
    counts.unknown_tokens = int((documents.tokens == ids.unknown).sum())


def check_size(parts: Sequence[CompactDocuments], free: int | None = None) -> None:
    """Checks that the parts of a shard's documents fit into one shard, and into memory.

    Args:
      parts: documents of the shard, in any order.
      free: number of bytes of memory that are free; None if they are enough or nobody knows.

    Raises:
      InputError: the shard is too large for offsets of 32 bits, or for the memory.
    """
    size, most, where = sum(len(part.tokens) for part in parts), MOST_TOKENS, ""
    if free is not None and free // BYTES_PER_TOKEN < most:
        most = free // BYTES_PER_TOKEN
        where = f" in the {free / 1e9:.1f} GB of memory that are free"
    if size <= most:
        return
    raise InputError(
        f"--num_shards: a shard has {size:,} tokens, of which at most {most:,} fit{where}; make "
        f"at least {math.ceil(size / max(most, 1)) + 1} times as many shards, or give "
        "--duplicates=exact if many documents are equal, as all of them are in one shard"
    )


def _words(hashes: np.ndarray) -> np.ndarray:
    """Returns hashes as numbers, uint64 [documents, 2]."""
    return hashes.view(np.uint64).reshape(-1, HASH_BYTES // 8)


def find_partners(documents: CompactDocuments, by_source: bool) -> np.ndarray | None:
    """Returns the documents that each may take a random B from; None for all others.

    The columns are the first of a range of documents and the one after its last, and those of the
    range without which it is meant: the document itself, with the other pieces if it is divided.

    Args:
      documents: documents in the order of `order_documents`.
      by_source: whether B comes from A's own source. A source with no other document takes any.

    Returns:
      int64 [documents, 4], or None.
    """
    count = len(documents.hashes)
    if not by_source and not documents.pieces.any():
        return None
    words, numbers = _words(documents.hashes), np.arange(count)
    run = np.cumsum(np.concatenate(([0], (words[1:] != words[:-1]).any(axis=1)))[:count])
    is_divided = np.bincount(run, documents.pieces) > 0
    # Copies of a document are other documents, but the pieces of one are not.
    own = np.where(is_divided[run], np.searchsorted(run, run), numbers)
    own_end = np.where(is_divided[run], np.searchsorted(run, run, "right"), numbers + 1)
    first, end = np.zeros(count, int), np.full(count, count)
    if by_source:
        first = np.searchsorted(documents.sources, documents.sources)
        end = np.searchsorted(documents.sources, documents.sources, "right")
        is_alone = end - first == own_end - own
        first, end = np.where(is_alone, 0, first), np.where(is_alone, count, end)
    return np.stack([first, end, own, own_end], axis=1)


def count_sources(documents: CompactDocuments, sources: int) -> list[tuple[int, int]]:
    """Returns the numbers of documents and of tokens of each source; see `DocumentCounts`."""
    tokens = documents.document_tokens()
    begun = np.bincount(documents.sources, documents.pieces == 0, minlength=sources)
    in_all = np.bincount(documents.sources, tokens, minlength=sources)
    return [(int(number), int(size)) for number, size in zip(begun, in_all, strict=True)]


def from_another_source(documents: CompactDocuments, pairs: np.ndarray) -> int:
    """Returns the number of random next pairs whose B comes from another source than A."""
    if not len(pairs) or (documents.sources == documents.sources[0]).all():
        return 0
    owner = np.repeat(documents.sources, documents.document_sentences)
    sources = np.repeat(owner, documents.sentence_lengths)
    return int((sources[pairs[:, 0]] != sources[pairs[:, 2]]).sum())


def pair_documents(
    documents: CompactDocuments,
    parameters: InstanceParameters,
    stream: int,
    counts: InstanceCounts,
) -> np.ndarray | PackedRows:
    """Pairs, or packs, the sentences of a shard in `dupe_factor` passes.

    Args:
      documents: documents of the shard, see `order_documents`.
      parameters: parameters of the job.
      stream: number of the shard, unique in the job; with the job's seed it seeds the draws.
      counts: counts that are filled in here.

    Returns:
      int32 [pairs, 5], see `pairs.build_pairs`, pass after pass; without pairs the packed rows.
    """
    if parameters.pairs == NONE:
        return _pack_documents(documents, parameters, stream)
    lengths, sentences = documents.sentence_lengths, documents.document_sentences
    passes = []
    balance = None if parameters.pairs == REFERENCE else Balance()
    partners = find_partners(documents, parameters.random_next == SOURCE)
    for duplicate in range(parameters.dupe_factor):
        seed = f"{parameters.random_seed} {stream} {duplicate}"
        pairs, pair_counts = pair_once(lengths, sentences, parameters, balance, seed, partners)
        pair_counts.random_next_other_source = from_another_source(documents, pairs)
        passes.append(pairs)
        for name, value in dataclasses.asdict(pair_counts).items():
            setattr(counts, name, getattr(counts, name) + value)
    return np.concatenate(passes)


def pair_once(
    lengths: Sequence[int],
    sentences: Sequence[int],
    parameters: InstanceParameters,
    balance: Balance | None,
    seed: str,
    partners: np.ndarray | None,
    walked: int | None = None,
) -> tuple[np.ndarray, PairCounts]:
    """Goes over documents once and pairs their sentences as the parameters say.

    Args:
      lengths, sentences, balance, partners, walked: see `pairs.build_pairs`.
      parameters: parameters of the job.
      seed: seed of the pass.

    Returns:
      int32 [pairs, 5] and the counts, see `pairs.build_pairs`.
    """
    same = {
        "max_seq_length": parameters.max_seq_length,
        "short_seq_prob": parameters.short_seq_prob,
        "seed": f"pairs {seed}",
        "partners": partners,
        "walked": walked,
    }
    if parameters.pairs == COPY:
        return build_copies(lengths, sentences, **same)
    return build_pairs(lengths, sentences, balance=balance, swaps=parameters.pairs == SOP, **same)


def _pack_documents(
    documents: CompactDocuments, parameters: InstanceParameters, stream: int
) -> PackedRows:
    return PackedRows.concatenate(
        [
            pack_documents(
                documents.sentence_lengths,
                documents.document_sentences,
                max_seq_length=parameters.max_seq_length,
                random=Random(f"pack {parameters.random_seed} {stream} {duplicate}"),
            )
            for duplicate in range(parameters.dupe_factor)
        ]
    )


def build_instances(
    tokens: np.ndarray,
    pairs: np.ndarray | PackedRows,
    ids: TokenIds,
    parameters: InstanceParameters,
    stream: int,
    counts: InstanceCounts,
    begins_word: np.ndarray | None = None,
) -> Iterator[dict[str, np.ndarray]]:
    """Turns a shard's pairs into shuffled instances, `rows_at_a_time` together.

    Args:
      tokens: tokens of the shard's documents.
      pairs: pairs, or packed rows, that `pair_documents` returned.
      ids: ids of the vocabulary.
      parameters: parameters of the job.
      stream: number of the shard, see `pair_documents`.
      counts: counts that are filled in here, as instances are taken.
      begins_word: bool [tokens], see `CompactDocuments`; None or empty where the vocabulary tells.

    Yields:
      name -> array [rows, length] of every feature of the record contract; without masks the
      length of the prediction features is 0.
    """
    random = np.random.Generator(np.random.PCG64([parameters.random_seed, stream]))
    is_marked = begins_word is not None and len(begins_word) > 0
    if is_marked:
        tokens = tokens.astype(np.int32) | begins_word * _BEGINS_WORD
    for rows, labels in _assemble(tokens, pairs, ids, parameters, random, is_marked):
        marks_NL = None
        if is_marked:
            marks_NL = (rows["input_ids"] & _BEGINS_WORD) != 0
            rows["input_ids"] &= ~_BEGINS_WORD
        rows |= _masks(rows, ids, parameters, random, marks_NL) | labels
        counts.instances += len(rows["input_ids"])
        counts.filled_tokens += int(rows["input_mask"].sum())
        counts.predictions += int(rows["masked_lm_weights"].sum())
        yield rows


def _masks(
    rows: dict[str, np.ndarray],
    ids: TokenIds,
    parameters: InstanceParameters,
    random: np.random.Generator,
    marks_NL: np.ndarray | None,
) -> dict[str, np.ndarray]:
    """Returns the features of rows that masking changes or adds."""
    if parameters.masks == NONE:
        return dict.fromkeys(PREDICTION_FEATURES, np.zeros((len(rows["input_ids"]), 0), np.int32))
    return mask_rows(
        rows["input_ids"],
        rows["input_mask"],
        max_predictions_per_seq=parameters.max_predictions_per_seq,
        masked_lm_prob=parameters.masked_lm_prob,
        do_whole_word_mask=parameters.masks == WHOLE_WORD,
        ids=ids,
        random=random,
        do_span_mask=parameters.masks == SPAN,
        begins_word=marks_NL,
    )


def _assemble(
    tokens: np.ndarray,
    pairs: np.ndarray | PackedRows,
    ids: TokenIds,
    parameters: InstanceParameters,
    random: np.random.Generator,
    is_marked: bool,
) -> Iterator[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
    """Yields the features of shuffled rows before masking, and their labels if they have any."""
    max_seq_length = parameters.max_seq_length
    rows_together = rows_at_a_time(max_seq_length)
    if isinstance(pairs, PackedRows):
        order = random.permutation(len(pairs))
        for first in range(0, len(order), rows_together):
            packed = pairs.take(order[first : first + rows_together])
            yield assemble_packed(tokens, packed, max_seq_length, ids), {}
        return
    shuffled = random.permutation(pairs)

    def starts_word(of: np.ndarray) -> np.ndarray:
        return (of & _BEGINS_WORD) != 0 if is_marked else ~ids.is_continuation[of]

    is_copy = parameters.pairs == COPY
    of_rows = tokens
    for first in range(0, len(shuffled), rows_together):
        chunk = shuffled[first : first + rows_together]
        if is_copy:
            of_rows, chunk = add_noise(tokens, chunk, starts_word, random)
        rows = assemble_rows(of_rows, chunk, max_seq_length, ids)
        yield rows, {LABEL_FEATURE: chunk[:, 4:]}
