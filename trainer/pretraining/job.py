"""The job of a pre-training, and the flags behind its settings."""

import dataclasses

from beambert.model.objectives import BERT
from beambert.trainer import model_folders
from beambert.trainer.loop.config import LoopConfig, OptimizerConfig
from beambert.trainer.pretraining import recipes
from beambert.trainer.pretraining.budget import Budget
from beambert.trainer.pretraining.combinations import check_combinations
from beambert.trainer.pretraining.mask_flags import MaskFlags
from beambert.trainer.weights.new_tokens import PIECES
from beambert.trainer.weights.positions import KEEP

_BASE = recipes.bert_base()


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingJob(MaskFlags):
    """The parameters of a pre-training; the defaults are those of `beambert pretrain`.

    Those of masks are in `MaskFlags`.

    Attributes:
      data: records folder.
      eval_data: folder of held-out records, or several as "NAME=DIR", one for each source; None
        takes those in `data`/eval if that exists.
      long_data: folder of records with longer sequences, for the last steps; None for none. Its
        held-out records are in `long_data`/eval, if that exists.
      long_data_share: share of the steps on `long_data`.
      batch_ramp_share: share of the steps in which the batch grows from an eighth of its size, see
        `stretches.RAMP_DIVISORS`; 0 for none.
      objective: what is learned from: "bert" for masked LM and next sentence prediction, "mlm" for
        masked LM alone, "sop" for masked LM and sentence-order prediction, "copy" for masked LM and
        recognition of noisy copies, "rtd" for replaced token detection, "ltr" for the next token,
        left to right.
      generator_size: size of the generator of "rtd" as a share of the encoder's, see
        `Family.generator_config`; None for the usual one of the family.
      family: name of the family of encoders, see `model.families.table`; None takes that of `init`
        or of the file that `model` names, or BERT.
      model: name of a size or path of a configuration file; None takes that of `init`, or base
        where that is None too.
      init: weights to start from, see `initial.open_initial`; None starts from random ones.
      init_positions: what to do with positions on which the encoder of `init` was not trained, one
        of `positions.WAYS`.
      init_tokens: how the embeddings of tokens begin that the vocabulary of the records has beside
        that of `init`, one of `new_tokens.WAYS`.
      distill_from: teacher, anything that `init` may be; None for none.
      attend_within_documents: whether a token attends to its own document only, where a record has
        sentences of several.
      dropout: rate of dropout in the layers and in attention; None for that of the model.
      initializer_range: standard deviation of random weights; None for that of the model.
      output: folders to write to.
      optimizer: parameters of the optimizer.
      loop: parameters of the training loop.
      budget: time or operations of the training, from which the number of steps follows; None for
        that of `optimizer`.
      finish: end the training in the folder early: take the rate to 0 in this share of the steps
        that are done; 0 ends it at once; None does not.
      extend: go on from the finished training in the folder to so many steps; None does not.

    Raises:
      InputError: a value cannot be used, or not beside another.
    """

    data: str
    eval_data: str | tuple[str, ...] | None = None
    long_data: str | None = None
    long_data_share: float = _BASE.long_data_share
    batch_ramp_share: float = 0.0
    objective: str = BERT
    generator_size: float | None = None
    family: str | None = None
    model: str | None = None
    init: str | None = None
    init_positions: str = KEEP
    init_tokens: str = PIECES
    distill_from: str | None = None
    attend_within_documents: bool = False
    dropout: float | None = None
    initializer_range: float | None = None
    output: model_folders.TrainingFolders
    optimizer: OptimizerConfig = OptimizerConfig(
        _BASE.learning_rate, _BASE.num_train_steps, _BASE.num_warmup_steps
    )
    loop: LoopConfig = LoopConfig(_BASE.train_batch_size)
    budget: Budget | None = None
    finish: float | None = None
    extend: int | None = None

    def __post_init__(self) -> None:
        """Refuses values that cannot be used together."""
        check_combinations(self)


# The flags behind the values of `PretrainingPlan.identity`.
FLAGS_OF = (
    {
        "phases.0.records_sha256": "--data",
        "phases.1.records_sha256": "--long_data",
        "phases.0.eval_records_sha256": "--eval_data",
        "objective": "--objective",
        "generator_size": "--generator_size",
        "init_tokens": "--init_tokens",
        "distill_from_sha256": "--distill_from",
        "attend_within_documents": "--attend_within_documents",
        "batch_ramp_share": "--batch_ramp_share",
        "masking": "--masking",
        "mask_rate": "--mask_rate",
        "mask_replacements": "--mask_replacements",
        "do_whole_word_mask": "--do_whole_word_mask",
        "optimizer.num_train_steps": "--num_train_steps",
        "optimizer.budget_seconds": "--budget",
        "optimizer.learning_rate": "--learning_rate",
        "optimizer.schedule": "--schedule",
        "optimizer.decay_share": "--decay_share",
        "optimizer.beta_1": "--beta_1",
        "optimizer.beta_2": "--beta_2",
        "model.model_type": "--family",
        "model.hidden_dropout_prob": "--dropout",
        "model.initializer_range": "--initializer_range",
        **model_folders.TRAINING_FLAGS,
    },
    {
        "model": "--model",
        "optimizer.num_warmup_steps": "--num_warmup_steps",
        "phases.0.last_step": "--long_data_share",
    },
)
