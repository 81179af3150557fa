"""The settings of a fine-tuning that are flags; the defaults are those of the paper's recipe."""

import dataclasses
import math

from beambert.config import Settings, setting
from beambert.trainer.loop.config import ADAMW_CORRECTED
from beambert.trainer.weights.adaptation import lora_setting, positions_setting

# Defaults of `beambert finetune`: the recipe of the paper's appendix A.3, with
# run_classifier.py's share of steps that warm up.
FINETUNING_BATCH_SIZE = 32
FINETUNING_EPOCHS = 3.0
# On few examples three passes are too few updates (Mosbach et al. 2021, arXiv 2006.04884, section
# 6). The user's own tasks take this many updates by default, in at most this many passes; measured,
# docs/tasks.md.
OWN_TASK_UPDATES, OWN_TASK_EPOCHS = 300, 30.0
FINETUNING_WARMUP_PROPORTION = 0.1
# Not run_classifier.py's: without the correction a run of a few hundred steps takes steps several
# times its learning rate and may learn nothing (Mosbach et al. 2021, arXiv 2006.04884; Zhang et al.
# 2021, arXiv 2006.05987).
FINETUNING_OPTIMIZER = ADAMW_CORRECTED
# Evaluations on dev, one after each epoch, without a better result before a training stops, and the
# least number of updates in them.
FINETUNING_PATIENCE = 3
LEAST_UPDATES_OF_PATIENCE = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderSettings:
    """The encoder to start from, and the head on it."""

    init: str = setting(
        metavar="PATH",
        help="encoder to start from: a model folder, a TF1 checkpoint, a Hugging Face folder, or "
        "random for random weights",
    )
    init_positions: str = positions_setting()
    model: str | None = setting(
        None, help="with --init=random: size of the encoder, or a bert_config.json"
    )
    freeze_encoder: bool = setting(
        False,
        help="train only the head on the hidden states of the encoder's last four layers, not the "
        "encoder itself, at a higher rate",
    )
    lora_rank: int = lora_setting()


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecipeSettings(Settings):
    """The length of the inputs and of the training."""

    max_seq_length: int | None = setting(
        None,
        help="length of the inputs in tokens (default: that of the pre-training, "
        "128 for --init=random, 384 for questions)",
    )
    num_train_epochs: float | None = setting(
        None,
        above=0,
        help=f"number of passes over the training data (default: {FINETUNING_EPOCHS:g}; for your "
        f"own tasks as many as make {OWN_TASK_UPDATES} updates, from {FINETUNING_EPOCHS:g} to "
        f"{OWN_TASK_EPOCHS:g}); they make as many steps as there are whole batches in them, as in "
        "run_classifier.py",
    )
    warmup_proportion: float = setting(
        FINETUNING_WARMUP_PROPORTION, minimum=0, below=1, help="share of the steps for warm-up"
    )
    early_stopping: bool | None = setting(
        None,
        help="keep the best weights on dev, and stop when they get no better (default: True for "
        "your own tasks; False for the published ones, whose recipe has none)",
    )


def default_epochs(examples: int, batch_size: int, is_own_task: bool) -> float:
    """Returns the default number of passes over the training data of a fine-tuning.

    Args:
      examples: number of training examples.
      batch_size: number of examples in an update.
      is_own_task: whether the user's own files are the task, not a published one.
    """
    if not is_own_task:
        return FINETUNING_EPOCHS
    enough = math.ceil(OWN_TASK_UPDATES * batch_size / examples)
    return max(FINETUNING_EPOCHS, min(float(enough), OWN_TASK_EPOCHS))
