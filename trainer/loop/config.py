"""Configurations of a training, with the source of every default. TensorFlow is not imported."""

import dataclasses
import importlib.util
import math
from typing import Any

from beambert.errors import InputError
from beambert.model_files import CHECKPOINTS_FOLDER, TENSORBOARD_FOLDER

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
# Learning rates of fine-tuning by the encoder's width: the first whose width is not exceeded. 768:
# run_classifier.py. 1024: within the paper's grid. 256 and 512: within the grid of the published
# small encoders (Turc et al. 2019, arXiv 1908.08962). 128: measured, docs/tasks.md.
FINETUNING_LEARNING_RATES = {128: 1e-3, 256: 3e-4, 512: 1e-4, 768: 5e-5}
WIDEST_LEARNING_RATE = 3e-5
# With `--freeze_encoder` only a layer from random weights is trained.
FROZEN_LEARNING_RATE = 1e-3
# Evaluations on dev, one after each epoch, without a better result before a training stops.
FINETUNING_PATIENCE = 3
# Types of the matrix products. Weights, moments, norms, softmax and losses are always float32.
FLOAT32, BFLOAT16 = "float32", "bfloat16"
# Takes the type that the devices compute fastest in, see `strategy.resolve_dtype`.
AUTO = "auto"
DTYPES = (FLOAT32, BFLOAT16, AUTO)
# Services that show the metrics of trainings. Each is also the name of its library, and of the
# extra of setup.py that installs it.
MLFLOW, WANDB = "mlflow", "wandb"
TRACKERS = (MLFLOW, WANDB)
# The settings of a loop that decide the result.
DECISIVE_SETTINGS = ("train_batch_size", "random_seed", "gradient_accumulation_steps", "dtype")
# The flags behind the values of `model_folders.job_identity` that all trainings have.
TRAINING_FLAGS = {f"loop.{name}": f"--{name}" for name in DECISIVE_SETTINGS} | {
    "init_sha256": "--init",
    "init_positions": "--init_positions",
    "optimizer.optimizer": "--optimizer",
    "optimizer.weight_decay_rate": "--weight_decay_rate",
}


@dataclasses.dataclass(frozen=True)
class TrainingFolders:
    """The folders that a training writes to.

    Attributes:
      model: the model folder.
      checkpoints: folder of the checkpoints (default: `model`/checkpoints).
      tensorboard: folder of TensorBoard's logs (default: `model`/tensorboard).
    """

    model: str
    checkpoints: str
    tensorboard: str

    @property
    def best_weights(self) -> str:
        """Folder of the best weights on held-out data so far."""
        return f"{self.checkpoints}/best"

    @classmethod
    def of(
        cls, model: str, checkpoints: str | None = None, tensorboard: str | None = None
    ) -> "TrainingFolders":
        """Returns the folders, with defaults for those that are None."""
        model = model.rstrip("/")
        checkpoints = (checkpoints or f"{model}/{CHECKPOINTS_FOLDER}").rstrip("/")
        tensorboard = (tensorboard or f"{model}/{TENSORBOARD_FOLDER}").rstrip("/")
        return cls(model, checkpoints, tensorboard)


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer and its learning rate, with linear warm-up.

    The source of a default is the paper's appendix A.2 or the original's optimization.py
    (create_optimizer).

    Attributes:
      learning_rate: peak of the learning rate; A.2 of the paper.
      num_train_steps: number of updates until the rate is 0.
      num_warmup_steps: number of updates until the rate is at its peak.
      weight_decay_rate: decay of all weights except layer norms and biases; A.2.
      beta_1, beta_2: decay rates of the two moments; A.2.
      epsilon: constant that is added to the root of the second moment; create_optimizer.
      clip_norm: largest norm of the global gradient; create_optimizer.
      optimizer: "adamw", as the original's optimization.py; "adamw_corrected", with the bias
        correction of Kingma and Ba 2015, algorithm 1, and a decay of the learning rate that starts
        where the warm-up ends; "lamb", for large batches (You et al. 2020, arXiv 1904.00962,
        algorithm 2), with the same decay; or "muon", which orthogonalizes the updates of the
        layers' matrices (Jordan et al. 2024, github.com/KellerJordan/Muon), and is
        "adamw_corrected" for all other weights.
      schedule: how the rate falls to 0 after the warm-up: "linear", "cosine" (Loshchilov and Hutter
        2017, arXiv 1608.03983, without restarts) or "trapezoid": it stays at its peak, and falls
        linearly in the last steps (Hägele et al. 2024, arXiv 2405.18392).
      decay_share: share of the steps in which the rate of "trapezoid" falls; section 3.1 of
        Hägele et al. takes 0.2.
    """

    learning_rate: float
    num_train_steps: int
    num_warmup_steps: int
    weight_decay_rate: float = 0.01
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-6
    clip_norm: float = 1.0
    optimizer: str = ADAMW
    schedule: str = LINEAR
    decay_share: float = 0.2

    def settings(self) -> dict[str, Any]:
        """Returns the values of the fields; what changes nothing is not named."""
        values = dataclasses.asdict(self)
        if self.schedule != TRAPEZOID:
            del values["decay_share"]
        if self.schedule == LINEAR:
            del values["schedule"]
        return values

    def __post_init__(self) -> None:
        """Refuses values that cannot be trained with.

        Raises:
          InputError: a value is out of range; the message names its flag.
        """
        if not 1 <= self.num_train_steps <= MOST_STEPS:
            raise InputError(
                f"--num_train_steps={self.num_train_steps}: must be at least 1, at most "
                f"{MOST_STEPS:,}"
            )
        if not 0 <= self.num_warmup_steps < self.num_train_steps:
            raise InputError(
                f"--num_warmup_steps={self.num_warmup_steps}: must be at least 0 and less than "
                f"--num_train_steps={self.num_train_steps}"
            )
        if self.optimizer not in OPTIMIZERS:
            raise InputError(f"--optimizer={self.optimizer}: choose one of {', '.join(OPTIMIZERS)}")
        if not 0 < self.learning_rate < math.inf:
            raise InputError(f"--learning_rate={self.learning_rate}: must be more than 0")
        if not 0 <= self.weight_decay_rate < math.inf:
            raise InputError(f"--weight_decay_rate={self.weight_decay_rate}: must be at least 0")
        for name in ("beta_1", "beta_2"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(f"--{name}={getattr(self, name)}: must be in (0, 1)")
        if self.schedule not in SCHEDULES:
            raise InputError(f"--schedule={self.schedule}: choose one of {', '.join(SCHEDULES)}")
        if not 0 < self.decay_share <= 1:
            raise InputError(f"--decay_share={self.decay_share}: must be more than 0, at most 1")


@dataclasses.dataclass(frozen=True)
class LoopConfig:
    """The parameters of the training loop.

    Attributes:
      train_batch_size: number of sequences in an update, over all replicas.
      random_seed: seed of the weights, the dropout and the order of the files.
      gradient_accumulation_steps: number of equal parts of a replica's share of a batch. They are
        computed one after the other, so that memory is needed for one part only.
      dtype: type of the matrix products, one of `DTYPES`.
      save_checkpoints_steps: number of updates between checkpoints; run_pretraining.py's default.
      keep_checkpoints: number of checkpoints that are kept.
      eval_steps: number of updates between evaluations on held-out data.
      max_eval_batches: number of batches that an evaluation during the training reads; the
        evaluation at the end reads all data.
      patience: number of evaluations without a better result after which the training stops. The
        best weights on held-out data are then the result; None takes those of the last step.
      best_metric: metric on held-out data that the best weights have the best value of: "loss", or
        one whose greater values are better.
      tracker: service that also gets the metrics, one of `TRACKERS`; None for none.
    """

    train_batch_size: int
    random_seed: int = 12345
    gradient_accumulation_steps: int = 1
    dtype: str = FLOAT32
    save_checkpoints_steps: int = 1000
    keep_checkpoints: int = 3
    eval_steps: int = 1000
    max_eval_batches: int = 100
    patience: int | None = None
    best_metric: str = "loss"
    tracker: str | None = None

    def __post_init__(self) -> None:
        """Refuses values that no training can run with.

        Raises:
          InputError: a value is out of range; the message names its flag.
        """
        for name in (
            "train_batch_size",
            "gradient_accumulation_steps",
            "save_checkpoints_steps",
            "eval_steps",
        ):
            if getattr(self, name) < 1:
                raise InputError(f"--{name}={getattr(self, name)}: must be at least 1")
        if self.dtype not in DTYPES:
            raise InputError(f"--dtype={self.dtype}: choose one of {', '.join(DTYPES)}")
        if not 0 <= self.random_seed < SEED_LIMIT:
            raise InputError(
                f"--random_seed={self.random_seed}: must be at least 0 and less than {SEED_LIMIT}"
            )
        if self.tracker not in (None, *TRACKERS):
            raise InputError(f"--tracker={self.tracker}: choose one of {', '.join(TRACKERS)}")
        if self.tracker and not _is_installed(self.tracker):
            raise InputError(
                f"--tracker={self.tracker}: is not installed; run pip install "
                f"'beambert[{self.tracker}]'"
            )


def _is_installed(library: str) -> bool:
    """Returns whether a library can be imported; a folder with its name does not count."""
    found = importlib.util.find_spec(library)
    return found is not None and found.origin is not None


def default_learning_rate(hidden_size: int, is_frozen: bool) -> float:
    """Returns the default learning rate of fine-tuning.

    Args:
      hidden_size: width of the encoder.
      is_frozen: whether the encoder keeps its weights.
    """
    if is_frozen:
        return FROZEN_LEARNING_RATE
    rates = (rate for width, rate in FINETUNING_LEARNING_RATES.items() if hidden_size <= width)
    return next(rates, WIDEST_LEARNING_RATE)


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


def default_warmup_steps(num_train_steps: int) -> int:
    """Returns the default number of warm-up steps."""
    return min(LONGEST_DEFAULT_WARMUP, int(SHORT_RUN_WARMUP_SHARE * num_train_steps))
