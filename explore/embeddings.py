"""What the encoder adds up for each token, and the neighbours of a word in its vocabulary."""

import dataclasses

import numpy as np
from keras import ops

from beambert.model.encoder import BertEncoder


@dataclasses.dataclass(frozen=True)
class Composition:
    """The input representation of a text (figure 2 of the paper).

    Attributes:
      word, segment, position: float32 [tokens, H], the three embeddings of each token.
      total: float32 [tokens, H], their sum.
      normed: float32 [tokens, H], the sum after layer norm: the input of the first layer.
    """

    word: np.ndarray
    segment: np.ndarray
    position: np.ndarray
    total: np.ndarray
    normed: np.ndarray


def compose(encoder: BertEncoder, ids: np.ndarray, segments: np.ndarray) -> Composition:
    """Returns the parts of the input representation.

    Args:
      encoder: the encoder.
      ids, segments: int32 [tokens].
    """
    tables = encoder.embeddings
    word = np.array(ops.take(tables.word_embeddings_VH, ids, axis=0))
    segment = np.array(ops.take(tables.token_type_embeddings_SH, segments, axis=0))
    position = np.array(tables.position_embeddings[: len(ids)])
    normed = tables(ids[None], segments[None])
    return Composition(word, segment, position, word + segment + position, np.array(normed))


def nearest(encoder: BertEncoder, index: int, count: int) -> list[tuple[int, float]]:
    """Returns the ids whose word embeddings have the greatest cosine with that of a token.

    Args:
      encoder: the encoder.
      index: id of the token, which is not among the results.
      count: number of results.
    """
    table = np.array(encoder.word_embeddings)
    lengths = np.maximum(np.linalg.norm(table, axis=1), 1e-12)
    cosine = table @ table[index] / (lengths * lengths[index])
    cosine[index] = -2
    order = np.argsort(-cosine, kind="stable")[:count]
    return [(int(found), float(cosine[found])) for found in order]
