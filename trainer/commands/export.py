"""`beambert export`: its flags."""

import argparse
from collections.abc import Sequence

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.flags import FlagParser
from beambert.pipelines.shared.loading import loading

EXAMPLES = """examples:
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


def build_parser() -> FlagParser:
    """Returns the flags of `export`."""
    parser = FlagParser(
        prog="beambert export",
        description="Writes a model as a SavedModel that takes raw text, or for other systems.",
        examples=EXAMPLES,
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


def main(argv: Sequence[str]) -> None:
    """Runs `export`.

    Raises:
      InputError: what was given can't be used.
    """
    flags = build_parser().parse_args(list(argv))
    with loading():
        from beambert.pipelines.storage import tensorflow_files
        from beambert.trainer.serving import blessing, versions
    if flags.evaluation:
        blessing.check_blessing(flags.evaluation, flags.model)
    if flags.to != "savedmodel":
        _export_elsewhere(flags)
        return
    labels = versions.labels_of(flags.model) if flags.text else ()
    path = versions.export(flags.model, flags.output.rstrip("/"))
    print(f"{path}: a SavedModel that takes raw text")
    for left in tensorflow_files.leftovers(flags.output.rstrip("/")):
        print(f"{left}: left by an export that was killed, if none is running; delete it")
    if flags.text:
        print(versions.describe_answer(path, flags.text, labels))


def _export_elsewhere(flags: argparse.Namespace) -> None:
    from beambert.trainer.weights.export import export_hugging_face, export_tensorflow

    if flags.text:
        raise InputError("--text: goes with --to=savedmodel; leave it out")
    if flags.to == "huggingface":
        export_hugging_face(flags.model, flags.output)
        print(f"{flags.output}: a folder for transformers' from_pretrained")
    else:
        export_tensorflow(flags.model, flags.output)
        print(f"{flags.output}: a checkpoint for --init_checkpoint of google-research/bert")
