"""The cost of a pre-training: operations, rows without padding, and the steps of a budget."""

import dataclasses
import math

import tensorflow as tf

from beambert import storage
from beambert.errors import InputError
from beambert.folders import MARKER_FILE, UNFINISHED_FILE
from beambert.model.flops import electra_flops, training_flops
from beambert.model.objectives import LTR
from beambert.model.unpadding import Capacity
from beambert.storage import parse_object
from beambert.trainer.loop.config import MOST_STEPS, SHORT_RUN_WARMUP_SHARE, default_warmup_steps
from beambert.trainer.loop.strategy import are_several, check_batch, matmul_peak
from beambert.trainer.pretraining.batches import SEQUENCES_DEALT
from beambert.trainer.pretraining.job import Budget, PretrainingJob
from beambert.trainer.pretraining.masks import MaskingRules, own_rates
from beambert.trainer.pretraining.plan import RAMP_DIVISORS, PhaseData, PretrainingPlan, make_plan
from beambert.trainer.pretraining.records import Records

# There are rows for the mean number of tokens plus this many standard errors. A batch that needs
# more rows is computed with its padding.
STANDARD_ERRORS = 2
# So many hosts may share the sequences that are dealt together. With more hosts, more batches need
# more rows than there are.
HOSTS = 4
# The number of rows is a multiple of this, since devices multiply blocks of rows.
ROWS_MULTIPLE = 16
# With a smaller share of padding, leaving it out gains nothing.
LEAST_PADDING = 0.05


def capacity_for(
    records: Records, batch_size: int, rules: MaskingRules | None = None
) -> Capacity | None:
    """Returns the numbers of rows for batches that `deal` made; None if there is little padding.

    Args:
      records: records; their info.json has the mean numbers of tokens and predictions.
      batch_size: number of sequences that are computed together.
      rules: rules by which masks are drawn; None for those of the records.
    """
    counts = records.info.counts
    if not counts.get("instances"):
        return None
    slots = rules.slots if rules else records.max_predictions_per_seq
    filled = counts["filled_tokens"] / counts["instances"]
    if rules is None or (records.info.has_masks and rules.rates == own_rates(records)):
        chosen = counts["predictions"] / counts["instances"]
    else:
        chosen = max(1, max(rules.rates) * filled)
    tokens = _rows(filled, records.max_seq_length, batch_size)
    predictions = _rows(min(chosen, slots), slots, batch_size)
    if tokens > (1 - LEAST_PADDING) * batch_size * records.max_seq_length:
        return None
    return Capacity(tokens, min(predictions, batch_size * slots))


def _rows(mean: float, most: int, batch_size: int) -> int:
    # A distribution in [0, most] with this mean has at most this deviation (Bhatia and Davis 2000).
    deviation = math.sqrt(mean * (most - mean))
    mean += STANDARD_ERRORS * deviation / math.sqrt(max(SEQUENCES_DEALT / HOSTS, batch_size))
    return math.ceil(batch_size * mean / ROWS_MULTIPLE) * ROWS_MULTIPLE


# The share of the peak of matrix products that a training reaches, for the first guess of the
# number of steps in a time; tiny reaches half of it on two cores. The rate then corrects the guess.
USUAL_UTILISATION = 0.5
# Checkpoints that a training by a budget saves at least, by the first guess of its steps.
CHECKPOINTS_OF_BUDGET = 10
# With fewer steps nothing is learned and no rate is measured.
LEAST_STEPS = 10


def parts_of(plan: PretrainingPlan, strategy: tf.distribute.Strategy) -> int:
    """Returns the number of parts of a batch that are computed by themselves."""
    return strategy.num_replicas_in_sync * plan.job.loop.gradient_accumulation_steps


def _part_shape(
    plan: PretrainingPlan, data: PhaseData, strategy: tf.distribute.Strategy
) -> tuple[int, int]:
    """Returns the number of sequences that are computed together, and their length."""
    return data.batch_size // parts_of(plan, strategy), data.records.max_seq_length


def capacities_of(
    plan: PretrainingPlan, strategy: tf.distribute.Strategy
) -> dict[tuple[int, int], Capacity]:
    """Returns (sequences, length) -> numbers of rows, where leaving out padding is worthwhile."""
    capacities = {}
    for each in plan.data:
        rows, length = _part_shape(plan, each, strategy)
        capacities[rows, length] = capacity_for(each.records, rows, each.rules)
    if plan.job.objective == LTR:  # It predicts a token at each place.
        capacities = {
            n: Capacity(one_capacity.tokens, one_capacity.tokens)
            for n, one_capacity in capacities.items()
            if one_capacity
        }
    return {shape: capacity for shape, capacity in capacities.items() if capacity}


def _predictions(plan: PretrainingPlan, data: PhaseData) -> int:
    """Returns the number of predictions that are computed for a sequence."""
    return data.records.max_seq_length - 1 if plan.job.objective == LTR else data.slots


def step_flops(plan: PretrainingPlan, data: PhaseData, strategy: tf.distribute.Strategy) -> float:
    """Returns the floating-point operations of an update of an interval of the plan."""
    rows, length = _part_shape(plan, data, strategy)
    parts = parts_of(plan, strategy)
    capacity = capacities_of(plan, strategy).get((rows, length))
    shape = rows, length, _predictions(plan, data), capacity
    if plan.generator:
        return parts * electra_flops(plan.config, plan.generator, *shape)
    of_teacher = plan.teacher.flops(*shape) if plan.teacher else 0.0
    return parts * (training_flops(plan.config, *shape) + of_teacher)


def total_flops(plan: PretrainingPlan, strategy: tf.distribute.Strategy) -> float:
    """Returns the floating-point operations of all updates."""
    return sum(each.steps * step_flops(plan, each, strategy) for each in plan.data)


def check_batches(job: PretrainingJob, strategy: tf.distribute.Strategy) -> None:
    """Refuses batches that cannot be divided evenly among the replicas and their parts.

    Raises:
      InputError: the batch, or the first one of its ramp, cannot be divided so.
    """
    size, parts = job.loop.train_batch_size, job.loop.gradient_accumulation_steps
    check_batch(strategy, size, parts)
    multiple = RAMP_DIVISORS[0] * strategy.num_replicas_in_sync * parts
    if job.batch_ramp_share and size % multiple:
        raise InputError(
            f"--train_batch_size={size}: an eighth of it, with which --batch_ramp_share begins, "
            f"cannot be computed; take a multiple of {multiple}, or leave --batch_ramp_share out"
        )


def _check_time(plan: PretrainingPlan, strategy: tf.distribute.Strategy) -> None:
    """Refuses what a budget of time excludes.

    Raises:
      InputError: the plan has several machines, or what changes with a share of the steps.
    """
    if are_several(strategy):
        raise InputError(
            "--budget: several machines cannot keep to a time; give operations, such as "
            "1e17flops, or --num_train_steps"
        )
    if plan.job.batch_ramp_share:
        raise InputError(
            f"--batch_ramp_share={plan.job.batch_ramp_share}: a share of the steps needs their "
            "number, which a time doesn't have; give a --budget of operations, or --num_train_steps"
        )
    if any(each.rules and each.rules.is_changing for each in plan.data):
        raise InputError(
            "--mask_rate: a rate that changes needs a number of steps, which a time doesn't have; "
            "give one rate, or a --budget of operations"
        )


def _check_evaluation(last: PhaseData, flops_a_step: float, operations: float) -> None:
    """Refuses a time that the evaluation at the end would take alone.

    Args:
      last: data of the last interval.
      flops_a_step: operations of an update of it.
      operations: operations that the time is enough for.

    Raises:
      InputError: it would.
    """
    instances = sum(records.instances for records in last.held_out.values())
    # A forward pass takes a third of an update.
    if instances / last.batch_size * flops_a_step / 3 >= operations:
        raise InputError(
            f"--budget: the evaluation of the {instances:,} held-out instances at the end takes "
            "longer than that; give more time, or make the records with a smaller --eval_fraction"
        )


def _recorded_schedule(job: PretrainingJob) -> tuple[int, int] | None:
    """Returns the steps and warm-up steps of the same budget's training in the job's folder.

    They were guessed when it began, and it goes on with them, however fast the machine is now. None
    if the folder has no such training.
    """
    path = job.output.model
    for name in (MARKER_FILE, UNFINISHED_FILE):
        if storage.exists(f"{path}/{name}"):
            try:
                found = parse_object(storage.read_bytes(f"{path}/{name}", "--model_dir"))
                optimizer = found["optimizer"]
                if optimizer["budget_seconds"] == job.budget.seconds:
                    return optimizer["num_train_steps"], optimizer["num_warmup_steps"]
            except (ValueError, LookupError, TypeError):
                pass  # `claims.is_finished` refuses what is not this training.
            return None
    return None


def _guess_schedule(
    budget: Budget, plan: PretrainingPlan, strategy: tf.distribute.Strategy
) -> tuple[int, int]:
    """Returns the numbers of steps and of warm-up steps that a budget allows.

    Those of a budget of time are a guess from the measured peak of matrix products.

    Raises:
      InputError: the budget is too small or too large.
    """
    mean_flops = total_flops(plan, strategy) / plan.job.optimizer.num_train_steps
    seconds, operations = budget.seconds, budget.operations
    if operations is None:
        peak = matmul_peak(strategy, plan.job.loop.dtype)
        operations = seconds * USUAL_UTILISATION * peak
    steps = int(operations / mean_flops)
    if seconds is not None:
        steps = min(steps, MOST_STEPS)
    if steps < LEAST_STEPS:
        raise InputError(
            f"--budget: is enough for about {steps} steps of {mean_flops:.1e} operations each; "
            f"give more than {LEAST_STEPS * mean_flops:.1e}flops or a longer time, or a smaller "
            "--model or --train_batch_size"
        )
    if steps > MOST_STEPS:
        raise InputError(
            f"--budget: is enough for {steps:.1e} steps, more than any training takes; give less"
        )
    if seconds is None:
        return steps, default_warmup_steps(steps)
    last = plan.data[-1]
    _check_evaluation(last, step_flops(plan, last, strategy), operations)
    # A share of the steps, whose number is only guessed, so that none is too many.
    return steps, int(SHORT_RUN_WARMUP_SHARE * steps)


def with_steps_of_budget(job: PretrainingJob, strategy: tf.distribute.Strategy) -> PretrainingJob:
    """Returns the job with the number of steps that its budget allows; itself if it has none.

    Raises:
      InputError: the budget is too small or too large, or excludes something of the job.
    """
    if job.budget is None:
        return job
    seconds = job.budget.seconds
    plan = make_plan(job)
    if seconds is not None:
        _check_time(plan, strategy)
    recorded = _recorded_schedule(job) if seconds is not None else None
    steps, warmup = recorded or _guess_schedule(job.budget, plan, strategy)
    optimizer = dataclasses.replace(
        job.optimizer, num_train_steps=steps, num_warmup_steps=warmup, budget_seconds=seconds
    )
    # Of a process that is killed little of a short budget is lost.
    longest = max(steps // CHECKPOINTS_OF_BUDGET, 1)
    saved_every = min(job.loop.save_checkpoints_steps, longest)
    loop = dataclasses.replace(job.loop, save_checkpoints_steps=saved_every)
    return dataclasses.replace(job, optimizer=optimizer, loop=loop)
