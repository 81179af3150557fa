"""The job of `beambert pretrain`: records -> an encoder."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from beambert.model.electra import most_rows
from beambert.model.flops import electra_flops, training_flops
from beambert.model.memory import (
    activation_bytes,
    electra_parameters,
    parameters,
    state_bytes,
)
from beambert.model.objectives import BERT
from beambert.model.packing import Capacity
from beambert.pipelines.shared.console import counted
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.logs import logging_as_it_was
from beambert.pipelines.storage import tensorflow_files
from beambert.pipelines.storage.weights import RESULTS_FILE
from beambert.trainer import model_folders
from beambert.trainer.loop.config import FINISH, LoopConfig
from beambert.trainer.loop.loop import train
from beambert.trainer.loop.memory import Memory, free_bytes, memory_told
from beambert.trainer.loop.phase import Phase
from beambert.trainer.loop.steps import Trainer
from beambert.trainer.loop.strategy import (
    check_batch,
    describe_devices,
    make_strategy,
    replicas_here,
    resolve_dtype,
)
from beambert.trainer.loop.workers import is_chief, lost_worker_told, wait_for_all
from beambert.trainer.pretrained_models import build_pretrainer
from beambert.trainer.pretraining.batches import evaluation_batches, training_batches
from beambert.trainer.pretraining.capacity import capacity_for
from beambert.trainer.pretraining.objective import make_objective
from beambert.trainer.pretraining.plan import (
    FLAGS_OF,
    PhaseData,
    PretrainingJob,
    PretrainingPlan,
    make_plan,
)
from beambert.trainer.pretraining.records import Records, faults_named
from beambert.trainer.pretraining.revising import revise, with_recorded_revisions


def commonest_token_accuracy(records: Records) -> float:
    """Returns the share of the predictions whose label is the commonest one.

    It is the best accuracy without looking at the text, so a masked LM has to beat it.
    """
    counts = np.zeros(len(records.vocabulary), np.int64)
    for features in evaluation_batches(records, 4096):
        ids, weights = features["masked_lm_ids"].numpy(), features["masked_lm_weights"].numpy()
        counts += np.bincount(ids[weights > 0], minlength=len(counts))
    return float(counts.max() / max(counts.sum(), 1))


@logging_as_it_was()
def pretrain(job: PretrainingJob, strategy: tf.distribute.Strategy | None = None) -> None:
    """Trains an encoder and writes a finished model folder.

    Args:
      job: what is asked for.
      strategy: devices to train on; None for those that `make_strategy("auto")` finds.

    Raises:
      InputError: a parameter or the data cannot be used, or another worker is gone.
    """
    strategy = strategy or make_strategy("auto")
    with lost_worker_told(strategy):
        _pretrain(job, strategy)


def _pretrain(job: PretrainingJob, strategy: tf.distribute.Strategy) -> None:
    chief = is_chief(strategy)
    loop = dataclasses.replace(job.loop, dtype=resolve_dtype(job.loop.dtype, strategy))
    job = dataclasses.replace(job, loop=loop)
    plan = make_plan(with_recorded_revisions(job))
    check_batch(strategy, loop.train_batch_size, loop.gradient_accumulation_steps)
    parts = strategy.num_replicas_in_sync * loop.gradient_accumulation_steps
    longest = max(each.records.max_seq_length for each in plan.data)
    model_folders.check_rows(plan.config, longest, loop.train_batch_size, parts)
    if plan.generator:
        _check_draws(plan, loop.train_batch_size, parts)
    if job.finish is not None or job.extend is not None:
        plan = revise(plan, chief, lambda: wait_for_all(strategy))
    model_dir, identity = job.output.model, plan.identity
    with model_folders.held(model_dir, chief) as check_lock:
        if model_folders.claim(job.output, identity, chief, FLAGS_OF):
            print(f"{model_dir}: already finished by the same command, nothing to do")
            return
        if chief:
            vocabulary = plan.data[0].records.vocabulary
            model_folders.describe_model(model_dir, plan.config, vocabulary, plan.training)
        folders = [each.records for each in plan.data] + [each.held_out for each in plan.data]
        memory = _memory(plan, strategy)
        sizes = loop.train_batch_size, loop.gradient_accumulation_steps
        if chief and (warning := memory.warning(*sizes)):
            print(f"warning: {warning}", flush=True)
        with faults_named(filter(None, folders)), memory_told(memory, *sizes):
            trainer, results = _train(plan, strategy, check_lock)
        if not chief:
            return
        check_lock()
        model_folders.save_weights(trainer.model, model_dir)
        tensorflow_files.write_bytes(
            f"{model_dir}/{RESULTS_FILE}", json.dumps(results, indent=1).encode()
        )
        model_folders.finish(model_dir, identity)
        print(f"{model_dir}: finished", flush=True)


def _check_draws(plan: PretrainingPlan, batch_size: int, parts: int) -> None:
    """Refuses a batch whose parts are too large for the draws of a generator.

    Raises:
      InputError: a part is too large.
    """
    predictions = max(each.slots for each in plan.data)
    most = most_rows(plan.config, predictions)
    if batch_size // parts > most:
        raise InputError(
            f"--train_batch_size={batch_size}: the tokens of at most {most:,} sequences of "
            f"{predictions} predictions can be drawn at once; take fewer, or raise "
            "--gradient_accumulation_steps"
        )


def _memory(plan: PretrainingPlan, strategy: tf.distribute.Strategy) -> Memory:
    longest = max(plan.data, key=lambda of: of.records.max_seq_length)
    length, predictions = longest.records.max_seq_length, longest.slots
    here = replicas_here(strategy)
    if plan.generator:
        weights = electra_parameters(plan.config, plan.generator)
        of_sequence = activation_bytes(plan.config, length, 0)
        of_sequence += activation_bytes(plan.generator, length, predictions)
    else:
        weights = parameters(plan.config)
        of_sequence = activation_bytes(plan.config, length, predictions)
    return Memory(
        here * state_bytes(weights),
        here * state_bytes(weights, parts=2),
        of_sequence,
        strategy.num_replicas_in_sync,
        here,
        free_bytes(),
    )


def _train(
    plan: PretrainingPlan, strategy: tf.distribute.Strategy, check_lock: Callable[[], None]
) -> tuple[Trainer, dict[str, float]]:
    """Trains to the end; returns the trainer and the metrics on held-out data."""
    job, loop, chief = plan.job, plan.job.loop, is_chief(strategy)
    capacities = _capacities(plan.data, loop, strategy)
    trainer = Trainer(
        strategy,
        lambda: build_pretrainer(plan.training, plan.config, loop.random_seed),
        make_objective(job.objective, capacities, plan.data[0].records.vocabulary),
        job.optimizer,
        loop.random_seed,
        gradient_accumulation_steps=loop.gradient_accumulation_steps,
        dtype=loop.dtype,
    )
    notes = plan.initial.load_into(trainer.model, "--init") if plan.initial else []
    if chief:
        print("\n".join([*_introduce(plan, trainer), *notes]), flush=True)
    phases = [_phase(each, plan, capacities, strategy) for each in plan.data]
    results = train(trainer, phases, loop, job.output, plan.training, check_lock)
    if chief and (held_out := plan.data[-1].held_out):
        results["commonest_token_accuracy"] = commonest_token_accuracy(held_out)
        share = results["commonest_token_accuracy"]
        print(f"accuracy of always predicting the commonest token: {share:.1%}")
    return trainer, results


def _capacities(
    data: Sequence[PhaseData], loop: LoopConfig, strategy: tf.distribute.Strategy
) -> dict[int, Capacity]:
    """Returns length -> numbers of rows, for lengths where leaving out padding is worthwhile."""
    parts = strategy.num_replicas_in_sync * loop.gradient_accumulation_steps
    capacities = {
        each.records.max_seq_length: capacity_for(
            each.records, loop.train_batch_size // parts, each.rules
        )
        for each in data
    }
    return {length: capacity for length, capacity in capacities.items() if capacity}


def _phase(
    data: PhaseData,
    plan: PretrainingPlan,
    capacities: Mapping[int, Capacity],
    strategy: tf.distribute.Strategy,
) -> Phase:
    loop = plan.job.loop
    batch_size, seed = loop.train_batch_size, loop.random_seed
    records, stretch = data.records, data.stretch

    def batches_from(step: int) -> Any:
        return strategy.distribute_datasets_from_function(
            lambda context: training_batches(
                records,
                batch_size,
                seed,
                stretch.batches_before + step - stretch.first_step,
                context,
                gradient_accumulation_steps=loop.gradient_accumulation_steps,
                rules=data.rules,
                steps_before=stretch.first_step - stretch.batches_before,
            )
        )

    def evaluation(max_batches: int | None) -> Any:
        return strategy.distribute_datasets_from_function(
            lambda context: evaluation_batches(data.held_out, batch_size, max_batches, context)
        )

    length, predictions = records.max_seq_length, data.slots
    parts = strategy.num_replicas_in_sync * loop.gradient_accumulation_steps
    shape = batch_size // parts, length, predictions, capacities.get(length)
    flops_a_part = (
        electra_flops(plan.config, plan.generator, *shape)
        if plan.generator
        else training_flops(plan.config, *shape)
    )
    return Phase(
        stretch.last_step,
        batches_from,
        evaluation if data.held_out else None,
        batch_size * length,
        parts * flops_a_part,
        -(-data.held_out.instances // batch_size) if data.held_out else 0,
    )


def _introduce(plan: PretrainingPlan, trainer: Trainer) -> list[str]:
    """Returns the lines that describe a plan when its run begins."""
    job = plan.job
    weights = sum(int(np.prod(v.shape)) for v in trainer.model.trainable_variables)
    devices = describe_devices(trainer.strategy)
    lines = [f"{job.init or job.model}: {weights:,} parameters on {devices}, {job.loop.dtype}"]
    if job.objective != BERT:
        lines[0] += f", --objective={job.objective}"
    if plan.generator:
        lines[0] += f", generator of width {plan.generator.hidden_size}"
    for each in plan.data:
        records, held_out = each.records, each.held_out
        epochs = each.steps * job.loop.train_batch_size / records.instances
        lines.append(
            f"{counted(each.steps, 'step')} on {counted(records.instances, 'instance')} of "
            f"{records.max_seq_length} tokens ({epochs:.2f} epochs), "
            + (f"{held_out.instances:,} held out" if held_out else "none held out")
        )
    if rules := plan.data[-1].rules:
        words = "whole words" if rules.do_whole_word_mask else "tokens"
        rates = dict.fromkeys(f"{100 * rate:g} %" for rate in rules.rates)
        lines.append(f"masks are drawn: {' to '.join(rates)} of the {words}")
    for each in job.optimizer.revisions:
        what = "the rate falls to 0 by" if each.kind == FINISH else "the training goes on to"
        lines.append(f"from step {each.first_step:,} on {what} step {each.last_step:,}")
    return lines
