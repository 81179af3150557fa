"""Configurations of a training, with the source of every default. TensorFlow is not imported."""

import dataclasses
import importlib.util
import math

from beambert.pipelines.shared.errors import InputError

# The original's run_pretraining.py warms up for 10,000 steps. A short run warms up for a tenth of
# its steps.
LONGEST_DEFAULT_WARMUP = 10_000
SHORT_RUN_WARMUP_SHARE = 0.1
# Every replica draws its dropout masks from its own int32 seed, so far from its neighbour's.
REPLICA_SEED_STRIDE = 65_537
SEED_LIMIT = 2**31 - 1024 * REPLICA_SEED_STRIDE

ADAMW, ADAMW_CORRECTED, LAMB = "adamw", "adamw_corrected", "lamb"
OPTIMIZERS = (ADAMW, ADAMW_CORRECTED, LAMB)
# Masks of a training: those of the records, or others in every epoch (RoBERTa, arXiv 1907.11692,
# section 4.1).
STATIC, DYNAMIC = "static", "dynamic"
# Defaults of `beambert finetune`: the recipe of the paper's appendix A.3, with
# run_classifier.py's share of steps that warm up.
FINETUNING_LEARNING_RATE = 5e-5
FINETUNING_BATCH_SIZE = 32
FINETUNING_EPOCHS = 3.0
FINETUNING_WARMUP_PROPORTION = 0.1
# Not run_classifier.py's: without the correction a run of a few hundred steps takes steps several
# times its learning rate and may learn nothing (Mosbach et al. 2021, arXiv 2006.04884; Zhang et al.
# 2021, arXiv 2006.05987).
FINETUNING_OPTIMIZER = ADAMW_CORRECTED
# Types of the matrix products. Weights, moments, norms, softmax and losses are always float32.
DTYPES = ("float32", "bfloat16")
# Services that show the metrics of trainings. Each is also the name of its library, and of the
# extra of setup.py that installs it.
MLFLOW, WANDB = "mlflow", "wandb"
TRACKERS = (MLFLOW, WANDB)


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer and its learning rate, with linear warm-up and linear decay.

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
        where the warm-up ends; or "lamb", for large batches (You et al. 2020, arXiv 1904.00962,
        algorithm 2), with the same decay.
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

    def __post_init__(self) -> None:
        """Refuses values that cannot be trained with.

        Raises:
          InputError: a value is out of range; the message names its flag.
        """
        if self.num_train_steps < 1:
            raise InputError(f"--num_train_steps={self.num_train_steps}: must be at least 1")
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
      tracker: service that also gets the metrics, one of `TRACKERS`; None for none.
    """

    train_batch_size: int
    random_seed: int = 12345
    gradient_accumulation_steps: int = 1
    dtype: str = "float32"
    save_checkpoints_steps: int = 1000
    keep_checkpoints: int = 3
    eval_steps: int = 1000
    max_eval_batches: int = 100
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
    """Returns whether a library can be imported; a folder of its name is no library."""
    found = importlib.util.find_spec(library)
    return found is not None and found.origin is not None


def default_warmup_steps(num_train_steps: int) -> int:
    """Returns the default number of warm-up steps."""
    return min(LONGEST_DEFAULT_WARMUP, int(SHORT_RUN_WARMUP_SHARE * num_train_steps))
