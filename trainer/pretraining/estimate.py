"""What a pre-training would take on this machine: `beambert pretrain --dry_run`."""

import dataclasses
import math
import time

import tensorflow as tf

from beambert.console import counted, duration
from beambert.trainer.loop.steps import Trainer
from beambert.trainer.loop.strategy import (
    describe_devices,
    make_strategy,
    matmul_peak,
    resolve_dtype,
)
from beambert.trainer.pretraining.cost import (
    check_batches,
    step_flops,
    total_flops,
    with_steps_of_budget,
)
from beambert.trainer.pretraining.job import PretrainingJob
from beambert.trainer.pretraining.plan import PhaseData, PretrainingPlan, make_plan
from beambert.trainer.pretraining.run import make_phase, make_trainer

# The updates of each batch shape are timed for this long.
SECONDS_MEASURED = 4.0
# Updates before the timed ones: one that compiles, and some that wait for the first batches.
UNTIMED_STEPS = 3


def estimate(job: PretrainingJob, strategy: tf.distribute.Strategy | None = None) -> list[str]:
    """Returns lines about the steps, operations and time of a pre-training; writes nothing.

    The time follows from a rate that some updates of a throw-away model are measured at.

    Args:
      job: what is asked for.
      strategy: devices to measure on; None for those that `make_strategy("auto")` finds.

    Raises:
      InputError: a parameter or the data cannot be used.
    """
    strategy = strategy or make_strategy("auto")
    loop = dataclasses.replace(job.loop, dtype=resolve_dtype(job.loop.dtype, strategy))
    job = dataclasses.replace(job, loop=loop)
    check_batches(job, strategy)
    plan = make_plan(with_steps_of_budget(job, strategy))
    trainer = make_trainer(plan, strategy)
    shapes = {each.batch_shape: each for each in plan.data}
    rates = {shape: _rate(trainer, each, plan, strategy) for shape, each in shapes.items()}
    seconds = sum(each.steps / rates[each.batch_shape] for each in plan.data)
    budget = job.budget.seconds if job.budget else None
    if budget is not None:
        # The first guess of the number of steps, corrected by the rate.
        steps = plan.job.optimizer.num_train_steps
        updates = max(int(steps * budget / seconds), 1)
        schedule = dataclasses.replace(
            plan.job.optimizer,
            num_train_steps=updates,
            num_warmup_steps=plan.job.optimizer.num_warmup_steps * updates // steps,
        )
        plan = make_plan(dataclasses.replace(plan.job, optimizer=schedule))
        seconds = budget
    first = plan.data[0]
    reached = step_flops(plan, first, strategy) * rates[first.batch_shape]
    peak = max(matmul_peak(strategy, loop.dtype), reached)
    weights = sum(math.prod(each.shape) for each in trainer.model.trainable_variables)
    described = [
        f"{rate:,.3g} steps/s of "
        + (f"{counted(sequences, 'sequence')} of " if job.batch_ramp_share else "")
        + f"{length} tokens"
        for (sequences, length), rate in rates.items()
    ]
    return [
        f"model: {job.init or job.model}, {weights:,} parameters, on {describe_devices(strategy)}, "
        f"{loop.dtype}",
        *(f"data: {_describe_data(each)}" for each in plan.data),
        f"operations: {total_flops(plan, strategy):.2e}",
        f"rate: {', '.join(described)} (measured: {reached / peak:.0%} of the matrix-multiply "
        "peak)",
        f"time: {duration(seconds)}"
        + ("" if budget is not None else ", and that of evaluations and checkpoints"),
    ]


def _describe_data(data: PhaseData) -> str:
    records, sequences = data.records, data.steps * data.batch_size
    epochs = sequences / records.instances
    return (
        f"{counted(data.steps, 'step')} of {counted(data.batch_size, 'sequence')} of "
        f"{records.max_seq_length} tokens, {sequences * records.max_seq_length:.2e} tokens, "
        f"{epochs:,.{0 if epochs >= 100 else 2}f} epochs"
    )


def _rate(
    trainer: Trainer, data: PhaseData, plan: PretrainingPlan, strategy: tf.distribute.Strategy
) -> float:
    """Returns the measured number of updates a second on some data."""
    iterator = iter(make_phase(data, plan, strategy).batches_from(data.interval.first_step))
    trainer.train_steps(iterator, 1)
    trainer.train_steps(iterator, UNTIMED_STEPS - 1)
    started, steps = time.monotonic(), 0
    while (seconds := time.monotonic() - started) < SECONDS_MEASURED:
        trainer.train_steps(iterator, 1)
        steps += 1
    return steps / seconds
