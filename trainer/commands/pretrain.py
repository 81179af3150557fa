"""The command `beambert pretrain`."""

import argparse
import math
import time
from collections.abc import Sequence

from beambert.errors import InputError
from beambert.flags import FlagParser, read_job
from beambert.loading import loading
from beambert.pipelines.records.contract import check_finished
from beambert.pipelines.storage.given_paths import is_local
from beambert.trainer.commands.flags import (
    check_config,
    loop_config,
)
from beambert.trainer.commands.pretrain_flags import DEFAULT_RECIPE, build_parser
from beambert.trainer.loop.config import (
    RANDOM,
    TRAPEZOID,
    LoopConfig,
    OptimizerConfig,
    default_warmup_steps,
)
from beambert.trainer.pretraining.budget import Budget
from beambert.trainer.pretraining.combinations import check_combinations
from beambert.trainer.pretraining.eval_data import parse_eval_data
from beambert.trainer.pretraining.recipes import RECIPES, Recipe, bert_base
from beambert.trainer.weights.given_path import check_weights


def main(argv: Sequence[str]) -> None:
    """Runs `pretrain`.

    Raises:
      InputError: a flag or a file cannot be used.
    """
    started = time.monotonic()
    recipe = _recipe_of(argv)
    parser = build_parser(recipe)
    flags = parser.parse_args(list(argv))
    if flags.finish is not None or flags.extend is not None:
        with loading():
            from beambert.trainer.pretraining.revising import recorded_flags
        parser.set_defaults(**recorded_flags(flags.model_dir, flags.model, flags.init))
        flags = parser.parse_args(list(argv))
    budget, optimizer, loop = _course_of(flags, recipe)
    _check_paths(flags)
    with loading():
        from beambert.trainer.loop.strategy import make_strategy
        from beambert.trainer.model_folders import TrainingFolders
        from beambert.trainer.pretraining.job import PretrainingJob
        from beambert.trainer.pretraining.run import pretrain
    job = read_job(
        PretrainingJob,
        flags,
        budget=budget,
        family=flags.family or (None if flags.init or _is_file(flags.model) else recipe.family),
        model=flags.model or (None if flags.init else recipe.model),
        initializer_range=recipe.initializer_range
        if flags.initializer_range is None and not flags.init
        else flags.initializer_range,
        output=TrainingFolders.of(flags.model_dir, flags.checkpoint_dir, flags.tensorboard_dir),
        optimizer=optimizer,
        loop=loop,
    )
    strategy = make_strategy(flags.strategy, flags.tpu)
    if flags.dry_run:
        with loading():
            from beambert.trainer.pretraining.estimate import estimate
        lines = estimate(job, strategy, device=flags.device, price_per_hour=flags.price_per_hour)
        print("\n".join(lines))
    else:
        pretrain(job, strategy, started)


def check_values(argv: Sequence[str]) -> None:
    """Refuses values that no pre-training takes, without a look at any file.

    Args:
      argv: arguments of the command.

    Raises:
      InputError: a flag cannot be used.
    """
    recipe = _recipe_of(argv)
    _course_of(build_parser(recipe).parse_args(list(argv)), recipe)


def _course_of(
    flags: argparse.Namespace, recipe: Recipe
) -> tuple[Budget | None, OptimizerConfig, LoopConfig]:
    """Returns what decides the course of the training: budget, optimizer and loop.

    Raises:
      InputError: a flag cannot be used.
    """
    if flags.init == RANDOM:
        raise InputError(
            "--init=random: a pre-training begins with random weights unless --init names others; "
            "leave it out"
        )
    check_combinations(flags)
    _check_without_effect(flags, recipe)
    budget = _budget_of(flags)
    _check_dry_run(flags)
    steps, warmup = flags.num_train_steps, flags.num_warmup_steps
    if warmup is None:
        warmup = recipe.num_warmup_steps if steps is None else default_warmup_steps(steps)
    optimizer = OptimizerConfig(
        learning_rate=flags.learning_rate,
        num_train_steps=recipe.num_train_steps if steps is None else steps,
        num_warmup_steps=warmup,
        weight_decay_rate=flags.weight_decay_rate,
        optimizer=flags.optimizer,
        beta_1=flags.beta_1,
        beta_2=flags.beta_2,
        schedule=flags.schedule,
        decay_share=flags.decay_share,
    )
    return budget, optimizer, loop_config(flags, eval_steps=flags.eval_steps)


def _check_without_effect(flags: argparse.Namespace, recipe: Recipe) -> None:
    """Refuses shares that have no effect beside the other flags.

    Raises:
      InputError: there is such a flag.
    """
    for name, needs, is_met in (
        ("decay_share", f"--schedule={TRAPEZOID}", flags.schedule == TRAPEZOID),
        ("long_data_share", "--long_data", bool(flags.long_data)),
    ):
        value = getattr(flags, name)
        if value != getattr(recipe, name) and not is_met:
            raise InputError(f"--{name}={value}: needs {needs}; leave it out")


def _is_file(model: str | None) -> bool:
    """Returns whether --model names a configuration file, which names its family itself."""
    return bool(model) and model.endswith(".json")


def _budget_of(flags: argparse.Namespace) -> Budget | None:
    """Returns the budget that is given; None for none. Refuses flags that it takes the place of.

    Raises:
      InputError: such a flag is given, or the budget is none.
    """
    if flags.budget is None:
        return None
    budget = Budget.parse(flags.budget)
    for name in ("finish", "extend", "num_train_steps", "num_warmup_steps"):
        value = getattr(flags, name)
        if value is not None:
            raise InputError(
                f"--{name}={value}: --budget={flags.budget} decides the number of steps; leave one "
                "of them out"
            )
    return budget


def _check_dry_run(flags: argparse.Namespace) -> None:
    """Refuses flags that belong to a dry run alone, or that it cannot serve.

    Raises:
      InputError: there is such a flag.
    """
    for name in ("device", "price_per_hour"):
        value = getattr(flags, name)
        if value is not None and not flags.dry_run:
            raise InputError(f"--{name}={value}: needs --dry_run; leave it out")
    if flags.price_per_hour is not None and not 0 < flags.price_per_hour < math.inf:
        raise InputError(f"--price_per_hour={flags.price_per_hour}: must be more than 0")
    for name in ("finish", "extend"):
        if flags.dry_run and getattr(flags, name) is not None:
            raise InputError(f"--{name}: excludes --dry_run; leave one of them out")


def _check_paths(flags: argparse.Namespace) -> None:
    """Refuses local paths that cannot be used before TensorFlow is imported, which takes seconds.

    Raises:
      InputError: a folder or a file does not exist, or is no finished records folder.
    """
    given = [("data", flags.data), ("long_data", flags.long_data)]
    given += [("eval_data", folder) for folder in parse_eval_data(flags.eval_data or ()).values()]
    for name, folder in given:
        if folder is not None and is_local(folder):
            check_finished(folder, f"--{name}")
    for name in ("init", "distill_from"):
        path = getattr(flags, name)
        if path:
            check_weights(path, f"--{name}")
    check_config(flags.model)


def _recipe_of(argv: Sequence[str]) -> Recipe:
    """Returns the recipe that the flags name, whose defaults `--help` must show."""
    parser = FlagParser(add_help=False)
    parser.add_argument("--recipe", default=bert_base.__name__)
    name = parser.parse_known_args(list(argv))[0].recipe
    return RECIPES[name]() if name in RECIPES else DEFAULT_RECIPE
