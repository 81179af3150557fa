"""Weights of other systems: their files, what they are named there and how they are read.

They are a TF1 checkpoint of the original release or a Hugging Face folder.
"""

import dataclasses
import glob
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO

import numpy as np

from beambert import io
from beambert.errors import InputError
from beambert.io import check_names
from beambert.model.checkpoint_names import is_of_no_model, original_name, plain_hugging_face_name
from beambert.model.config import EncoderConfig
from beambert.model.families.debertav2 import WORD_EMBEDDINGS
from beambert.model.families.family import PRE_TRAINING
from beambert.model.families.table import family_of
from beambert.model.shapes import variable_shapes
from beambert.model_files import WEIGHTS_FILE
from beambert.trainer.loop.engine import has_tensorflow
from beambert.trainer.weights.arrays import from_bytes

TORCH_FILE = "pytorch_model.bin"
# Ending of the file that lists the variables of each file, if the weights are in several.
INDEX_SUFFIX = ".index.json"
# The layer on top of the encoder in checkpoints of ColBERT, a `TokenEncoder` here.
_COLBERT_PROJECTION = "linear.weight"


@dataclasses.dataclass(frozen=True)
class WeightFiles:
    """Weights of another system.

    Attributes:
      files: paths of all files.
      parts: paths that are read, each with some of the variables: files, or the prefix of a TF1
        checkpoint.
      read: function that reads one of the parts.
      rename: function that returns the name of one of our variables in the other system, and
        whether to transpose it.
      prefix: beginning of the names of an encoder's variables, which a bare encoder leaves out.
    """

    files: Sequence[str]
    parts: Sequence[str]
    read: Callable[[str], Mapping[str, np.ndarray]]
    rename: Callable[[str], tuple[str, bool]]
    prefix: str = "bert."

    def read_all(self, config: EncoderConfig) -> dict[str, np.ndarray]:
        """Returns the arrays by this package's names; unknown variables keep theirs.

        Args:
          config: configuration of the encoder.

        Raises:
          InputError: a part cannot be read.
        """
        theirs: dict[str, np.ndarray] = {}
        for path in self.parts:
            try:
                theirs |= self.read(path)
            except (
                *io.storage_errors(),
                ValueError,
                LookupError,
                MemoryError,
                RuntimeError,
                TypeError,
            ) as error:
                raise InputError(
                    f"{path}: cannot be read ({io.reason(error)}); copy it again"
                ) from error
        return self._renamed(theirs, config)

    def _renamed(
        self, theirs: Mapping[str, np.ndarray], config: EncoderConfig
    ) -> dict[str, np.ndarray]:
        theirs = {plain_hugging_face_name(n, self.prefix): value for n, value in theirs.items()}
        # A file may have tied arrays by the names that they have in the decoder alone.
        bias, table = (
            self.rename(path)[0]
            for path in ("cls/predictions/output_bias", f"{config.family}/{WORD_EMBEDDINGS}")
        )
        head = bias.removesuffix("bias")
        for name, leaf in ((bias, "bias"), (table, "weight")):
            for tied in (f"{head}decoder.{leaf}", f"{head}{leaf}"):
                if name not in theirs and tied in theirs:
                    theirs[name] = theirs.pop(tied)
        weights = {}
        # Such a head is not among the variables, and no shape of it is known.
        wanted = variable_shapes(config) | dict.fromkeys(family_of(config).detection_head)
        for path, shape in wanted.items():
            name, is_transposed = self.rename(path)
            if name in theirs:
                value = theirs.pop(name)
                weights[path] = value.T if is_transposed else value
                # An array of another shape is refused later, and may be too large to be copied.
                if shape in (None, weights[path].shape):
                    weights[path] = weights[path].astype(np.float32)
        if (projection := theirs.pop(_COLBERT_PROJECTION, None)) is not None:
            weights["linear/kernel"] = projection.T.astype(np.float32)
        return weights | {n: value for n, value in theirs.items() if not is_of_no_model(n)}


def find_weight_files(path: str, config: EncoderConfig, flag: str) -> WeightFiles:
    """Finds the weights of a folder or of a TF1 checkpoint's prefix."""
    if not io.is_folder(path):
        return _checkpoint_files(path, config, flag)
    family = family_of(config)
    names = family.namer(PRE_TRAINING), family.model_prefix
    for name, read in ((WEIGHTS_FILE, _read_safetensors), (TORCH_FILE, _read_torch)):
        file, index = f"{path}/{name}", f"{path}/{name}{INDEX_SUFFIX}"
        if io.exists(file):
            return WeightFiles([file], [file], read, *names)
        if io.exists(index):
            shards = _shards_of(index)
            return WeightFiles([index, *shards], shards, read, *names)
    prefixes = [p.removesuffix(".index") for p in io.match_in(path, "*.ckpt*.index")]
    if len(prefixes) > 1:
        raise InputError(
            f"{flag}={path}: holds {len(prefixes)} checkpoints; name one, such as {prefixes[-1]}"
        )
    if prefixes:
        return _checkpoint_files(prefixes[0], config, flag)
    raise InputError(
        f"{flag}={path}: holds no weights ({WEIGHTS_FILE}, {TORCH_FILE} or "
        "*.ckpt.index); check the path"
    )


def _checkpoint_files(prefix: str, config: EncoderConfig, flag: str) -> WeightFiles:
    if config.family != "bert":
        raise InputError(
            f"{flag}={prefix}: is a TF1 checkpoint of {family_of(config).title}, and only those of "
            f"BERT are read; give a folder with {WEIGHTS_FILE}"
        )
    folder, name = os.path.split(prefix)
    files = io.match_in(folder or ".", f"{glob.escape(name)}.*")
    return WeightFiles(files, [prefix], _read_tensorflow, original_name)


def _shards_of(index: str) -> list[str]:
    """Returns the files that a Hugging Face index names."""
    try:
        names = set(io.read_object(index, remedy="copy it again")["weight_map"].values())
        check_names(names)
    except ValueError as error:
        raise InputError(f"{index}: {error}; copy it again") from error
    except (LookupError, TypeError, AttributeError) as error:
        raise InputError(f"{index}: names no files of weights; copy it again") from error
    return [f"{index.rpartition('/')[0]}/{name}" for name in sorted(names)]


def _read_tensorflow(prefix: str) -> dict[str, np.ndarray]:
    if not has_tensorflow():
        raise InputError(
            f"{prefix}: is a checkpoint of TensorFlow, which is not installed here; export it "
            "elsewhere with --to=huggingface"
        )
    import tensorflow as tf

    reader = tf.train.load_checkpoint(prefix)
    dtypes = reader.get_variable_to_dtype_map()
    names = [name for name in dtypes if not is_of_no_model(name) and dtypes[name] != tf.string]
    return {name: reader.get_tensor(name) for name in names}


def _read_safetensors(path: str) -> dict[str, np.ndarray]:
    return from_bytes(io.read_bytes(path, most=None))


def _read_torch(path: str) -> dict[str, np.ndarray]:
    """Returns the tensors of a file of `torch.save`; PyTorch reads it and runs none of its code."""
    try:
        import torch
    except ImportError as error:
        raise InputError(
            f"{path}: is read by PyTorch, which is not installed; run pip install torch, or save "
            "the model as safetensors"
        ) from error
    import ml_dtypes

    data = BytesIO(io.read_bytes(path, most=None))
    try:
        tensors = torch.load(data, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, LookupError, TypeError) as error:
        raise ValueError(io.reason(error)) from error
    if not isinstance(tensors, dict):
        raise ValueError("it has no tensors by name")
    found = {}
    for name, tensor in tensors.items():
        if isinstance(name, str) and isinstance(tensor, torch.Tensor):
            is_bfloat16 = tensor.dtype == torch.bfloat16  # NumPy has no such numbers itself.
            array = (tensor.view(torch.int16) if is_bfloat16 else tensor).detach().numpy()
            found[name] = array.view(ml_dtypes.bfloat16) if is_bfloat16 else array
    return found
