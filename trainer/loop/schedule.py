"""The schedule of the learning rate: warm-up, decay, and what a revision changes."""

import dataclasses
import math

import tensorflow as tf

from beambert.trainer.loop.config import (
    ADAMW,
    COSINE,
    EXTEND,
    LINEAR,
    TRAPEZOID,
    OptimizerConfig,
)


def learning_rate_at(step: tf.Tensor, config: OptimizerConfig) -> tf.Tensor:
    """Returns the learning rate at a step of the schedule, counted from 0.

    The rate grows linearly from 0 in the warm-up, then decays to 0 at `num_train_steps`. The linear
    decay of the original counts from step 0 (optimization.py), so where the warm-up ends, the rate
    drops by the warm-up's share of the steps. All others count from the end of the warm-up.
    `Revision` says how a revision changes this from its first step on.
    """
    step = tf.cast(step, tf.float32)
    if not config.revisions:
        return _planned_rate(step, config, config.num_train_steps)
    *others, revision = config.revisions
    before = dataclasses.replace(config, revisions=tuple(others))
    done = step - revision.first_step
    if revision.kind == EXTEND:
        planned = _planned_rate(step, config, revision.last_step)
        revised = planned * tf.minimum(done / max(revision.num_warmup_steps, 1), 1.0)
    else:
        share_left = 1.0 - done / max(revision.last_step - revision.first_step, 1)
        revised = learning_rate_at(revision.first_step, before) * tf.maximum(share_left, 0.0)
    return tf.where(step < revision.first_step, learning_rate_at(step, before), revised)


def _planned_rate(step: tf.Tensor, config: OptimizerConfig, num_train_steps: int) -> tf.Tensor:
    """Returns the rate of a step in a training that was planned for so many steps."""
    warmup = config.num_warmup_steps
    start = 0 if config.optimizer == ADAMW and config.schedule == LINEAR else warmup
    decayed = 1.0 - tf.minimum((step - start) / (num_train_steps - start), 1.0)
    if config.schedule == COSINE:
        decayed = 0.5 * (1.0 - tf.cos(math.pi * decayed))
    elif config.schedule == TRAPEZOID:
        steps_left = tf.maximum(num_train_steps - step, 0.0)
        decayed = tf.minimum(steps_left / (config.decay_share * num_train_steps), 1.0)
    return config.learning_rate * tf.where(step < warmup, step / max(warmup, 1), decayed)
