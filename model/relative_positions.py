"""Scores of contents with distances: the disentangled attention of DeBERTa.

He et al. 2020 (arXiv 2006.03654, section 3.1), with the buckets of the second version.

Shape suffixes: B batch, N attention heads, L sequence length, D head size, C positions of a
block, S buckets, R distances.
"""

import dataclasses

import numpy as np
from keras import ops

from beambert.model.families.debertav2_config import BLOCK
from beambert.model.layers import look_up


def bucket_of(distances: np.ndarray, buckets: int, positions: int) -> np.ndarray:
    """Returns the buckets of distances, integers with the signs of these.

    Up to half of the buckets each distance has one to itself, and those beyond are logarithmic
    (`make_log_bucket_position` of the original's disentangled_attention.py).

    Args:
      distances: integers between -positions and positions.
      buckets: number of buckets to each side, at least 2.
      positions: number of positions, whose greatest distance has the last bucket.
    """
    near, size = buckets // 2, np.abs(distances)
    if size.max() <= near:
        return distances
    share = np.log(np.maximum(size, near) / near) / np.log((positions - 1) / near)
    far = near + np.ceil(share * (near - 1)).astype(np.int64)
    return np.where(size <= near, distances, np.sign(distances) * far)


@dataclasses.dataclass(frozen=True)
class Distances:
    """The distances within a sequence, from L - 1 down to 1 - L, in the table of the buckets.

    Attributes:
      first, end: the part of the table that has all of their buckets.
      row_R: int32 [R], their rows in that part. The last one is there twice, so that R is 2 L.
    """

    first: int
    end: int
    row_R: np.ndarray

    @classmethod
    def of(cls, length: int, buckets: int, positions: int) -> "Distances":
        """Returns the distances of a length; the table has twice as many rows as buckets.

        Args:
          length: tokens of a sequence, at most `positions`.
          buckets, positions: see `bucket_of`.
        """
        distances = np.maximum(np.arange(length - 1, -length - 1, -1), 1 - length)
        row_R = bucket_of(distances, buckets, positions) + buckets
        row_R = np.clip(row_R, 0, 2 * buckets - 1).astype(np.int32)
        first, end = int(row_R.min()), int(row_R.max()) + 1
        return cls(first, end, row_R - first)

    @property
    def reversed_R(self) -> np.ndarray:
        """The rows of the distances from 1 - L up to L - 1, and another one."""
        return np.roll(self.row_R[::-1], -1)


def relative_scores(query_BNLD, key_BNLD, query_SH, key_SH, distances: Distances):
    """Returns the scores of contents with distances, [B, N, L, L].

    They are the products of queries with the keys of the distances, and those of keys with the
    queries of the distances (equation 4 of the paper).

    Args:
      query_BNLD, key_BNLD: float tensors with a static L.
      query_SH, key_SH: queries and keys of the buckets, heads side by side.
      distances: the rows of the buckets.
    """
    heads, width = query_BNLD.shape[1], query_BNLD.shape[3]

    def heads_of(x_SH, row_R):
        return ops.reshape(look_up(x_SH, row_R[None]), (len(row_R), heads, width))

    # A row of the second has one key and all queries, whose distances are in the other order.
    to_position = _by_distance(query_BNLD, heads_of(key_SH, distances.row_R))
    from_position = _by_distance(key_BNLD, heads_of(query_SH, distances.reversed_R))
    return to_position + ops.swapaxes(from_position, -1, -2)


def _by_distance(x_BNLD, y_RND):
    """Returns [B, N, L, L], the products of each position with the distances to all others.

    Element (i, j) is the product of position i with row j - i + L - 1. A block of C positions is
    multiplied with the L + C rows that it needs. No element is picked by an index, whose gradient
    would add elements one by one: rows of another length bring a block's elements to their places
    (Dai et al. 2019, arXiv 1901.02860, appendix B).
    """
    heads, length = x_BNLD.shape[1:3]
    blocks = []
    for first in range(0, length, BLOCK):
        block = x_BNLD[:, :, first : first + BLOCK]
        count = block.shape[2]
        rows = y_RND[length - first - count : 2 * length - first]
        product_NBCR = ops.einsum("bncd,rnd->nbcr", block, rows)
        # Element (i, j - i + C - 1) stands at i * (L + C - 1) + j + C - 1 of the flat array.
        flat = ops.reshape(product_NBCR, (heads, -1, count * (length + count)))
        shorter = length + count - 1
        flat = flat[:, :, count - 1 : count - 1 + count * shorter]
        blocks.append(ops.reshape(flat, (heads, -1, count, shorter))[..., :length])
    return ops.transpose(ops.concatenate(blocks, axis=2), (1, 0, 2, 3))
