"""The command `beambert export`."""

import dataclasses
import functools
from collections.abc import Sequence

from beambert.config import check_settings, read_settings, setting, settings_parser
from beambert.errors import InputError
from beambert.flags import TRUST_MODEL
from beambert.io import check_folder
from beambert.process import loading
from beambert.trainer.loop.config import ALL
from beambert.trainer.loop.engine import check_tensorflow

EXAMPLES = """examples:
  # write the next version in a folder that TensorFlow Serving watches
  beambert export --model=sentiment --output=serving

  # export only if `beambert evaluate` has blessed the model
  beambert export --model=sentiment --output=serving --evaluation=evaluation

  # export an encoder, which returns the hidden states of a text
  beambert export --model=encoder --output=encoder-serving

  # write the formats of transformers, and of google-research/bert and its descendants
  beambert export --model=encoder --to=huggingface --output=encoder-hf
  beambert export --model=encoder --to=tf1 --output=encoder-tf1

  # write an encoder with its pooling for sentence-transformers
  beambert export --model=encoder --to=sentence-transformers --output=encoder-st

  # write a vector for each token, whose mean is the vector of a text, for sentence-transformers
  beambert export --model=encoder --to=static --output=encoder-static

  # write a graph on ids for onnxruntime; needs the extra onnx
  beambert export --model=sentiment --to=onnx --output=sentiment-onnx

  # the same with weights of 8 bits: a quarter of the size, and faster
  beambert export --model=sentiment --to=onnx --int8 --output=sentiment-int8

  # take the weights of step 9,000 of a pre-training that is still running
  beambert export --model=encoder --checkpoint=9000 --to=huggingface --output=encoder-9000

  # the same of all checkpoints of a pre-training with --keep_checkpoints=all
  beambert export --model=encoder --checkpoint=all --to=huggingface --output=encoder-steps

  # take the mean of an encoder and of the one that --init continued
  beambert export --model=encoder --average_with=MiniLM --to=huggingface --output=mean
"""
# The format of sentence-transformers.
SENTENCES = "sentence-transformers"


# Flag -> the formats of --to that it has an effect on.
_OF_FORMATS = {
    "checkpoint": ("huggingface", "tf1"),
    "average_with": ("huggingface", "tf1", SENTENCES, "static"),
    "version": ("savedmodel",),
    "pooling": (SENTENCES,),
    "normalize": (SENTENCES,),
    "int8": ("onnx",),
    "license": ("huggingface",),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Export:
    """The settings of `export`."""

    model: str = setting(metavar="DIR", help="folder of a fine-tuned model or an encoder")
    to: str = setting(
        "savedmodel",
        choices=("savedmodel", "huggingface", "tf1", SENTENCES, "static", "onnx"),
        help="format of the output",
    )
    output: str = setting(
        metavar="DIR",
        help="folder that gets a SavedModel as version 1, 2, …; for other formats, folder to make",
    )
    evaluation: str | None = setting(
        None,
        metavar="DIR",
        help="evaluation of the model; without its blessing, nothing is exported",
    )
    checkpoint: str | None = setting(
        None,
        metavar="STEP",
        help="export the weights that the pre-training in --model had at this step, also while it "
        "is running; all exports those of all its checkpoints to folders such as "
        "--output/ckpt-000100; needs --to=huggingface or --to=tf1, whose folders --init takes",
    )
    average_with: str | None = setting(
        None,
        metavar="PATH",
        help="encoder that --model went on from by --init; export the mean of the weights of both, "
        "which keeps more of it; needs --to=huggingface or --to=tf1",
    )
    version: int | None = setting(
        None,
        minimum=1,
        metavar="N",
        help="number of the version (default: the greatest one in --output plus one)",
    )
    pooling: str | None = setting(
        None,
        choices=("mean", "cls"),
        help="what --to=sentence-transformers takes of a text's tokens: their mean, or [CLS] "
        "(default: what the model has learnt, or else mean)",
    )
    normalize: bool | None = setting(
        None,
        help="whether --to=sentence-transformers scales vectors to the length 1 (default: True)",
    )
    int8: bool = setting(
        False,
        help="let --to=onnx round the weights of matrices to 8 bits, for a quarter of the size and "
        "a small loss of quality",
    )
    license: str | None = setting(
        None,
        metavar="NAME",
        help="licence of the model for the card that --to=huggingface writes, as the Hugging Face "
        "Hub names it, such as apache-2.0",
    )
    trust_model: bool = setting(False, help=TRUST_MODEL)

    def __post_init__(self) -> None:
        """Checks the values."""
        check_settings(self)
        for name, formats in _OF_FORMATS.items():
            value = getattr(self, name)
            if value != getattr(Export, name) and self.to not in formats:
                needed = " or ".join(f"--to={each}" for each in formats)
                raise InputError(f"--{name}={value}: needs {needed}; add it or leave this out")
        if self.checkpoint not in (None, ALL) and not self.checkpoint.isdecimal():
            raise InputError(f"--checkpoint={self.checkpoint}: must be a step or {ALL}")
        if self.average_with and self.checkpoint is not None:
            raise InputError(f"--average_with={self.average_with}: leave out --checkpoint")


build_parser = functools.partial(
    settings_parser,
    Export,
    "export",
    "Writes a model as a SavedModel that takes raw text, or in another format.",
    EXAMPLES,
)


def main(argv: Sequence[str]) -> None:
    """Runs `export`.

    Raises:
      InputError: the model or a flag cannot be used.
    """
    flags = read_settings(Export, build_parser().parse_args(list(argv)))
    check_folder(flags.model, f"--model={flags.model}")
    if flags.to in ("savedmodel", "tf1", "onnx"):
        check_tensorflow(f"--to={flags.to}")
    with loading():
        from beambert import io
        from beambert.trainer.loop.checkpoints import checkpoint_path

        if flags.evaluation or flags.to == "savedmodel":
            from beambert.trainer.serving import versions
        from beambert.trainer.weights.initial import averaged, model_at, steps_of
        from beambert.trainer.weights.model_card import check_license
    if flags.license is not None:
        check_license(flags.license)
    if flags.evaluation:
        versions.check_blessing(flags.evaluation, flags.model)
    if flags.checkpoint is not None:
        for step in steps_of(flags.model, flags.checkpoint):
            output = flags.output
            if flags.checkpoint == ALL:
                output = checkpoint_path(output.rstrip("/"), step)
                if io.exists(output):
                    continue
            with model_at(flags.model, step) as made:
                _export_elsewhere(dataclasses.replace(flags, model=made, output=output))
        return
    if flags.average_with:
        with averaged(flags.model, flags.average_with) as made:
            _export_elsewhere(dataclasses.replace(flags, model=made, average_with=None))
        return
    if flags.to != "savedmodel":
        _export_elsewhere(flags)
        return
    path = versions.export(flags.model, flags.output.rstrip("/"), flags.trust_model, flags.version)
    print(versions.describe(path))


def _export_elsewhere(flags: Export) -> None:
    from beambert.trainer.weights import export

    given = flags.model, flags.output
    if flags.to == SENTENCES:
        export.export_sentence_transformers(*given, flags.pooling, flags.normalize)
        what = "a model folder for sentence-transformers"
    elif flags.to == "static":
        export.export_static(*given)
        what = "static embeddings for sentence-transformers"
    elif flags.to == "onnx":
        from beambert.trainer.serving.onnx_export import export_onnx

        export_onnx(*given, flags.int8)
        what = f"model.onnx on ids, for onnxruntime{', with weights of 8 bits' * flags.int8}"
    elif flags.to == "huggingface":
        export.export_hugging_face(*given, flags.license)
        what = "a model folder for from_pretrained of transformers"
    else:
        export.export_tensorflow(*given)
        what = "a checkpoint for --init_checkpoint of google-research/bert"
    print(f"{flags.output}: {what}")
