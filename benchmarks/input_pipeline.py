"""How many sequences a second does the trainer's input give, with nothing to train?

    taskset -c 0,1 python -m benchmarks.input_pipeline --data=demo-output/records/128

Reads a folder that `beambert data` made, with the masks it has and with masks drawn anew, in
small and large batches; and looks up how long the first batch takes of a step far in the future.
"""

import argparse
import itertools
import json
import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

BATCH_SIZES = (32, 256)
SEED = 1
# Of the step that the search is timed for: the paper trains for 40.
EPOCHS = 40


def sequences_per_second(records: object, batch_size: int, is_dynamic: bool, rows: int) -> dict:
    """Returns wall-clock speed, and processor time of a sequence, for batches after a first one."""
    from beambert.trainer.pretraining.batches import training_batches

    batches = training_batches(records, batch_size, SEED, do_dynamic_masking=is_dynamic)
    iterator, count = iter(batches), rows // batch_size
    next(iterator)
    started, used = time.perf_counter(), time.process_time()
    for _ in itertools.islice(iterator, count):
        pass
    seconds, used = time.perf_counter() - started, time.process_time() - used
    read = count * batch_size
    return {"sequences_per_second": read / seconds, "cpu_microseconds": 1e6 * used / read}


def seconds_to_first_batch(records: object, step: int) -> float:
    """Returns how long it takes from nothing to the batch of a step."""
    from beambert.trainer.pretraining.batches import training_batches

    started = time.perf_counter()
    next(iter(training_batches(records, 256, SEED, step)))
    return time.perf_counter() - started


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="demo-output/records/128")
    parser.add_argument("--sequences", type=int, default=100_000, help="of each measurement")
    parser.add_argument("--repeats", type=int, default=5, help="the median counts")
    flags = parser.parse_args()
    from beambert.trainer.pretraining.records import open_records

    records = open_records(flags.data, "--data")
    speeds: dict[str, list[dict]] = {}
    # One after the other each time, so that whatever else runs here slows all of them.
    for _ in range(flags.repeats):
        for size, is_dynamic in itertools.product(BATCH_SIZES, (False, True)):
            name = f"{'dynamic' if is_dynamic else 'static'}_{size}"
            measured = sequences_per_second(records, size, is_dynamic, flags.sequences)
            speeds.setdefault(name, []).append(measured)
    far = EPOCHS * records.instances // 256 - 2
    result = {
        "max_seq_length": records.max_seq_length,
        "do_whole_word_mask": records.info.parameters["do_whole_word_mask"],
        "instances": records.instances,
        "files": len(records.files),
        "cores": len(os.sched_getaffinity(0)),
        "seconds_to_step_0": round(seconds_to_first_batch(records, 0), 2),
        f"seconds_to_end_of_epoch_{EPOCHS}": round(seconds_to_first_batch(records, far), 2),
    }
    for name, runs in speeds.items():
        median = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        result[name] = {
            "sequences_per_second": round(median["sequences_per_second"]),
            "cpu_microseconds_per_sequence": round(median["cpu_microseconds"], 1),
        }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
