"""The job of `beambert pretrain`: records -> an encoder."""

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from beambert import storage
from beambert.console import counted, duration
from beambert.model.families.table import family_of
from beambert.model.objectives import BERT, LTR
from beambert.model_files import RESULTS_FILE
from beambert.process import logging_restored
from beambert.trainer import model_folders
from beambert.trainer.loop.loop import train
from beambert.trainer.loop.phases import HeldOutPart, Phase, TimeSpent
from beambert.trainer.loop.steps import Trainer
from beambert.trainer.loop.strategy import (
    describe_devices,
    is_chief,
    make_strategy,
    raise_on_lost_worker,
    resolve_dtype,
    translate_out_of_memory,
)
from beambert.trainer.models import build_pretrainer
from beambert.trainer.pretraining.batches import evaluation_batches, records_dealt, training_batches
from beambert.trainer.pretraining.cost import (
    capacities_of,
    check_batches,
    parts_of,
    step_flops,
    with_steps_of_budget,
)
from beambert.trainer.pretraining.job import FLAGS_OF, PretrainingJob
from beambert.trainer.pretraining.objective import make_objective
from beambert.trainer.pretraining.plan import PhaseData, PretrainingPlan, make_plan
from beambert.trainer.pretraining.records import Records, faults_named

CHARACTERS, LOSS_PER_CHARACTER = "characters_per_token", "masked_lm_loss_per_character"
# Records that are read at once.
_BATCH_SIZE = 4096


def predicted_tokens(records: Records) -> np.ndarray:
    """Returns how often each token is to be predicted, int64 [tokens of the vocabulary]."""
    counts = np.zeros(len(records.vocabulary), np.int64)
    for features in evaluation_batches(records, _BATCH_SIZE):
        ids, weights = features["masked_lm_ids"].numpy(), features["masked_lm_weights"].numpy()
        counts += np.bincount(ids[weights > 0], minlength=len(counts))
    return counts


def commonest_token_accuracy(predicted: Mapping[str, np.ndarray]) -> float:
    """Returns the share of the predictions whose label is the commonest one.

    It is the best accuracy without reading the input, so a masked LM has to beat it.

    Args:
      predicted: name of the source -> see `predicted_tokens`.
    """
    counts = sum(predicted.values())
    return float(counts.max() / max(counts.sum(), 1))


def losses_per_character(
    results: Mapping[str, float], predicted: Mapping[str, np.ndarray], characters: np.ndarray
) -> dict[str, float]:
    """Returns the masked LM losses in nats for each character, and the characters of a token.

    The sum of the losses of all predictions is divided by the characters of their tokens.

    Args:
      results: metrics of the held-out data; those of a source as "NAME/metric".
      predicted: name of the source -> see `predicted_tokens`; "" is the name of all text.
      characters: number of characters of each token, int [tokens].
    """
    found = {}
    named = {f"{name}/": counts for name, counts in predicted.items() if name}
    for prefix, counts in {"": sum(predicted.values()), **named}.items():
        of_all = int(counts @ characters)
        if not of_all:
            continue
        found[prefix + CHARACTERS] = of_all / int(counts.sum())
        loss = results[f"{prefix}masked_lm_loss"]
        found[prefix + LOSS_PER_CHARACTER] = loss / found[prefix + CHARACTERS]
    return found


def describe_characters(results: Mapping[str, float], names: Iterable[str]) -> str:
    """Returns the line about the losses per character of all held-out data and each source.

    Args:
      results: see `losses_per_character`.
      names: names of the sources.
    """

    def describe(prefix: str) -> str:
        return (
            f"{results[prefix + LOSS_PER_CHARACTER]:.3f} "
            f"({results[prefix + CHARACTERS]:.2f} characters a token)"
        )

    if CHARACTERS not in results:
        return "masked lm loss per character: none, as no token that is predicted has one"
    parts = [
        f"{name} {describe(name + '/')}" for name in names if f"{name}/{CHARACTERS}" in results
    ]
    return "; ".join([f"masked lm loss per character: {describe('')}", *parts])


# Nats above the loss of a uniform guess that random weights may still have.
_OF_RANDOM_WEIGHTS = 0.5


@logging_restored()
def pretrain(
    job: PretrainingJob,
    strategy: tf.distribute.Strategy | None = None,
    started: float | None = None,
) -> None:
    """Trains an encoder and writes a finished model folder.

    Args:
      job: what is asked for.
      strategy: devices to train on; None for those that `make_strategy("auto")` finds.
      started: value of `time.monotonic` from which a budget of time counts; None for now.

    Raises:
      InputError: a parameter or the data cannot be used, or another worker is gone.
    """
    strategy = strategy or make_strategy("auto")
    with raise_on_lost_worker(strategy):
        _pretrain(job, strategy, started)


def _pretrain(job: PretrainingJob, strategy: tf.distribute.Strategy, started: float | None) -> None:
    chief = is_chief(strategy)
    loop = dataclasses.replace(job.loop, dtype=resolve_dtype(job.loop.dtype, strategy))
    job = dataclasses.replace(job, loop=loop)
    check_batches(job, strategy)
    by_time = job.budget is not None and job.budget.seconds is not None
    spent = TimeSpent(job.output.model, started) if by_time else None
    plan = make_plan(with_steps_of_budget(job, strategy))
    parts = parts_of(plan, strategy)
    longest = max(each.records.max_seq_length for each in plan.data)
    model_folders.check_rows(plan.config, longest, loop.train_batch_size, parts)
    model_dir, identity = job.output.model, plan.identity
    with model_folders.held(model_dir, chief) as check_lock:
        if model_folders.claim(job.output, identity, chief, FLAGS_OF):
            print(f"{model_dir}: already finished by the same command, nothing to do")
            return
        if chief:
            vocabulary = plan.data[0].records.vocabulary
            model_folders.describe_model(model_dir, plan.config, vocabulary, plan.training)
        folders = [each.records for each in plan.data]
        folders += [held_out for each in plan.data for held_out in each.held_out.values()]
        sizes = loop.train_batch_size, loop.gradient_accumulation_steps
        with faults_named(folders), translate_out_of_memory(*sizes):
            trainer, results = _train(plan, strategy, check_lock, spent)
        if not chief:
            return
        check_lock()
        model_folders.save_weights(trainer.model, model_dir)
        storage.write_bytes(f"{model_dir}/{RESULTS_FILE}", json.dumps(results, indent=1).encode())
        model_folders.finish(model_dir, identity)
        print(f"{model_dir}: finished{_time_spent(spent, trainer, plan.job)}", flush=True)


def _time_spent(spent: TimeSpent | None, trainer: Trainer, job: PretrainingJob) -> str:
    if not spent:
        return ""
    spent.save()
    budget = duration(job.optimizer.budget_seconds)
    return f" after {counted(trainer.steps_done, 'step')}, {duration(spent.seconds)} of {budget}"


def _train(
    plan: PretrainingPlan,
    strategy: tf.distribute.Strategy,
    check_lock: Callable[[], None],
    spent: TimeSpent | None,
) -> tuple[Trainer, dict[str, float]]:
    """Trains to the end; returns the trainer and the metrics on held-out data."""
    job, loop, chief = plan.job, plan.job.loop, is_chief(strategy)
    trainer = make_trainer(plan, strategy)
    notes = plan.initial.load_into(trainer.model, "--init") if plan.initial else []
    if chief:
        print("\n".join([*introduction(plan, trainer), *notes]), flush=True)
    phases = [make_phase(each, plan, strategy) for each in plan.data]
    results = train(
        *(trainer, phases, loop, job.output, plan.training, check_lock, spent),
        evaluates_first=plan.initial is not None,
    )
    tokens = len(plan.data[-1].records.vocabulary)
    if chief and (warning := divergence_warning(results, tokens)):
        print(f"warning: {warning}", flush=True)
    if chief and (held_out := plan.data[-1].held_out) and job.objective != LTR:
        predicted = {name: predicted_tokens(data) for name, data in held_out.items()}
        results["commonest_token_accuracy"] = commonest_token_accuracy(predicted)
        share = results["commonest_token_accuracy"]
        print(f"accuracy of always predicting the commonest token: {share:.1%}")
        characters = plan.data[-1].records.vocabulary.characters
        results |= losses_per_character(results, predicted, characters)
        print(describe_characters(results, held_out))
    return trainer, results


def divergence_warning(results: Mapping[str, float], tokens: int) -> str:
    """Returns a warning if a model predicts worse than without having learned, else "".

    Args:
      results: metrics of the held-out data; none without such data.
      tokens: number of tokens of the vocabulary.
    """
    losses = (results.get(f"{name}_loss") for name in ("masked_lm", "language_model"))
    loss = next((each for each in losses if each is not None), 0.0)
    even = math.log(tokens)
    if loss <= even + _OF_RANDOM_WEIGHTS:
        return ""
    return (
        f"the held-out loss of {loss:.4g} is above {even:.2f}, which an even guess among the "
        f"{tokens:,} tokens has, so the training diverged; give a lower --learning_rate"
    )


def make_trainer(plan: PretrainingPlan, strategy: tf.distribute.Strategy) -> Trainer:
    """Returns the trainer of a plan, with random weights."""
    job, loop = plan.job, plan.job.loop
    vocabulary = plan.data[0].records.vocabulary
    objective = make_objective(
        job.objective, capacities_of(plan, strategy), vocabulary.special.mask
    )
    if plan.teacher:
        objective = plan.teacher.objective(objective, strategy, loop.dtype)

    def build() -> keras.Model:
        model = build_pretrainer(plan.training, plan.config, loop.random_seed)
        if job.attend_within_documents:
            model.encoder.separator = vocabulary.special.separate
        return model

    return Trainer(
        strategy,
        build,
        objective,
        job.optimizer,
        loop.random_seed,
        gradient_accumulation_steps=loop.gradient_accumulation_steps,
        dtype=loop.dtype,
    )


def make_phase(data: PhaseData, plan: PretrainingPlan, strategy: tf.distribute.Strategy) -> Phase:
    """Returns the phase of the training for an interval of a plan."""
    job, loop = plan.job, plan.job.loop
    batch_size, seed = loop.train_batch_size, loop.random_seed
    records, interval = data.records, data.interval
    of_smaller = ((steps, batch_size // divisor) for divisor, steps in interval.steps_of_smaller)
    records_before = sum(records_dealt(*smaller) for smaller in of_smaller)
    by_time = job.optimizer.budget_seconds is not None

    def batches_from(step: int) -> Any:
        return strategy.distribute_datasets_from_function(
            lambda context: training_batches(
                records,
                data.batch_size,
                seed,
                # A budget of time moves the beginnings of intervals.
                step if by_time else step - interval.first_step,
                context,
                gradient_accumulation_steps=loop.gradient_accumulation_steps,
                rules=data.rules,
                steps_before=0 if by_time else interval.first_step,
                records_before=records_before,
            )
        )

    def batches_of(held_out: Records, max_batches: int | None) -> Any:
        return strategy.distribute_datasets_from_function(
            lambda context: evaluation_batches(held_out, batch_size, max_batches, context)
        )

    def evaluation(max_batches: int | None) -> Any:
        if "" in data.held_out:
            return batches_of(data.held_out[""], max_batches)
        most = max_batches and max(1, max_batches // len(data.held_out))
        return [
            HeldOutPart(name, batches_of(each, most), _share_read(each, batch_size, most))
            for name, each in data.held_out.items()
        ]

    return Phase(
        interval.last_step,
        batches_from,
        evaluation if data.held_out else None,
        data.batch_size,
        data.batch_size * records.max_seq_length,
        step_flops(plan, data, strategy),
        sum(-(-each.instances // batch_size) for each in data.held_out.values()),
    )


def _share_read(records: Records, batch_size: int, max_batches: int | None) -> float:
    """Returns the share of held-out records that an evaluation reads."""
    if max_batches is None or not records.instances:
        return 1.0
    return min(1.0, max_batches * batch_size / records.instances)


def describe_held_out(held_out: Mapping[str, Records]) -> str:
    """Returns the number of held-out records, and of those of each source."""
    counts = [f"{name} {each.instances:,}" for name, each in held_out.items() if name]
    total = f"{sum(each.instances for each in held_out.values()):,} held out"
    return f"{total} ({', '.join(counts)})" if counts else total


def introduction(plan: PretrainingPlan, trainer: Trainer) -> list[str]:
    """Returns the lines that describe a plan when its run begins."""
    job = plan.job
    weights = sum(int(np.prod(v.shape)) for v in trainer.model.trainable_variables)
    devices = describe_devices(trainer.strategy)
    lines = [f"{job.init or job.model}: {weights:,} parameters on {devices}, {job.loop.dtype}"]
    if plan.config.family != "bert":
        lines[0] = f"{family_of(plan.config).title} {lines[0]}"
    if job.objective != BERT:
        lines[0] += f", --objective={job.objective}"
    if plan.generator:
        lines[0] += f", generator of width {plan.generator.hidden_size}"
        if (depth := plan.generator.num_hidden_layers) != plan.config.num_hidden_layers:
            lines[0] += f" with {counted(depth, 'layer')}"
    if plan.teacher:
        lines.append(plan.teacher.description())
    if job.attend_within_documents:
        lines.append("every token attends to its own document only")
    for each in plan.data:
        records, held_out = each.records, each.held_out
        epochs = each.steps * each.batch_size / records.instances
        ramp = f" of {counted(each.batch_size, 'sequence')}" if job.batch_ramp_share else ""
        lines.append(
            f"{counted(each.steps, 'step')}{ramp} on {counted(records.instances, 'instance')} of "
            f"{records.max_seq_length} tokens ({epochs:.2f} epochs), "
            + (describe_held_out(held_out) if held_out else "none held out")
        )
    if job.optimizer.budget_seconds is not None:
        lines.append(
            f"{duration(job.optimizer.budget_seconds)} in all: the rate that is measured decides "
            "the number of steps"
        )
    if (rules := plan.data[-1].rules) and job.objective != LTR:
        words = "whole words" if rules.do_whole_word_mask else "tokens"
        rates = dict.fromkeys(f"{100 * rate:g} %" for rate in rules.rates)
        lines.append(f"masks are drawn: {' to '.join(rates)} of the {words}")
    return lines
