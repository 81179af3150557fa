"""The command `beambert pretrain` and its flags."""

import argparse
import time
from collections.abc import Sequence

from beambert.errors import InputError
from beambert.flags import FlagGroup, FlagParser, parse_bool, read_job
from beambert.model.families.table import FAMILIES
from beambert.model.objectives import GENERATOR_DEPTH, GENERATOR_SIZE, OBJECTIVES
from beambert.pipelines.records.contract import MASKED_LM_PROB, check_finished
from beambert.process import loading
from beambert.storage import is_local
from beambert.trainer.commands.flags import (
    add_loop_flags,
    add_output_flags,
    add_positions_flag,
    check_config,
    loop_config,
)
from beambert.trainer.loop.config import (
    DYNAMIC,
    RANDOM,
    SCHEDULES,
    STATIC,
    TRAPEZOID,
    LoopConfig,
    OptimizerConfig,
    TrainingFolders,
    default_warmup_steps,
)
from beambert.trainer.pretraining.job import (
    MASK_REPLACEMENTS,
    Budget,
    PretrainingJob,
    check_combinations,
    parse_eval_data,
    parse_rates,
    parse_replacements,
    replacements_text,
)
from beambert.trainer.pretraining.recipes import RECIPES, Recipe, bert_base
from beambert.trainer.weights import adaptation
from beambert.trainer.weights.given_path import check_weights

DEFAULT_RECIPE = bert_base()
EXAMPLES = """examples:
  # pre-train a small encoder on this machine, and evaluate it on records/eval
  beambert pretrain --data=records --model=tiny --model_dir=encoder --num_train_steps=1000 \\
      --train_batch_size=64 --learning_rate=1e-3

  # follow the paper's recipe on a TPU: 90 % of the steps at 128 tokens, the rest at 512
  beambert data --max_seq_length=128,512 --input='gs://bucket/text/*' --vocab_file=vocab.txt \\
      --output=gs://bucket/records
  beambert pretrain --recipe=bert_base --data=gs://bucket/records/128 \\
      --long_data=gs://bucket/records/512 --model_dir=gs://bucket/base --tpu=local --dtype=bfloat16

  # use this machine for half an hour, whatever number of steps that is
  beambert pretrain --recipe=tiny --data=records/32 --model_dir=encoder --budget=30min

  # what it would take on this machine
  beambert pretrain --recipe=tiny --data=records/32 --model_dir=encoder --dry_run

  # continue from a published encoder on your own text, with records made with its vocab.txt
  beambert pretrain --init=bert-base-uncased --data=records --model_dir=legal \\
      --num_train_steps=50000 --learning_rate=5e-5

  # a ModernBERT from random weights, of the parameters of BERT tiny
  beambert pretrain --recipe=modern_tiny --data=records/32 --model_dir=modern --budget=45min

  # learn by replaced token detection, as ELECTRA
  beambert pretrain --objective=rtd --recipe=tiny --data=records/32 --model_dir=encoder

  # learn also from a larger encoder, with records made with its vocab.txt
  beambert pretrain --recipe=tiny --model=mini --distill_from=bert-base-uncased --data=records \\
      --model_dir=mini

If the training is interrupted, the same command continues from the newest checkpoint.
"""


def build_parser(recipe: Recipe = DEFAULT_RECIPE) -> FlagParser:
    """Returns the parser of the flags of `pretrain`, with the defaults of a recipe."""
    parser = FlagParser(
        prog="beambert pretrain",
        description="Pre-trains BERT on records by masked LM and next sentence prediction, or by "
        "another --objective.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "--recipe",
        choices=RECIPES,
        default=bert_base.__name__,
        help="recipe that sets the defaults of other flags; docs/recipes.md compares them "
        "(default: %(default)s)",
    )
    _add_data_flags(parser.add_argument_group("data"), recipe)
    _add_objective_flags(parser.add_argument_group("objective"), recipe)
    _add_encoder_flags(parser.add_argument_group("encoder"), recipe)
    add_output_flags(parser.add_argument_group("output"))
    _add_length_flags(parser.add_argument_group("length and cost"), recipe)
    _add_optimizer_flags(parser.add_argument_group("optimization"), recipe)
    return parser


def _add_data_flags(group: FlagGroup, recipe: Recipe) -> None:
    add = group.add_argument
    add("--data", required=True, metavar="DIR", help="records folder made by `beambert data`")
    add(
        "--eval_data",
        action="append",
        metavar="[NAME=]DIR",
        help="held-out records; give the flag once for each source, as NAME=DIR, to see the loss "
        "of each (default: eval in --data, if it exists, or the folder of each source in it)",
    )
    add(
        "--long_data",
        metavar="DIR",
        help="records of longer sequences for the last steps; its folder eval is held-out data",
    )
    add(
        "--long_data_share",
        type=float,
        default=recipe.long_data_share,
        help="share of the steps on --long_data (default: %(default)s)",
    )


def _add_objective_flags(group: FlagGroup, recipe: Recipe) -> None:
    add = group.add_argument
    add(
        "--objective",
        choices=OBJECTIVES,
        default=recipe.objective,
        help="bert: masked LM and next sentence prediction; mlm: masked LM alone, as RoBERTa; sop: "
        "masked LM and sentence-order prediction, as ALBERT, on records of --pairs=sop; copy: "
        "masked LM and recognition of noisy copies, on records of --pairs=copy; rtd: "
        "replaced token detection, as ELECTRA and DeBERTa-v3; ltr: a left-to-right language model "
        "without next sentence prediction, the paper's ablation; mlm, rtd and ltr also on records "
        "without pairs "
        "(default: %(default)s)",
    )
    add(
        "--generator_size",
        type=float,
        help="width of the generator of --objective=rtd as a share of the encoder's (default: "
        f"{GENERATOR_SIZE}); with --family=deberta-v2 its depth (default: {GENERATOR_DEPTH})",
    )
    add(
        "--masking",
        choices=(STATIC, DYNAMIC),
        help="static: masks of the records; dynamic: new ones in each epoch (default: static; "
        "dynamic on records without masks)",
    )
    add(
        "--mask_rate",
        type=parse_rates,
        metavar="RATE[:RATE]",
        help="with drawn masks: share of the tokens to predict, or shares at the first step and at "
        "the last, between which it changes linearly (default: masked_lm_prob of the records; "
        f"{MASKED_LM_PROB} on records without masks)",
    )
    add(
        "--mask_replacements",
        type=parse_replacements,
        default=replacements_text(MASK_REPLACEMENTS),
        metavar="N,N,N",
        help="with drawn masks: percentages of the chosen tokens that become [MASK], become a "
        "random token, and stay (default: %(default)s)",
    )
    add(
        "--do_whole_word_mask",
        type=parse_bool,
        help="with drawn masks: whether to mask either all pieces of a word or none (default: as "
        "the records were masked; False on records without masks)",
    )
    add(
        "--attend_within_documents",
        action="store_true",
        help="let a token attend to its own document only, where records of `beambert data "
        "--pairs=none` have sentences of several; needs --objective=mlm",
    )
    add(
        "--distill_from",
        metavar="PATH",
        help="teacher of the encoder, with the vocabulary of the records: any path that --init "
        "takes; its masked-LM distribution and hidden states are learned besides --objective, or "
        "the relations in its last layer if it has no masked-LM head (default: no teacher)",
    )


def _add_encoder_flags(group: FlagGroup, recipe: Recipe) -> None:
    add = group.add_argument
    add(
        "--family",
        choices=FAMILIES,
        help=f"family of the encoder that --model names a size of (default: {recipe.family}, or "
        "that of --init)",
    )
    add(
        "--model",
        help="size of the encoder (tiny … large, L-2_H-128 …) or a bert_config.json (default: "
        f"{recipe.model}, or that of --init)",
    )
    add(
        "--init",
        metavar="PATH",
        help="weights to start from: a model folder, a TF1 checkpoint or a Hugging Face folder "
        "(default: random weights)",
    )
    add_positions_flag(group)
    add(
        "--init_tokens",
        choices=adaptation.TOKEN_WAYS,
        default=adaptation.PIECES,
        help="how the embeddings of tokens begin that the records' vocabulary has besides those of "
        "--init (see `beambert vocab --extend`): as the mean of the pieces that a token takes the "
        "place of, or as the average of all (default: %(default)s)",
    )
    add(
        "--dropout",
        type=float,
        metavar="RATE",
        default=recipe.dropout,
        help="dropout of the layers and of attention "
        f"(default: {_or_model(recipe.dropout, 'that of the model, 0.1')})",
    )
    add(
        "--initializer_range",
        type=float,
        help="standard deviation of the random weights "
        f"(default: {_or_model(recipe.initializer_range, 'that of the model, 0.02')})",
    )


def _add_length_flags(group: FlagGroup, recipe: Recipe) -> None:
    add = group.add_argument
    add(
        "--num_train_steps",
        type=int,
        help=f"number of steps (default: {recipe.num_train_steps})",
    )
    add(
        "--budget",
        metavar="AMOUNT",
        help="time (90s, 30min, 6h, 2d) or operations (1e17flops) of the training, in place of "
        "--num_train_steps. A time counts from the beginning to the finished model; a few seconds "
        "of training measure how many steps it allows",
    )
    add(
        "--dry_run",
        action="store_true",
        help="print the steps, operations and time that the training would take, at a rate that a "
        "few seconds of training measure; writes nothing",
    )
    add(
        "--eval_steps",
        type=int,
        default=LoopConfig.eval_steps,
        help="number of steps between evaluations on held-out data (default: %(default)s)",
    )


def _add_optimizer_flags(group: FlagGroup, recipe: Recipe) -> None:
    add = group.add_argument
    add_loop_flags(
        group,
        batch_size=recipe.train_batch_size,
        learning_rate=recipe.learning_rate,
        optimizer=recipe.optimizer,
    )
    add(
        "--num_warmup_steps",
        type=int,
        help=f"number of steps in which the learning rate rises (default: "
        f"{recipe.num_warmup_steps}; with --num_train_steps, a tenth of them, at most 10,000)",
    )
    add(
        "--batch_ramp_share",
        type=float,
        default=0.0,
        help="share of the steps in which the batch grows to --train_batch_size: it begins with an "
        "eighth and doubles three times (default: %(default)s, no ramp)",
    )
    add(
        "--beta_1",
        type=float,
        default=OptimizerConfig.beta_1,
        help="decay rate of the gradient's mean (default: %(default)s)",
    )
    add(
        "--beta_2",
        type=float,
        default=recipe.beta_2,
        help="decay rate of the squared gradient's mean (default: %(default)s)",
    )
    add(
        "--schedule",
        choices=SCHEDULES,
        default=recipe.schedule,
        help="how the learning rate falls after the warm-up: linear; cosine; trapezoid, which "
        "stays at the peak and falls linearly at the end (default: %(default)s)",
    )
    add(
        "--decay_share",
        type=float,
        default=recipe.decay_share,
        help="with --schedule=trapezoid: share of the steps in which the learning rate falls "
        "(default: %(default)s)",
    )


def _or_model(value: float | None, of_model: str) -> str:
    return of_model if value is None else f"{value:g}"


def main(argv: Sequence[str]) -> None:
    """Runs `pretrain`.

    Raises:
      InputError: a flag or a file cannot be used.
    """
    started = time.monotonic()
    recipe = _recipe_of(argv)
    parser = build_parser(recipe)
    flags = parser.parse_args(list(argv))
    budget, optimizer, loop = _schedule_of(flags, recipe)
    _check_paths(flags)
    with loading():
        from beambert.trainer.loop.strategy import make_strategy
        from beambert.trainer.pretraining.run import estimate, pretrain
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
        print("\n".join(estimate(job, strategy)))
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
    _schedule_of(build_parser(recipe).parse_args(list(argv)), recipe)


def _schedule_of(
    flags: argparse.Namespace, recipe: Recipe
) -> tuple[Budget | None, OptimizerConfig, LoopConfig]:
    """Returns the budget, the optimizer and the loop.

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
    """Refuses shares that have no effect with the other flags.

    Raises:
      InputError: a flag has no effect.
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
      InputError: such a flag is given, or the budget is invalid.
    """
    if flags.budget is None:
        return None
    budget = Budget.parse(flags.budget)
    for name in ("num_train_steps", "num_warmup_steps"):
        value = getattr(flags, name)
        if value is not None:
            raise InputError(
                f"--{name}={value}: --budget={flags.budget} decides the number of steps; leave one "
                "of them out"
            )
    return budget


def _check_paths(flags: argparse.Namespace) -> None:
    """Refuses local paths that cannot be used before TensorFlow is imported, which takes seconds.

    Raises:
      InputError: a folder or a file does not exist, or is not a finished records folder.
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
