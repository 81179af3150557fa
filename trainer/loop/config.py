"""Training configurations: every default in one place, with its source. No TensorFlow here."""

import dataclasses
import math

from beambert.pipelines.shared.errors import InputError

# The original's run_pretraining.py warms up for 10,000 steps; a short run for a tenth of its own.
LONGEST_DEFAULT_WARMUP = 10_000
SHORT_RUN_WARMUP_SHARE = 0.1
# Every replica draws its masks from a seed of its own, this far from the one before, in int32.
REPLICA_SEED_STRIDE = 65_537
SEED_LIMIT = 2**31 - 1024 * REPLICA_SEED_STRIDE

ADAMW, ADAMW_CORRECTED, LAMB = "adamw", "adamw_corrected", "lamb"
OPTIMIZERS = (ADAMW, ADAMW_CORRECTED, LAMB)
# Where masks come from: the records, or drawn anew in every epoch (RoBERTa, arXiv 1907.11692, 4.1).
STATIC, DYNAMIC = "static", "dynamic"
# What `beambert finetune` does unless flags say otherwise: the paper's recipe, appendix A.3, with
# run_classifier.py's share of steps that warm up.
FINETUNING_LEARNING_RATE = 5e-5
FINETUNING_BATCH_SIZE = 32
FINETUNING_EPOCHS = 3.0
FINETUNING_WARMUP_PROPORTION = 0.1
# Not run_classifier.py's: without the correction a run of a few hundred steps takes steps several
# times its learning rate and may learn nothing (Mosbach et al. 2021, arXiv 2006.04884; Zhang et al.
# 2021, arXiv 2006.05987).
FINETUNING_OPTIMIZER = ADAMW_CORRECTED
# Of matrix multiplications; weights, moments, norms, softmax and losses are float32 in both.
DTYPES = ("float32", "bfloat16")


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer, with linear warm-up and linear decay.

    Attributes:
      learning_rate: peak; paper, appendix A.2.
      num_train_steps: updates until the rate is 0.
      num_warmup_steps: updates until the rate is at its peak.
      weight_decay_rate: of all weights but layer norms and biases; paper, A.2.
      beta_1, beta_2: paper, A.2.
      epsilon: optimization.py, create_optimizer.
      clip_norm: of the global gradient; optimization.py, create_optimizer.
      optimizer: "adamw", the original's optimization.py; "adamw_corrected", with the bias
        correction of Kingma and Ba 2015, algorithm 1, and a decay that starts where the warm-up
        ends; "lamb", for large batches (You et al. 2020, arXiv 1904.00962, algorithm 2), with the
        same decay.
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
        """Refuses what cannot be trained with.

        Raises:
          InputError: naming the flag.
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
    """How the loop runs.

    Attributes:
      train_batch_size: sequences an update, over all replicas.
      random_seed: of the weights, the dropout and the order of the files.
      gradient_accumulation_steps: equal parts that a replica's share of a batch is computed in,
        one after the other, so that it needs memory for one of them only.
      dtype: one of `DTYPES`.
      save_checkpoints_steps: updates between checkpoints; run_pretraining.py's default.
      keep_checkpoints: how many of them stay.
      eval_steps: updates between evaluations on held-out data.
      max_eval_batches: of the evaluations on the way; the last one reads everything.
    """

    train_batch_size: int
    random_seed: int = 12345
    gradient_accumulation_steps: int = 1
    dtype: str = "float32"
    save_checkpoints_steps: int = 1000
    keep_checkpoints: int = 3
    eval_steps: int = 1000
    max_eval_batches: int = 100

    def __post_init__(self) -> None:
        """Refuses what cannot be run.

        Raises:
          InputError: naming the flag.
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


def default_warmup_steps(num_train_steps: int) -> int:
    """Returns the warm-up where none is asked for."""
    return min(LONGEST_DEFAULT_WARMUP, int(SHORT_RUN_WARMUP_SHARE * num_train_steps))
