"""Opens, checks and parses records for training."""

import dataclasses

import tensorflow as tf

from beambert.pipelines.records.contract import INFO_FILE, RecordsInfo, feature_shapes
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage import tensorflow_files
from beambert.pipelines.storage.claims import MARKER_FILE, UNFINISHED_FILE
from beambert.pipelines.storage.tensorflow_files import reason
from beambert.pipelines.wordpiece.vocabulary import VOCABULARY_FILE, Vocabulary


@dataclasses.dataclass(frozen=True)
class Records:
    """A finished records folder.

    Attributes:
      folder: path of the folder.
      info: content of its info.json.
      vocabulary: vocabulary that the records' ids belong to.
    """

    folder: str
    info: RecordsInfo
    vocabulary: Vocabulary

    @property
    def max_seq_length(self) -> int:
        """Tokens of a record, padding included."""
        return self.info.parameters["max_seq_length"]

    @property
    def max_predictions_per_seq(self) -> int:
        """Prediction slots of a record."""
        return self.info.parameters["max_predictions_per_seq"]

    @property
    def instances(self) -> int:
        """Number of records."""
        return sum(self.counts)

    @property
    def counts(self) -> list[int]:
        """Number of records of each of `files`."""
        return [file["instances"] for file in self.info.files if file["instances"]]

    @property
    def files(self) -> list[str]:
        """Paths of the files that hold records."""
        return [f"{self.folder}/{f['name']}" for f in self.info.files if f["instances"]]


def open_records(folder: str, flag: str) -> Records:
    """Opens a records folder and checks that it is finished and complete.

    Args:
      folder: path of the folder, local or gs://.
      flag: name of the flag that gave the folder, for error messages.

    Raises:
      InputError: the folder does not exist or is not finished, or a file is missing or cut off.
    """
    folder = folder.rstrip("/")
    if not tensorflow_files.exists(folder):
        raise InputError(f"{flag}={folder}: no such folder; make it with `beambert data`")
    if not tensorflow_files.exists(f"{folder}/{MARKER_FILE}"):
        inside = tensorflow_files.match(f"{folder}/[0-9]*/{MARKER_FILE}")
        if inside:
            found = ", ".join(path.removesuffix(f"/{MARKER_FILE}") for path in inside)
            raise InputError(
                f"{flag}={folder}: holds records for several lengths; name one of {found}"
            )
        ours = (UNFINISHED_FILE, INFO_FILE)
        if not any(tensorflow_files.exists(f"{folder}/{name}") for name in ours):
            raise InputError(
                f"{flag}={folder}: is no records folder; make one with `beambert data`"
            )
        raise InputError(
            f"{flag}={folder}: not a finished records folder (no {MARKER_FILE}); "
            "run `beambert data` again, which completes it"
        )
    info_path = f"{folder}/{INFO_FILE}"
    info = RecordsInfo.from_json(
        tensorflow_files.read_bytes(info_path).decode(errors="replace"), info_path
    )
    vocabulary_path = f"{folder}/{VOCABULARY_FILE}"
    vocabulary = Vocabulary.parse(tensorflow_files.read_bytes(vocabulary_path), vocabulary_path)
    if vocabulary.sha256 != info.vocabulary["sha256"]:
        raise InputError(
            f"{vocabulary_path}: not the vocabulary of the records (its SHA-256 is "
            f"{vocabulary.sha256[:12]}, {INFO_FILE} says {info.vocabulary['sha256'][:12]}); copy "
            "the folder again or make it again with `beambert data`"
        )
    paths = [f"{folder}/{file['name']}" for file in info.files]
    for path, size, file in zip(paths, tensorflow_files.sizes(paths), info.files, strict=True):
        if size != file["bytes"]:
            has = "is missing" if size is None else f"has {size} bytes"
            raise InputError(
                f"{path}: {has}, but {INFO_FILE} says {file['bytes']}; copy the folder again or "
                "make it again with `beambert data`"
            )
    records = Records(folder, info, vocabulary)
    if not records.instances:
        raise InputError(
            f"{flag}={folder}: has no records; make it again with `beambert data` from more text"
        )
    _check_first(records)
    return records


def _check_first(records: Records) -> None:
    """Refuses records whose first one is not as info.json describes it."""
    path = records.files[0]
    first = tf.data.TFRecordDataset(path, compression_of([path])).batch(1).take(1)
    try:
        for serialized in first:
            parse_batch(serialized, records)
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        raise InputError(
            f"{path}: its first record cannot be read as {INFO_FILE} describes it "
            f"({reason(error)}); copy the folder again or make it again with `beambert data`"
        ) from error


def check_same(records: Records, other: Records) -> None:
    """Refuses evaluation records that differ from the training records in vocabulary or lengths.

    Raises:
      InputError: they differ; the message has both values.
    """
    parameters = ("do_lower_case", "max_seq_length", "max_predictions_per_seq")
    for name, mine, theirs in (
        ("vocabulary", records.vocabulary.sha256[:12], other.vocabulary.sha256[:12]),
        *((n, records.info.parameters[n], other.info.parameters[n]) for n in parameters),
    ):
        if mine != theirs:
            raise InputError(
                f"--eval_data={other.folder}: its {name} is {theirs}, that of "
                f"--data={records.folder} is {mine}; make both with the same flags"
            )


def parse_batch(serialized: tf.Tensor, records: Records) -> dict[str, tf.Tensor]:
    """Parses serialized records [n] into features [n, length], integers as int32."""
    shapes = feature_shapes(records.max_seq_length, records.max_predictions_per_seq)
    spec = {name: tf.io.FixedLenFeature([n], kind) for name, (n, kind) in shapes.items()}
    parsed = tf.io.parse_example(serialized, spec)
    # Accelerators are slow with 64-bit integers.
    return {k: tf.cast(v, tf.int32) if v.dtype == tf.int64 else v for k, v in parsed.items()}


def compression_of(files: list[str]) -> str:
    """Returns TensorFlow's name of the compression of a folder's files."""
    return "GZIP" if files[0].endswith(".gz") else ""
