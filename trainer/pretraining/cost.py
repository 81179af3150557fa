"""The cost of a pre-training: operations, and rows without padding."""

import math
import time

import numpy as np
from keras import ops

from beambert.model.config import EncoderConfig
from beambert.model.flops import electra_flops, forward_flops, training_flops
from beambert.model.unpadding import Capacity
from beambert.trainer.loop.engine import Engine
from beambert.trainer.pretraining.batches import SEQUENCES_DEALT
from beambert.trainer.pretraining.masks import MaskingRules, own_rates
from beambert.trainer.pretraining.plan import PhaseData, PretrainingPlan
from beambert.trainer.pretraining.records import Records

# There are rows for the mean number of tokens plus this many standard errors. A batch that needs
# more rows is computed with its padding.
STANDARD_ERRORS = 2
# This many hosts may share the sequences that are dealt together. With more hosts, more batches
# need more rows than there are.
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


def parts_of(plan: PretrainingPlan, engine: Engine) -> int:
    """Returns the number of parts of a batch that are computed by themselves."""
    return engine.num_replicas_in_sync * plan.job.loop.gradient_accumulation_steps


def _part_shape(plan: PretrainingPlan, data: PhaseData, engine: Engine) -> tuple[int, int]:
    """Returns the number of sequences that are computed together, and their length."""
    rows = plan.job.loop.train_batch_size // parts_of(plan, engine)
    return rows, data.records.max_seq_length


def capacities_of(plan: PretrainingPlan, engine: Engine) -> dict[tuple[int, int], Capacity]:
    """Returns (sequences, length) -> numbers of rows, where leaving out padding is worthwhile."""
    capacities = {}
    for each in plan.data:
        rows, length = _part_shape(plan, each, engine)
        capacities[rows, length] = capacity_for(each.records, rows, each.rules)
    return {shape: capacity for shape, capacity in capacities.items() if capacity}


def step_flops(plan: PretrainingPlan, data: PhaseData, engine: Engine) -> float:
    """Returns the floating-point operations of an update on some records of the plan."""
    rows, length = _part_shape(plan, data, engine)
    parts = parts_of(plan, engine)
    capacity = capacities_of(plan, engine).get((rows, length))
    shape = rows, length, data.slots, capacity
    if plan.generator:
        return parts * electra_flops(plan.config, plan.generator, *shape)
    of_teacher = forward_flops(plan.teacher.config, *shape) if plan.teacher else 0.0
    return parts * (training_flops(plan.config, *shape) + of_teacher)


def product_speed(config: EncoderConfig, seconds: float = 0.3) -> float:
    """Returns the floating-point operations a second of a matrix product of the model's width."""
    rows, width = 2048, config.hidden_size
    texts, weights = ops.ones([rows, width]), ops.ones([width, 4 * width])
    ops.matmul(texts, weights)  # the first call loads the kernel
    started, products = time.monotonic(), 0
    while (passed := time.monotonic() - started) < seconds or not products:
        np.asarray(ops.matmul(texts, weights))
        products += 1
    return products * 2 * rows * 4 * width**2 / passed
