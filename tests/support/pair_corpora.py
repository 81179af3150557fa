"""Small corpora: lengths of sentences, the pairs made of them, and documents as they are sent."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from beambert.pipelines.pretraining.documents import CompactDocuments, document_hash
from beambert.pipelines.pretraining.pairs import Balance, build_pairs

corpora = st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=12), min_size=1, max_size=8)
exact = settings(derandomize=True, max_examples=80, deadline=None, database=None)


def pairs_of(corpus, max_seq_length=32, short_seq_prob=0.1, seed=0, balance=None, swaps=False):
    """Returns what `build_pairs` does with the documents of a corpus."""
    return build_pairs(
        [length for document in corpus for length in document],
        [len(document) for document in corpus],
        max_seq_length=max_seq_length,
        short_seq_prob=short_seq_prob,
        balance=balance or Balance(),
        seed=seed,
        swaps=swaps,
    )


def compact(rows, dtype=np.uint16) -> CompactDocuments:
    """Packs plain lists; a document's hash is that of its content."""
    hashes = b"".join(document_hash([repr(document)]) for document in rows)
    lengths = [len(sentence) for document in rows for sentence in document]
    tokens = [token for document in rows for sentence in document for token in sentence]
    return CompactDocuments(
        np.frombuffer(hashes, "V16"),
        np.zeros(len(rows), np.uint32),
        np.zeros(len(rows), np.uint32),
        np.array([len(document) for document in rows], np.uint32),
        np.array(lengths, np.uint32),
        np.array(tokens, dtype),
    )
