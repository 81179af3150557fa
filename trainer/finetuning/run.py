"""The job of `beambert finetune`: fine-tunes an encoder on a task and writes a model folder."""

import math
import os
import subprocess
import sys
from collections.abc import Callable, Mapping

import keras
import numpy as np

from beambert import io
from beambert.model.flops import training_flops
from beambert.model.lora import add_lora, merge_lora
from beambert.model_files import LABELS_FILE, SAVED_MODEL_FOLDER
from beambert.pipelines.tasks.task import DEV, TRAIN
from beambert.process import logging_restored
from beambert.trainer import model_folders
from beambert.trainer.finetuning.batches import (
    batch_rows,
    choose_lengths,
    evaluation_batches,
    evaluation_order,
    training_batches,
)
from beambert.trainer.finetuning.job import FinetuningJob, FinetuningPlan, make_plan
from beambert.trainer.loop.config import TENSORFLOW, Devices
from beambert.trainer.loop.engine import Engine, for_engine, has_tensorflow, make_engine
from beambert.trainer.loop.loop import train
from beambert.trainer.loop.progress import describe_name
from beambert.trainer.loop.steps import Phase, Trainer
from beambert.trainer.models import build_model
from beambert.trainer.tasks.base import TaskData, objective_of_kind
from beambert.trainer.weights.adapter import write_adapter

# The number of floating-point operations that take as long as XLA takes to compile a training step
# on the slowest machines: some ten seconds on two cores. Faster machines do more in that time.
COMPILING_FLOPS = 1e12


@logging_restored()
def finetune(job: FinetuningJob, engine: Engine | None = None) -> dict[str, float]:
    """Fine-tunes on a task, writes a model folder and returns the results on dev.

    Args:
      job: settings of the fine-tuning.
      engine: what computes; None for that which `make_engine` finds.

    Raises:
      InputError: a setting or the data cannot be used, or another worker is gone.
    """
    engine = engine or make_engine(Devices())
    with engine.translate_errors():
        plan = make_plan(for_engine(job, engine))
        parts = engine.num_replicas_in_sync * job.loop.gradient_accumulation_steps
        plan.data.check_batch(job.loop.train_batch_size, parts)
        length = plan.text_features.max_seq_length
        sequences = plan.data.sequences * job.task.max_windows
        model_folders.check_rows(plan.config, length, job.loop.train_batch_size, parts, sequences)
        return model_folders.train_in(
            plan,
            engine,
            lambda check_lock: _train(plan, engine, check_lock),
            lambda model: _save_graph(model, plan),
        )


def _train(
    plan: FinetuningPlan, engine: Engine, check_lock: Callable[[], None]
) -> tuple[keras.Model, dict[str, float]]:
    """Trains to the end; returns the model and the results on dev."""
    data, chief, output = plan.data, engine.is_chief, plan.job.output
    if chief:
        _describe(plan)
    data.tokenize(plan.text_features)
    run = _Finetuning(plan, engine)
    if chief and (notes := [*data.notes(), *run.notes]):
        print("\n".join(notes), flush=True)
    results = train(run.trainer, [run.phase()], plan.loop, output, plan.training, check_lock)
    results |= data.results(run.outputs)
    if chief:
        check_lock()
        results |= {f"baseline_{name}": value for name, value in data.baseline().items()}
        results |= {f"words_{name}": value for name, value in data.by_words().items()}
        print(f"{output.model_dir}: {describe_results(data, results)}", flush=True)
        if plan.job.lora_rank:
            write_adapter(run.trainer.model, plan.training, plan.job.init, output.model_dir)
            merge_lora(run.trainer.model.encoder)
    return run.trainer.model, results


def describe_results(data: TaskData, results: dict[str, float]) -> str:
    """Returns the task's metrics on dev, then those of answers without a model and by words."""
    task = data.task
    found = {"": "", "baseline_": task.WITHOUT_MODEL, "words_": task.BY_WORDS}
    lines = []
    for prefix, by in found.items():
        scores = [
            f"{describe_name(name)} {results[prefix + name]:.4f}"
            for name in task.metrics
            if prefix + name in results
        ]
        if scores:
            lines.append(f"{', '.join(scores)}{f' by {by}' if by else ''}")
    first = task.metrics[0]
    by_words = results.get(f"words_{first}", -math.inf)
    if by_words >= results[first]:
        found = "better than" if by_words > results[first] else "as good as"
        lines[-1] += f": {found} this model, and made in seconds"
    return "\n  ".join(lines)


def _describe(plan: FinetuningPlan) -> None:
    """Writes the files that describe the model, and prints the plan."""
    model_dir, data = plan.job.output.model_dir, plan.data
    model_folders.describe_model(
        model_dir, plan.config, plan.text_features.vocabulary, plan.training
    )
    if data.labels:
        labels = "".join(f"{label}\n" for label in data.labels)
        io.write_bytes(f"{model_dir}/{LABELS_FILE}", labels.encode())
    for note in plan.notes:
        print(note, flush=True)
    found = data.baseline()
    baseline = ", ".join(f"{describe_name(n)} {found[n]:.4f}" for n in data.task.metrics)
    labels = f"{len(data.labels)} labels, " if data.labels else ""
    print(
        f"{data.task.name}: {data.counts[TRAIN]:,} training examples, {data.counts[DEV]:,} dev "
        f"examples, {labels}baseline {baseline} ({data.task.WITHOUT_MODEL}); "
        f"{plan.optimizer.num_train_steps:,} steps from {plan.job.init}",
        flush=True,
    )
    print(_describe_recipe(plan), flush=True)


def _describe_recipe(plan: FinetuningPlan) -> str:
    """Returns a sentence about the learning rate and the weights that will be kept."""
    rate = f"learning rate {plan.optimizer.learning_rate:g}"
    if plan.job.learning_rate is None:
        encoder = "a frozen encoder" if plan.job.freeze_encoder else "an encoder of width"
        rate += f", the default for {encoder}"
        rate += "" if plan.job.freeze_encoder else f" {plan.config.hidden_size}"
    sequences = plan.optimizer.num_train_steps * plan.loop.train_batch_size
    epochs = sequences / plan.data.counts[TRAIN]
    asked = plan.job.num_train_epochs
    epochs = asked if asked and round(epochs) == asked else epochs
    rate = f"{epochs:.3g} epoch{'s' * (epochs != 1)}, {rate}"
    patience = plan.loop.patience
    if patience is None:
        return f"{rate}; the weights of the last step are kept"
    metric = describe_name(plan.loop.best_metric)
    text = f"{rate}; the weights with the best {metric} on dev are kept"
    if (1 + patience) * plan.loop.eval_steps >= plan.optimizer.num_train_steps:
        return text
    return (
        f"{text}, and the training stops after {patience} epochs without better ones "
        "(--early_stopping=False trains to the end)"
    )


class _Finetuning:
    """The trainer of a plan and the batches that it needs.

    Attributes:
      notes: sentences about the initial weights.
      outputs: outputs of the newest evaluation on dev, with a row for each example.
    """

    def __init__(self, plan: FinetuningPlan, engine: Engine):
        self._plan, self._data = plan, plan.data
        self.notes: list[str] = []
        self.outputs: dict[str, np.ndarray] = {}
        longest, steps = plan.text_features.longest, plan.optimizer.num_train_steps
        features = [self._data.features(split) for split in (TRAIN, DEV)]
        sequences = features[0].choices
        flops_a_position = training_flops(plan.config, sequences, longest, predictions=0) / longest
        epochs = steps * plan.loop.train_batch_size / self._data.counts[TRAIN]
        self._lengths = choose_lengths(
            np.concatenate([feature.example_lengths for feature in features]),
            longest,
            COMPILING_FLOPS / flops_a_position / epochs,
        )
        self._objective = objective_of_kind(self._data.task.kind).of_data(self._data, self._lengths)
        self.trainer = Trainer(
            engine,
            self._build_model,
            self._objective,
            plan.optimizer,
            plan.loop.random_seed,
            gradient_accumulation_steps=plan.loop.gradient_accumulation_steps,
            dtype=plan.loop.dtype,
        )

    def _build_model(self) -> keras.Model:
        plan, data = self._plan, self._data
        model = build_model(
            data.task.kind,
            plan.config,
            len(data.labels),
            plan.loop.random_seed,
            plan.head,
        )
        if plan.weights:
            self.notes = plan.weights.load_into(model, "--init")
        if plan.job.lora_rank:
            add_lora(model.encoder, plan.job.lora_rank, plan.loop.random_seed)
        return model

    def phase(self) -> Phase:
        """Returns the only phase of the training."""
        loop, steps = self._plan.loop, self._plan.optimizer.num_train_steps
        features, batch_size = self._data.features(TRAIN), loop.train_batch_size
        lengths = features.example_lengths
        rows = batch_rows(lengths, self._lengths, batch_size, steps, loop.random_seed)
        # The mean number of positions per sequence, at the lengths at which batches are computed.
        positions = np.array(self._lengths)[np.searchsorted(self._lengths, lengths)].mean()
        sequences = batch_size * features.choices
        return Phase(
            steps,
            lambda step: self.trainer.engine.distribute(
                lambda context: training_batches(features, self._lengths, rows[step:], context)
            ),
            lambda _: self.trainer.engine.distribute(
                lambda context: evaluation_batches(
                    self._data.features(DEV), self._lengths, batch_size, context
                )
            ),
            sequences_a_step=batch_size,
            tokens_a_step=int(sequences * positions),
            evaluation_batches=-(-len(self._data.features(DEV)) // batch_size),
            score=self._score,
        )

    def _score(self, outputs: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Keeps the outputs; returns the task's metrics if they choose the best weights."""
        order = evaluation_order(self._data.features(DEV))
        self.outputs = {}
        for name, values in outputs.items():
            self.outputs[name] = np.empty((len(order), *values.shape[1:]), values.dtype)
            # Rows at the end fill up the last batch.
            self.outputs[name][order] = values[: len(order)]
        if self._plan.loop.patience is None:
            return {}  # Answers to questions take their time.
        results = self._data.results(self.outputs)
        return {name: results[name] for name in self._data.task.metrics}


def _save_graph(model: keras.Model, plan: FinetuningPlan) -> None:
    """Writes the SavedModel, in another process if this one computes on JAX."""
    model_dir = plan.job.output.model_dir
    if keras.backend.backend() == TENSORFLOW:
        from beambert.trainer.serving.saved_model import save_task_model

        path = f"{model_dir}/{SAVED_MODEL_FOLDER}"
        save_task_model(model, plan.text_features, plan.training, path)
        return
    if not has_tensorflow():
        print(
            f"{model_dir}: gets no SavedModel, as TensorFlow is not installed here; `beambert "
            "export` makes one where it is",
            flush=True,
        )
        return
    command = [sys.executable, "-m", "beambert.trainer.serving.saved_model", model_dir]
    # The devices are in use.
    environment = os.environ | {"KERAS_BACKEND": TENSORFLOW, "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{model_dir}: the SavedModel cannot be written: {done.stderr[-2000:]}")
