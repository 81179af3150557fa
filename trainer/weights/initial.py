"""Reads weights that training starts from.

They come from a TF1 checkpoint of the original release, a Hugging Face folder, or a model folder of
this package.
"""

import dataclasses
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from beambert.model.checkpoint_names import (
    generator_path,
    is_of_no_model,
    original_name,
    plain_hugging_face_name,
)
from beambert.model.config import EncoderConfig, parse_config
from beambert.model.families.family import PRE_TRAINING
from beambert.model.families.table import family_of, read_config
from beambert.model.shapes import most_bytes, variable_shapes
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.json_objects import check_names
from beambert.pipelines.storage import tensorflow_files
from beambert.pipelines.storage.weights import CONFIG_FILE, TRAINING_FILE, WEIGHTS_FILE
from beambert.pipelines.wordpiece.vocabulary import Vocabulary
from beambert.trainer import model_folders
from beambert.trainer.pretrained_models import pretrained_model
from beambert.trainer.weights.given_path import check_weights
from beambert.trainer.weights.new_tokens import fill_tokens, replaced_ids
from beambert.trainer.weights.positions import INTERPOLATE, KEEP, TILE, fill_positions
from beambert.trainer.weights.tokenizer_files import read_json, read_vocabulary
from beambert.trainer.weights.torch_file import read_torch_file

# Parts of an encoder that initial weights may lack, as a BertModel without a pooler does.
_OPTIONAL = ("pooler", "head")
# Names of the configuration file; the first that exists is read.
CONFIG_FILES = (CONFIG_FILE, "config.json")
_POSITIONS = "embeddings/position_embeddings"
SAFETENSORS_FILE, TORCH_FILE = "model.safetensors", "pytorch_model.bin"
# Ending of the file that lists the variables of each file, if the weights are in several.
INDEX_SUFFIX = ".index.json"
# Folder for the generator of replaced token detection, in that of its discriminator.
GENERATOR_FOLDER = "generator"


@dataclasses.dataclass(frozen=True)
class InitialWeights:
    """An encoder that training starts from.

    Attributes:
      path: path as it was given.
      config: configuration of the encoder.
      vocabulary: vocabulary that its ids belong to.
      do_lower_case: whether its text was in lower case and without accents.
      max_seq_length: sequence length that it was trained on; None if it is unknown.
      sha256: hash of its weights.
      read: function that reads the files and returns path of a variable -> array.
      trained_positions: number of positions that were trained; None if it is unknown.
      notes: sentences for the user.
    """

    path: str
    config: EncoderConfig
    vocabulary: Vocabulary
    do_lower_case: bool
    max_seq_length: int | None
    sha256: str
    read: Callable[[], Mapping[str, np.ndarray]]
    trained_positions: int | None = None
    notes: tuple[str, ...] = ()

    def with_positions(self, length: int, way: str) -> "InitialWeights":
        """Returns these weights for sequences of a length.

        Args:
          length: number of tokens of the longest sequence.
          way: what to do with positions that were not trained, see `positions.WAYS`. Only the
            others than "keep" give the encoder more positions than it has.
        """
        there = self.config.longest_sequence
        trained = min(self.trained_positions or there, there)
        if length <= trained or (way == KEEP and length > there):
            return self
        note = f"{self.path}: positions {trained + 1} to {length} were not trained"
        if not self.config.has_position_table:
            return self._without_table(length, way, note)
        first, table = self.config.first_position, f"{self.config.family}/{_POSITIONS}"
        if way == KEEP:
            advice = f"--init_positions={TILE} or {INTERPOLATE} makes them of the trained ones"
            return dataclasses.replace(self, notes=(f"{note}; {advice}",))

        def read() -> Mapping[str, np.ndarray]:
            weights = self.read()
            if table not in weights:
                return weights
            before, rows = np.split(weights[table], [first])
            filled = fill_positions(rows, trained, length, way)
            return {**weights, table: np.concatenate([before, filled])}

        return dataclasses.replace(
            self,
            config=self.config.with_longest_sequence(max(there, length)),
            read=read,
            notes=(f"{note}; made of the trained ones (--init_positions={way})",),
        )

    def with_vocabulary(self, vocabulary: Vocabulary, way: str) -> "InitialWeights":
        """Returns these weights for a vocabulary that extends that of the encoder.

        Args:
          vocabulary: the vocabulary, see `new_tokens.extends`.
          way: how the embeddings of new tokens begin, one of `new_tokens.WAYS`.
        """
        count, rows = len(self.vocabulary), max(self.config.vocab_size, len(vocabulary))
        config = dataclasses.replace(self.config, vocab_size=rows)
        probe = dataclasses.replace(self.config, vocab_size=self.config.vocab_size + 1)
        larger = variable_shapes(probe)
        tables = [p for p, shape in variable_shapes(self.config).items() if larger[p] != shape]

        def read() -> Mapping[str, np.ndarray]:
            weights, replaced = self.read(), replaced_ids(vocabulary, self.vocabulary)
            filled = {
                path: fill_tokens(weights[path], replaced, count, rows, way)
                for path in tables
                if path in weights
            }
            return {**weights, **filled}

        note = f"{self.path}: {len(vocabulary) - count:,} new tokens (--init_tokens={way})"
        return dataclasses.replace(
            self, config=config, vocabulary=vocabulary, read=read, notes=(*self.notes, note)
        )

    def _without_table(self, length: int, way: str, note: str) -> "InitialWeights":
        """Returns the weights of an encoder that computes positions, for sequences of a length."""
        if way != KEEP:
            raise InputError(
                f"--init_positions={way}: {self.path} computes positions and has no table of them; "
                "leave it out"
            )
        return dataclasses.replace(self, notes=(note,))

    def check(self, flag: str) -> None:
        """Refuses weights that `load_into` cannot use, before the job writes anything.

        Raises:
          InputError: see `load_into`.
        """
        self._compare(self.read(), variable_shapes(self.config), flag)

    def load_into(self, model: keras.Model, flag: str) -> list[str]:
        """Sets a model's variables.

        Args:
          model: model with this configuration. Its encoder's variables must all be in the weights;
            pooler and heads may be missing and keep their values.
          flag: name of the flag that gave the weights, for error messages.

        Returns:
          notes for the user: `notes`, variables that keep their initial values, weights that are
          not used.

        Raises:
          InputError: a variable of the encoder is missing, or one has another shape or a value that
            is no finite number.
        """
        weights = self.read()
        variables = {variable.path: variable for variable in model.weights}
        shapes = {path: tuple(variable.shape) for path, variable in variables.items()}
        missing = self._compare(weights, shapes, flag)
        for path, variable in variables.items():
            if path not in missing:
                variable.assign(weights[path])
        unread = [path for path in weights if path not in variables]
        missed = [f"{self.path}: lacks {_list(missing)}, trained from random weights"]
        extra = [f"{self.path}: has {_list(unread)}, which the model does not use"]
        return [*self.notes, *(missed if missing else []), *(extra if unread else [])]

    def _compare(
        self, weights: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]], flag: str
    ) -> list[str]:
        """Returns the paths of variables that the weights lack; see `load_into` for the errors."""
        missing = [path for path in shapes if path not in weights]
        root = self.config.family
        optional = tuple(f"{root}/{part}/" for part in _OPTIONAL)
        of_encoder = [path for path in missing if path.startswith(f"{root}/")]
        if encoder := [path for path in of_encoder if not path.startswith(optional)]:
            raise InputError(
                f"{flag}={self.path}: lacks {_list(encoder)}, which its configuration asks for; "
                "give the configuration that belongs to the weights"
            )
        for path, shape in shapes.items():
            if path in missing:
                continue
            if weights[path].shape != shape:
                raise InputError(
                    f"{flag}={self.path}: {path} has shape {weights[path].shape}, but its "
                    f"configuration says {shape}; give the configuration that belongs to the "
                    "weights"
                )
            if not np.isfinite(weights[path]).all():
                raise InputError(
                    f"{flag}={self.path}: {path} has weights that are no finite numbers; copy the "
                    "weights again or take others"
                )
        return missing


def open_initial(path: str, flag: str) -> InitialWeights:
    """Opens a model folder, a TF1 checkpoint or a Hugging Face folder, local or gs://.

    Args:
      path: path of the folder, or a TF1 checkpoint's prefix, such as `uncased/bert_model.ckpt`.
      flag: name of the flag that gave the path, for error messages.

    Raises:
      InputError: there are no weights, or a part of them is missing or damaged.
    """
    path = path.rstrip("/")
    folder = path
    check_weights(path, flag, tensorflow_files.is_folder, tensorflow_files.exists)
    if not tensorflow_files.is_folder(path):
        folder = path.rpartition("/")[0] or "."
    elif tensorflow_files.exists(f"{path}/{TRAINING_FILE}"):
        return _open_own(path, flag)
    config = _read_config(folder, flag)
    source = _find_source(path, config, flag)
    vocabulary, do_lower_case = read_vocabulary(folder, flag)
    if len(vocabulary) > config.vocab_size:
        raise InputError(
            f"{flag}={path}: its vocabulary has {len(vocabulary)} tokens, but its configuration "
            f"says {config.vocab_size}; give a vocabulary and a configuration that belong together"
        )

    parts = [(config, source)]
    beside = f"{path}/{GENERATOR_FOLDER}"
    if config.family == "electra" and tensorflow_files.exists(f"{beside}/{CONFIG_FILES[1]}"):
        of_generator = _read_config(beside, flag)
        parts.append((of_generator, _find_source(beside, of_generator, flag)))
    for of, its in parts:
        for file in its.files:
            tensorflow_files.check_regular(file, most=most_bytes(of))

    def read_all() -> dict[str, np.ndarray]:
        found, *generators = (_rename(its.read_all(most_bytes(of)), of, its) for of, its in parts)
        for weights in generators:
            renamed = {generator_path(path): value for path, value in weights.items()}
            found |= {path: value for path, value in renamed.items() if path}
        return found

    files = sorted(file for _, its in parts for file in its.files)
    sha256 = hashlib.sha256(b"".join(map(_sha256, files))).hexdigest()
    return InitialWeights(path, config, vocabulary, do_lower_case, None, sha256, read_all)


@dataclasses.dataclass(frozen=True)
class _Source:
    """Weights of another system.

    Attributes:
      files: paths of all files.
      parts: paths that are read, each with some of the variables: files, or the prefix of a TF1
        checkpoint.
      read: function that reads one of the parts, which may have a number of bytes at most.
      rename: function that returns the name of one of our variables in the other system, and
        whether to transpose it.
      prefix: beginning of the names of an encoder's variables, which a bare encoder leaves out.
    """

    files: Sequence[str]
    parts: Sequence[str]
    read: Callable[[str, int], Mapping[str, np.ndarray]]
    rename: Callable[[str], tuple[str, bool]]
    prefix: str = "bert."

    def read_all(self, most: int) -> dict[str, np.ndarray]:
        """Reads all parts; each may have `most` bytes."""
        theirs: dict[str, np.ndarray] = {}
        for path in self.parts:
            try:
                theirs |= self.read(path, most)
            except InputError:
                raise
            except (
                tf.errors.OpError,
                OSError,
                ValueError,
                LookupError,
                MemoryError,
                RuntimeError,
                TypeError,
            ) as error:
                raise InputError(
                    f"{path}: cannot be read ({tensorflow_files.reason(error)}); copy it again"
                ) from error
        return theirs


def _find_source(path: str, config: EncoderConfig, flag: str) -> _Source:
    """Finds the weights of a folder or of a TF1 checkpoint's prefix."""
    if not tensorflow_files.is_folder(path):
        return _tensorflow_source(path, config, flag)
    family = family_of(config)
    names = family.namer(PRE_TRAINING), family.model_prefix
    for name, read in ((SAFETENSORS_FILE, _read_safetensors), (TORCH_FILE, read_torch_file)):
        file, index = f"{path}/{name}", f"{path}/{name}{INDEX_SUFFIX}"
        if tensorflow_files.exists(file):
            return _Source([file], [file], read, *names)
        if tensorflow_files.exists(index):
            shards = _shards_of(index)
            return _Source([index, *shards], shards, read, *names)
    prefixes = [p.removesuffix(".index") for p in tensorflow_files.match(f"{path}/*.ckpt*.index")]
    if len(prefixes) > 1:
        raise InputError(
            f"{flag}={path}: holds {len(prefixes)} checkpoints; name one, such as {prefixes[-1]}"
        )
    if prefixes:
        return _tensorflow_source(prefixes[0], config, flag)
    raise InputError(
        f"{flag}={path}: holds no weights ({WEIGHTS_FILE}, *.ckpt.index, "
        f"{SAFETENSORS_FILE} or {TORCH_FILE}); check the path"
    )


def _tensorflow_source(prefix: str, config: EncoderConfig, flag: str) -> _Source:
    if config.family != "bert":
        raise InputError(
            f"{flag}={prefix}: is a TF1 checkpoint of {family_of(config).title}, and only those of "
            f"BERT are read; give a folder with {SAFETENSORS_FILE}"
        )
    files = tensorflow_files.match(f"{prefix}.*")
    return _Source(files, [prefix], _read_tensorflow, original_name)


def _shards_of(index: str) -> list[str]:
    """Returns the files that a Hugging Face index names."""
    try:
        names = set(read_json(index)["weight_map"].values())
        check_names(names)
    except ValueError as error:
        raise InputError(f"{index}: {error}; copy it again") from error
    except (LookupError, TypeError, AttributeError) as error:
        raise InputError(f"{index}: names no files of weights; copy it again") from error
    shards = [f"{index.rpartition('/')[0]}/{name}" for name in sorted(names)]
    for shard in shards:
        if not tensorflow_files.exists(shard):
            raise InputError(f"{index}: names {shard}, which is missing; copy that file too")
    return shards


def _open_own(path: str, flag: str) -> InitialWeights:
    found = model_folders.open_model(path, flag)
    if found.training["kind"] != model_folders.PRETRAINING:
        raise InputError(f"{flag}={path}: is a fine-tuned model; give the folder of its encoder")

    def read() -> dict[str, np.ndarray]:
        return {of.path: of.numpy() for of in pretrained_model(found).variables}

    sha256 = _sha256(f"{found.path}/{WEIGHTS_FILE}").hex()
    length = found.training["max_seq_length"]
    # A training on shorter sequences than its encoder's records how many positions that one had.
    trained = found.training.get("trained_positions", length)
    return InitialWeights(
        path, found.config, found.vocabulary, found.do_lower_case, length, sha256, read, trained
    )


def _rename(
    theirs: Mapping[str, np.ndarray], config: EncoderConfig, source: _Source
) -> dict[str, np.ndarray]:
    """Returns the arrays by this package's names; unknown variables keep their names."""
    theirs = {plain_hugging_face_name(n, source.prefix): value for n, value in theirs.items()}
    weights = {}
    for path, shape in variable_shapes(config).items():
        name, is_transposed = source.rename(path)
        if name in theirs:
            value = theirs.pop(name)
            weights[path] = value.T if is_transposed else value
            # An array of another shape is refused later, and may be too large to be copied.
            if weights[path].shape == shape:
                weights[path] = weights[path].astype(np.float32)
    return weights | {n: value for n, value in theirs.items() if not is_of_no_model(n)}


def _read_tensorflow(prefix: str, most: int) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(prefix)
    shapes = reader.get_variable_to_shape_map()
    dtypes = reader.get_variable_to_dtype_map()
    names = [name for name in shapes if not is_of_no_model(name) and dtypes[name] != tf.string]
    if (bytes_ := sum(math.prod(shapes[name]) * dtypes[name].size for name in names)) > most:
        raise ValueError(f"it has variables of {bytes_:,} bytes, more than its configuration says")
    return {name: reader.get_tensor(name) for name in names}


def _read_safetensors(path: str, most: int) -> dict[str, np.ndarray]:
    import ml_dtypes
    import safetensors

    dtypes = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4"}
    dtypes |= {"BF16": ml_dtypes.bfloat16}
    try:
        tensors = safetensors.deserialize(tensorflow_files.read_bytes(path, most=most))
    except safetensors.SafetensorError as error:
        raise ValueError(str(error)) from error
    return {
        name: np.frombuffer(tensor["data"], dtypes[tensor["dtype"]]).reshape(tensor["shape"])
        for name, tensor in tensors
    }


def _read_config(folder: str, flag: str) -> EncoderConfig:
    for name in CONFIG_FILES:
        path = f"{folder}/{name}"
        if tensorflow_files.exists(path):
            text = tensorflow_files.read_text(path)
            try:
                if code := parse_config(text).get("auto_map"):
                    raise InputError(
                        f"{path}: names Python code of its own in auto_map ({_code(code)}), which "
                        "is never run; take a model that transformers has a class for"
                    )
                return read_config(text)
            except ValueError as error:
                raise InputError(f"{path}: {error}") from error
    raise InputError(
        f"{flag}={folder}: has no {' or '.join(CONFIG_FILES)}; copy it beside the weights"
    )


def _code(auto_map: Any) -> str:
    """Returns the Python files that an `auto_map` names, for a message."""
    classes = auto_map.values() if isinstance(auto_map, dict) else [auto_map]
    files = {f"{str(of).rpartition('--')[2].split('.')[0]}.py" for of in classes}
    return ", ".join(sorted(files))[:100]


def _sha256(path: str) -> bytes:
    digest = hashlib.sha256()
    for chunk in tensorflow_files.read_chunks(path):
        digest.update(chunk)
    return digest.digest()


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
