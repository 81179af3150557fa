"""The job of `beambert pretrain`: records -> an encoder."""

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import keras

from beambert import io
from beambert.console import counted, duration
from beambert.errors import InputError
from beambert.folders import MARKER_FILE, UNFINISHED_FILE, claim_output
from beambert.io import parse_object
from beambert.model.families.table import family_of
from beambert.model.lora import add_lora, merge_lora
from beambert.model.objectives import BERT
from beambert.model_files import PRETRAINING
from beambert.process import logging_restored
from beambert.trainer import model_folders
from beambert.trainer.loop.config import MOST_STEPS, Devices, default_warmup_steps
from beambert.trainer.loop.engine import Engine, for_engine, make_engine
from beambert.trainer.loop.loop import train
from beambert.trainer.loop.steps import HeldOutPart, Phase, Trainer
from beambert.trainer.models import build_pretrainer
from beambert.trainer.pretraining.batches import (
    commonest_token_accuracy,
    describe_characters,
    evaluation_batches,
    losses_per_character,
    predicted_tokens,
    training_batches,
)
from beambert.trainer.pretraining.cost import (
    capacities_of,
    parts_of,
    product_speed,
    step_flops,
)
from beambert.trainer.pretraining.job import (
    PretrainingJob,
    few_steps_warning,
    warmup_share,
)
from beambert.trainer.pretraining.objective import make_objective
from beambert.trainer.pretraining.plan import PhaseData, PretrainingPlan, make_plan
from beambert.trainer.pretraining.records import Records, open_records
from beambert.trainer.weights.adapter import write_adapter

# The updates of each batch shape are timed for this long, and all measuring takes about so long
# after loading, or this share of a budget.
SECONDS_MEASURED = 4.0
MOST_SECONDS_TO_MEASURE, _SHARE_TO_MEASURE = 10.0, 0.1
# Before an update is measured, its time is estimated: a second and this many to compile a layer,
# and a rate of operations that is this share of that of a matrix product.
_SECONDS_PER_LAYER, _SHARE_OF_PRODUCT = 1.5, 0.5
# Updates before the timed ones: one that compiles, and some that wait for the first batches.
UNTIMED_STEPS = 3
# With fewer steps nothing is learned.
LEAST_STEPS = 10
# Checkpoints that a training with a budget saves at least.
CHECKPOINTS_OF_BUDGET = 10
# With a budget an evaluation takes at most this share of it, but for its first batch.
_EVALUATION_SHARE = 0.1
# A forward pass takes a third of the time of an update.
_FORWARD_SHARE = 1 / 3
# Nats above the loss of a uniform guess that random weights may still have.
_OF_RANDOM_WEIGHTS = 0.5


@logging_restored()
def pretrain(
    job: PretrainingJob,
    engine: Engine | None = None,
    started: float | None = None,
) -> dict[str, float]:
    """Trains an encoder, writes a model folder and returns the results on held-out records.

    Args:
      job: what is asked for.
      engine: what computes; None for those that `make_engine` finds.
      started: value of `time.monotonic` from which a budget counts; None for now.

    Raises:
      InputError: a parameter or the data cannot be used, or another worker is gone.
    """
    engine = engine or make_engine(Devices())
    started = time.monotonic() if started is None else started
    with engine.translate_errors():
        plan = make_plan(with_steps_of_budget(for_engine(job, engine), engine, started))
        longest = max(each.records.max_seq_length for each in plan.data)
        batch_size = plan.job.loop.train_batch_size
        model_folders.check_rows(plan.config, longest, batch_size, parts_of(plan, engine))
        return model_folders.train_in(plan, engine, lambda check: _train(plan, engine, check))


def _train(
    plan: PretrainingPlan,
    engine: Engine,
    check_lock: Callable[[], None],
) -> tuple[keras.Model, dict[str, float]]:
    """Trains to the end; returns the model and the metrics on held-out data."""
    job, loop, chief = plan.job, plan.job.loop, engine.is_chief
    if chief:
        vocabulary = plan.data[0].records.vocabulary
        given = plan.config, vocabulary, plan.training
        model_folders.describe_model(job.output.model_dir, *given)
    notes: list[str] = []
    trainer = make_trainer(plan, engine, notes)
    if chief:
        print("\n".join([*introduction(plan, _weights_of(trainer), engine), *notes]), flush=True)
    phases = [make_phase(each, plan, engine) for each in plan.data]
    results = train(
        *(trainer, phases, loop, job.output, plan.training, check_lock),
        evaluates_first=plan.initial is not None,
    )
    tokens = len(plan.data[-1].records.vocabulary)
    if chief and (warning := divergence_warning(results, tokens)):
        print(f"warning: {warning}", flush=True)
    if chief and (held_out := plan.data[-1].held_out):
        predicted = {name: predicted_tokens(data) for name, data in held_out.items()}
        results["commonest_token_accuracy"] = commonest_token_accuracy(predicted)
        share = results["commonest_token_accuracy"]
        print(f"accuracy of always predicting the commonest token: {share:.1%}")
        if results.get("masked_lm_accuracy", 1.0) <= share:
            print(
                "warning: the encoder predicts hidden tokens no better than that, so it has not "
                "learned what a task needs; train longer, or fine-tune with "
                f"--init={job.init or 'random'}",
                flush=True,
            )
        characters = plan.data[-1].records.vocabulary.characters
        results |= losses_per_character(results, predicted, characters)
        print(describe_characters(results, held_out))
    if job.lora_rank:
        if chief:
            write_adapter(trainer.model, plan.training, job.init, job.output.model_dir)
        merge_lora(trainer.model.encoder)
    return trainer.model, results


def divergence_warning(results: Mapping[str, float], tokens: int) -> str:
    """Returns a warning if a model predicts worse than without having learned, else "".

    Args:
      results: metrics of the held-out data; none without such data.
      tokens: number of tokens of the vocabulary.
    """
    loss = results.get("masked_lm_loss", 0.0)
    even = math.log(tokens)
    if loss <= even + _OF_RANDOM_WEIGHTS:
        return ""
    return (
        f"the held-out loss of {loss:.4g} is above {even:.2f}, which an even guess among the "
        f"{tokens:,} tokens has, so the training diverged; give a lower --learning_rate"
    )


def make_trainer(plan: PretrainingPlan, engine: Engine, notes: list[str] | None = None) -> Trainer:
    """Returns the trainer of a plan.

    Args:
      plan: the plan.
      engine: what computes.
      notes: gets what is to be said of the initial weights; None for random weights.
    """
    job, loop = plan.job, plan.job.loop
    vocabulary = plan.data[0].records.vocabulary
    objective = make_objective(job.objective, capacities_of(plan, engine), vocabulary.special.mask)
    if plan.teacher:
        objective = plan.teacher.objective(objective, engine, loop.dtype)

    def build() -> keras.Model:
        model = build_pretrainer(plan.training, plan.config, loop.random_seed)
        if job.attend_within_documents:
            model.encoder.separator = vocabulary.special.separate
        if plan.initial and notes is not None:
            notes.extend(plan.initial.load_into(model, "--init"))
        if job.lora_rank:
            add_lora(model.encoder, job.lora_rank, loop.random_seed)
        return model

    return Trainer(
        engine,
        build,
        objective,
        job.optimizer,
        loop.random_seed,
        gradient_accumulation_steps=loop.gradient_accumulation_steps,
        dtype=loop.dtype,
    )


def make_phase(data: PhaseData, plan: PretrainingPlan, engine: Engine) -> Phase:
    """Returns the phase of the training on some records of a plan."""
    loop = plan.job.loop
    batch_size, seed = loop.train_batch_size, loop.random_seed
    records = data.records

    def batches_from(step: int) -> Any:
        return engine.distribute(
            lambda context: training_batches(
                records,
                batch_size,
                seed,
                step - data.first_step,
                context,
                gradient_accumulation_steps=loop.gradient_accumulation_steps,
                rules=data.rules,
                steps_before=data.first_step,
            )
        )

    def batches_of(held_out: Records, max_batches: int | None) -> Any:
        return engine.distribute(
            lambda context: evaluation_batches(held_out, batch_size, max_batches, context)
        )

    def evaluation(max_batches: int | None) -> Any:
        if "" in data.held_out:
            return batches_of(data.held_out[""], max_batches)
        most = max_batches and max(1, max_batches // len(data.held_out))
        return [
            HeldOutPart(name, batches_of(each, most), each.instances / batch_size)
            for name, each in data.held_out.items()
        ]

    return Phase(
        data.last_step,
        batches_from,
        evaluation if data.held_out else None,
        sequences_a_step=batch_size,
        tokens_a_step=batch_size * records.max_seq_length,
        evaluation_batches=sum(-(-each.instances // batch_size) for each in data.held_out.values()),
        evaluation_seconds=_EVALUATION_SHARE * plan.job.budget if plan.job.budget else math.inf,
    )


@dataclasses.dataclass(frozen=True)
class Measured:
    """What some updates of a throw-away model have shown.

    Attributes:
      rates: length of the sequences -> updates a second.
      seconds_to_compile: time that compiling the updates of all lengths takes.
      weights: number of weights that are trained.
      is_estimated: whether the time was too short to measure updates, so that the rates follow
        from their operations and the rate of a matrix product.
    """

    rates: Mapping[int, float]
    seconds_to_compile: float
    weights: int
    is_estimated: bool = False


def measure(
    plan: PretrainingPlan,
    engine: Engine,
    seconds: float = MOST_SECONDS_TO_MEASURE,
) -> Measured:
    """Trains a throw-away model for some seconds on batches of each length of the plan.

    Args:
      plan: the plan.
      engine: what computes.
      seconds: time that this should take; see `Measured.is_estimated`. Where compiling takes
        longer than expected, one update of each length is timed.
    """
    end = time.monotonic() + seconds
    trainer = make_trainer(plan, engine)
    expected = _expected(plan, engine, trainer)
    steps = sum((UNTIMED_STEPS + 1) / rate for rate in expected.rates.values())
    if (spare := seconds - expected.seconds_to_compile - steps) < 0:
        return expected
    seconds_each = min(SECONDS_MEASURED, spare / len(plan.data))
    rates, compiling = {}, 0.0
    for data in plan.data:
        iterator = iter(make_phase(data, plan, engine).batches_from(data.first_step))
        started = time.monotonic()
        trainer.train_steps(iterator, 1)
        compiling += time.monotonic() - started
        print(f"  compiled in {duration(time.monotonic() - started)}, timing …", flush=True)
        if time.monotonic() < end:
            trainer.train_steps(iterator, UNTIMED_STEPS - 1)
        started, steps = time.monotonic(), 0
        while not steps or time.monotonic() < min(started + seconds_each, end):
            trainer.train_steps(iterator, 1)
            steps += 1
        rates[data.records.max_seq_length] = steps / (time.monotonic() - started)
    return Measured(rates, compiling, expected.weights)


def _expected(plan: PretrainingPlan, engine: Engine, trainer: Trainer) -> Measured:
    """Returns what operations and the rate of a matrix product let one expect of updates."""
    speed = _SHARE_OF_PRODUCT * engine.num_replicas_in_sync * product_speed(plan.config)
    rates = {
        each.records.max_seq_length: speed / step_flops(plan, each, engine) for each in plan.data
    }
    compiling = 1 + _SECONDS_PER_LAYER * plan.config.num_hidden_layers
    return Measured(rates, compiling * len(plan.data), _weights_of(trainer), is_estimated=True)


def _seconds_of_steps(plan: PretrainingPlan, measured: Measured) -> float:
    return sum(each.steps / measured.rates[each.records.max_seq_length] for each in plan.data)


def with_steps_of_budget(job: PretrainingJob, engine: Engine, started: float) -> PretrainingJob:
    """Returns the job with the number of steps of its budget or epochs; itself if it has neither.

    A budget allows as many steps as the rate that is measured now. A training that has begun keeps
    its number of steps, however fast the machine is now.

    Args:
      job: what is asked for.
      engine: what computes.
      started: value of `time.monotonic` from which a budget counts.

    Raises:
      InputError: the budget is too small or too large, or there are several machines.
    """
    if job.num_train_epochs:
        records = open_records(job.data, "--data", job.objective)
        steps = job.num_train_epochs * records.instances / job.loop.train_batch_size
        # The steps on longer records follow.
        steps /= 1 - job.long_data_share if job.long_data else 1
        return replace_steps(job, min(max(1, round(steps)), MOST_STEPS))
    if job.budget is None:
        return job
    if engine.are_several:
        raise InputError("--budget: several machines cannot keep to a time; give --num_train_steps")
    if recorded := _recorded_steps(job):
        return _with_steps(job, recorded)
    print("measuring the training step …", flush=True)
    plan = make_plan(job)
    measured = measure(plan, engine, max(MOST_SECONDS_TO_MEASURE, _SHARE_TO_MEASURE * job.budget))
    return _with_steps(job, _steps_of_budget(plan, measured, time.monotonic() - started))


def _steps_of_budget(plan: PretrainingPlan, measured: Measured, spent: float) -> int:
    """Returns the number of steps that the budget of a plan allows after some seconds of it.

    Raises:
      InputError: the budget is too small or too large.
    """
    least = budget = plan.job.budget
    steps = int(steps_in_time(plan, measured, budget - spent))
    if steps > MOST_STEPS:
        raise InputError(f"--budget: is enough for about {steps:.3g} steps; give less")
    if steps < LEAST_STEPS:
        rate = min(measured.rates.values())
        while steps_in_time(plan, measured, least - spent) < LEAST_STEPS:
            least *= 1.1
        raise InputError(
            f"--budget={budget:g}s: is enough for about {steps} steps, as compiling takes "
            f"{measured.seconds_to_compile:.0f} s and a step {1 / rate:.2g} s now; give at least "
            f"{math.ceil(least / 60)}min, or try again when the machine has less to do"
        )
    if warning := "" if plan.job.init else few_steps_warning(steps, budget):
        print(f"warning: {warning}", flush=True)
    return steps


def steps_in_time(plan: PretrainingPlan, measured: Measured, seconds: float) -> float:
    """Returns the number of steps that a time allows, with compiling and evaluations.

    Args:
      plan: plan of any number of steps; only their shares matter.
      measured: rates of its batches.
      seconds: time from the beginning of the training to the finished model.
    """
    loop, last = plan.job.loop, plan.data[-1]
    mean = _seconds_of_steps(plan, measured)
    mean /= plan.job.optimizer.num_train_steps
    longest = _EVALUATION_SHARE * seconds
    seconds -= measured.seconds_to_compile
    if last.held_out:
        instances = sum(each.instances for each in last.held_out.values())
        batches = math.ceil(instances / loop.train_batch_size)
        of_batch = _FORWARD_SHARE / measured.rates[last.records.max_seq_length]
        mean += min(min(batches, loop.max_eval_batches) * of_batch, longest) / loop.eval_steps
        evaluations = 2 if plan.job.init else 1
        seconds -= measured.seconds_to_compile / len(measured.rates)
        seconds -= evaluations * min(batches * of_batch, longest)
    return max(seconds, 0.0) / mean


def _with_steps(job: PretrainingJob, steps: int) -> PretrainingJob:
    """Returns a job with the number of steps that its budget allows."""
    job = replace_steps(job, steps)
    # Little of a short budget is lost if the process is killed.
    every = min(job.loop.save_checkpoints_steps, max(steps // CHECKPOINTS_OF_BUDGET, 1))
    loop = dataclasses.replace(job.loop, save_checkpoints_steps=every)
    return dataclasses.replace(job, loop=loop)


def replace_steps(job: PretrainingJob, steps: int) -> PretrainingJob:
    """Returns a job with another number of steps, and the default warm-up over them."""
    warmup = default_warmup_steps(steps, warmup_share(job.init))
    optimizer = dataclasses.replace(job.optimizer, num_train_steps=steps, num_warmup_steps=warmup)
    return dataclasses.replace(job, optimizer=optimizer)


def _recorded_steps(job: PretrainingJob) -> int | None:
    """Returns the number of steps of the training of the same budget in the job's folder.

    None if there is none.

    Raises:
      InputError: the folder holds something else, such as a training of another budget.
    """
    path, found = job.output.model_dir, {}
    for name in (MARKER_FILE, UNFINISHED_FILE):
        if io.exists(f"{path}/{name}"):
            with contextlib.suppress(ValueError):
                found = parse_object(io.read_bytes(f"{path}/{name}", "--model_dir"))
            break
    mine = {"kind": PRETRAINING, "budget_seconds": job.budget}
    if found.items() >= mine.items():
        return found["optimizer"]["num_train_steps"]
    claim_output(path, {**found, **mine}, flag="--model_dir", writes=False)
    return None


def estimate(job: PretrainingJob, engine: Engine | None = None) -> list[str]:
    """Returns lines about the steps, operations and time of a pre-training; writes nothing.

    Args:
      job: what is asked for.
      engine: what computes; None for those that `make_engine` finds.

    Raises:
      InputError: a parameter or the data cannot be used.
    """
    started = time.monotonic()
    engine = engine or make_engine(Devices())
    job = for_engine(job, engine)
    if job.budget is None:
        job = with_steps_of_budget(job, engine, started)
    plan = make_plan(job)
    measured = measure(plan, engine)
    how = "estimated from operations" if measured.is_estimated else "measured"
    if job.budget is not None:
        steps = _steps_of_budget(plan, measured, time.monotonic() - started)
        plan = make_plan(_with_steps(job, steps))
    seconds = _seconds_of_steps(plan, measured)
    rates = [f"{rate:,.3g} steps/s of {length} tokens" for length, rate in measured.rates.items()]
    operations = sum(each.steps * step_flops(plan, each, engine) for each in plan.data)
    return [
        *introduction(plan, measured.weights, engine),
        f"operations: {operations:.2e}",
        f"rate: {', '.join(rates)} ({how})",
        f"time: {duration(seconds)}, and that of evaluations and checkpoints"
        if job.budget is None
        else f"time: {duration(job.budget)}",
    ]


def describe_held_out(held_out: Mapping[str, Records]) -> str:
    """Returns the number of held-out records, and of those of each source."""
    counts = [f"{name} {each.instances:,}" for name, each in held_out.items() if name]
    total = f"{sum(each.instances for each in held_out.values()):,} held out"
    return f"{total} ({', '.join(counts)})" if counts else total


def _weights_of(trainer: Trainer) -> int:
    """Returns the number of weights that are trained."""
    return sum(math.prod(each.shape) for each in trainer.model.trainable_variables)


def introduction(plan: PretrainingPlan, weights: int, engine: Engine) -> list[str]:
    """Returns the lines that describe a plan with a number of weights, when its run begins."""
    job, devices = plan.job, engine.describe_devices()
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
        states = " and hidden states" if plan.teacher.has_states else ""
        path = plan.teacher.weights.path
        lines.append(f"teacher {path}: its masked-LM distribution{states}")
    if job.attend_within_documents:
        lines.append("every token attends to its own document only")
    for each in plan.data:
        records, held_out = each.records, each.held_out
        epochs = each.steps * job.loop.train_batch_size / records.instances
        lines.append(
            f"{counted(each.steps, 'step')} on {counted(records.instances, 'instance')} of "
            f"{records.max_seq_length} tokens ({epochs:.2f} epochs), "
            + (describe_held_out(held_out) if held_out else "none held out")
        )
    if rules := plan.data[-1].rules:
        words = "whole words" if rules.do_whole_word_mask else "tokens"
        rates = dict.fromkeys(f"{100 * rate:g} %" for rate in rules.rates)
        lines.append(f"masks are drawn: {' to '.join(rates)} of the {words}")
    return lines
