"""A few records drawn at random, to read. Pure.

The draw takes the records with the smallest hashes, which is a uniform sample of the different
records. It depends on the records alone, so that it is the same for any number of files and
workers, and the draws of files add up to the draw of their folder.
"""

import dataclasses
import heapq
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from beambert.pipelines.records.contract import IS_NEXT, LABEL_FEATURE
from beambert.pipelines.tokenizers.pieces import join_pieces
from beambert.pipelines.tokenizers.vocabulary import CLASSIFY, MASK, PADDING, SEPARATE

# Number of records to show.
SAMPLE_RECORDS = 10


@dataclasses.dataclass(frozen=True, order=True)
class SampledRecord:
    """A record to show; the order is that of the draw.

    Attributes:
      hash: hash of the record, see `repeats.hash_records`.
      path: path of its file.
      number: place of the record in the file, from 1.
      positions: number of positions, padding included.
      ids: ids of the filled positions.
      segments: segment of each of them.
      predictions: position -> label, for the tokens to predict.
      is_next: whether the label says that B follows A, rather than that B is random or that A
        follows B; None of a record without a label.
    """

    hash: int
    path: str
    number: int
    positions: int
    ids: tuple[int, ...]
    segments: tuple[int, ...]
    predictions: tuple[tuple[int, int], ...]
    is_next: bool | None


def says_next(rows: Mapping[str, np.ndarray], row: int) -> bool | None:
    """Returns whether the label of a row says that B follows A; None without a label."""
    return int(rows[LABEL_FEATURE][row, 0]) == IS_NEXT if LABEL_FEATURE in rows else None


def sample_rows(
    rows: Mapping[str, np.ndarray], hashes: np.ndarray, path: str, first: int
) -> list[SampledRecord]:
    """Draws from rows of a file.

    Args:
      rows: feature -> [rows, length].
      hashes: uint64 [rows], see `repeats.hash_records`.
      path: path of the file.
      first: number of the first row in the file, from 1.
    """
    drawn = []
    for row in np.unique(hashes, return_index=True)[1][:SAMPLE_RECORDS].tolist():
        filled = rows["input_mask"][row] != 0
        used = rows["masked_lm_weights"][row] != 0
        predicted = (rows[name][row][used] for name in ("masked_lm_positions", "masked_lm_ids"))
        drawn.append(
            SampledRecord(
                int(hashes[row]),
                path,
                first + row,
                len(filled),
                tuple(rows["input_ids"][row][filled].tolist()),
                tuple(rows["segment_ids"][row][filled].tolist()),
                tuple(zip(*(values.tolist() for values in predicted), strict=True)),
                says_next(rows, row),
            )
        )
    return drawn


def merge_samples(samples: Iterable[Sequence[SampledRecord]]) -> list[SampledRecord]:
    """Returns the draw from several files, given the draw from each; equal records count once."""
    different: dict[int, SampledRecord] = {}
    for record in heapq.merge(*map(sorted, samples)):
        different.setdefault(record.hash, record)
        if len(different) == SAMPLE_RECORDS:
            break
    return list(different.values())


def decode_record(record: SampledRecord, tokens: Sequence[str] | None) -> dict[str, object]:
    """Returns a record as text.

    Args:
      record: record to show.
      tokens: tokens of the vocabulary by id; None shows the ids.

    Returns:
      `file`, `number`, `is_next`, `filled`, `positions`, `predictions` (their number), and `a` and
      `b`, the text of the segments. A predicted piece is shown as `[shown→label]`. In a record
      without a label, whose text is all in `a`, [SEP] stands between two documents.
    """

    def name(index: int) -> str:
        return tokens[index] if tokens and 0 <= index < len(tokens) else str(index)

    labels = dict(record.predictions)
    segments: tuple[list[str], list[str]] = ([], [])
    for position, (index, segment) in enumerate(zip(record.ids, record.segments, strict=True)):
        piece = name(index)
        if position in labels:
            label = name(labels[position])
            # The piece stays where the hidden one was: inside of a word, if that continued one.
            continues = "##" if label.startswith("##") else ""
            shown = piece.strip("[]") if piece == MASK else piece
            piece = f"{continues}[{shown}→{label}]"
        elif piece in (CLASSIFY, SEPARATE, PADDING):
            is_last = position == len(record.ids) - 1
            if piece != SEPARATE or is_last or record.is_next is not None:
                continue
        segments[segment != 0].append(piece)
    return {
        "file": record.path,
        "number": record.number,
        "is_next": record.is_next,
        "filled": len(record.ids),
        "positions": record.positions,
        "predictions": len(record.predictions),
        "a": join_pieces(segments[0]),
        "b": join_pieces(segments[1]),
    }
