"""Recipes: defaults of `beambert pretrain`, with their cost and the results to expect.

A cost is a number of floating-point operations of `model.flops`, padding included. The hours depend
on the device; the progress line of a run shows the share of the peak that it reaches.
"""

import dataclasses

from beambert.model.objectives import BERT, COPY, MLM
from beambert.trainer.loop.config import MUON, TRAPEZOID, OptimizerConfig


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Defaults of `beambert pretrain`; each field is the flag of its name.

    Attributes:
      model: name of a size of the family.
      num_train_steps: number of updates.
      num_warmup_steps: number of updates until the learning rate is at its peak.
      train_batch_size: number of sequences in an update.
      learning_rate: peak of the learning rate.
      long_data_share: share of the steps on `--long_data`, if that is given; paper, A.2.
      optimizer, schedule, decay_share, beta_2: see `OptimizerConfig`.
      dropout, initializer_range: None for those of the model.
      family: name of the family of encoders.
      objective: what is learned from.
    """

    model: str
    num_train_steps: int
    num_warmup_steps: int
    train_batch_size: int
    learning_rate: float
    long_data_share: float = 0.1
    optimizer: str = OptimizerConfig.optimizer
    schedule: str = OptimizerConfig.schedule
    decay_share: float = OptimizerConfig.decay_share
    beta_2: float = OptimizerConfig.beta_2
    dropout: float | None = None
    initializer_range: float | None = None
    family: str = "bert"
    objective: str = BERT


def bert_base() -> Recipe:
    """BERT base (Devlin et al. 2019, appendix A.2): 900,000 steps of 128, 100,000 of 512 tokens.

    Cost: 1.6e19 + 0.8e19 operations: 2.8 days for what reaches 100 TFLOP/s at bfloat16. Computed,
    not run; the paper took 4 days on 4 Cloud TPUs (16 chips).
    Expect: GLUE 79.6 on average, SQuAD 1.1 F1 88.5 (paper, tables 1 and 2).
    """
    return Recipe("base", 1_000_000, 10_000, 256, 1e-4)


def bert_large() -> Recipe:
    """BERT large (Devlin et al. 2019, appendix A.2), the schedule of base.

    Cost: 5.5e19 + 2.6e19 operations: 9.4 days for what reaches 100 TFLOP/s at bfloat16. Computed,
    not run; the paper took 4 days on 16 Cloud TPUs (64 chips).
    Expect: GLUE 82.1 on average, SQuAD 1.1 F1 90.9 (paper, tables 1 and 2).
    """
    return Recipe("large", 1_000_000, 10_000, 256, 1e-4)


def tiny() -> Recipe:
    """BERT tiny on two cores in half an hour, for sequences of 32 and 128: to see it learn.

    Among 32 tokens it soon begins to use a token's neighbours; among 128 it takes much longer.
    """
    return Recipe("tiny", 18_000, 1_800, 64, 1e-3)


def crammed_tiny() -> Recipe:
    """BERT tiny as `tiny`, by settings that leave the plateau of masked LM sooner.

    What differs: Muon, a learning rate of 3e-3 that stays at its peak until half of the steps are
    done, a beta 2 of 0.98, no dropout, and wider initial weights. docs/recipes.md says what each of
    them was worth.
    """
    return dataclasses.replace(
        tiny(),
        learning_rate=3e-3,
        optimizer=MUON,
        schedule=TRAPEZOID,
        decay_share=0.5,
        beta_2=0.98,
        dropout=0.0,
        initializer_range=0.05,
    )


def copying_tiny() -> Recipe:
    """BERT tiny as `crammed_tiny` on noisy copies, in half an hour on two cores.

    Its records have 64 and 128 tokens, see `beambert data --pairs=copy`. docs/recipes.md has the
    results.
    """
    return dataclasses.replace(
        crammed_tiny(), num_train_steps=15_000, num_warmup_steps=1_500, objective=COPY
    )


def modern_tiny() -> Recipe:
    """ModernBERT of the parameters of BERT tiny, as `crammed_tiny`, by masked LM alone.

    With 5,070 steps it has the held-out masked-LM loss of the end of `tiny` in a third of the time:
    docs/recipes.md.
    """
    return dataclasses.replace(crammed_tiny(), family="modernbert", objective=MLM)


def modern_mini() -> Recipe:
    """ModernBERT of the parameters of BERT mini, as `modern_tiny`, but for a rate that soon falls.

    With 1,390 steps it has the held-out masked-LM loss of 6,000 steps of the paper's recipe in a
    third of the time: docs/recipes.md.
    """
    return dataclasses.replace(modern_tiny(), model="mini", decay_share=0.9)


def modern_small() -> Recipe:
    """ModernBERT of the parameters of BERT small; computed from `modern_tiny`, not run."""
    return dataclasses.replace(modern_tiny(), model="small")


def modern_base() -> Recipe:
    """ModernBERT of the parameters of BERT base, on the schedule of BERT base, by masked LM alone.

    The size that Warner et al. 2024 call base has 22 layers in place of these 17: --model=base.
    Computed, not run.
    """
    return dataclasses.replace(bert_base(), family="modernbert", model="L-17_H-768", objective=MLM)


RECIPES = {
    recipe.__name__: recipe
    for recipe in (
        *(tiny, crammed_tiny, copying_tiny, bert_base, bert_large),
        *(modern_tiny, modern_mini, modern_small, modern_base),
    )
}
