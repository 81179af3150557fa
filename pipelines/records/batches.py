"""Records in Python: batches of NumPy arrays, or a `tf.data.Dataset`."""

import dataclasses
from collections.abc import Iterator
from io import BufferedReader
from typing import TYPE_CHECKING

import numpy as np

from beambert import io
from beambert.errors import InputError
from beambert.pipelines.records.contract import (
    INFO_FILE,
    RecordsInfo,
    check_finished,
    feature_shapes,
)

if TYPE_CHECKING:
    import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class RecordBatches:
    """The records of a finished folder in the order of its files; iterate over it.

    Attributes:
      folder: path of the folder.
      info: content of its info.json: parameters, vocabulary, inputs and counts.
      batch_size: number of records of a batch; the last one of a file may have fewer.
    """

    folder: str
    info: RecordsInfo
    batch_size: int

    def __len__(self) -> int:
        """Returns the number of records."""
        return sum(file["instances"] for file in self.info.files)

    @property
    def shapes(self) -> dict[str, tuple[int, str]]:
        """Feature -> (length, type)."""
        parameters = self.info.parameters
        predictions = parameters["max_predictions_per_seq"] if self.info.has_masks else 0
        return feature_shapes(parameters["max_seq_length"], predictions, self.info.has_label)

    @property
    def paths(self) -> list[str]:
        """Paths of the files."""
        return [f"{self.folder}/{file['name']}" for file in self.info.files]

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        """Yields feature -> [records, length], integers as int64, weights as float32.

        Raises:
          InputError: a file cannot be read, or a record is damaged or has other features.
        """
        from beambert.pipelines.records import reading

        shapes = self.shapes
        predictions = shapes.get("masked_lm_ids", (0, ""))[0]
        features = reading.RecordFeatures(
            {name: name for name in shapes}, shapes["input_ids"][0], predictions
        )
        for path in self.paths:
            with reading.HashedFile(io.open_file(path)) as file:
                buffered = BufferedReader(file, 1 << 20)
                try:
                    for records in reading.read_batches(buffered, self.batch_size):
                        rows, faults = reading.decode_rows(records, features)
                        if faults:
                            raise InputError(
                                f"{path}: has records that {INFO_FILE} does not describe; copy "
                                "the folder again or make it again with `beambert data`"
                            )
                        yield {name: rows[name] for name in shapes}
                except reading.CorruptRecordsError as error:
                    raise InputError(f"{path}: {error}; copy the folder again") from error

    def dataset(self) -> "tf.data.Dataset":
        """Returns batches as a `tf.data.Dataset`: feature -> [batch_size, length]."""
        import tensorflow as tf

        spec = {
            name: tf.io.FixedLenFeature([length], kind)
            for name, (length, kind) in self.shapes.items()
        }
        compression = "GZIP" if any(path.endswith(".gz") for path in self.paths) else ""
        serialized = tf.data.TFRecordDataset(self.paths, compression)
        return serialized.batch(self.batch_size).map(
            lambda batch: tf.io.parse_example(batch, spec), tf.data.AUTOTUNE
        )


def read_records(folder: str, batch_size: int = 1024) -> RecordBatches:
    """Opens a finished records folder.

    Args:
      folder: path of the folder, local or on an object storage.
      batch_size: number of records of a batch.

    Raises:
      InputError: the folder does not exist, is not finished, or its info.json cannot be used.

    Example:
      >>> import beambert
      >>> for batch in beambert.read_records("records"):
      ...     print(batch["input_ids"].shape)
      (1024, 128)
    """
    folder = folder.rstrip("/")
    if batch_size < 1:
        raise InputError(f"batch_size={batch_size}: must be at least 1")
    check_finished(folder, "folder")
    path = f"{folder}/{INFO_FILE}"
    info = RecordsInfo.from_json(io.read_bytes(path).decode(errors="replace"), path)
    return RecordBatches(folder, info, batch_size)
