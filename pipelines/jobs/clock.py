"""How long the workers spend in which stage of the work, by Beam's own metrics."""

import time
from typing import TYPE_CHECKING

from apache_beam.metrics import Metrics, MetricsFilter

if TYPE_CHECKING:
    from apache_beam.runners.runner import PipelineResult

# In the order of the work.
STAGES = ("read", "split", "tokenize", "shuffle", "pairs", "masks", "encode", "write", "statistics")
_NAMESPACE = "beambert stage microseconds"


class StageClock:
    """Books a worker's time on stages; counters, so that a runner's own page shows them too."""

    def __init__(self) -> None:
        """Makes the counters."""
        self._counters = {stage: Metrics.counter(_NAMESPACE, stage) for stage in STAGES}
        self._last = time.perf_counter()

    def start(self) -> None:
        """Forgets the time since the last stage."""
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        """Books the time since the last call on a stage."""
        now = time.perf_counter()
        self._counters[stage].inc(int(1e6 * (now - self._last)))
        self._last = now


def stage_seconds(result: "PipelineResult") -> dict[str, float]:
    """Returns the seconds of each stage, of all workers together, that a finished job booked."""
    counters = result.metrics().query(MetricsFilter().with_namespace(_NAMESPACE))["counters"]
    found = dict.fromkeys(STAGES, 0.0)
    for counter in counters:
        found[counter.key.metric.name] += (counter.committed or counter.attempted or 0) / 1e6
    return {stage: seconds for stage, seconds in found.items() if seconds}


def describe_stages(seconds: dict[str, float]) -> str:
    """Returns the line that tells where the time went; empty if no runner told."""
    total = sum(seconds.values())
    if not total:
        return ""
    shares = ", ".join(f"{stage} {time / total:.0%}" for stage, time in seconds.items())
    return f"the workers' {total:.1f} s: {shares}"
