"""The settings of a fine-tuning that are flags; the defaults are those of the paper's recipe."""

import dataclasses

from beambert.config import Settings, setting
from beambert.trainer.loop.config import (
    FINETUNING_EPOCHS,
    FINETUNING_WARMUP_PROPORTION,
    OWN_TASK_EPOCHS,
    OWN_TASK_UPDATES,
)
from beambert.trainer.weights.adaptation import lora_setting, positions_setting


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
