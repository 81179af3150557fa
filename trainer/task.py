"""`python -m trainer.task COMMAND …`: the jobs of the trainer, by Vertex AI's convention."""

import argparse
import sys
from collections.abc import Sequence

from pipelines.console import FlagParser, quiet_stderr, run_main
from pipelines.errors import InputError
from trainer.config import (
    DYNAMIC,
    STATIC,
    LoopConfig,
    OptimizerConfig,
    default_warmup_steps,
)
from trainer.finetune_command import finetune_main, glue_main
from trainer.flags import add_loop_flags, add_output_flags, loop_config
from trainer.recipes import RECIPES, Recipe, bert_base

DEFAULT_RECIPE = bert_base()

PRETRAIN_EPILOG = """examples:
  # a small encoder on this machine, evaluated on records/eval
  beambert pretrain --data=records --model=tiny --model_dir=encoder --num_train_steps=1000 \\
      --train_batch_size=64 --learning_rate=1e-3

  # the paper's recipe on the TPU of this host: 90 % of the steps at 128 tokens, the rest at 512
  beambert data --max_seq_length=128,512 --input='gs://bucket/text/*' --vocab_file=vocab.txt \\
      --output=gs://bucket/records
  beambert pretrain --recipe=bert_base --data=gs://bucket/records/128 \\
      --long_data=gs://bucket/records/512 --model_dir=gs://bucket/base --tpu=local --dtype=bfloat16

  # go on from a published encoder on text of your own: records made with its vocab.txt
  beambert pretrain --init=bert-base-uncased --data=records --model_dir=legal \\
      --num_train_steps=50000 --learning_rate=5e-5

Interrupted in whatever way, the same command continues from the newest checkpoint.
"""


EXPORT_EPILOG = """examples:
  # the next version in a folder that TensorFlow Serving watches, tried on a sentence
  beambert export --model=sentiment --output=serving --text='A joy from start to end.'

  # only if `beambert evaluate` has blessed the model
  beambert export --model=sentiment --output=serving --evaluation=evaluation

  # an encoder: text -> hidden states
  beambert export --model=encoder --output=encoder-serving

  # for transformers, and for google-research/bert and its descendants
  beambert export --model=encoder --to=huggingface --output=encoder-hf
  beambert export --model=encoder --to=tf1 --output=encoder-tf1
"""


def build_pretrain_parser(recipe: Recipe = DEFAULT_RECIPE) -> FlagParser:
    """Returns the flags of `pretrain`, with a recipe's defaults."""
    parser = FlagParser(
        prog="beambert pretrain",
        description="Pre-trains BERT on records: masked LM and next sentence prediction.",
        epilog=PRETRAIN_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--recipe",
        choices=RECIPES,
        default=bert_base.__name__,
        help="what the other flags' defaults are; trainer/recipes.py says what each one costs "
        "(default: %(default)s)",
    )
    add("--data", required=True, metavar="DIR", help="records folder made by `beambert data`")
    add("--eval_data", metavar="DIR", help="held-out records (default: eval in --data, if there)")
    add(
        "--long_data",
        metavar="DIR",
        help="records of longer sequences for the last steps; eval in it is held out",
    )
    add(
        "--long_data_share",
        type=float,
        default=recipe.long_data_share,
        help="of the steps (default: %(default)s)",
    )
    add(
        "--masking",
        choices=(STATIC, DYNAMIC),
        default=STATIC,
        help="static: the records' masks; dynamic: others in every epoch (default: %(default)s)",
    )
    add(
        "--model",
        help="tiny … large, L-2_H-128 …, or a bert_config.json (default: "
        f"{recipe.model}, or that of --init)",
    )
    add(
        "--init",
        metavar="PATH",
        help="go on from these weights: a model folder, a TF1 checkpoint, a Hugging Face folder",
    )
    add_output_flags(parser)
    add(
        "--num_train_steps",
        type=int,
        help=f"in all (default: {recipe.num_train_steps})",
    )
    add(
        "--num_warmup_steps",
        type=int,
        help=f"default: {recipe.num_warmup_steps}; with --num_train_steps a tenth of those, at "
        "most 10,000",
    )
    add(
        "--eval_steps",
        type=int,
        default=LoopConfig.eval_steps,
        help="steps between evaluations on held-out data (default: %(default)s)",
    )
    add_loop_flags(
        parser,
        batch_size=recipe.train_batch_size,
        learning_rate=recipe.learning_rate,
        optimizer=OptimizerConfig.optimizer,
    )
    return parser


def pretrain_main(argv: Sequence[str]) -> None:
    """Runs `pretrain`.

    Raises:
      InputError: what was given can't be used.
    """
    recipe = _recipe_of(argv)
    flags = build_pretrain_parser(recipe).parse_args(list(argv))
    if flags.init and flags.model:
        raise InputError(f"--model={flags.model}: --init has a model already; leave one out")
    if not 0 < flags.long_data_share < 1:
        raise InputError(f"--long_data_share={flags.long_data_share}: must be in (0, 1)")
    steps, warmup = flags.num_train_steps, flags.num_warmup_steps
    if warmup is None:
        warmup = recipe.num_warmup_steps if steps is None else default_warmup_steps(steps)
    optimizer = OptimizerConfig(
        learning_rate=flags.learning_rate,
        num_train_steps=recipe.num_train_steps if steps is None else steps,
        num_warmup_steps=warmup,
        weight_decay_rate=flags.weight_decay_rate,
        optimizer=flags.optimizer,
    )
    loop = loop_config(flags, eval_steps=flags.eval_steps)
    with quiet_stderr():
        from trainer.folders import TrainingFolders
        from trainer.pretraining import PretrainingJob, pretrain
        from trainer.strategy import make_strategy
    job = PretrainingJob(
        data=flags.data,
        eval_data=flags.eval_data,
        long_data=flags.long_data,
        long_data_share=flags.long_data_share,
        masking=flags.masking,
        model=flags.model or (None if flags.init else recipe.model),
        init=flags.init,
        output=TrainingFolders.of(flags.model_dir, flags.checkpoint_dir, flags.tensorboard_dir),
        optimizer=optimizer,
        loop=loop,
    )
    pretrain(job, make_strategy(flags.strategy, flags.tpu))


def _recipe_of(argv: Sequence[str]) -> Recipe:
    """Returns the recipe that is asked for: it decides what --help says of the other flags."""
    parser = FlagParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--recipe", default=bert_base.__name__)
    name = parser.parse_known_args(list(argv))[0].recipe
    return RECIPES[name]() if name in RECIPES else DEFAULT_RECIPE


def build_export_parser() -> FlagParser:
    """Returns the flags of `export`."""
    parser = FlagParser(
        prog="beambert export",
        description="Writes a model as a SavedModel that takes raw text, or for other systems.",
        epilog=EXPORT_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--model", required=True, metavar="DIR", help="model folder: fine-tuned or an encoder")
    add(
        "--to",
        choices=("savedmodel", "huggingface", "tf1"),
        default="savedmodel",
        help="default: %(default)s",
    )
    add(
        "--output",
        required=True,
        metavar="DIR",
        help="gets a folder 1, 2, … for each SavedModel; else a folder to make",
    )
    add("--evaluation", metavar="DIR", help="refuse unless this evaluation blessed the model")
    add("--text", help="call the exported classifier on this text")
    return parser


def export_main(argv: Sequence[str]) -> None:
    """Runs `export`.

    Raises:
      InputError: what was given can't be used.
    """
    flags = build_export_parser().parse_args(list(argv))
    with quiet_stderr():
        from trainer import export
    if flags.evaluation:
        export.check_blessing(flags.evaluation, flags.model)
    if flags.to != "savedmodel":
        _export_elsewhere(flags)
        return
    labels = export.labels_of(flags.model) if flags.text else ()
    path = export.export(flags.model, flags.output.rstrip("/"))
    print(f"{path}: a SavedModel that takes raw text")
    for left in export.leftovers(flags.output.rstrip("/")):
        print(f"{left}: left by an export that was killed, if none is running; delete it")
    if flags.text:
        print(export.describe_answer(path, flags.text, labels))


def _export_elsewhere(flags: argparse.Namespace) -> None:
    from trainer.checkpoint_export import export_hugging_face, export_tensorflow

    if flags.text:
        raise InputError("--text: goes with --to=savedmodel; leave it out")
    if flags.to == "huggingface":
        export_hugging_face(flags.model, flags.output)
        print(f"{flags.output}: a folder for transformers' from_pretrained")
    else:
        export_tensorflow(flags.model, flags.output)
        print(f"{flags.output}: a checkpoint for --init_checkpoint of google-research/bert")


COMMANDS = {
    "pretrain": pretrain_main,
    "finetune": finetune_main,
    "glue": glue_main,
    "export": export_main,
}


def main(argv: Sequence[str]) -> int:
    """Dispatches to a command; returns its exit status."""
    usage = f"usage: python -m trainer.task {{{','.join(COMMANDS)}}} …"
    if argv and argv[0] in ("-h", "--help"):
        print(usage)
        return 0
    if not argv or argv[0] not in COMMANDS:
        print(usage, file=sys.stderr)
        return 2
    return run_main(argv[0], COMMANDS[argv[0]], argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
