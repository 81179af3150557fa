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
from pipelines.masking import TokenIds, assemble_rows, mask_rows
from pipelines.pairs import Balance, PairCounts, build_pairs
from pipelines.records import LABEL_FEATURE

# Rows made and encoded at a time: large enough for numpy, small enough for the cache.
ROWS_AT_A_TIME = 8192
# Bytes of a document's hash: enough that 10^12 documents don't collide.
HASH_BYTES = 16
# Pairs are offsets of 32 bits.
MOST_TOKENS = 2**31 - 8
_HEADER = struct.Struct("<III")


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
    """

    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1
    dupe_factor: int = 10
    do_whole_word_mask: bool = False
    random_seed: int = 12345


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
        sentence_ends = np.cumsum(self.document_sentences, dtype=np.int64)
        sentence_index = _ranges(sentence_ends, self.document_sentences, order)
        token_ends = np.cumsum(self.sentence_lengths, dtype=np.int64)
        token_index = _ranges(token_ends, self.sentence_lengths, sentence_index)
        return CompactDocuments(
            self.hashes[order],
            self.document_sentences[order],
            self.sentence_lengths[sentence_index],
            self.tokens[token_index],
        )


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


@dataclasses.dataclass
class ShardCounts(PairCounts):
    """What a shard's documents became; sums over shards.

    Attributes:
      documents, sentences, tokens, unknown_tokens: what it was made of, once each.
      instances: records written.
      filled_tokens: positions of the records that are not padding.
      predictions: masked positions.
    """

    documents: int = 0
    sentences: int = 0
    tokens: int = 0
    unknown_tokens: int = 0
    instances: int = 0
    filled_tokens: int = 0
    predictions: int = 0


def build_instances(
    documents: CompactDocuments,
    ids: TokenIds,
    parameters: InstanceParameters,
    stream: int,
    counts: ShardCounts,
) -> Iterator[dict[str, np.ndarray]]:
    """Turns a shard's documents into shuffled instances, `ROWS_AT_A_TIME` at a time.

    Args:
      documents: of the shard, in any order.
      ids: of the vocabulary.
      parameters: of the job.
      stream: the shard's number, unique in the job: seeds its draws together with the job's seed.
      counts: filled in as instances are taken.

    Yields:
      name -> array [rows, length] of every feature of the record contract.

    Raises:
      InputError: the shard is too large for its offsets.
    """
    if len(documents.tokens) > MOST_TOKENS:
        raise InputError(
            f"--num_shards: shard {stream} has {len(documents.tokens)} tokens, at most "
            f"{MOST_TOKENS} fit; raise it"
        )
    words = documents.hashes.view(np.uint64).reshape(-1, HASH_BYTES // 8)
    documents = documents.take(np.lexsort(words.T))
    lengths = documents.sentence_lengths.tolist()
    sentences = documents.document_sentences.tolist()
    counts.documents = len(sentences)
    counts.sentences = len(lengths)
    counts.tokens = len(documents.tokens)
    counts.unknown_tokens = int((documents.tokens == ids.unknown).sum())

    passes, balance = [], Balance()
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
    random = np.random.Generator(np.random.PCG64([parameters.random_seed, stream]))
    shuffled = random.permutation(np.concatenate(passes))
    for first in range(0, len(shuffled), ROWS_AT_A_TIME):
        pairs = shuffled[first : first + ROWS_AT_A_TIME]
        rows = assemble_rows(documents.tokens, pairs, parameters.max_seq_length, ids)
        rows |= mask_rows(
            rows["input_ids"],
            rows["input_mask"],
            max_predictions_per_seq=parameters.max_predictions_per_seq,
            masked_lm_prob=parameters.masked_lm_prob,
            do_whole_word_mask=parameters.do_whole_word_mask,
            ids=ids,
            random=random,
        )
        rows[LABEL_FEATURE] = pairs[:, 4:]
        counts.instances += len(pairs)
        counts.filled_tokens += int(rows["input_mask"].sum())
        counts.predictions += int(rows["masked_lm_weights"].sum())
        yield rows
