"""What the workers of a job count: the time of each stage, totals, and counts for the command."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import apache_beam as beam
from apache_beam.metrics import Metrics, MetricsFilter

from beambert import storage

if TYPE_CHECKING:
    from apache_beam.runners.runner import PipelineResult

T = TypeVar("T")

# Names of the stages, in the order of the work.
STAGES = ("read", "split", "tokenize", "shuffle", "pairs", "masks", "encode", "write", "statistics")
_NAMESPACE = "beambert stage microseconds"


class StageClock:
    """Counts a worker's time by stage, in Beam counters that a runner's own page also shows."""

    def __init__(self) -> None:
        """Makes one counter for each stage."""
        self._counters = {stage: Metrics.counter(_NAMESPACE, stage) for stage in STAGES}
        self._last = time.perf_counter()

    def start(self) -> None:
        """Starts the clock; the time before this call counts for no stage."""
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        """Adds the time since the last call to a stage."""
        now = time.perf_counter()
        self._counters[stage].inc(int(1e6 * (now - self._last)))
        self._last = now


def stage_seconds(result: "PipelineResult") -> dict[str, float]:
    """Returns the seconds that all workers of a finished job together spent in each stage."""
    counters = result.metrics().query(MetricsFilter().with_namespace(_NAMESPACE))["counters"]
    found = dict.fromkeys(STAGES, 0.0)
    for counter in counters:
        found[counter.key.metric.name] += (counter.committed or counter.attempted or 0) / 1e6
    return {stage: seconds for stage, seconds in found.items() if seconds}


def describe_stages(seconds: dict[str, float]) -> str:
    """Returns a line with the share of each stage in the time; "" if the runner counted none."""
    total = sum(seconds.values())
    if not total:
        return ""
    shares = ", ".join(f"{stage} {time / total:.0%}" for stage, time in seconds.items())
    return f"time of all workers, {total:.1f} s: {shares}"


# Number of elements to add up at a time. Adding arrays one by one would copy them as often.
AT_A_TIME = 32


class Total(beam.CombineFn):
    """Combines elements by a function of any number of them. An accumulator is a short list."""

    def __init__(self, add_up: Callable[[Sequence[T]], T]):
        """Takes the function.

        Args:
          add_up: function that returns the total of some elements, even of none. It changes none of
            them, and totals of totals are totals.
        """
        self._add_up = add_up

    def create_accumulator(self) -> list[T]:
        """Returns an accumulator of nothing."""
        return []

    def add_input(self, accumulator: list[T], element: T) -> list[T]:
        """Returns the accumulator with one more element."""
        return self._shortened([*accumulator, element])

    def merge_accumulators(self, accumulators: Iterable[list[T]]) -> list[T]:
        """Returns one accumulator for several."""
        merged: list[T] = []
        for accumulator in accumulators:
            merged = self._shortened(merged + accumulator)
        return merged

    def compact(self, accumulator: list[T]) -> list[T]:
        """Returns the accumulator as it is sent to another worker: a total."""
        return [self._add_up(accumulator)]

    def extract_output(self, accumulator: list[T]) -> T:
        """Returns the total."""
        return self._add_up(accumulator)

    def _shortened(self, elements: list[T]) -> list[T]:
        return [self._add_up(elements)] if len(elements) >= AT_A_TIME else elements


def total_of(
    elements: beam.PCollection, label: str, add_up: Callable[[Sequence[T]], T]
) -> beam.pvalue.AsSingleton:
    """Adds a step that adds up elements, see `Total`; returns the total as a side input."""
    totals = elements | label >> beam.CombineGlobally(Total(add_up)).without_defaults()
    # A default of the side input takes five steps less than one of the combination.
    return beam.pvalue.AsSingleton(totals, default_value=add_up([]))


def add_counts(counts: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Returns the sum of counts, name by name; unlike that of Python's `+`, it may be negative."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return total


# Counts that workers write for the command. Beam promises committed metrics on some runners only,
# and others count elements that were tried twice.
_COUNTS_FILE = f"{storage.TEMPORARY_PREFIX}counts"


class WriteCounts(beam.PTransform):
    """Writes a dict of counts, the only element, to the output folder of the job."""

    def __init__(self, output: str):
        """Takes the path of the folder."""
        super().__init__()
        self._path = f"{output}/{_COUNTS_FILE}"

    def expand(self, counts: beam.PCollection[dict[str, int]]) -> beam.PCollection[None]:
        """Adds the step."""
        return counts | beam.Map(
            lambda counts, path: storage.write_bytes(path, json.dumps(counts).encode()),
            self._path,
        ).with_output_types(None)


def take_counts(output: str) -> dict[str, int]:
    """Returns the counts that `WriteCounts` wrote to a folder, and deletes their file.

    Raises:
      InputError: the file cannot be read.
    """
    path = f"{output}/{_COUNTS_FILE}"
    counts = json.loads(storage.read_bytes(path, "--output"))
    storage.delete_quietly([path])
    return counts
