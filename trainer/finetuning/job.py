"""A fine-tuning job: its settings, and the plan that follows from them."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

from beambert import io
from beambert.errors import InputError
from beambert.model.classifier import PLAIN_HEAD, Head
from beambert.model.config import EncoderConfig
from beambert.pipelines.tasks.classification import check_names
from beambert.pipelines.tasks.task import SHORTEST_LENGTH, TRAIN, Task
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.pipelines.tasks.vectors import VectorTask
from beambert.pipelines.tokenizers.folders import TokenizerSettings, read_given
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.trainer import model_folders
from beambert.trainer.embedding.embedder import read_settings, settings_notes
from beambert.trainer.finetuning.settings import (
    FINETUNING_BATCH_SIZE,
    FINETUNING_OPTIMIZER,
    FINETUNING_PATIENCE,
    LEAST_UPDATES_OF_PATIENCE,
    EncoderSettings,
    RecipeSettings,
    default_epochs,
)
from beambert.trainer.loop.config import (
    RANDOM,
    LoopConfig,
    OptimizerConfig,
    TrainingFolders,
    default_learning_rate,
)
from beambert.trainer.model_folders import model_config
from beambert.trainer.tasks.base import TaskData, objective_of_kind
from beambert.trainer.weights.adaptation import KEEP
from beambert.trainer.weights.initial import InitialWeights, open_initial


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningJob(EncoderSettings, TokenizerSettings, RecipeSettings):
    """The settings of a fine-tuning; the defaults are those of `beambert finetune`.

    A vocabulary or tokenizer is given only if `init` is "random".

    Attributes:
      task: declaration of the task.
      data_dir: folder of the task's files.
      skip_bad_rows: leave out rows that cannot be used instead of raising an error.
      output: folders to write to.
      learning_rate, weight_decay_rate, optimizer: see `OptimizerConfig`. None takes the rate that
        suits the encoder's width.
      loop: settings of the training loop; `eval_steps` is set to evaluate after each epoch.

    Raises:
      InputError: a value cannot be used.
    """

    task: Task
    data_dir: str
    skip_bad_rows: bool = False
    output: TrainingFolders
    learning_rate: float | None = None
    weight_decay_rate: float = OptimizerConfig.weight_decay_rate
    optimizer: str = FINETUNING_OPTIMIZER
    loop: LoopConfig = LoopConfig(FINETUNING_BATCH_SIZE)


# Greatest length that an encoder is stretched to: a sequence of this length would take gigabytes
# for the weights of every head of attention.
LONGEST_LENGTH = 1 << 15


@dataclasses.dataclass(frozen=True)
class FinetuningPlan:
    """Everything that a fine-tuning needs, read and checked.

    Attributes:
      job: settings of the fine-tuning.
      config: configuration of the encoder.
      weights: initial weights of the encoder; None for random ones.
      text_features: makes the encoder's inputs from texts.
      data: examples of the task.
      notes: sentences about problems with the data.
      optimizer: optimizer, with the number of steps that the epochs take.
      loop: settings of the training loop, with an evaluation after each epoch.
    """

    job: FinetuningJob
    config: EncoderConfig
    weights: InitialWeights | None
    text_features: TextFeatures
    data: TaskData
    notes: Sequence[str]
    optimizer: OptimizerConfig
    loop: LoopConfig

    @functools.cached_property
    def training(self) -> dict[str, Any]:
        """The content of training.json."""
        task, data = self.data.task, self.data
        columns = ("text_columns", "label_column", "choice_columns")
        length = self.text_features.max_seq_length
        trained = (self.weights.trained_positions if self.weights else None) or 0
        return {
            "kind": task.kind,
            "task": task.name,
            "columns": {name: getattr(task, name) for name in columns},
            "labels": list(data.labels),
            "is_pair": data.is_pair,
            "freeze_encoder": self.job.freeze_encoder,
            **task.learning_settings(),
            "pooling": self.pooling,
            "init": io.absolute(self.weights.path) if self.weights else RANDOM,
            "init_sha256": self.weights.sha256 if self.weights else None,
            "do_lower_case": self.text_features.do_lower_case,
            "max_seq_length": length,
            # The encoder may have been trained on more than the task needs.
            "trained_positions": max(trained, length),
            "vocabulary_sha256": self.text_features.vocabulary.sha256,
            "data_dir": io.absolute(self.job.data_dir),
            "data_sha256": data.sha256(),
            "examples": dict(data.counts),
            "optimizer": dataclasses.asdict(self.optimizer),
            "loop": dataclasses.asdict(self.loop),
            "lora_rank": self.job.lora_rank,
            "init_positions": self.job.init_positions,
        }

    @property
    def head(self) -> Head:
        """The layers above the encoder."""
        window, pooling = self.text_features.window_length, self.pooling or PLAIN_HEAD.pooling
        return Head(self.job.freeze_encoder, window, pooling)

    @property
    def pooling(self) -> str | None:
        """What is taken of the tokens for the vector of a text; None for other models."""
        task = self.data.task
        if not isinstance(task, VectorTask) or not task.POOLS:
            return None
        return task.pooling or (read_settings(self.job.init, "--init").pooling.mode)

    @functools.cached_property
    def identity(self) -> dict[str, Any]:
        """The settings that decide the result; see `model_folders.job_identity`."""
        return model_folders.job_identity(self.training, self.config)


def make_plan(job: FinetuningJob) -> FinetuningPlan:
    """Returns the plan of a job, after opening the encoder and reading the task.

    Raises:
      InputError: a setting, the encoder or the data cannot be used.
    """
    if job.lora_rank and job.freeze_encoder:
        raise InputError(
            f"--lora_rank={job.lora_rank}: --freeze_encoder leaves nothing of the encoder to "
            "train; give one of the two"
        )
    config, weights, *inputs = _start(job)
    data = objective_of_kind(job.task.kind).DATA(job.task, job.data_dir, job.skip_bad_rows)
    text_features = data.text_features(job, *inputs)
    if data.has_segments and config.segments == 1 and text_features.vocabulary.second_segment:
        raise InputError(
            f"--init={job.init}: has only one segment type (type_vocab_size), but {data.task.name} "
            "has pairs; use another encoder"
        )
    check_names(data.task.class_weights, data.labels)
    data.check_job(job, config)
    notes = data.problems()
    if isinstance(data.task, VectorTask):
        notes += settings_notes(job.init)
    optimizer, loop = _schedule(job, data.counts[TRAIN], config)
    return FinetuningPlan(job, config, weights, text_features, data, notes, optimizer, loop)


def _start(
    job: FinetuningJob,
) -> tuple[EncoderConfig, InitialWeights | None, Vocabulary, bool, int]:
    """Returns the encoder: its configuration and weights; its vocabulary, lower-casing, length."""
    if job.init != RANDOM:
        for name in ("model", "vocab_file", "tokenizer", "do_lower_case"):
            if (value := getattr(job, name)) is not None:
                raise InputError(
                    f"--{name}={value}: goes with --init=random only, as the encoder of "
                    f"--init={job.init} has its own; leave it out"
                )
        found = open_initial(job.init, "--init")
        found.check("--init")
        length = _length(job, found.max_seq_length, found.config)
        found = found.with_positions(length, job.init_positions)
        return found.config, found, found.vocabulary, found.do_lower_case, length
    if job.init_positions != KEEP:
        raise InputError(
            f"--init_positions={job.init_positions}: needs an encoder, not --init=random; leave it "
            "out"
        )
    advice = {
        "--model": "a size, such as tiny, or a bert_config.json",
        "--vocab_file": "the vocabulary that `beambert vocab` made",
    }
    for flag, given in zip(advice, (job.model, job.vocab_file or job.tokenizer), strict=True):
        if not given:
            raise InputError(
                f"--init=random: random weights also need {flag}, {advice[flag]}; add it, or give "
                "the folder of an encoder to --init"
            )
    vocabulary, do_lower_case = read_given(job.vocab_file, job.tokenizer, job.do_lower_case)
    config = model_config(job.model, vocabulary)
    return config, None, vocabulary, do_lower_case, _length(job, None, config)


def _length(job: FinetuningJob, trained: int | None, config: EncoderConfig) -> int:
    """Returns the length of the inputs: that of the job, or the task's default."""
    limit, length = config.longest_sequence, job.max_seq_length
    if length is None:
        length = job.task.default_length(trained)
        length = min(length, limit) if job.init_positions == KEEP else length
    if job.init_positions != KEEP and length > LONGEST_LENGTH:
        raise InputError(f"--max_seq_length={length}: must be at most {LONGEST_LENGTH}")
    if length < SHORTEST_LENGTH or (length > limit and job.init_positions == KEEP):
        can_grow = length > limit and config.has_position_table
        more = "; --init_positions=tile gives it more" if can_grow else ""
        raise InputError(
            f"--max_seq_length={length}: must be at least {SHORTEST_LENGTH} and at most {limit}, "
            f"the encoder's max_position_embeddings{more}"
        )
    return length


def _schedule(
    job: FinetuningJob, examples: int, config: EncoderConfig
) -> tuple[OptimizerConfig, LoopConfig]:
    """Returns the optimizer for the epochs of the job, and a loop that evaluates after each."""
    batch_size = job.loop.train_batch_size
    if examples < batch_size:
        raise InputError(
            f"--train_batch_size={batch_size}: more than the {examples} training examples; "
            "use a smaller batch"
        )
    is_own = job.task.is_own
    epochs = job.num_train_epochs
    if epochs is None:
        epochs = default_epochs(examples, batch_size, is_own)
    steps = max(int(examples * epochs / batch_size), 1)
    warmup = int(job.warmup_proportion * steps)
    rate = job.learning_rate
    if rate is None:
        rate = default_learning_rate(config.hidden_size, job.freeze_encoder, job.lora_rank > 0)
    optimizer = OptimizerConfig(rate, steps, warmup, job.weight_decay_rate, optimizer=job.optimizer)
    stops = is_own if job.early_stopping is None else job.early_stopping
    eval_steps = max(examples // batch_size, 1)
    # The first epochs of few examples are of the warm-up, and no better than each other.
    patience = max(FINETUNING_PATIENCE, math.ceil(LEAST_UPDATES_OF_PATIENCE / eval_steps))
    patience = patience if stops else None
    loop = dataclasses.replace(
        job.loop, eval_steps=eval_steps, patience=patience, best_metric=job.task.metrics[0]
    )
    return optimizer, loop
