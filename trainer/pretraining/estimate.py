"""What a pre-training would take on this machine or on a named device, before it starts."""

import dataclasses
import time

import tensorflow as tf

from beambert.console import counted, duration
from beambert.trainer.loop.memory import Memory
from beambert.trainer.loop.steps import Trainer
from beambert.trainer.loop.strategy import (
    describe_devices,
    make_strategy,
    matmul_peak,
    resolve_dtype,
)
from beambert.trainer.pretraining.cost import (
    check_batches,
    memory_of,
    step_flops,
    total_flops,
    weights_of,
    with_steps_of_budget,
)
from beambert.trainer.pretraining.devices import (
    ASSUMED_UTILISATION,
    LEAST_TOLD_UPDATE,
    Devices,
    find_devices,
)
from beambert.trainer.pretraining.job import PretrainingJob
from beambert.trainer.pretraining.plan import PhaseData, PretrainingPlan, make_plan
from beambert.trainer.pretraining.run import make_phase, make_trainer

# The updates of each length are timed for so long.
SECONDS_MEASURED = 4.0
# These come before: one that compiles, and some that wait for the first batches.
UNTIMED_STEPS = 3


def estimate(
    job: PretrainingJob,
    strategy: tf.distribute.Strategy | None = None,
    *,
    device: str | None = None,
    price_per_hour: float | None = None,
) -> list[str]:
    """Returns the lines that tell what a pre-training would take; writes nothing.

    Args:
      job: what is asked for.
      strategy: devices to measure on; None for those that `make_strategy("auto")` finds.
      device: name of other devices, see `devices.find_devices`, for which the published peak
        stands; None for those of the strategy.
      price_per_hour: price of an hour of all devices; None to tell no price.

    Raises:
      InputError: a parameter or the data cannot be used.
    """
    devices = find_devices(device) if device else None
    strategy = strategy or make_strategy("auto")
    loop = dataclasses.replace(job.loop, dtype=resolve_dtype(job.loop.dtype, strategy))
    job = dataclasses.replace(job, loop=loop)
    check_batches(job, strategy)
    plan = make_plan(with_steps_of_budget(job, strategy))
    rates = _assumed_rates(plan, strategy, devices) if devices else measured_rates(plan, strategy)
    seconds = sum(each.steps / rates[each.batch_shape] for each in plan.data)
    if plan.job.optimizer.budget_seconds is not None:
        budget, steps = plan.job.optimizer.budget_seconds, plan.job.optimizer.num_train_steps
        # The first guess of the number of steps, corrected by the rate.
        updates = max(int(steps * budget / seconds), 1)
        schedule = dataclasses.replace(
            plan.job.optimizer,
            num_train_steps=updates,
            num_warmup_steps=plan.job.optimizer.num_warmup_steps * updates // steps,
        )
        plan = make_plan(dataclasses.replace(plan.job, optimizer=schedule))
        seconds = budget
    return _described(plan, strategy, devices, rates, seconds, price_per_hour)


def _described(
    plan: PretrainingPlan,
    strategy: tf.distribute.Strategy,
    devices: Devices | None,
    rates: dict[tuple[int, int], float],
    seconds: float,
    price_per_hour: float | None,
) -> list[str]:
    """Returns the lines; see `estimate`."""
    job = plan.job
    if devices:
        on = f"{devices.name}, {counted(devices.count, 'chip')}"
        share = f"{ASSUMED_UTILISATION:.0%} of the published peak: an estimate, nothing is measured"
        if max(rates.values()) * LEAST_TOLD_UPDATE > 1:
            share += "; an update so short waits for its launches, so the true rate is lower"
    else:
        on = f"{describe_devices(strategy)}, {job.loop.dtype}"
        first = plan.data[0]
        reached = step_flops(plan, first, strategy) * rates[first.batch_shape]
        peak = max(matmul_peak(strategy, job.loop.dtype), reached)
        share = f"measured: {reached / peak:.0%} of the matrix-multiply peak"
    lines = [f"model: {job.init or job.model}, {weights_of(plan):,} parameters, on {on}"]
    lines += [f"data: {_stretch_told(each)}" for each in plan.data]
    told = [
        f"{rate:,.3g} steps/s of "
        + (f"{counted(sequences, 'sequence')} of " if job.batch_ramp_share else "")
        + f"{length} tokens"
        for (sequences, length), rate in rates.items()
    ]
    return [
        *lines,
        f"operations: {total_flops(plan, strategy):.2e}",
        _memory_told(plan, strategy, devices),
        f"rate: {', '.join(told)} ({share})",
        f"time: {duration(seconds)}"
        + ("" if job.optimizer.budget_seconds else ", and that of evaluations and checkpoints"),
        *([f"price: {seconds / 3600 * price_per_hour:,.2f}"] if price_per_hour else []),
    ]


def _stretch_told(data: PhaseData) -> str:
    records, sequences = data.records, data.steps * data.batch_size
    epochs = sequences / records.instances
    return (
        f"{counted(data.steps, 'step')} of {counted(data.batch_size, 'sequence')} of "
        f"{records.max_seq_length} tokens, {sequences * records.max_seq_length:.2e} tokens, "
        f"{epochs:,.{0 if epochs >= 100 else 2}f} epochs"
    )


def _memory_told(
    plan: PretrainingPlan, strategy: tf.distribute.Strategy, devices: Devices | None
) -> str:
    memory, loop = memory_of(plan, strategy), plan.job.loop
    if devices:
        # Each chip has a replica.
        state = memory.state // memory.here, memory.state_of_parts // memory.here
        memory = Memory(*state, memory.sequence, devices.count, 1, devices.memory)
    sizes = loop.train_batch_size, loop.gradient_accumulation_steps
    line = f"memory: about {memory.needed(*sizes) / 1e9:.1f} GB"
    if memory.free is not None:
        line += f" of {memory.free / 1e9:.1f} GB" + (" of each chip" if devices else " free")
    warning = memory.warning(*sizes)
    return f"{line}\nwarning: {warning}" if warning else line


def _assumed_rates(
    plan: PretrainingPlan, strategy: tf.distribute.Strategy, devices: Devices
) -> dict[tuple[int, int], float]:
    """Returns shape -> updates a second at the assumed share of the published peak."""
    return {
        each.batch_shape: ASSUMED_UTILISATION * devices.peak / step_flops(plan, each, strategy)
        for each in plan.data
    }


def measured_rates(
    plan: PretrainingPlan, strategy: tf.distribute.Strategy
) -> dict[tuple[int, int], float]:
    """Returns shape -> updates a second, by some updates of a model that is thrown away."""
    trainer = make_trainer(plan, strategy)
    shapes = {each.batch_shape: each for each in plan.data}
    return {shape: _measured_rate(trainer, each, plan, strategy) for shape, each in shapes.items()}


def _measured_rate(
    trainer: Trainer, data: PhaseData, plan: PretrainingPlan, strategy: tf.distribute.Strategy
) -> float:
    iterator = iter(make_phase(data, plan, strategy).batches_from(data.stretch.first_step))
    trainer.train_steps(iterator, 1)
    trainer.train_steps(iterator, UNTIMED_STEPS - 1)
    started, steps = time.monotonic(), 0
    while (seconds := time.monotonic() - started) < SECONDS_MEASURED:
        trainer.train_steps(iterator, 1)
        steps += 1
    return steps / seconds
