"""Records in Python: batches of NumPy arrays, or a `tf.data.Dataset`."""

import dataclasses
import functools
import gzip
import itertools
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedReader
from typing import TYPE_CHECKING, Any

import google_crc32c
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

from beambert import io
from beambert.errors import InputError
from beambert.pipelines.records.contract import (
    INFO_FILE,
    MOST_RECORD_BYTES,
    RecordsInfo,
    check_finished,
    feature_shapes,
)

if TYPE_CHECKING:
    import tensorflow as tf

_FIND = (
    "find the damaged file with `beambert verify`, copy it again, and run the same command again"
)
# Length of a record and its checksum, and the checksum of the record (record_writer.h).
_HEADER, _CHECKSUM = struct.Struct("<QI"), struct.Struct("<I")
# First bytes of a gzip stream. As the length of a record they would mean at least half a megabyte.
_GZIP_START = b"\x1f\x8b\x08"
# Number of bytes that are read from a file at a time.
_READ_BUFFER = 1 << 20


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
        for path in self.paths:
            serialized = read_file(path)
            while records := list(itertools.islice(serialized, self.batch_size)):
                try:
                    yield decode(records, self.shapes)
                except ValueError as error:
                    raise InputError(
                        f"{path}: has records that {INFO_FILE} does not describe ({error}); copy "
                        "the folder again or make it again with `beambert data`"
                    ) from error

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


class CorruptRecordsError(Exception):
    """A record file is damaged or cut off."""


def read_file(path: str, passed_over: int = 0) -> Iterator[bytes]:
    """Yields the serialized records of a TFRecord file, except some at its start.

    Raises:
      InputError: the file cannot be read, or is damaged.
    """
    with io.open_file(path) as opened:
        records = read_frames(BufferedReader(opened, _READ_BUFFER))  # type: ignore[arg-type]
        try:
            with io.translate_errors(path, "read", _FIND):
                yield from itertools.islice(records, passed_over, None)
        except CorruptRecordsError as error:
            raise InputError(f"{path}: {error}; {_FIND}") from error


def read_frames(file: BufferedReader) -> Iterator[bytes]:
    """Yields the records of a TFRecord file, plain or gzip, and checks every checksum.

    Raises:
      CorruptRecordsError: a record cannot be read; the message has its number, from 1. No record
        after it is read.
    """
    if file.peek(3)[:3] == _GZIP_START:
        file = BufferedReader(gzip.GzipFile(fileobj=file), _READ_BUFFER)
    for number in itertools.count(1):
        try:
            header = file.read(_HEADER.size)
            if not header:
                return
            yield _read_record(file, header, number)
        except (EOFError, OSError, zlib.error) as error:
            if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
                raise  # the disk or the network failed; the file may be in order
            raise CorruptRecordsError(f"the gzip data is damaged at record {number}") from error


def _read_record(file: BufferedReader, header: bytes, number: int) -> bytes:
    if len(header) < _HEADER.size:
        raise CorruptRecordsError(f"cut off in record {number}")
    size, checksum = _HEADER.unpack(header)
    if masked_crc(header[:8]) != checksum:
        raise CorruptRecordsError(
            "not a TFRecord file, or damaged in its first bytes"
            if number == 1
            else f"damaged in the length of record {number}"
        )
    if size > MOST_RECORD_BYTES:
        raise CorruptRecordsError(f"record {number} claims to have {size:,} bytes")
    record, trailer = file.read(size), file.read(_CHECKSUM.size)
    if len(trailer) < _CHECKSUM.size:
        raise CorruptRecordsError(f"cut off in record {number}")
    if masked_crc(record) != _CHECKSUM.unpack(trailer)[0]:
        raise CorruptRecordsError(f"damaged in record {number}")
    return record


def masked_crc(data: bytes) -> int:
    """Returns the checksum of TFRecord files (TensorFlow's core/lib/hash/crc32c.h, Mask)."""
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def decode(
    serialized: Sequence[bytes], shapes: Mapping[str, tuple[int, str]]
) -> dict[str, np.ndarray]:
    """Returns the features of serialized records, [records, length] each.

    Args:
      serialized: the records, as `Example`s of TensorFlow.
      shapes: feature -> (length, type).

    Raises:
      ValueError: a record cannot be parsed, or a feature has another length.
    """
    parsed = {name: np.empty((len(serialized), n), kind) for name, (n, kind) in shapes.items()}
    for row, data in enumerate(serialized):
        try:
            features = _example_type().FromString(data).features.feature
        except message.DecodeError as error:
            raise ValueError("cannot parse it") from error
        for name, (length, kind) in shapes.items():
            feature = features[name]
            values = (feature.int64_list if kind == "int64" else feature.float_list).value
            if len(values) != length:
                raise ValueError(f"{name} has {len(values)} values in place of {length}")
            parsed[name][row] = values
    return parsed


@functools.cache
def _example_type() -> Any:
    """Returns the class of TensorFlow's Example (core/example/example.proto, feature.proto)."""
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="records")
    kinds = descriptor_pb2.FieldDescriptorProto

    def add(messages: Any, name: str, *fields: tuple[str, int, Any]) -> Any:
        made = messages.add(name=name)
        for field, number, kind in fields:
            is_message = isinstance(kind, str)
            is_repeated = field == "value" and not is_message or field == "feature"
            made.field.add(
                name=field,
                number=number,
                label=kinds.LABEL_REPEATED if is_repeated else kinds.LABEL_OPTIONAL,
                type=kinds.TYPE_MESSAGE if is_message else kind,
                type_name=f".records.{kind}" if is_message else None,
            )
        return made

    add(file.message_type, "FloatList", ("value", 1, kinds.TYPE_FLOAT))
    add(file.message_type, "Int64List", ("value", 1, kinds.TYPE_INT64))
    lists = ("float_list", 2, "FloatList"), ("int64_list", 3, "Int64List")
    add(file.message_type, "Feature", *lists)
    features = add(file.message_type, "Features", ("feature", 1, "Features.Entry"))
    entry = ("key", 1, kinds.TYPE_STRING), ("value", 2, "Feature")
    add(features.nested_type, "Entry", *entry).options.map_entry = True
    add(file.message_type, "Example", ("features", 1, "Features"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("records.Example"))
