"""How many sequences a second does the trainer's input give, without a model?

    taskset -c 0,1 python -m benchmarks.input_pipeline --data=demo-output/trained/records/128

Reads a folder that `beambert data` made, in small and large batches, with the records' masks and
with dynamic masks. The input of the original release's run_pretraining.py reads the same files for
comparison. Also measures the time to the first batch of a training, and of one that resumes at a
late step.
"""

import itertools
import os
import statistics
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from beambert.errors import InputError
from benchmarks import measuring

if TYPE_CHECKING:
    import tensorflow as tf

    from beambert.trainer.pretraining.records import Records

BATCH_SIZES = (32, 256)
SEED = 1
# The late step is at the end of this epoch; the paper trains for 40.
EPOCHS = 40
# The original release's script reads so many files at once and shuffles among so many records.
ORIGINAL_FILES, ORIGINAL_RECORDS = 4, 100


def original_batches(records: "Records", batch_size: int) -> "tf.data.Dataset":
    """Returns endless batches, made as in the original release's run_pretraining.py.

    That script parses and casts every record by itself.
    """
    import tensorflow as tf

    from beambert.pipelines.records.contract import feature_shapes
    from beambert.trainer.pretraining.records import compression_of

    shapes = feature_shapes(records.max_seq_length, records.max_predictions_per_seq)
    spec = {name: tf.io.FixedLenFeature([size], kind) for name, (size, kind) in shapes.items()}
    compression = compression_of(records.files)

    def parse(serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        example = tf.io.parse_single_example(serialized, spec)
        return {
            name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
            for name, value in example.items()
        }

    files = tf.data.Dataset.from_tensor_slices(records.files).repeat()
    return (
        files.shuffle(len(records.files), SEED)
        .interleave(
            lambda name: tf.data.TFRecordDataset(name, compression),
            cycle_length=min(ORIGINAL_FILES, len(records.files)),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=False,
        )
        .shuffle(ORIGINAL_RECORDS, SEED)
        .map(parse, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(batch_size, drop_remainder=True)
        .prefetch(tf.data.AUTOTUNE)
    )


def batches_of(kind: str, records: "Records", batch_size: int) -> "tf.data.Dataset":
    """Returns endless batches of a kind: "static", "dynamic" or "original"."""
    from beambert.trainer.pretraining.batches import training_batches
    from beambert.trainer.pretraining.masks import MaskingRules

    if kind == "original":
        return original_batches(records, batch_size)
    rules = MaskingRules.of(records) if kind == "dynamic" else None
    return training_batches(records, batch_size, SEED, rules=rules)


def sequences_per_second(batches: "tf.data.Dataset", batch_size: int, rows: int) -> dict:
    """Returns sequences a second and processor time a sequence, for the batches after the first."""
    iterator, count = iter(batches), max(rows // batch_size, 1)
    next(iterator)
    started, used = time.perf_counter(), time.process_time()
    for _ in itertools.islice(iterator, count):
        pass
    seconds, used = time.perf_counter() - started, time.process_time() - used
    read = count * batch_size
    return {"sequences_per_second": read / seconds, "cpu_microseconds": 1e6 * used / read}


def seconds_to_first_batch(records: "Records", step: int) -> float:
    """Returns the seconds from making the input to the batch of a step."""
    from beambert.trainer.pretraining.batches import training_batches

    started = time.perf_counter()
    next(iter(training_batches(records, 256, SEED, step)))
    return time.perf_counter() - started


def main(argv: Sequence[str]) -> None:
    """Measures and prints.

    Raises:
      InputError: the records can't be read.
    """
    parser = measuring.flag_parser("input_pipeline", __doc__)
    add = parser.add_argument
    add(
        "--data",
        default="demo-output/trained/records/128",
        help="records folder (default: %(default)s)",
    )
    add(
        "--sequences",
        type=int,
        default=100_000,
        help="sequences of each measurement (default: %(default)s)",
    )
    add("--repeats", type=int, default=5, help="turns; the median counts (default: %(default)s)")
    measuring.add_results_flag(parser)
    flags = parser.parse_args(list(argv))
    from beambert.trainer.pretraining.records import open_records

    records = open_records(flags.data, "--data")
    if not records.info.has_masks:
        raise InputError(
            f"--data={flags.data}: its records have no masks; give records that `beambert data` "
            "makes without --masks=none"
        )
    speeds: dict[tuple[str, int], list[dict]] = {}
    # All kinds take turns, so that other work on the machine slows all of them alike.
    for _ in range(flags.repeats):
        for size, kind in itertools.product(BATCH_SIZES, ("static", "dynamic", "original")):
            measured = sequences_per_second(batches_of(kind, records, size), size, flags.sequences)
            speeds.setdefault((kind, size), []).append(measured)
    medians = {
        way: {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        for way, runs in speeds.items()
    }
    far = max(EPOCHS * records.instances // 256 - 2, 0)
    result = {
        "max_seq_length": records.max_seq_length,
        "do_whole_word_mask": records.info.parameters["do_whole_word_mask"],
        "instances": records.instances,
        "files": len(records.files),
        "cores": len(os.sched_getaffinity(0)),
        "seconds_to_step_0": round(seconds_to_first_batch(records, 0), 2),
        f"seconds_to_end_of_epoch_{EPOCHS}": round(seconds_to_first_batch(records, far), 2),
    }
    for (kind, size), median in medians.items():
        speed = median["sequences_per_second"]
        result[f"{kind}_{size}"] = {
            "sequences_per_second": round(speed),
            "times_original": round(speed / medians["original", size]["sequences_per_second"], 2),
            "cpu_microseconds_per_sequence": round(median["cpu_microseconds"], 1),
        }
    print(measuring.write_results(flags.results, parser, argv, result))


if __name__ == "__main__":
    measuring.run(main)
