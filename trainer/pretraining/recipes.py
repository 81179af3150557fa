"""Recipes: defaults of the flags of `beambert pretrain`, with their cost and the results to expect.

A cost is a number of floating-point operations of `model.flops`, padding included. The hours depend
on the device; the progress line of a run shows the share of the peak that it reaches.
"""

from typing import Any

from beambert.errors import InputError
from beambert.model.config import EncoderConfig
from beambert.model.families.table import FAMILIES, family_of
from beambert.model.objectives import COPY, MLM
from beambert.trainer.loop.config import MUON, TRAPEZOID


def bert_base() -> dict[str, Any]:
    """BERT base (Devlin et al. 2019, appendix A.2): 900,000 steps of 128, 100,000 of 512 tokens.

    Cost: 1.6e19 + 0.8e19 operations: 2.8 days for what reaches 100 TFLOP/s at bfloat16. Computed,
    not run; the paper took 4 days on 4 Cloud TPUs (16 chips).
    Expect: GLUE 79.6 on average, SQuAD 1.1 F1 88.5 (paper, tables 1 and 2).
    """
    return {
        "model": "base",
        "num_train_steps": 1_000_000,
        "num_warmup_steps": 10_000,
        "train_batch_size": 256,
        "learning_rate": 1e-4,
    }


def bert_large() -> dict[str, Any]:
    """BERT large (Devlin et al. 2019, appendix A.2), the schedule of base.

    Cost: 5.5e19 + 2.6e19 operations: 9.4 days for what reaches 100 TFLOP/s at bfloat16. Computed,
    not run; the paper took 4 days on 16 Cloud TPUs (64 chips).
    Expect: GLUE 82.1 on average, SQuAD 1.1 F1 90.9 (paper, tables 1 and 2).
    """
    return bert_base() | {"model": "large"}


def tiny() -> dict[str, Any]:
    """BERT tiny on two cores in half an hour, for sequences of 32 and 128: to see it learn.

    Among 32 tokens it soon begins to use a token's neighbours; among 128 it takes much longer.
    """
    return {
        "model": "tiny",
        "num_train_steps": 18_000,
        "num_warmup_steps": 1_800,
        "train_batch_size": 64,
        "learning_rate": 1e-3,
    }


def crammed_tiny() -> dict[str, Any]:
    """BERT tiny as `tiny`, by settings that leave the plateau of masked LM sooner.

    What differs: Muon, a learning rate of 3e-3 that stays at its peak until half of the steps are
    done, a beta 2 of 0.98, no dropout, and wider initial weights. docs/pretraining.md says what
    they were worth.
    """
    return tiny() | {
        "learning_rate": 3e-3,
        "optimizer": MUON,
        "schedule": TRAPEZOID,
        "decay_share": 0.5,
        "beta_2": 0.98,
        "dropout": 0.0,
        "initializer_range": 0.05,
    }


def modern_tiny() -> dict[str, Any]:
    """ModernBERT of the parameters of BERT tiny, as `crammed_tiny`, by masked LM alone.

    It predicts 30 % of the tokens. docs/pretraining.md has what it gains over `tiny`.
    """
    return crammed_tiny() | {"family": "modernbert", "objective": MLM, "mask_rate": (0.3, 0.3)}


def copying_tiny() -> dict[str, Any]:
    """ModernBERT tiny as `modern_tiny`, also on noisy copies, in half an hour on two cores.

    Its records have 64 and 128 tokens, see `beambert data --pairs=copy`, and it keeps their masks.
    docs/pretraining.md has the results.
    """
    changes = {"num_train_steps": 15_000, "num_warmup_steps": 1_500, "objective": COPY}
    return modern_tiny() | changes | {"mask_rate": None}


def modern_mini() -> dict[str, Any]:
    """ModernBERT of the parameters of BERT mini, as `modern_tiny`, but for a rate that soon falls.

    docs/pretraining.md has what it gains over the paper's recipe.
    """
    return modern_tiny() | {"model": "mini", "decay_share": 0.9}


def modern_small() -> dict[str, Any]:
    """ModernBERT of the parameters of BERT small; computed from `modern_tiny`, not run."""
    return modern_tiny() | {"model": "small"}


def modern_base() -> dict[str, Any]:
    """ModernBERT of the parameters of BERT base, on the schedule of BERT base, by masked LM alone.

    The size that Warner et al. 2024 call base has 22 layers in place of these 17: --model=base.
    Computed, not run.
    """
    return bert_base() | {"family": "modernbert", "model": "L-17_H-768", "objective": MLM}


# Share of the steps in which the rate rises where an encoder is continued.
CONTINUED_WARMUP_SHARE = 0.06
# (tokens of the text, passes over it) where an encoder is continued, by size; more text has one.
_PASSES = ((3e6, 3), (3e7, 2))


def continued() -> dict[str, Any]:
    """The defaults with --init: small batches, for some passes over the text.

    The rate is that of fine-tuning at the encoder's width, see `loop.config.default_learning_rate`;
    the warm-up is RoBERTa's share (Liu et al. 2019, arXiv 1907.11692, table 10). docs/start.md has
    what they gained.
    """
    return {"train_batch_size": 32, "learning_rate": None}


def default_passes(tokens: float) -> int:
    """Returns the default number of passes over a text of some tokens, see `continued`."""
    return next((passes for most, passes in _PASSES if tokens <= most), 1)


RECIPES = {
    recipe.__name__: recipe
    for recipe in (
        *(tiny, crammed_tiny, copying_tiny, bert_base, bert_large),
        *(modern_tiny, modern_mini, modern_small, modern_base),
    )
}


def find(name: str | None, init: str | None) -> dict[str, Any]:
    """Returns the settings of a recipe; without one those of `continued` or `bert_base`.

    Args:
      name: name of a recipe, or None.
      init: value of --init, or None.

    Raises:
      InputError: there is no such recipe.
    """
    if name is None:
        return continued() if init else bert_base()
    if name not in RECIPES:
        raise InputError(f"--recipe={name}: no such recipe; choose one of {', '.join(RECIPES)}")
    return RECIPES[name]()


def check_fits(name: str, config: EncoderConfig, init: str) -> None:
    """Refuses a recipe for a model of another family or size than an encoder that is continued.

    Its rate would undo what the encoder has learned.

    Args:
      name: name of the recipe.
      config: configuration of the encoder.
      init: value of --init.

    Raises:
      InputError: the recipe does not fit.
    """
    recipe = RECIPES[name]()
    family = FAMILIES[recipe.get("family", "bert")]
    made = family.sized(recipe["model"], config.vocab_size, 0)
    sizes = [(each.family, each.hidden_size, each.num_hidden_layers) for each in (made, config)]
    if sizes[0] == sizes[1]:
        return
    raise InputError(
        f"--recipe={name}: is for a {family.title} of the size {recipe['model']} and would undo "
        f"what --init={init} has learned, a {family_of(config).title} of "
        f"{config.num_hidden_layers} layers of {config.hidden_size}; leave the recipe out for the "
        "settings of continuing"
    )
