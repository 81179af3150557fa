"""The time that workers spend in each stage of a job, counted with Beam's metrics."""

import time
from typing import TYPE_CHECKING

from apache_beam.metrics import Metrics, MetricsFilter

if TYPE_CHECKING:
    from apache_beam.runners.runner import PipelineResult

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
