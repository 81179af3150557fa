"""Compact documents -> the instances of one shard. Pure numpy; no Beam, no files.

A shard is all documents whose hash falls to it: a uniform sample of the corpus. What it becomes
depends on those documents and the seed alone, never on the order they arrive in.
"""

import dataclasses
import struct
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from random import Random

import numpy as np

from pipelines.errors import InputError
from pipelines.masking import TokenIds, assemble_rows, mask_rows, with_frame
from pipelines.pairs import Balance, PairCounts, build_pairs
from pipelines.records import LABEL_FEATURE

# Rows made and encoded at a time: large enough for numpy, small enough for the cache.
ROWS_AT_A_TIME = 8192
# Bytes of a document's hash: enough that 10^12 documents don't collide.
HASH_BYTES = 16
# Pairs are offsets of 32 bits.
MOST_TOKENS = 2**31 - 8
_HEADER = struct.Struct("<III")
# Values of --pairs.
BALANCED, REFERENCE = "balanced", "reference"


@dataclasses.dataclass(frozen=True)
class InstanceParameters:
    """What shapes instances; the names and defaults are the original script's flags.

    Attributes:
      max_seq_length: tokens of a record.
      max_predictions_per_seq: slots for predictions of a record.
      masked_lm_prob: share of tokens to predict.
      short_seq_prob: how often a document's pairs aim at a shorter length.
      dupe_factor: passes over the documents, each with other pairs and masks.
      do_whole_word_mask: hide all pieces of a word or none.
      random_seed: seeds every draw.
      pairs: "balanced", or "reference" for the original's distribution of pairs and masks.
    """

    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1
    dupe_factor: int = 10
    do_whole_word_mask: bool = False
    random_seed: int = 12345
    pairs: str = BALANCED


def document_hash(sentences: Sequence[str]) -> bytes:
    """Returns the hash that decides a document's shard, split and place in the shard.

    Of the sentences rather than the text: documents of equal hash are equal in all that follows.
    """
    text = "\n".join(sentences).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=HASH_BYTES).digest()


@dataclasses.dataclass(frozen=True)
class CompactDocuments:
    """Tokenized documents, end to end.

    Attributes:
      hashes: `V16` [documents].
      document_sentences: uint32 [documents], each document's number of sentences, none 0.
      sentence_lengths: uint32 [sentences], each sentence's number of tokens, none 0.
      tokens: uint16, or uint32 for vocabularies of more than 65,536 tokens.
    """

    hashes: np.ndarray
    document_sentences: np.ndarray
    sentence_lengths: np.ndarray
    tokens: np.ndarray

    @classmethod
    def empty(cls) -> "CompactDocuments":
        """Returns no documents."""
        none = np.zeros(0, np.uint32)
        return cls(np.zeros(0, f"V{HASH_BYTES}"), none, none, np.zeros(0, np.uint16))

    def pack(self) -> bytes:
        """Returns the bytes that travel through the shuffle."""
        counts = (len(self.hashes), len(self.sentence_lengths), len(self.tokens))
        arrays = (self.hashes, self.document_sentences, self.sentence_lengths, self.tokens)
        return _HEADER.pack(*counts) + b"".join(array.tobytes() for array in arrays)

    @classmethod
    def unpack(cls, data: bytes) -> "CompactDocuments":
        """Reads what `pack` returned."""
        documents, sentences, tokens = _HEADER.unpack_from(data)
        arrays, offset = [], _HEADER.size
        token_bytes = len(data) - offset - (HASH_BYTES + 4) * documents - 4 * sentences
        token_type = np.uint16 if token_bytes == 2 * tokens else np.uint32
        for dtype, count in (
            (f"V{HASH_BYTES}", documents),
            (np.uint32, documents),
            (np.uint32, sentences),
            (token_type, tokens),
        ):
            arrays.append(np.frombuffer(data, dtype, count, offset))
            offset += arrays[-1].nbytes
        return cls(*arrays)

    @classmethod
    def concatenate(cls, parts: Iterable["CompactDocuments"]) -> "CompactDocuments":
        """Joins batches in the order given."""
        columns = zip(
            *((p.hashes, p.document_sentences, p.sentence_lengths, p.tokens) for p in parts),
            strict=True,
        )
        return cls(*(np.concatenate(column) for column in columns))

    def take(self, order: np.ndarray) -> "CompactDocuments":
        """Returns the chosen documents in the order given (indices [documents taken])."""
        return self._take(order, *self._ends())

    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns where each document's sentences and each sentence's tokens end."""
        return (
            np.cumsum(self.document_sentences, dtype=np.int64),
            np.cumsum(self.sentence_lengths, dtype=np.int64),
        )

    def _take(
        self, order: np.ndarray, sentence_ends: np.ndarray, token_ends: np.ndarray
    ) -> "CompactDocuments":
        sentence_index = _ranges(sentence_ends, self.document_sentences, order)
        token_index = _ranges(token_ends, self.sentence_lengths, sentence_index)
        return CompactDocuments(
            self.hashes[order],
            self.document_sentences[order],
            self.sentence_lengths[sentence_index],
            self.tokens[token_index],
        )

    def pack_by_key(self, keys: np.ndarray) -> Iterator[tuple[int, bytes]]:
        """Yields every key (int [documents]) with its documents packed, in ascending order."""
        ends = self._ends()
        order = np.argsort(keys, kind="stable")
        for indices in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1):
            if len(indices):
                yield int(keys[indices[0]]), self._take(indices, *ends).pack()


def _ranges(ends: np.ndarray, lengths: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Returns the indices of the ranges `order` of consecutive ranges, end to end."""
    taken = lengths[order].astype(np.int64)
    if not len(taken):
        return np.zeros(0, np.int64)
    shift = (ends[order] - taken) - (np.cumsum(taken) - taken)
    return np.arange(taken.sum()) + np.repeat(shift, taken)


def compact_documents(
    sentences: Sequence[Sequence[str]], tokens: np.ndarray, lengths: np.ndarray, vocab_size: int
) -> CompactDocuments:
    """Packs tokenized documents; those without any token are left out.

    Args:
      sentences: of each document.
      tokens: ids of all sentences, end to end.
      lengths: number of ids of each sentence.
      vocab_size: decides how many bytes an id takes.
    """
    owner = np.repeat(np.arange(len(sentences)), np.array([len(of) for of in sentences], int))
    per_document = np.bincount(owner[lengths > 0], minlength=len(sentences))
    has_tokens = per_document > 0
    hashes = [document_hash(sentences[i]) for i in np.flatnonzero(has_tokens)]
    return CompactDocuments(
        np.frombuffer(b"".join(hashes), f"V{HASH_BYTES}"),
        per_document[has_tokens].astype(np.uint32),
        lengths[lengths > 0].astype(np.uint32),
        tokens.astype(np.uint32 if vocab_size > 1 << 16 else np.uint16),
    )


def shard_of(hashes: np.ndarray, num_shards: int) -> np.ndarray:
    """Returns the shard of each document, int64 [documents], of its hash (`V16` [documents])."""
    return (hashes.view("<u8")[::2] % np.uint64(num_shards)).astype(np.int64)


def is_held_out(hashes: np.ndarray, eval_fraction: float) -> np.ndarray:
    """Returns whether each document belongs to the held-out ones, bool [documents].

    By the other half of the hash, so that it says nothing about the shard.
    """
    return hashes.view("<u8")[1::2] < np.uint64(eval_fraction * 2**64)


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
