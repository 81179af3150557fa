"""Position embeddings for sequences longer than those of the pre-training."""

import numpy as np

# Ways to get the embeddings of positions that were not trained.
KEEP, TILE, INTERPOLATE = "keep", "tile", "interpolate"
WAYS = (KEEP, TILE, INTERPOLATE)


def fill_positions(table: np.ndarray, trained: int, length: int, way: str) -> np.ndarray:
    """Returns a table of position embeddings whose first `length` rows all stem from trained ones.

    Args:
      table: embeddings [P, H]; the first `trained` rows are trained.
      trained: number of trained positions, at most P.
      length: number of positions that are needed, more than `trained`.
      way: "tile" repeats the trained rows (Beltagy et al. 2020, arXiv 2004.05150, section 5), which
        keeps neighbours apart as they were. "interpolate" stretches them linearly, as Dosovitskiy
        et al. 2021 (arXiv 2010.11929, section 3.2) do with images, which keeps the order.

    Returns:
      the table [max(P, length), H].
    """
    rows = table[:trained]
    if way == TILE:
        filled = rows[np.arange(length) % trained]
    else:
        places = np.linspace(0, trained - 1, length)
        below = np.minimum(places.astype(int), max(trained - 2, 0))
        above = np.minimum(below + 1, trained - 1)
        share = (places - below)[:, None].astype(table.dtype)
        filled = rows[below] * (1 - share) + rows[above] * share
    return np.concatenate([filled, table[length:]]).astype(table.dtype)
