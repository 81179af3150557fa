"""`beambert finetune`: encoder + task -> a classifier with a SavedModel on raw text."""

import collections
import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from model.classifier import BertClassifier
from model.config import BertConfig
from model.flops import training_flops
from pipelines.errors import InputError
from pipelines.records import Vocabulary
from pipelines.tasks import Example, discover_labels, find_task, read_examples, split_path
from trainer import folders
from trainer.checkpoints import InitialWeights, open_initial
from trainer.config import LoopConfig, OptimizerConfig
from trainer.export import save_classifier
from trainer.input_pipeline import fill_up
from trainer.loop import Phase, Trainer, train
from trainer.objectives import ClassificationObjective
from trainer.pretraining import model_config
from trainer.strategy import check_batch, is_chief
from trainer.text_features import TextFeatures

RANDOM = "random"
# Default length of the inputs where no pre-training says another; run_classifier.py's.
DEFAULT_LENGTH = 128
# Texts that are tokenized at a time.
TEXTS_AT_A_TIME = 4096


@dataclasses.dataclass(frozen=True)
class FinetuningJob:
    """What `finetune` is asked for.

    Attributes:
      task: see `pipelines.tasks`.
      data_dir: the task's files.
      init: a pre-trained encoder, see `checkpoints.open_initial`, or "random".
      model, vocab_file, do_lower_case: of the encoder, where `init` is "random".
      output: folders to write to.
      max_seq_length: of the inputs; None for that of the pre-training.
      learning_rate, weight_decay_rate, optimizer: see `OptimizerConfig`.
      num_train_epochs: over the task's training data.
      warmup_proportion: share of the steps that warm up.
      loop: how; its evaluation is once an epoch.
    """

    task: str
    data_dir: str
    init: str
    model: str | None
    vocab_file: str | None
    do_lower_case: bool | None
    output: folders.TrainingFolders
    max_seq_length: int | None
    learning_rate: float
    weight_decay_rate: float
    optimizer: str
    num_train_epochs: float
    warmup_proportion: float
    loop: LoopConfig


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
        default = found.max_seq_length
        if default is None:
            default = min(DEFAULT_LENGTH, found.config.max_position_embeddings)
        length = default if job.max_seq_length is None else job.max_seq_length
        start = _Start(found.config, found.vocabulary, found.do_lower_case, length, found)
    else:
        if not job.model or not job.vocab_file:
            raise InputError("--init=random: also needs --model and --vocab_file")
        vocabulary = folders.read_vocabulary(job.vocab_file, "--vocab_file")
        do_lower_case = True if job.do_lower_case is None else job.do_lower_case
        vocabulary.check_case(do_lower_case)
        config = model_config(job.model, len(vocabulary))
        length = DEFAULT_LENGTH if job.max_seq_length is None else job.max_seq_length
        start = _Start(config, vocabulary, do_lower_case, length, None)
    limit = start.config.max_position_embeddings
    if not 8 <= start.max_seq_length <= limit:
        raise InputError(
            f"--max_seq_length={start.max_seq_length}: must be at least 8 and at most {limit}, "
            "the encoder's max_position_embeddings"
        )
    return start


def make_features(
    examples: Sequence[Example], labels: Sequence[str], text_features: TextFeatures
) -> dict[str, np.ndarray]:
    """Turns examples into arrays: the model's inputs and `labels`, int32 [examples, …]."""
    index = {label: i for i, label in enumerate(labels)}
    is_pair = examples[0].text_b is not None
    convert = tf.function(text_features, reduce_retracing=True)
    parts = []
    for first in range(0, len(examples), TEXTS_AT_A_TIME):
        some = examples[first : first + TEXTS_AT_A_TIME]
        columns = [[e.text for e in some]] + ([[e.text_b for e in some]] if is_pair else [])
        converted = convert(*(tf.constant(column) for column in columns))
        parts.append({name: value.numpy() for name, value in converted.items()})
    features = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return features | {"labels": np.array([index[e.label] for e in examples], np.int32)}


def task_training_batches(
    features: Mapping[str, np.ndarray], batch_size: int, seed: int, first_step: int
) -> tf.data.Dataset:
    """Endless shuffled batches; the position follows from the step alone."""
    count = len(features["labels"])
    tensors = {name: tf.constant(array) for name, array in features.items()}
    epoch, skipped = divmod(first_step * batch_size, count)

    def shuffled(number: tf.Tensor) -> tf.data.Dataset:
        order = tf.random.experimental.stateless_shuffle(
            tf.range(count), [seed, tf.cast(number, tf.int32)]
        )
        return tf.data.Dataset.from_tensor_slices(order)

    order = tf.data.Dataset.counter(start=epoch).flat_map(shuffled).skip(skipped)
    batches = order.batch(batch_size, drop_remainder=True)
    return batches.map(lambda rows: {n: tf.gather(t, rows) for n, t in tensors.items()}).prefetch(2)


def task_evaluation_batches(features: Mapping[str, np.ndarray], batch_size: int) -> tf.data.Dataset:
    """Every example once; the last batch is filled up with rows of weight 0."""
    batches = tf.data.Dataset.from_tensor_slices(dict(features)).batch(batch_size)
    return batches.map(lambda some: fill_up(some, batch_size)).prefetch(2)


@dataclasses.dataclass(frozen=True)
class _TaskData:
    """What the task's files hold; `files` are their paths by split."""

    name: str
    labels: Sequence[str]
    training: Sequence[Example]
    dev: Sequence[Example]
    files: Mapping[str, pathlib.Path]

    @property
    def is_pair(self) -> bool:
        return self.training[0].text_b is not None


def _read_task(job: FinetuningJob) -> _TaskData:
    task = find_task(job.task)
    labels = list(discover_labels(task, job.data_dir))
    training, dev = (read_examples(task, job.data_dir, s, labels) for s in ("train", "dev"))
    files = {split: split_path(task, job.data_dir, split) for split in ("train", "dev")}
    return _TaskData(task.name, labels, training, dev, files)


def finetune(job: FinetuningJob, strategy: tf.distribute.Strategy) -> None:
    """Fine-tunes all weights on a task and leaves a finished model folder.

    Raises:
      InputError: what was given can't be used.
    """
    start = _start(job)
    data = _read_task(job)
    check_batch(strategy, job.loop.train_batch_size, job.loop.gradient_accumulation_steps)
    _check_examples(data.training, data.dev, job.loop.train_batch_size, job.data_dir)
    optimizer, loop = _schedule(job, len(data.training))
    training = _training(job, start, data, optimizer, loop)
    identity = folders.job_identity(training, start.config)
    model_dir = job.output.model
    chief = is_chief(strategy)
    if folders.claim(job.output, identity, chief):
        print(f"{model_dir}: already finished by the same command, nothing to do")
        return
    if chief:
        folders.describe_model(model_dir, start.config, start.vocabulary, training)
        labels = "".join(f"{label}\n" for label in data.labels)
        folders.write(f"{model_dir}/{folders.LABELS_FILE}", labels.encode())
    text_features = TextFeatures(start.vocabulary, start.do_lower_case, start.max_seq_length)
    trainer = Trainer(
        strategy,
        lambda: _build_classifier(start, len(data.labels), loop.random_seed),
        ClassificationObjective(),
        optimizer,
        loop.random_seed,
        gradient_accumulation_steps=loop.gradient_accumulation_steps,
        dtype=loop.dtype,
    )
    if chief:
        print(_introduce(job, data, optimizer.num_train_steps), flush=True)
    results = _train(trainer, data, start, text_features, loop, job.output)
    if not chief:
        return
    results["majority_accuracy"] = _majority_accuracy(data.training, data.dev)
    folders.save_weights(trainer.model, model_dir)
    saved_model = f"{model_dir}/{folders.SAVED_MODEL_FOLDER}"
    save_classifier(trainer.model, text_features, data.labels, data.is_pair, saved_model)
    folders.write(f"{model_dir}/{folders.RESULTS_FILE}", json.dumps(results, indent=1).encode())
    folders.finish(model_dir, identity)
    print(f"{model_dir}: finished", flush=True)


def _schedule(job: FinetuningJob, examples: int) -> tuple[OptimizerConfig, LoopConfig]:
    """Returns the optimizer of the asked-for epochs, and a loop that evaluates after each."""
    batch_size = job.loop.train_batch_size
    steps = max(int(examples * job.num_train_epochs / batch_size), 1)
    warmup = int(job.warmup_proportion * steps)
    optimizer = OptimizerConfig(
        job.learning_rate, steps, warmup, job.weight_decay_rate, optimizer=job.optimizer
    )
    return optimizer, dataclasses.replace(job.loop, eval_steps=max(examples // batch_size, 1))


def _training(
    job: FinetuningJob,
    start: _Start,
    data: _TaskData,
    optimizer: OptimizerConfig,
    loop: LoopConfig,
) -> dict[str, Any]:
    weights = start.weights
    return {
        "kind": "classification",
        "task": data.name,
        "labels": data.labels,
        "is_pair": data.is_pair,
        "init": folders.absolute(weights.path) if weights else RANDOM,
        "init_sha256": weights.sha256 if weights else None,
        "do_lower_case": start.do_lower_case,
        "max_seq_length": start.max_seq_length,
        "vocabulary_sha256": start.vocabulary.sha256,
        "data_dir": folders.absolute(job.data_dir),
        "data_sha256": {
            split: hashlib.sha256(path.read_bytes()).hexdigest()
            for split, path in data.files.items()
        },
        "examples": {"train": len(data.training), "dev": len(data.dev)},
        "optimizer": dataclasses.asdict(optimizer),
        "loop": dataclasses.asdict(loop),
    }


def _introduce(job: FinetuningJob, data: _TaskData, steps: int) -> str:
    majority = _majority_accuracy(data.training, data.dev)
    return (
        f"{data.name}: {len(data.training):,} training examples, {len(data.dev):,} dev "
        f"examples, {len(data.labels)} labels (always the commonest: {majority:.1%}); "
        f"{steps:,} steps from {job.init}"
    )


def _train(
    trainer: Trainer,
    data: _TaskData,
    start: _Start,
    text_features: TextFeatures,
    loop: LoopConfig,
    output: folders.TrainingFolders,
) -> dict[str, float]:
    features = make_features(data.training, data.labels, text_features)
    dev_features = make_features(data.dev, data.labels, text_features)
    distribute = trainer.strategy.experimental_distribute_dataset
    batch_size, seed = loop.train_batch_size, loop.random_seed

    def batches_from(step: int) -> Any:
        return distribute(task_training_batches(features, batch_size, seed, step))

    def evaluation(_: int | None) -> Any:
        return distribute(task_evaluation_batches(dev_features, batch_size))

    length = start.max_seq_length
    phase = Phase(
        trainer.optimizer_config.num_train_steps,
        batches_from,
        evaluation,
        batch_size * length,
        training_flops(start.config, batch_size, length, predictions=0),
    )
    return train(trainer, [phase], loop, output)


def _check_examples(
    training: Sequence[Example], dev: Sequence[Example], batch_size: int, data_dir: str
) -> None:
    if (training[0].text_b is None) != (dev[0].text_b is None):
        raise InputError(
            f"--data_dir={data_dir}: text_b stands in one of its train and dev files only; "
            "add the column to the other or delete it"
        )
    if len(training) < batch_size:
        raise InputError(
            f"--train_batch_size={batch_size}: more than the {len(training)} training examples; "
            "take a smaller batch"
        )


def _build_classifier(start: _Start, num_labels: int, seed: int) -> BertClassifier:
    classifier = BertClassifier(start.config, num_labels, seed=seed)
    if start.weights:
        start.weights.load_into(classifier, "--init")
    return classifier


def _majority_accuracy(training: Sequence[Example], dev: Sequence[Example]) -> float:
    commonest = collections.Counter(e.label for e in training).most_common(1)[0][0]
    return sum(e.label == commonest for e in dev) / len(dev)
