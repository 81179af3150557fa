"""Tokenized documents as bytes, and the hash that decides a document's shard."""

import dataclasses
import struct
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

import numpy as np

# Rows of different lengths, end to end in one array.


def starts_of(lengths: np.ndarray) -> np.ndarray:
    """Returns the index at which each row starts, int64 [rows]."""
    return np.cumsum(lengths, dtype=np.int64) - lengths


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns the integers `start, start + 1, …` of each row, end to end.

    Args:
      starts: first integer of each row, [rows].
      lengths: number of integers in each row, [rows].

    Returns:
      int64 [sum of the lengths].
    """
    shifts = np.asarray(starts, np.int64) - starts_of(lengths)
    return np.arange(int(np.sum(lengths))) + np.repeat(shifts, lengths)


# Bytes of a document's hash. With 16 of them 10^12 documents do not collide.
HASH_BYTES = 16
# Fractional part of the golden ratio, of 2^64. Multiples of it spread evenly over the 64 bits,
# however many they are (Knuth, The Art of Computer Programming, section 6.4).
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
# The numbers of documents, sentences, tokens, and marks of words.
_HEADER = struct.Struct("<IIII")


def document_hash(sentences: Sequence[str], unspaced: Sequence[int] = ()) -> bytes:
    """Returns the hash that decides a document's shard, split and place in the shard.

    It is computed from what becomes tokens rather than the text, so that documents with equal
    hashes become equal records.

    Args:
      sentences: sentences of the document.
      unspaced: numbers of those that are cut as if no space stood before them.
    """
    # No sentence is empty, so that the numbers are no sentences.
    marks = ["", *map(str, unspaced)] if unspaced else []
    text = "\n".join([*sentences, *marks]).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=HASH_BYTES).digest()


@dataclasses.dataclass(frozen=True)
class CompactDocuments:
    """Tokenized documents, end to end.

    Attributes:
      hashes: `V16` [documents].
      sources: uint32 [documents], number of the --input that each document comes from.
      pieces: uint32 [documents]; 0, or for a piece of a divided document its number in it.
      document_sentences: uint32 [documents], each document's number of sentences; none is 0.
      sentence_lengths: uint32 [sentences], each sentence's number of tokens; none is 0.
      tokens: [tokens], uint16, or uint32 for vocabularies of more than 65,536 tokens.
      begins_word: bool [tokens], whether each token begins a word; empty where the vocabulary tells
        that of all tokens.
    """

    hashes: np.ndarray
    sources: np.ndarray
    pieces: np.ndarray
    document_sentences: np.ndarray
    sentence_lengths: np.ndarray
    tokens: np.ndarray
    begins_word: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, bool))

    @classmethod
    def empty(cls) -> "CompactDocuments":
        """Returns no documents."""
        none = np.zeros(0, np.uint32)
        return cls(np.zeros(0, f"V{HASH_BYTES}"), none, none, none, none, np.zeros(0, np.uint16))

    def columns(self) -> tuple[np.ndarray, ...]:
        """Returns the arrays in the order of the attributes."""
        return tuple(getattr(self, field.name) for field in dataclasses.fields(self))

    def pack(self) -> bytes:
        """Returns the documents as bytes, for Beam's shuffle."""
        *columns, begins_word = self.columns()
        counts = map(len, (self.hashes, self.sentence_lengths, self.tokens, begins_word))
        columns.append(np.packbits(begins_word))
        return _HEADER.pack(*counts) + b"".join(array.tobytes() for array in columns)

    @classmethod
    def unpack(cls, data: bytes) -> "CompactDocuments":
        """Returns the documents of the bytes that `pack` returned."""
        documents, sentences, tokens, marks = _HEADER.unpack_from(data)
        arrays, offset = [], _HEADER.size
        mark_bytes = (marks + 7) // 8
        token_bytes = len(data) - offset - (HASH_BYTES + 12) * documents - 4 * sentences
        token_bytes -= mark_bytes
        token_type = np.uint16 if token_bytes == 2 * tokens else np.uint32
        for dtype, count in (
            (f"V{HASH_BYTES}", documents),
            (np.uint32, documents),
            (np.uint32, documents),
            (np.uint32, documents),
            (np.uint32, sentences),
            (token_type, tokens),
            (np.uint8, mark_bytes),
        ):
            arrays.append(np.frombuffer(data, dtype, count, offset))
            offset += arrays[-1].nbytes
        arrays.append(np.unpackbits(arrays.pop(), count=marks).astype(bool))
        return cls(*arrays)

    @classmethod
    def concatenate(cls, parts: Iterable["CompactDocuments"]) -> "CompactDocuments":
        """Returns the documents of all parts, in the order given."""
        columns = zip(*(part.columns() for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))

    def take(self, order: np.ndarray) -> "CompactDocuments":
        """Returns the chosen documents in the order given (indices [documents taken])."""
        return self._take(order, *self._ends())

    def of_source(self, source: int) -> "CompactDocuments":
        """Returns the documents of a source, in the same order."""
        return self.take(np.flatnonzero(self.sources == source))

    def document_tokens(self) -> np.ndarray:
        """Returns the number of tokens of each document, int64 [documents]."""
        sentence_ends, token_ends = self._ends()
        return np.diff(token_ends[sentence_ends - 1], prepend=0)

    def without_copies(self) -> "CompactDocuments":
        """Returns one of the whole documents with the same hash each, that of the first source.

        Whatever copies were left out before, the one that stays in the end is the same.
        """
        words = self.hashes.view(np.uint64).reshape(-1, HASH_BYTES // 8)
        order = np.lexsort((self.sources, *words.T))
        is_copy = (words[order[1:]] == words[order[:-1]]).all(axis=1)
        if not is_copy.any():
            return self
        return self.take(np.sort(order[np.concatenate(([True], ~is_copy))]))

    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns where each document's sentences and each sentence's tokens end."""
        return (
            np.cumsum(self.document_sentences, dtype=np.int64),
            np.cumsum(self.sentence_lengths, dtype=np.int64),
        )

    def _take(
        self, order: np.ndarray, sentence_ends: np.ndarray, token_ends: np.ndarray
    ) -> "CompactDocuments":
        document_lengths = self.document_sentences[order]
        sentence_index = ranges(sentence_ends[order] - document_lengths, document_lengths)
        sentence_lengths = self.sentence_lengths[sentence_index]
        token_index = ranges(token_ends[sentence_index] - sentence_lengths, sentence_lengths)
        return CompactDocuments(
            self.hashes[order],
            self.sources[order],
            self.pieces[order],
            document_lengths,
            sentence_lengths,
            self.tokens[token_index],
            self.begins_word[token_index] if len(self.begins_word) else self.begins_word,
        )

    def pack_by_key(self, keys: np.ndarray) -> Iterator[tuple[int, bytes]]:
        """Yields each key and its documents, packed; the keys ascend.

        Args:
          keys: int [documents], the key of each document.
        """
        ends = self._ends()
        order = np.argsort(keys, kind="stable")
        for indices in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1):
            if len(indices):
                yield int(keys[indices[0]]), self._take(indices, *ends).pack()


def compact_documents(
    sentences: Sequence[Sequence[str]],
    tokens: np.ndarray,
    lengths: np.ndarray,
    vocab_size: int,
    sources: Sequence[int] | None = None,
    begins_word: np.ndarray | None = None,
    unspaced: Sequence[Sequence[int]] | None = None,
) -> CompactDocuments:
    """Returns tokenized documents in compact form, without those that have no token.

    Args:
      sentences: the sentences of each document.
      tokens: ids of all sentences, end to end.
      lengths: number of ids of each sentence.
      vocab_size: size of the vocabulary, which decides how many bytes an id takes.
      sources: number of the --input of each document; None if they have the same one.
      begins_word: bool [tokens], see `CompactDocuments`; None where the vocabulary tells it.
      unspaced: for each document what `document_hash` takes; None for no such sentence.
    """
    unspaced = unspaced or [()] * len(sentences)
    owner = np.repeat(
        np.arange(len(sentences)), np.array([len(sentence) for sentence in sentences], int)
    )
    per_document = np.bincount(owner[lengths > 0], minlength=len(sentences))
    has_tokens = per_document > 0
    hashes = [document_hash(sentences[i], unspaced[i]) for i in np.flatnonzero(has_tokens)]
    numbers = np.zeros(len(sentences), np.uint32) if sources is None else np.array(sources)
    return CompactDocuments(
        np.frombuffer(b"".join(hashes), f"V{HASH_BYTES}"),
        numbers[has_tokens].astype(np.uint32),
        np.zeros(len(hashes), np.uint32),
        per_document[has_tokens].astype(np.uint32),
        lengths[lengths > 0].astype(np.uint32),
        tokens.astype(np.uint32 if vocab_size > 1 << 16 else np.uint16),
        np.zeros(0, bool) if begins_word is None else begins_word,
    )


def shard_of(hashes: np.ndarray, num_shards: int) -> np.ndarray:
    """Returns the shards, int64 [documents], of documents with these hashes, `V16` [documents]."""
    return (hashes.view("<u8")[::2] % np.uint64(num_shards)).astype(np.int64)


def is_held_out(
    hashes: np.ndarray, eval_fraction: float, segments: np.ndarray | int = 0
) -> np.ndarray:
    """Returns whether a segment of each document is held out, bool [documents].

    The other half of the hash decides that, so that it does not depend on the shard. The first
    segment is held out with the probability `eval_fraction`. Of all segments of a long document
    very nearly this share is.

    Args:
      hashes: hashes of the documents, `V16` [documents].
      eval_fraction: share to hold out.
      segments: number of the segment in its document, int [documents]; 0 is the first.
    """
    halves = hashes.view("<u8")[1::2] + np.asarray(segments).astype(np.uint64) * _GOLDEN
    return halves < np.uint64(eval_fraction * 2**64)


# Division of long documents between training and the held-out split.
#
# If whole documents were held out, a few books would decide what the split is: of 70 novels and
# 30,000 articles, 2 % are one novel, or none, or three. So a long document is divided into
# segments, and each is held out or not. Which ones follows from the hash of the document alone, so
# that it is the same on every worker and in every run.

# Least number of tokens of a segment, about two pages. A shorter document is never divided. Of 10,
# 30 and 70 books of 50,000 tokens, 2 % are then 2.0 % ± 0.3, 0.14 and 0.09 (standard deviation).
SEGMENT_TOKENS = 1024


def divide(
    documents: CompactDocuments, eval_fraction: float, segment_tokens: int = SEGMENT_TOKENS
) -> tuple[CompactDocuments, np.ndarray]:
    """Returns documents, the long ones in pieces, and whether each is held out, bool [pieces].

    A segment begins with a sentence. Neighbouring segments on the same side stay together, so that
    a piece is a part of the text without a gap.

    Args:
      documents: whole documents.
      eval_fraction: share of the tokens to hold out.
      segment_tokens: number of tokens of a segment.
    """
    if not eval_fraction or not len(documents.hashes):
        return documents, np.zeros(len(documents.hashes), bool)
    owner = np.repeat(np.arange(len(documents.hashes)), documents.document_sentences)
    starts = starts_of(documents.sentence_lengths)
    firsts = starts[starts_of(documents.document_sentences)]
    segments = (starts - firsts[owner]) // segment_tokens
    is_eval = is_held_out(documents.hashes[owner], eval_fraction, segments)
    begins = np.concatenate(([True], (owner[1:] != owner[:-1]) | (is_eval[1:] != is_eval[:-1])))
    sentences = np.flatnonzero(begins)
    owners = owner[sentences]
    first_pieces = np.searchsorted(owners, np.arange(len(documents.hashes)))
    pieces = dataclasses.replace(
        documents,
        hashes=documents.hashes[owners],
        sources=documents.sources[owners],
        pieces=(np.arange(len(owners)) - first_pieces[owners]).astype(np.uint32),
        document_sentences=np.diff(sentences, append=len(owner)).astype(np.uint32),
    )
    return pieces, is_eval[sentences]
