"""The command `beambert export`."""

import argparse
from collections.abc import Sequence

from beambert.errors import InputError
from beambert.flags import SWITCH, TRUST_MODEL, FlagParser, parse_bool
from beambert.process import loading
from beambert.storage import check_folder

EXAMPLES = """examples:
  # write the next version in a folder that TensorFlow Serving watches, and try it on a sentence
  beambert export --model=sentiment --output=serving --text='A joy from start to end.'

  # export only if `beambert evaluate` has blessed the model
  beambert export --model=sentiment --output=serving --evaluation=evaluation

  # export an encoder, which returns the hidden states of a text
  beambert export --model=encoder --output=encoder-serving

  # write the formats of transformers, and of google-research/bert and its descendants
  beambert export --model=encoder --to=huggingface --output=encoder-hf
  beambert export --model=encoder --to=tf1 --output=encoder-tf1

  # write an encoder with its pooling for sentence-transformers
  beambert export --model=encoder --to=sentence-transformers --output=encoder-st

  # write a graph on ids for onnxruntime; needs the extra onnx
  beambert export --model=sentiment --to=onnx --output=sentiment-onnx

  # the same with weights of 8 bits: a quarter of the size, and faster
  beambert export --model=sentiment --to=onnx --int8 --output=sentiment-int8

  # take the weights of step 9,000 of a pre-training that is still running
  beambert export --model=encoder --checkpoint=9000 --to=huggingface --output=encoder-9000
"""
# The format of sentence-transformers.
SENTENCES = "sentence-transformers"


def build_parser() -> FlagParser:
    """Returns the parser of the flags of `export`."""
    parser = FlagParser(
        prog="beambert export",
        description="Writes a model as a SavedModel that takes raw text, or in another format.",
        examples=EXAMPLES,
    )
    add = parser.add_argument
    add("--model", required=True, metavar="DIR", help="folder of a fine-tuned model or an encoder")
    add(
        "--to",
        choices=("savedmodel", "huggingface", "tf1", SENTENCES, "onnx"),
        default="savedmodel",
        help="format of the output (default: %(default)s)",
    )
    add(
        "--output",
        required=True,
        metavar="DIR",
        help="folder that gets a SavedModel as version 1, 2, …; for other formats, folder to make",
    )
    add(
        "--evaluation",
        metavar="DIR",
        help="evaluation of the model; without its blessing, nothing is exported",
    )
    add(
        "--checkpoint",
        type=int,
        metavar="STEP",
        help="export the weights that the pre-training in --model had at this step, also while it "
        "is running; needs --to=huggingface or --to=tf1, whose folders --init takes",
    )
    add(
        "--checkpoint_dir",
        metavar="DIR",
        help="folder of the checkpoints, if the pre-training had a --checkpoint_dir (default: "
        "checkpoints in --model)",
    )
    add(
        "--version",
        type=int,
        metavar="N",
        help="number of the version (default: the greatest one in --output plus one)",
    )
    add(
        "--pooling",
        choices=("mean", "cls"),
        help="what --to=sentence-transformers takes of a text's tokens: their mean, or [CLS] "
        "(default: what the model has learnt, or else mean)",
    )
    add(
        "--normalize",
        type=parse_bool,
        help="whether --to=sentence-transformers scales vectors to the length 1 (default: True)",
    )
    add(
        "--int8",
        **SWITCH,
        help="let --to=onnx round the weights of matrices to 8 bits, for a quarter of the size and "
        "a small loss of quality",
    )
    add(
        "--license",
        metavar="NAME",
        help="licence of the model for the card that --to=huggingface writes, as the Hugging Face "
        "Hub names it, such as apache-2.0",
    )
    add("--text", help="text to call the exported classifier on")
    add("--trust_model", **TRUST_MODEL)
    return parser


def main(argv: Sequence[str]) -> None:
    """Runs `export`.

    Raises:
      InputError: the model or a flag cannot be used.
    """
    flags = build_parser().parse_args(list(argv))
    check_folder(flags.model, f"--model={flags.model}")
    with loading():
        from beambert import storage
        from beambert.trainer.serving import versions
        from beambert.trainer.weights.model_card import check_license
    if flags.checkpoint_dir and flags.checkpoint is None:
        raise InputError(
            f"--checkpoint_dir={flags.checkpoint_dir}: needs --checkpoint=STEP; add it, or leave "
            "this out"
        )
    for flag, value in (("--pooling", flags.pooling), ("--normalize", flags.normalize)):
        if value is not None and flags.to != SENTENCES:
            raise InputError(f"{flag}={value}: needs --to={SENTENCES}; add it or leave this out")
    if flags.int8 and flags.to != "onnx":
        raise InputError("--int8: needs --to=onnx; add it or leave this out")
    if flags.license is not None:
        if flags.to != "huggingface":
            raise InputError(
                f"--license={flags.license}: needs --to=huggingface; add it or leave this out"
            )
        check_license(flags.license)
    if flags.evaluation:
        versions.check_blessing(flags.evaluation, flags.model)
    versions.check_number(flags.version, flags.to)
    if flags.checkpoint is not None:
        _export_checkpoint(flags)
        return
    if flags.to != "savedmodel":
        _export_elsewhere(flags)
        return
    labels = versions.labels_of(flags.model) if flags.text else ()
    path = versions.export(flags.model, flags.output.rstrip("/"), flags.trust_model, flags.version)
    print(versions.describe(path))
    for left in storage.leftovers(flags.output.rstrip("/")):
        print(f"{left}: left by a killed export; delete it unless an export is running")
    if flags.text:
        print(versions.describe_answer(path, flags.text, labels))


def _export_checkpoint(flags: argparse.Namespace) -> None:
    from beambert.trainer.weights.initial import model_at

    if flags.to not in ("huggingface", "tf1"):
        raise InputError(
            f"--checkpoint={flags.checkpoint}: needs --to=huggingface or --to=tf1; add one of them"
        )
    with model_at(flags.model, flags.checkpoint, flags.checkpoint_dir) as made:
        _export_elsewhere(argparse.Namespace(**vars(flags) | {"model": made}))


def _export_elsewhere(flags: argparse.Namespace) -> None:
    from beambert.trainer.weights.export import export_hugging_face, export_tensorflow

    if flags.text:
        raise InputError("--text: needs --to=savedmodel; leave it out")
    if flags.to == SENTENCES:
        from beambert.trainer.embedding.sentence_export import export_sentence_transformers

        export_sentence_transformers(flags.model, flags.output, flags.pooling, flags.normalize)
        print(f"{flags.output}: a model folder for sentence-transformers")
    elif flags.to == "onnx":
        from beambert.trainer.serving.onnx_export import export_onnx

        export_onnx(flags.model, flags.output, flags.int8)
        weights = ", with weights of 8 bits" if flags.int8 else ""
        print(f"{flags.output}: model.onnx on ids, for onnxruntime{weights}")
    elif flags.to == "huggingface":
        export_hugging_face(flags.model, flags.output, flags.license)
        print(f"{flags.output}: a model folder for from_pretrained of transformers")
    else:
        export_tensorflow(flags.model, flags.output)
        print(f"{flags.output}: a checkpoint for --init_checkpoint of google-research/bert")
