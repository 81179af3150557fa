"""Records folders -> batches: deterministic, sharded by host, resumable at any step."""

import bisect
import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from pipelines.errors import InputError
from pipelines.records import (
    INFO_FILE,
    MARKER_FILE,
    VOCABULARY_FILE,
    RecordsInfo,
    Vocabulary,
    feature_shapes,
)
from trainer.dealing import deal, shares_of, steps_dealt
from trainer.dynamic_masking import MaskingRules, draw_bits, redraw_masks
from trainer.folders import read, reason

# Files read at once, a record from each in turn: mixes the shards of a batch.
FILES_AT_ONCE = 16
# Bytes of a file that are read at once.
READ_BUFFER = 1 << 20


@dataclasses.dataclass(frozen=True)
class Records:
    """A finished records folder.

    Attributes:
      folder: where it is.
      info: its info.json.
      vocabulary: what its ids mean.
    """

    folder: str
    info: RecordsInfo
    vocabulary: Vocabulary

    @property
    def max_seq_length(self) -> int:
        """Tokens of a record."""
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
    """Opens a records folder, refusing one that isn't finished or whole.

    Args:
      folder: local or gs://.
      flag: it was given by, for messages.

    Raises:
      InputError: not there, not finished, or a file is missing or cut off.
    """
    folder = folder.rstrip("/")
    if not tf.io.gfile.exists(folder):
        raise InputError(f"{flag}={folder}: no such folder; make it with `beambert data`")
    if not tf.io.gfile.exists(f"{folder}/{MARKER_FILE}"):
        inside = tf.io.gfile.glob(f"{folder}/[0-9]*/{MARKER_FILE}")
        if inside:
            found = ", ".join(path.removesuffix(f"/{MARKER_FILE}") for path in sorted(inside))
            raise InputError(f"{flag}={folder}: holds records for several lengths; name {found}")
        raise InputError(
            f"{flag}={folder}: not a finished records folder (no {MARKER_FILE}); "
            "run `beambert data` again, which completes it"
        )
    info_path = f"{folder}/{INFO_FILE}"
    info = RecordsInfo.from_json(read(info_path).decode(errors="replace"), info_path)
    vocabulary_path = f"{folder}/{VOCABULARY_FILE}"
    vocabulary = Vocabulary.parse(read(vocabulary_path), vocabulary_path)
    if vocabulary.sha256 != info.vocabulary["sha256"]:
        raise InputError(
            f"{vocabulary_path}: not the vocabulary that {INFO_FILE} names (SHA-256 "
            f"{vocabulary.sha256[:12]}, there {info.vocabulary['sha256'][:12]}); copy the folder "
            "again or make it again with `beambert data`"
        )
    for file in info.files:
        path = f"{folder}/{file['name']}"
        size = tf.io.gfile.stat(path).length if tf.io.gfile.exists(path) else "missing"
        if size != file["bytes"]:
            raise InputError(
                f"{path}: has {size} bytes, {INFO_FILE} says {file['bytes']}; copy the folder "
                "again or make it again with `beambert data`"
            )
    records = Records(folder, info, vocabulary)
    if not records.instances:
        raise InputError(
            f"{flag}={folder}: has no records; make it again with `beambert data` from more text"
        )
    _check_first(records)
    return records


def _check_first(records: Records) -> None:
    """Refuses records that are not what info.json says: one stands for all of a run's."""
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
    """Refuses evaluation records that the training records' model can't read.

    Raises:
      InputError: naming both values.
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
    # Accelerators have no 64-bit integers worth using.
    return {k: tf.cast(v, tf.int32) if v.dtype == tf.int64 else v for k, v in parsed.items()}


def compression_of(files: list[str]) -> str:
    """Returns what TensorFlow calls the compression of a folder's files."""
    return "GZIP" if files[0].endswith(".gz") else ""


def find_record(counts: Sequence[int], index: int) -> tuple[int, int, int]:
    """Finds a record in the order of `_in_turn`, from the files' numbers of records alone.

    Args:
      counts: records of each file, in the order that the files are read in.
      index: of the record; less than the sum of the counts.

    Returns:
      the number of files to leave out; of how many records each of the next `FILES_AT_ONCE` files
      is to be shortened, if it has so many; and how many records to skip in what is read then.
    """
    for first_file in range(0, len(counts), FILES_AT_ONCE):
        at_once = counts[first_file : first_file + FILES_AT_ONCE]
        if index < sum(at_once):
            break
        index -= sum(at_once)

    def records_in(rounds: int) -> int:
        return sum(min(count, rounds) for count in at_once)

    rounds = bisect.bisect_right(range(max(at_once)), index, key=records_in) - 1
    return first_file, rounds, index - records_in(rounds)


def _in_turn(names: tf.Tensor, compression: str, shortened_by: int = 0) -> tf.data.Dataset:
    """Serialized records: one of each file in turn, for a number of files at a time.

    Args:
      names: string [files].
      compression: of all files.
      shortened_by: records to leave out at the start of every file.
    """

    def read_file(name: tf.Tensor) -> tf.data.Dataset:
        # Skipping in a file passes over the records without copying them.
        return tf.data.TFRecordDataset(name, compression, READ_BUFFER).skip(shortened_by)

    def read_files(names: tf.Tensor) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices(names).interleave(
            read_file,
            cycle_length=FILES_AT_ONCE,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )

    return tf.data.Dataset.from_tensor_slices(names).batch(FILES_AT_ONCE).flat_map(read_files)


def _training_stream(records: Records, seed: int, first_record: int) -> tf.data.Dataset:
    """Serialized records, epoch after epoch, each with its own order of the files."""
    files, compression = tf.constant(records.files), compression_of(records.files)

    def order_of(epoch: tf.Tensor) -> tf.Tensor:
        seeds = [seed, tf.cast(epoch, tf.int32)]
        return tf.random.experimental.stateless_shuffle(tf.range(len(records.files)), seeds)

    epoch, index = divmod(first_record, records.instances)
    order = order_of(epoch)
    counts = [records.counts[file] for file in order.numpy()]
    first_file, rounds, rest = find_record(counts, index)
    names = tf.gather(files, order)[first_file:]
    current = _in_turn(names[:FILES_AT_ONCE], compression, rounds).skip(rest)
    current = current.concatenate(_in_turn(names[FILES_AT_ONCE:], compression))
    later = tf.data.Dataset.counter(epoch + 1).flat_map(
        lambda number: _in_turn(tf.gather(files, order_of(number)), compression)
    )
    return current.concatenate(later)


def training_batches(
    records: Records,
    batch_size: int,
    seed: int,
    first_step: int = 0,
    context: tf.distribute.InputContext | None = None,
    *,
    gradient_accumulation_steps: int = 1,
    do_dynamic_masking: bool = False,
) -> tf.data.Dataset:
    """Endless batches, epoch after epoch.

    The records lie shuffled in their files; every epoch reads the files in another order. Those of
    some steps are dealt to these steps' batches so that each has nearly equally many tokens, see
    `dealing`. Position and masks follow from the step alone, so resuming needs no iterator state,
    and finding the position reads no more than the files that are open there.

    Args:
      records: to read.
      batch_size: over all hosts.
      seed: of the files' order and of dynamic masks.
      first_step: batches that are done already.
      context: which of the input pipelines this is; host h of n takes records h, h + n, ….
      gradient_accumulation_steps: parts of a replica's batch that are computed together.
      do_dynamic_masking: draw other masks than the records have, different in every epoch.

    Returns:
      Dataset of name -> int32 or float32 [batch_size / replicas, length].
    """
    context = context or tf.distribute.InputContext()
    hosts, host = context.num_input_pipelines, context.input_pipeline_id
    replicas = context.num_replicas_in_sync // hosts
    rows = batch_size // context.num_replicas_in_sync
    rules = MaskingRules.of(records.info, records.vocabulary) if do_dynamic_masking else None
    steps = steps_dealt(batch_size)
    shares = shares_of(batch_size, hosts)
    first_deal, steps_skipped = divmod(first_step, steps)

    def replica_batches(number: tf.Tensor, serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        features = parse_batch(serialized, records)
        if rules is not None:
            bits = draw_bits(seed, number, steps * batch_size, features)
            features = redraw_masks(features, bits[host::hosts], rules)
        parts = replicas * gradient_accumulation_steps
        dealt = deal(features, steps, parts, range(host, shares, hosts), shares)
        return {n: tf.reshape(v, [-1, rows, v.shape[-1]]) for n, v in dealt.items()}

    dataset = _training_stream(records, seed, first_deal * steps * batch_size).shard(hosts, host)
    dataset = dataset.batch(steps * batch_size // hosts, drop_remainder=True)
    dataset = dataset.enumerate(first_deal)
    dataset = dataset.map(replica_batches, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return dataset.unbatch().skip(steps_skipped * replicas).prefetch(tf.data.AUTOTUNE)


def evaluation_batches(
    records: Records,
    batch_size: int,
    max_batches: int | None = None,
    context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """All records once (or the first batches of them), in the order of the files.

    The last batch is filled up with empty rows; `example_weights` [batch] is 0 for those.
    """
    dataset = _in_turn(tf.constant(records.files), compression_of(records.files))
    if max_batches is not None:
        dataset = dataset.take(max_batches * batch_size)
    context = context or tf.distribute.InputContext()
    hosts, host = context.num_input_pipelines, context.input_pipeline_id

    def share(serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        # Rows of filled batches, so that every host has equally many batches.
        features = fill_up(parse_batch(serialized, records), batch_size)
        return {name: value[host::hosts] for name, value in features.items()}

    dataset = dataset.batch(batch_size).map(share)
    replicas = context.num_replicas_in_sync
    return dataset.rebatch(batch_size // replicas, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def fill_up(features: dict[str, tf.Tensor], batch_size: int) -> dict[str, Any]:
    """Adds empty rows up to a static batch size, and the weights that tell them apart."""
    rows = tf.shape(next(iter(features.values())))[0]
    features = features | {"example_weights": tf.ones([rows], tf.float32)}
    filled = {}
    for name, value in features.items():
        paddings = [[0, batch_size - rows]] + [[0, 0]] * (value.shape.rank - 1)
        filled[name] = tf.ensure_shape(tf.pad(value, paddings), [batch_size, *value.shape[1:]])
    return filled
