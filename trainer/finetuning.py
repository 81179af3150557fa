"""`beambert finetune`: encoder + task -> a model with a SavedModel on raw text."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from model.config import BertConfig
from model.flops import training_flops
from pipelines.errors import InputError
from pipelines.feature_records import TaskFeatureFiles, made_from
from pipelines.records import Vocabulary
from pipelines.task_features import TaskFeatures
from pipelines.tasks import DEFAULT_LENGTH, DEFAULT_SPAN_LENGTH, DEV, SPAN, TRAIN, Task
from pipelines.text_features import TextFeatures
from trainer import folders
from trainer.checkpoints import InitialWeights, open_initial
from trainer.config import LoopConfig, OptimizerConfig
from trainer.export import save_task_model
from trainer.loop import Phase, Trainer, train
from trainer.pretraining import model_config
from trainer.squad_data import SpanData
from trainer.strategy import check_batch, is_chief
from trainer.task_batches import (
    batch_rows,
    choose_lengths,
    evaluation_batches,
    prediction_batches,
    training_batches,
)
from trainer.task_data import ExampleData, TaskData
from trainer.task_models import OBJECTIVES, build_model

RANDOM = "random"
# In a model folder: what others' scorers read.
PREDICTIONS_FOLDER = "predictions"


@dataclasses.dataclass(frozen=True)
class FinetuningJob:
    """What `finetune` is asked for.

    Attributes:
      task: what it is.
      data_dir: the task's files.
      skip_bad_rows: leave out rows that can't be used.
      init: a pre-trained encoder, see `checkpoints.open_initial`, or "random".
      model, vocab_file, do_lower_case: of the encoder, where `init` is "random".
      freeze_encoder: train the layer on top alone.
      output: folders to write to.
      features: the task's, made by `beambert features`; None makes them here.
      max_seq_length: of the inputs; None for that of the pre-training.
      learning_rate, weight_decay_rate, optimizer: see `OptimizerConfig`.
      num_train_epochs: over the task's training data.
      warmup_proportion: share of the steps that warm up.
      loop: how; its evaluation is once an epoch.
    """

    task: Task
    data_dir: str
    skip_bad_rows: bool
    init: str
    model: str | None
    vocab_file: str | None
    do_lower_case: bool | None
    freeze_encoder: bool
    output: folders.TrainingFolders
    max_seq_length: int | None
    learning_rate: float
    weight_decay_rate: float
    optimizer: str
    num_train_epochs: float
    warmup_proportion: float
    loop: LoopConfig
    features: TaskFeatureFiles | None = None


@dataclasses.dataclass(frozen=True)
class _Start:
    """What fine-tuning starts from."""

    config: BertConfig
    vocabulary: Vocabulary
    do_lower_case: bool
    max_seq_length: int
    weights: InitialWeights | None


def _start(job: FinetuningJob) -> _Start:
    if job.init != RANDOM:
        for name in ("model", "vocab_file", "do_lower_case"):
            if (value := getattr(job, name)) is not None:
                raise InputError(f"--{name}={value}: goes with --init=random; leave it out")
        found = open_initial(job.init, "--init")
        found.check("--init")
        length = _length(job, found.max_seq_length or DEFAULT_LENGTH, found.config)
        start = _Start(found.config, found.vocabulary, found.do_lower_case, length, found)
    else:
        if not job.model or not job.vocab_file:
            raise InputError("--init=random: also needs --model and --vocab_file")
        vocabulary = folders.read_vocabulary(job.vocab_file, "--vocab_file")
        do_lower_case = True if job.do_lower_case is None else job.do_lower_case
        vocabulary.check_case(do_lower_case)
        config = model_config(job.model, len(vocabulary))
        length = _length(job, DEFAULT_LENGTH, config)
        start = _Start(config, vocabulary, do_lower_case, length, None)
    limit = start.config.max_position_embeddings
    if not 8 <= start.max_seq_length <= limit:
        raise InputError(
            f"--max_seq_length={start.max_seq_length}: must be at least 8 and at most {limit}, "
            "the encoder's max_position_embeddings"
        )
    return start


def _length(job: FinetuningJob, default: int, config: BertConfig) -> int:
    """Returns the asked-for length of the inputs, or the task's default."""
    if job.max_seq_length is not None:
        return job.max_seq_length
    default = DEFAULT_SPAN_LENGTH if job.task.kind == SPAN else default
    return min(default, config.max_position_embeddings)


def finetune(job: FinetuningJob, strategy: tf.distribute.Strategy) -> dict[str, float]:
    """Fine-tunes on a task, leaves a finished model folder and returns the results on dev.

    Raises:
      InputError: what was given can't be used.
    """
    start = _start(job)
    chief = is_chief(strategy)
    notes: list[str] = []
    data = _read_task(job, notes)
    if job.features:
        job.features.check(_features_made_from(start, data))
    if data.is_pair and start.config.type_vocab_size < 2:
        raise InputError(
            f"--init={job.init}: has one segment type (type_vocab_size), and {data.task.name} has "
            "pairs; take another encoder"
        )
    check_batch(strategy, job.loop.train_batch_size, job.loop.gradient_accumulation_steps)
    optimizer, loop = _schedule(job, data.counts[TRAIN])
    training = _training(job, start, data, optimizer, loop)
    identity = folders.job_identity(training, start.config)
    model_dir = job.output.model
    if folders.claim(job.output, identity, chief):
        print(f"{model_dir}: already finished by the same command, nothing to do")
        return json.loads(folders.read(f"{model_dir}/{folders.RESULTS_FILE}"))
    if chief:
        _describe(job, start, data, training, optimizer.num_train_steps, notes)
    text_features = TextFeatures(start.vocabulary, start.do_lower_case, start.max_seq_length)
    data.tokenize(text_features, job.features)
    run = _Run(job, start, data, strategy, optimizer, loop)
    if chief and run.notes:
        print("\n".join(run.notes), flush=True)
    results = train(run.trainer, [run.phase()], loop, job.output)
    # Every worker computes its part of them.
    outputs = run.predict(data.features(DEV))
    results |= data.results(outputs)
    if chief:
        _write_predictions(model_dir, data.prediction_files(outputs))
        results |= {f"baseline_{name}": value for name, value in data.baseline().items()}
        _finish(run.trainer.model, text_features, training, model_dir, results, identity)
        print(f"{model_dir}: {describe_results(job.task, results)}", flush=True)
    return results


def _features_made_from(start: _Start, data: TaskData) -> dict[str, Any]:
    """Returns what decides the features, see `feature_records.made_from`."""
    return made_from(
        data.task,
        data.labels,
        start.vocabulary,
        start.do_lower_case,
        start.max_seq_length,
        data.sha256(),
    )


def identity_of(job: FinetuningJob) -> dict[str, Any]:
    """Returns what decides a job's result, see `folders.job_identity`.

    Raises:
      InputError: what was given can't be used.
    """
    start, data = _start(job), _read_task(job, [])
    optimizer, loop = _schedule(job, data.counts[TRAIN])
    return folders.job_identity(_training(job, start, data, optimizer, loop), start.config)


def _read_task(job: FinetuningJob, notes: list[str]) -> TaskData:
    """Reads train and dev; what is left out or amiss is added to a list."""
    if job.task.kind == SPAN:
        return SpanData(job.task, job.data_dir, notes.append)

    def leave_out(row: str) -> None:
        notes.append(f"left out: {row}")

    return ExampleData(job.task, job.data_dir, leave_out if job.skip_bad_rows else None)


def describe_results(task: Task, results: dict[str, float]) -> str:
    """Returns the task's metrics on dev beside those of the baseline."""
    parts = [
        f"{name.replace('_', ' ')} {results[name]:.4f} (baseline {results[f'baseline_{name}']:.4f})"
        for name in task.metrics
    ]
    return ", ".join(parts)


def _schedule(job: FinetuningJob, examples: int) -> tuple[OptimizerConfig, LoopConfig]:
    """Returns the optimizer of the asked-for epochs, and a loop that evaluates after each."""
    batch_size = job.loop.train_batch_size
    if examples < batch_size:
        raise InputError(
            f"--train_batch_size={batch_size}: more than the {examples} training examples; "
            "take a smaller batch"
        )
    steps = max(int(examples * job.num_train_epochs / batch_size), 1)
    warmup = int(job.warmup_proportion * steps)
    optimizer = OptimizerConfig(
        job.learning_rate, steps, warmup, job.weight_decay_rate, optimizer=job.optimizer
    )
    return optimizer, dataclasses.replace(job.loop, eval_steps=max(examples // batch_size, 1))


def _training(
    job: FinetuningJob,
    start: _Start,
    data: TaskData,
    optimizer: OptimizerConfig,
    loop: LoopConfig,
) -> dict[str, Any]:
    weights = start.weights
    return {
        "kind": data.task.kind,
        "task": data.task.name,
        "columns": {
            name: getattr(data.task, name)
            for name in ("text_columns", "label_column", "choice_columns")
        },
        "labels": list(data.labels),
        "is_pair": data.is_pair,
        "freeze_encoder": job.freeze_encoder,
        "init": folders.absolute(weights.path) if weights else RANDOM,
        "init_sha256": weights.sha256 if weights else None,
        "do_lower_case": start.do_lower_case,
        "max_seq_length": start.max_seq_length,
        "vocabulary_sha256": start.vocabulary.sha256,
        "data_dir": folders.absolute(job.data_dir),
        "data_sha256": data.sha256(),
        "examples": dict(data.counts),
        "optimizer": dataclasses.asdict(optimizer),
        "loop": dataclasses.asdict(loop),
    }


def _describe(
    job: FinetuningJob,
    start: _Start,
    data: TaskData,
    training: dict[str, Any],
    steps: int,
    notes: list[str],
) -> None:
    """Writes what the model folder is to be, and says what is about to be done."""
    model_dir = job.output.model
    folders.describe_model(model_dir, start.config, start.vocabulary, training)
    if data.labels:
        labels = "".join(f"{label}\n" for label in data.labels)
        folders.write(f"{model_dir}/{folders.LABELS_FILE}", labels.encode())
    for note in notes:
        print(note, flush=True)
    found = data.baseline()
    baseline = ", ".join(f"{n.replace('_', ' ')} {found[n]:.4f}" for n in data.task.metrics)
    labels = f"{len(data.labels)} labels, " if data.labels else ""
    print(
        f"{data.task.name}: {data.counts[TRAIN]:,} training examples, {data.counts[DEV]:,} dev "
        f"examples, {labels}baseline {baseline}; {steps:,} steps from {job.init}",
        flush=True,
    )


class _Run:
    """The trainer of a job, with the batches it is given."""

    def __init__(
        self,
        job: FinetuningJob,
        start: _Start,
        data: TaskData,
        strategy: tf.distribute.Strategy,
        optimizer: OptimizerConfig,
        loop: LoopConfig,
    ):
        self._job, self._start, self._data, self._loop = job, start, data, loop
        self.notes: list[str] = []
        kind, every = data.task.kind, [data.features(split) for split in (TRAIN, DEV)]
        self._lengths = choose_lengths(
            np.concatenate([features.example_lengths for features in every]), start.max_seq_length
        )
        self._objective = OBJECTIVES[kind](self._lengths)
        self.trainer = Trainer(
            strategy,
            self._build_model,
            self._objective,
            optimizer,
            loop.random_seed,
            gradient_accumulation_steps=loop.gradient_accumulation_steps,
            dtype=loop.dtype,
        )

    def _build_model(self) -> keras.Model:
        task, start = self._data.task, self._start
        model = build_model(
            task.kind,
            start.config,
            len(self._data.labels),
            self._loop.random_seed,
            self._job.freeze_encoder,
        )
        if start.weights:
            self.notes = start.weights.load_into(model, "--init")
        return model

    def phase(self) -> Phase:
        """Returns the whole training."""
        batch_size, steps = (
            self._loop.train_batch_size,
            self.trainer.optimizer_config.num_train_steps,
        )
        features = self._data.features(TRAIN)
        lengths = features.example_lengths
        rows = batch_rows(lengths, self._lengths, batch_size, steps, self._loop.random_seed)
        # Mean positions of a batch, at the lengths that they are computed at.
        positions = np.array(self._lengths)[np.searchsorted(self._lengths, lengths)].mean()
        sequences = batch_size * features.choices
        return Phase(
            steps,
            lambda step: self._distributed(training_batches(features, self._lengths, rows[step:])),
            lambda _: self._distributed(
                evaluation_batches(self._data.features(DEV), self._lengths, batch_size)
            ),
            int(sequences * positions),
            training_flops(self._start.config, sequences, int(positions), predictions=0),
        )

    def predict(self, features: TaskFeatures) -> dict[str, np.ndarray]:
        """Returns the objective's outputs for each example; of tokens, padded with zeros."""
        found: dict[str, np.ndarray] = {}
        for rows, batches in prediction_batches(
            features, self._lengths, self._loop.train_batch_size
        ):
            outputs = self.trainer.predict(self._distributed(batches), self._objective.outputs)
            for name, values in outputs.items():
                values = values[: len(rows)]
                if name in self._objective.token_outputs:
                    spare = self._lengths[-1] - values.shape[1]
                    values = np.pad(values, [(0, 0), (0, spare)])
                if name not in found:
                    found[name] = np.zeros((len(features), *values.shape[1:]), values.dtype)
                found[name][rows] = values
        return found

    def _distributed(self, batches: tf.data.Dataset) -> Any:
        return self.trainer.strategy.experimental_distribute_dataset(batches)


def _write_predictions(model_dir: str, files: Mapping[str, str]) -> None:
    if files:
        folder = f"{model_dir}/{PREDICTIONS_FOLDER}"
        tf.io.gfile.makedirs(folder)
        for name, text in files.items():
            folders.write(f"{folder}/{name}", text.encode())


def _finish(
    model: keras.Model,
    text_features: TextFeatures,
    training: dict[str, Any],
    model_dir: str,
    results: dict[str, float],
    identity: dict[str, Any],
) -> None:
    folders.save_weights(model, model_dir)
    save_task_model(model, text_features, training, f"{model_dir}/{folders.SAVED_MODEL_FOLDER}")
    folders.write(f"{model_dir}/{folders.RESULTS_FILE}", json.dumps(results, indent=1).encode())
    folders.finish(model_dir, identity)
