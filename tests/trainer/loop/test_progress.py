"""The rates of a progress line."""

import itertools

import pytest

from beambert.trainer.loop import progress
from beambert.trainer.loop.phase import Phase


@pytest.mark.parametrize(("peak", "share"), [(1e9, 0.5), (1e8, 1.0)])
def test_no_more_than_the_whole_peak_is_reached(monkeypatch, peak, share):
    """A peak that was measured beside other work may be lower than what the run reaches."""
    clock = itertools.count(0.0, 2.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    phase = Phase(100, None, None, tokens_a_step=512, flops_a_step=1e9)
    meter = progress.Meter(100, phase, tokens_later=0, batch_size=4, peak=peak)
    for step in (1, 2):
        meter.restart()
        rates = meter.update(step, 1)
    assert rates["seconds_per_step"] == 2.0
    assert rates["flop_utilisation"] == share
    assert f"{share:.0%} of the matrix-multiply peak" in meter.line(2, {}, 1e-3)
