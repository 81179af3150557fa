"""The job of a fine-tuning."""

import dataclasses
import math
from typing import TYPE_CHECKING

from beambert.errors import InputError
from beambert.pipelines.tasks.task import Task
from beambert.trainer.loop.config import (
    FINETUNING_BATCH_SIZE,
    FINETUNING_OPTIMIZER,
    FINETUNING_WARMUP_PROPORTION,
    LoopConfig,
    OptimizerConfig,
)
from beambert.trainer.weights.positions import KEEP

if TYPE_CHECKING:  # These modules import TensorFlow.
    from beambert.pipelines.tasks.feature_folder import TaskFeatureFiles
    from beambert.trainer.loop.config import TrainingFolders


def check_course(num_train_epochs: float | None, warmup_proportion: float) -> None:
    """Checks the length of a fine-tuning and of its warm-up.

    Raises:
      InputError: one of them is out of its range.
    """
    if num_train_epochs is not None and not 0 < num_train_epochs < math.inf:
        raise InputError(f"--num_train_epochs={num_train_epochs}: must be more than 0")
    if not 0 <= warmup_proportion < 1:
        raise InputError(f"--warmup_proportion={warmup_proportion}: must be in [0, 1)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningJob:
    """The settings of a fine-tuning; the defaults are those of `beambert finetune`.

    Attributes:
      task: declaration of the task.
      data_dir: folder of the task's files.
      skip_bad_rows: leave out rows that cannot be used instead of raising an error.
      init: a pre-trained encoder, see `weights.initial.open_initial`, or "random".
      init_positions: what to do with positions on which the encoder was not trained, one of
        `positions.WAYS`.
      model: size or bert_config.json of the encoder; only if `init` is "random".
      vocab_file: vocabulary of the encoder; only if `init` is "random".
      tokenizer: tokenizer.json of the encoder in the place of a vocabulary, or its folder; only if
        `init` is "random".
      do_lower_case: whether to lower-case text (default: True); only if `init` is "random".
      freeze_encoder: train only the head on top of the encoder.
      num_bilstm_layers: number of layers of bidirectional LSTM in the head.
      output: folders to write to.
      features: features of the task made by `beambert features`; None to make them here.
      max_seq_length: length of the inputs in tokens; None for that of the features or the
        pre-training.
      learning_rate, weight_decay_rate, optimizer: see `OptimizerConfig`. None takes the rate that
        suits the encoder's width.
      num_train_epochs: number of passes over the training data, may be a fraction; None takes
        `default_epochs`.
      warmup_proportion: share of the steps in which the learning rate rises.
      early_stopping: keep the best weights on dev, and stop when they get no better; None does so
        for the user's own tasks, not for the published ones, whose recipe has none.
      loop: settings of the training loop; `eval_steps` is set to evaluate after each epoch.

    Raises:
      InputError: a number is out of its range.
    """

    task: Task
    data_dir: str
    skip_bad_rows: bool = False
    init: str
    init_positions: str = KEEP
    model: str | None = None
    vocab_file: str | None = None
    tokenizer: str | None = None
    do_lower_case: bool | None = None
    freeze_encoder: bool = False
    num_bilstm_layers: int = 0
    output: "TrainingFolders"
    max_seq_length: int | None = None
    learning_rate: float | None = None
    weight_decay_rate: float = OptimizerConfig.weight_decay_rate
    optimizer: str = FINETUNING_OPTIMIZER
    num_train_epochs: float | None = None
    warmup_proportion: float = FINETUNING_WARMUP_PROPORTION
    early_stopping: bool | None = None
    loop: LoopConfig = LoopConfig(FINETUNING_BATCH_SIZE)
    features: "TaskFeatureFiles | None" = None

    def __post_init__(self) -> None:
        """Refuses numbers out of their range."""
        check_course(self.num_train_epochs, self.warmup_proportion)
