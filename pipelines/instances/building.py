"""Compact documents -> the instances of one shard. Pure numpy; no Beam, no files.

A shard is all documents whose hash falls to it: a uniform sample of the corpus. What it becomes
depends on those documents and the seed alone, never on the order they arrive in.
"""

import dataclasses
from collections.abc import Iterator
from random import Random

import numpy as np

from beambert.pipelines.instances.compact_documents import HASH_BYTES, CompactDocuments
from beambert.pipelines.instances.masking import TokenIds, assemble_rows, mask_rows, with_frame
from beambert.pipelines.instances.pairs import Balance, PairCounts, build_pairs
from beambert.pipelines.instances.parameters import BALANCED, InstanceParameters
from beambert.pipelines.records.contract import LABEL_FEATURE
from beambert.pipelines.shared.errors import InputError

# Rows made and encoded at a time: large enough for numpy, small enough for the cache.
ROWS_AT_A_TIME = 8192
# Pairs are offsets of 32 bits.
MOST_TOKENS = 2**31 - 8


@dataclasses.dataclass
class DocumentCounts:
    """What a shard was made of; sums over shards.

    Attributes:
      documents, sentences, tokens, unknown_tokens: used, once each.
      duplicates: documents left out since an equal one is used.
      near_duplicates: documents left out since a similar one is used.
    """

    documents: int = 0
    sentences: int = 0
    tokens: int = 0
    unknown_tokens: int = 0
    duplicates: int = 0
    near_duplicates: int = 0


@dataclasses.dataclass
class InstanceCounts(PairCounts):
    """What a shard's documents became; sums over shards.

    Attributes:
      instances: records written.
      filled_tokens: positions of the records that are not padding.
      predictions: masked positions.
    """

    instances: int = 0
    filled_tokens: int = 0
    predictions: int = 0


def order_documents(
    documents: CompactDocuments,
    ids: TokenIds,
    counts: DocumentCounts,
    *,
    drop_duplicates: bool = False,
    near_duplicates: np.ndarray | None = None,
) -> CompactDocuments:
    """Puts a shard's documents in the order of their hashes, which no worker can influence.

    Args:
      documents: of the shard, in any order.
      ids: of the vocabulary.
      counts: filled in.
      drop_duplicates: of equal documents, keep one.
      near_duplicates: hashes of documents to leave out, `V16`; None for none.

    Raises:
      InputError: the shard is too large for offsets of 32 bits.
    """
    if len(documents.tokens) > MOST_TOKENS:
        raise InputError(
            f"--num_shards: a shard has {len(documents.tokens)} tokens, at most {MOST_TOKENS} "
            "fit; raise it"
        )
    words = documents.hashes.view(np.uint64).reshape(-1, HASH_BYTES // 8)
    order = np.lexsort(words.T)
    if drop_duplicates and len(order):
        is_first = np.concatenate(([True], (words[order[1:]] != words[order[:-1]]).any(axis=1)))
        counts.duplicates = len(order) - int(is_first.sum())
        order = order[is_first]
    if near_duplicates is not None and len(near_duplicates):
        is_kept = ~np.isin(documents.hashes[order].view("S16"), near_duplicates.view("S16"))
        counts.near_duplicates = len(order) - int(is_kept.sum())
        order = order[is_kept]
    documents = documents.take(order)
    counts.documents = len(documents.hashes)
    counts.sentences = len(documents.sentence_lengths)
    counts.tokens = len(documents.tokens)
    counts.unknown_tokens = int((documents.tokens == ids.unknown).sum())
    return documents


def pair_documents(
    documents: CompactDocuments,
    parameters: InstanceParameters,
    stream: int,
    counts: InstanceCounts,
) -> np.ndarray:
    """Pairs the sentences of a shard, once for every duplicate.

    Args:
      documents: of the shard, see `order_documents`.
      parameters: of the job.
      stream: the shard's number, unique in the job: seeds its draws together with the job's seed.
      counts: filled in.

    Returns:
      int32 [pairs, 5], see `pairs.build_pairs`, duplicate after duplicate.
    """
    lengths = documents.sentence_lengths.tolist()
    sentences = documents.document_sentences.tolist()
    passes = []
    balance = Balance() if parameters.pairs == BALANCED else None
    for duplicate in range(parameters.dupe_factor):
        pairs, pair_counts = build_pairs(
            lengths,
            sentences,
            max_seq_length=parameters.max_seq_length,
            short_seq_prob=parameters.short_seq_prob,
            balance=balance,
            random=Random(f"pairs {parameters.random_seed} {stream} {duplicate}"),
        )
        passes.append(pairs)
        for name, value in dataclasses.asdict(pair_counts).items():
            setattr(counts, name, getattr(counts, name) + value)
    return np.concatenate(passes)


def build_instances(
    tokens: np.ndarray,
    pairs: np.ndarray,
    ids: TokenIds,
    parameters: InstanceParameters,
    stream: int,
    counts: InstanceCounts,
) -> Iterator[dict[str, np.ndarray]]:
    """Turns a shard's pairs into shuffled instances, `ROWS_AT_A_TIME` at a time.

    Args:
      tokens: of the shard's documents.
      pairs: see `pair_documents`.
      ids: of the vocabulary.
      parameters: of the job.
      stream: as there.
      counts: filled in as instances are taken.

    Yields:
      name -> array [rows, length] of every feature of the record contract.
    """
    random = np.random.Generator(np.random.PCG64([parameters.random_seed, stream]))
    shuffled = random.permutation(pairs)
    framed = with_frame(tokens, parameters.max_seq_length)
    for first in range(0, len(shuffled), ROWS_AT_A_TIME):
        chunk = shuffled[first : first + ROWS_AT_A_TIME]
        rows = assemble_rows(framed, chunk, parameters.max_seq_length, ids)
        rows |= mask_rows(
            rows["input_ids"],
            rows["input_mask"],
            max_predictions_per_seq=parameters.max_predictions_per_seq,
            masked_lm_prob=parameters.masked_lm_prob,
            do_whole_word_mask=parameters.do_whole_word_mask,
            ids=ids,
            random=random,
        )
        rows[LABEL_FEATURE] = chunk[:, 4:]
        counts.instances += len(chunk)
        counts.filled_tokens += int(rows["input_mask"].sum())
        counts.predictions += int(rows["masked_lm_weights"].sum())
        yield rows
