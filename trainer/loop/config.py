"""Configurations of a training, with the source of every default. TensorFlow is not imported."""

import dataclasses

from beambert.config import Settings, check_settings, setting
from beambert.errors import InputError
from beambert.model_files import CHECKPOINTS_FOLDER, TENSORBOARD_FOLDER
from beambert.process import is_installed

# The original's run_pretraining.py warms up for 10,000 steps. A short run warms up for a tenth of
# its steps.
LONGEST_DEFAULT_WARMUP = 10_000
SHORT_RUN_WARMUP_SHARE = 0.1
# More updates take years at any size.
MOST_STEPS = 2**31 - 1
# Every replica draws its dropout masks from its own int32 seed, so far from its neighbour's.
REPLICA_SEED_STRIDE = 65_537
SEED_LIMIT = 2**31 - 1024 * REPLICA_SEED_STRIDE

# The value of `--init` for random weights.
RANDOM = "random"
ADAMW, ADAMW_CORRECTED, LAMB, MUON = "adamw", "adamw_corrected", "lamb", "muon"
OPTIMIZERS = (ADAMW, ADAMW_CORRECTED, LAMB, MUON)
# Ways in which the learning rate falls after its peak, see `OptimizerConfig`.
LINEAR, COSINE, TRAPEZOID = "linear", "cosine", "trapezoid"
SCHEDULES = (LINEAR, COSINE, TRAPEZOID)
# Masks of a training: those of the records, or others in every epoch (RoBERTa, arXiv 1907.11692,
# section 4.1).
STATIC, DYNAMIC = "static", "dynamic"
# Learning rates of fine-tuning by the encoder's width: the first whose width is not exceeded. 768:
# run_classifier.py. 1024: within the paper's grid. 256 and 512: within the grid of the published
# small encoders (Turc et al. 2019, arXiv 1908.08962). 128: measured, docs/tasks.md.
FINETUNING_LEARNING_RATES = {128: 1e-3, 256: 3e-4, 512: 1e-4, 768: 5e-5}
WIDEST_LEARNING_RATE = 3e-5
# With `--freeze_encoder` only a layer from random weights is trained.
FROZEN_LEARNING_RATE = 1e-3
# How much greater the rate is with `--lora_rank`: 4e-4 to 5e-4 for a width of 768 (Hu et al. 2021,
# arXiv 2106.09685, table 9), where 5e-5 is that of all weights.
LORA_LEARNING_RATE_FACTOR = 10
# Types of the matrix products. Weights, moments, norms, softmax and losses are always float32.
FLOAT32, BFLOAT16 = "float32", "bfloat16"
# Takes the type that the devices compute fastest in, see `resolve_dtype` of an engine.
AUTO = "auto"
# The value of `--keep_checkpoints` and of `export --checkpoint` for all of them.
ALL = "all"
DTYPES = (FLOAT32, BFLOAT16, AUTO)
# Services that show the metrics of trainings. Each is also the name of its library, and of the
# extra of setup.py that installs it.
MLFLOW, WANDB = "mlflow", "wandb"
TRACKERS = (MLFLOW, WANDB)
TENSORFLOW, JAX = "tensorflow", "jax"
ENGINES = (AUTO, TENSORFLOW, JAX)
STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")
# The settings of a loop that decide the result.
DECISIVE_SETTINGS = (
    *("train_batch_size", "random_seed", "gradient_accumulation_steps", "dtype"),
    "patience",
)


@dataclasses.dataclass(frozen=True)
class TrainingFolders:
    """The folders that a training writes to."""

    model_dir: str = setting(group="output", metavar="DIR", help="model folder to make")

    def __post_init__(self) -> None:
        """Checks the values."""
        check_settings(self)
        object.__setattr__(self, "model_dir", self.model_dir.rstrip("/"))

    @property
    def checkpoint_dir(self) -> str:
        """Folder of the checkpoints."""
        return f"{self.model_dir}/{CHECKPOINTS_FOLDER}"

    @property
    def tensorboard_dir(self) -> str:
        """Folder of TensorBoard's logs."""
        return f"{self.model_dir}/{TENSORBOARD_FOLDER}"

    @property
    def best_weights(self) -> str:
        """Folder of the best weights on held-out data so far."""
        return f"{self.checkpoint_dir}/best"


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer and its learning rate, with linear warm-up.

    The source of a default is the paper's appendix A.2 or the original's optimization.py
    (create_optimizer).

    Attributes:
      epsilon: constant that is added to the root of the second moment; create_optimizer.
      clip_norm: largest norm of the global gradient; create_optimizer.
    """

    learning_rate: float = setting(group="optimization", above=0, help="peak learning rate")  # A.2
    num_train_steps: int = setting(minimum=1, maximum=MOST_STEPS, help="number of steps")
    num_warmup_steps: int = setting(
        minimum=0, help="number of steps in which the learning rate rises"
    )
    weight_decay_rate: float = setting(
        0.01, minimum=0, help="decay of all weights except layer norms and biases"
    )  # A.2
    beta_1: float = setting(0.9, above=0, below=1, help="decay rate of the gradient's mean")  # A.2
    beta_2: float = setting(
        0.999, above=0, below=1, help="decay rate of the squared gradient's mean"
    )  # A.2
    epsilon: float = 1e-6
    clip_norm: float = 1.0
    # Kingma and Ba 2015, algorithm 1; You et al. 2020, arXiv 1904.00962, algorithm 2; Jordan et al.
    # 2024, github.com/KellerJordan/Muon.
    optimizer: str = setting(
        ADAMW,
        choices=OPTIMIZERS,
        help="adamw: the original's; adamw_corrected: with Adam's bias correction, and a decay of "
        "the learning rate that starts where the warm-up ends; lamb: for large batches, with the "
        "same decay; muon: orthogonalizes the updates of the layers' matrices, and is "
        "adamw_corrected for all other weights",
    )
    # Loshchilov and Hutter 2017, arXiv 1608.03983, without restarts; Hägele et al. 2024, arXiv
    # 2405.18392, with the share of section 3.1.
    schedule: str = setting(
        LINEAR,
        choices=SCHEDULES,
        help="how the learning rate falls after the warm-up: linear; cosine; trapezoid, which "
        "stays at the peak and falls linearly at the end",
    )
    decay_share: float = setting(
        0.2,
        above=0,
        maximum=1,
        help="with --schedule=trapezoid: share of the steps in which the learning rate falls",
    )

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
          InputError: a value cannot be used; the message names its flag.
        """
        check_settings(self)
        if self.num_warmup_steps >= self.num_train_steps:
            raise InputError(
                f"--num_warmup_steps={self.num_warmup_steps}: must be less than "
                f"--num_train_steps={self.num_train_steps}"
            )


def _parse_kept(text: str) -> int | None:
    """Returns the number of checkpoints that are kept; None for all."""
    if text == ALL:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise InputError(f"--keep_checkpoints={text}: must be a number or {ALL}") from error


@dataclasses.dataclass(frozen=True)
class LoopConfig:
    """The parameters of the training loop.

    Attributes:
      max_eval_batches: number of batches that an evaluation during the training reads; the
        evaluation at the end reads all data.
      patience: number of evaluations without a better result after which the training stops. The
        best weights on held-out data are then the result; None takes those of the last step.
      best_metric: metric on held-out data that the best weights have the best value of: "loss", or
        one whose greater values are better.
    """

    train_batch_size: int = setting(
        group="training loop", minimum=1, help="examples per step, over all devices"
    )
    # Seed of the weights, the dropout and the order of the files.
    random_seed: int = setting(12345, minimum=0, below=SEED_LIMIT, help="random seed")
    gradient_accumulation_steps: int = setting(
        1,
        minimum=1,
        help="number of parts into which a device splits its share of a batch, if it does not fit "
        "in memory",
    )
    dtype: str = setting(
        FLOAT32,
        choices=DTYPES,
        help="number format of matrix products; auto is bfloat16 on TPUs and on GPUs that have "
        "it, float32 elsewhere",
    )
    # run_pretraining.py's default.
    save_checkpoints_steps: int = setting(
        1000, minimum=1, help="number of steps between checkpoints"
    )
    keep_checkpoints: int | None = setting(
        3,
        minimum=1,
        parse=_parse_kept,
        metavar="N",
        help="number of checkpoints that are kept, or all, from step 0 on",
    )
    eval_steps: int = setting(
        1000, minimum=1, help="number of steps between evaluations on held-out data"
    )
    max_eval_batches: int = 100
    patience: int | None = None
    best_metric: str = "loss"
    tracker: str | None = setting(
        None,
        choices=TRACKERS,
        help="service that also gets the metrics; its own environment variables configure it",
    )

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
          InputError: a value cannot be used; the message names its flag.
        """
        if self.keep_checkpoints == ALL:
            object.__setattr__(self, "keep_checkpoints", None)
        check_settings(self)
        if self.tracker and not is_installed(self.tracker):
            raise InputError(
                f"--tracker={self.tracker}: is not installed; run pip install "
                f"-e '.[{self.tracker}]'"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class EngineSettings(Settings):
    """What computes; see `engine.choose_engine`."""

    engine: str = setting(
        AUTO,
        group="devices",
        choices=ENGINES,
        help="what computes: auto is jax on GPUs and TPUs if it is installed, else tensorflow",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Devices(EngineSettings):
    """The devices of a training; see `strategy.make_strategy`."""

    strategy: str = setting(
        "auto",
        choices=STRATEGIES,
        help="tf.distribute strategy; tpu is for the TPU of this machine",
    )
    gradient_checkpointing: bool = setting(
        False,
        help="with --engine=jax: hold the inputs of the layers only and compute the layers again "
        "for their gradients, which takes less memory and more time",
    )


def default_learning_rate(hidden_size: int, is_frozen: bool, has_lora: bool = False) -> float:
    """Returns the default learning rate of fine-tuning.

    Args:
      hidden_size: width of the encoder.
      is_frozen: whether the encoder keeps its weights.
      has_lora: whether only changes of a low rank are trained.
    """
    if is_frozen:
        return FROZEN_LEARNING_RATE
    rates = (rate for width, rate in FINETUNING_LEARNING_RATES.items() if hidden_size <= width)
    rate = next(rates, WIDEST_LEARNING_RATE)
    return rate * LORA_LEARNING_RATE_FACTOR if has_lora else rate


def default_warmup_steps(num_train_steps: int, share: float = SHORT_RUN_WARMUP_SHARE) -> int:
    """Returns the default number of warm-up steps."""
    return min(LONGEST_DEFAULT_WARMUP, int(share * num_train_steps))
