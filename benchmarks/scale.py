"""How long do the serial parts of `beambert data` take for many input files and shards?

    python -m benchmarks.scale --vocab_file=vocab.txt --files=1000,10000

The serial parts (plan, last step, renaming and deleting files) are run for some numbers of local
files, and as many shards. Their times are seconds of the processor, so that other programs don't
count; their memory is the greatest of this process so far, with its libraries.
"""

import itertools
import pathlib
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from beambert.flags import FlagParser
from benchmarks import measuring

# Number of shards to add up at a time, as workers do.
SHARDS_AT_A_TIME = 1000


def timed(work: Callable[[], object]) -> float:
    """Returns the seconds of this process's processor that a call takes."""
    started = time.process_time()
    work()
    return time.process_time() - started


def measure_serial(count: int, vocab_file: str, folder: pathlib.Path) -> dict[str, float]:
    """Returns the seconds of the serial parts for so many inputs, and as many shards."""
    from beambert import storage
    from beambert.pipelines.pretraining.finishing import FinishFolders
    from beambert.pipelines.pretraining.job import PretrainingDataJob
    from beambert.pipelines.pretraining.plan import find_inputs, make_plan
    from beambert.pipelines.pretraining.shards import add_shards
    from beambert.storage import TEMPORARY_PREFIX

    for number in range(count):
        path = folder / "text" / f"{number // 1000}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"The river began.\n")
    job = PretrainingDataJob(
        vocab_file=vocab_file,
        output=str(folder / "records"),
        input=(f"{folder}/text/*/*",),
        format="lines",
        encoding="utf-8",
        num_shards=count,
    )
    seconds, plans = {}, []
    seconds["plan"] = timed(lambda: plans.append(make_plan(job, find_inputs(job))))
    plan = plans[0]
    seconds["plan"] += timed(plan.claim_folders)
    pipeline_bytes = translated_bytes(job, plan)
    read = Counter(read=count, coverage=expected(plan.inputs))
    shards = add_shards(map(add_shards, batched(made_shards(plan.layout))))
    finish = FinishFolders(plan)
    seconds["finish"] = timed(lambda: list(finish.process(None, shards, read, [])))
    info = folder / "records" / "info.json"

    def rename() -> None:
        for number in range(count):
            storage.write_bytes(f"{folder}/renamed/part-{number}", b"")

    seconds["rename"] = timed(rename)
    for number in range(count):
        (folder / "renamed" / f"{TEMPORARY_PREFIX}{number}").write_bytes(b"")
    seconds["delete"] = timed(
        lambda: storage.delete_prefixed(f"{folder}/renamed", TEMPORARY_PREFIX)
    )
    return {
        "files": count,
        **{name: round(value, 3) for name, value in seconds.items()},
        "microseconds_per_file": {name: round(1e6 * s / count, 1) for name, s in seconds.items()},
        "info_megabytes": round(info.stat().st_size / 1e6, 2),
        "job_megabytes": round(pipeline_bytes / 1e6, 3),
        "peak_gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
    }


def translated_bytes(job: object, plan: object) -> int:
    """Returns the size of the pipeline that a runner would get, which holds the claimed job."""
    import apache_beam as beam

    from beambert.pipelines.pretraining.graph import CreatePretrainingData

    pipeline = beam.Pipeline()
    _ = pipeline | CreatePretrainingData(job, plan=plan)
    return pipeline.to_runner_api().ByteSize()


def batched(elements: Iterator[object]) -> Iterator[list[object]]:
    """Yields the elements in lists."""
    while some := list(itertools.islice(elements, SHARDS_AT_A_TIME)):
        yield some


def expected(inputs: Sequence) -> int:
    """Returns the coverage of all inputs."""
    from beambert.pipelines.corpus.base import expected_coverage

    return expected_coverage(inputs)


def made_shards(layout: object) -> Iterator[object]:
    """Yields the counts of each shard of a layout, as if each had one document."""
    from beambert.pipelines.pretraining.shards import FolderCounts, ShardCounts
    from beambert.pipelines.records.statistics import RecordStatistics

    documents = {"documents": 1, "duplicates": 0, "near_duplicates": 0, "sentences": 1}
    documents |= {"tokens": 3, "unknown_tokens": 0}
    instances = {"instances": 1, "is_next": 1, "filled_tokens": 8, "predictions": 1}
    (parameters,) = layout.lengths
    statistics = RecordStatistics.empty(
        parameters.max_seq_length, parameters.max_predictions_per_seq
    )
    for key in range(layout.total_shards):
        ((folder, name),) = layout.files_of(key)
        file = (name, 1, 100, "0" * 64)
        counts = FolderCounts(documents, instances, [(1, 3)], (3, 1), statistics, [file])
        yield ShardCounts(documents, {folder.path: counts})


def build_parser() -> FlagParser:
    """Returns the parser of the benchmark's flags."""
    parser = measuring.flag_parser("scale", __doc__)
    add = parser.add_argument

    def numbers(text: str) -> list[float]:
        return [float(number) for number in text.split(",")]

    add(
        "--vocab_file",
        default="demo-output/vocab.txt",
        help="vocabulary of the corpus (default: %(default)s)",
    )
    add(
        "--files",
        type=numbers,
        default=[1e3, 1e4, 1e5],
        help="numbers of files, with commas (default: 1000,10000,100000)",
    )
    measuring.add_results_flag(parser)
    return parser


def main(argv: Sequence[str]) -> None:
    """Measures and prints.

    Raises:
      InputError: there is no vocabulary.
    """
    parser = build_parser()
    flags = parser.parse_args(list(argv))
    [vocab_file] = measuring.files_of("--vocab_file", [flags.vocab_file])
    serial = []
    for count in flags.files:
        with tempfile.TemporaryDirectory() as temporary:
            serial.append(measure_serial(int(count), vocab_file, pathlib.Path(temporary)))
    result = {"serial": serial}
    print(measuring.write_results(flags.results, parser, argv, result))


if __name__ == "__main__":
    measuring.run(main)
