"""Browses record files by the offsets of their records. No file is read whole.

The index of a file grows with the records that are asked for: the length of a record gives the
offset of the next one, so its content is not read. A gzip file has no such offsets and is read from
its beginning.
"""

import dataclasses
import itertools
import os
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

import numpy as np

from beambert.pipelines.records.reading import (
    CorruptRecordsError,
    RecordFeatures,
    decode_rows,
    read_records,
)
from beambert.pipelines.records.statistics import (
    SampledRecord,
    VocabularyIds,
    as_record,
    restore_ids,
    says_next,
)
from beambert.pipelines.tokenizers.pieces import join_pieces

# Number of records that are decoded at a time.
ROWS_AT_A_TIME = 256
# Number of seconds after which a search ends; it can be continued.
SECONDS_A_SEARCH = 0.2
_LENGTH = struct.Struct("<Q")
# Bytes before a record (its length and the length's checksum), and after it.
_BEFORE, _AFTER = 12, 4


class RecordFile:
    """The records of one local TFRecord file by number; several threads may share it.

    Attributes:
      path: path of the file.
    """

    def __init__(self, path: str):
        """Opens the file without reading it."""
        self.path = path
        self._starts = [0]
        self._lock = threading.Lock()
        with open(path, "rb") as file:
            self._is_gzip = file.read(2) == b"\x1f\x8b"

    def read(self, first: int, count: int) -> list[bytes]:
        """Returns at most `count` records, fewer at the end of the file.

        Args:
          first: number of the first record, from 0.
          count: number of records.

        Raises:
          CorruptRecordsError: a record is damaged.
        """
        with open(self.path, "rb") as file:
            if self._is_gzip:
                return list(itertools.islice(read_records(file), first, first + count))
            start = self._start(file, first)
            if start is None:
                return []
            file.seek(start)
            return list(itertools.islice(read_records(file), count))

    def _start(self, file: BinaryIO, number: int) -> int | None:
        """Returns the offset of a record in the open file; None after the last record."""
        size = os.fstat(file.fileno()).st_size
        with self._lock:
            starts = self._starts
            while len(starts) <= number:
                length = os.pread(file.fileno(), _LENGTH.size, starts[-1])
                if len(length) < _LENGTH.size:
                    return None
                after = starts[-1] + _BEFORE + _LENGTH.unpack(length)[0] + _AFTER
                if after >= size:
                    return None
                starts.append(after)
            return starts[number] if starts[number] < size else None


@dataclasses.dataclass(frozen=True)
class Filter:
    """Conditions for a record to be shown.

    Attributes:
      is_next: whether its label is `IS_NEXT`; None for any label or none.
      least, most: its number of filled positions.
      has_unknown: whether it must have an [UNK].
      text: words that must occur in it, in any case; "" for any.
    """

    is_next: bool | None = None
    least: int = 0
    most: int = 1 << 20
    has_unknown: bool = False
    text: str = ""


@dataclasses.dataclass(frozen=True)
class Found:
    """The result of a search.

    Attributes:
      records: the records that were found.
      looked_at: number of records that were looked at.
      then: numbers of the file and of the record to go on with; None at the end.
      damage: message about a damaged file; "" if there is none.
    """

    records: list[SampledRecord]
    looked_at: int
    then: tuple[int, int] | None
    damage: str = ""


class RecordBrowser:
    """The records of one folder."""

    def __init__(
        self,
        paths: Sequence[str],
        features: RecordFeatures,
        tokens: Sequence[str] | None,
        ids: VocabularyIds | None,
    ):
        """Opens the files without reading them.

        Args:
          paths: paths of the files, in order.
          features: names and lengths of the records' features.
          tokens: tokens of the vocabulary by id; None without a vocabulary.
          ids: ids of the vocabulary; None without a vocabulary.
        """
        self.files = [RecordFile(path) for path in paths]
        self.features = features
        self.tokens = tokens
        self.ids = ids

    def search(self, wanted: Filter, at: tuple[int, int], count: int) -> Found:
        """Searches for records from a position on, for at most `SECONDS_A_SEARCH`.

        Args:
          wanted: what the records must have.
          at: number of the file and of the record to begin with, from 0.
          count: number of records to find.
        """
        found: list[SampledRecord] = []
        looked_at, ends = 0, time.monotonic() + SECONDS_A_SEARCH
        number, first = at
        while number < len(self.files) and time.monotonic() < ends:
            file = self.files[number]
            try:
                records = file.read(first, ROWS_AT_A_TIME)
            except CorruptRecordsError as error:
                return Found(found, looked_at, (number + 1, 0), f"{file.path}: {error}")
            rows, indices = self._decode(records)
            for row in self._matching(rows, wanted):
                found.append(as_record(rows, row, file.path, first + indices[row] + 1))
                if len(found) == count:
                    looked_at += indices[row] + 1
                    return Found(found, looked_at, (number, first + indices[row] + 1))
            looked_at += len(records)
            first += len(records)
            if len(records) < ROWS_AT_A_TIME:
                number, first = number + 1, 0
        return Found(found, looked_at, (number, first) if number < len(self.files) else None)

    def _decode(self, records: list[bytes]) -> tuple[dict[str, np.ndarray], list[int]]:
        """Returns the rows of the records that can be decoded, and the index of each."""
        rows, faults = decode_rows(records, self.features)
        if not faults:
            return rows, list(range(len(records)))
        indices = [
            index
            for index, record in enumerate(records)
            if not decode_rows([record], self.features)[1]
        ]
        return rows, indices

    def _matching(self, rows: Mapping[str, np.ndarray], wanted: Filter) -> Iterator[int]:
        """Yields the numbers of the rows that meet the conditions."""
        filled = (rows["input_mask"] != 0).sum(axis=1)
        fits = (filled >= wanted.least) & (filled <= wanted.most)
        if wanted.is_next is not None:
            labels = [says_next(rows, row) for row in range(len(fits))]
            fits &= np.array(labels) == wanted.is_next
        restored = restore_ids(rows)
        if wanted.has_unknown:
            fits &= (restored == (self.ids.unknown if self.ids else -1)).any(axis=1)
        for row in np.flatnonzero(fits).tolist():
            text = wanted.text.casefold()
            if not text or text in self.text(restored[row][: filled[row]]).casefold():
                yield row

    def text(self, ids: np.ndarray) -> str:
        """Returns ids as text for people."""
        tokens = self.tokens or ()
        return join_pieces(tokens[i] if 0 <= i < len(tokens) else str(i) for i in ids.tolist())
