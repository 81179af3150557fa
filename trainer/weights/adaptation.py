"""Weights for tokens and positions on which an encoder was not trained."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from beambert.config import setting
from beambert.pipelines.tokenizers.pieces import cut_piece, longest_of
from beambert.pipelines.tokenizers.vocabulary import Vocabulary


def extends(new: Vocabulary, old: Vocabulary) -> bool:
    """Returns whether a vocabulary has all tokens of another one, with their ids, and more."""
    count = len(old)
    is_wordpiece = type(new) is Vocabulary and type(old) is Vocabulary
    return is_wordpiece and len(new) > count and new.tokens[:count] == old.tokens


def replaced_ids(new: Vocabulary, old: Vocabulary) -> list[list[int]]:
    """Returns, for each new token, the ids of the old ones that it takes the place of.

    The list of a token is empty if the old ones cannot spell it.

    Args:
      new: the extended vocabulary.
      old: the vocabulary that it extends.
    """
    ids = {token: number for number, token in enumerate(old.tokens)}
    longest = longest_of(ids)
    found = (cut_piece(token, ids, longest) or [] for token in new.tokens[len(old) :])
    return [[ids[piece] for piece in pieces] for pieces in found]


def fill_tokens(
    table: np.ndarray, replaced: Sequence[Sequence[int]], count: int, rows: int
) -> np.ndarray:
    """Returns a table of embeddings, or biases, with a row for each new token.

    It is the mean of the rows that a token takes the place of; where there is nothing to replace,
    that of all old rows (Hewitt 2021, Initializing new word embeddings for pretrained language
    models).

    Args:
      table: embeddings [V, H] or biases [V]; the first `count` rows belong to old tokens.
      replaced: the ids that each new token takes the place of.
      count: number of old tokens, at most V.
      rows: number of rows of the result, at least `count` and the number of new tokens.

    Returns:
      the table [rows, H] or [rows].
    """
    mean = table[:count].mean(axis=0, dtype=np.float64)
    new = [table[list(ids)].mean(axis=0) if ids else mean for ids in replaced]
    filled = np.concatenate([table[:count], np.array(new, table.dtype)])
    rest = table[len(filled) : rows]
    missing = np.zeros((rows - len(filled) - len(rest), *table.shape[1:]), table.dtype)
    return np.concatenate([filled, rest, missing])


# Ways to get the embeddings of positions that were not trained.
KEEP, TILE = "keep", "tile"


def positions_setting() -> Any:
    """Returns the setting about positions on which the encoder of `--init` was not trained."""
    return setting(
        KEEP,
        choices=(KEEP, TILE),
        help="what to do with positions on which the encoder of --init was not trained: keep its "
        "values, or tile (repeat the trained ones), which also gives it more positions than it has",
    )


def lora_setting() -> Any:
    """Returns the setting about changes of a low rank; see `model.lora`."""
    return setting(
        0,
        minimum=0,
        help="train changes of this rank of the encoder's dense layers, and the pooler and the "
        "head whole, rather than all weights (LoRA), which takes less memory; the model has the "
        "changes merged (default: 0, none)",
    )


def tile_positions(table: np.ndarray, trained: int, length: int) -> np.ndarray:
    """Returns a table of position embeddings whose first `length` rows repeat the trained ones.

    That keeps neighbours apart as they were (Beltagy et al. 2020, arXiv 2004.05150, section 5).

    Args:
      table: embeddings [P, H]; the first `trained` rows are trained.
      trained: number of trained positions, at most P.
      length: number of positions that are needed, more than `trained`.

    Returns:
      the table [max(P, length), H].
    """
    return np.concatenate([table[np.arange(length) % trained], table[length:]])
