"""Initial weights: from model folders, Hugging Face folders and TF1 checkpoints."""

import contextlib
import dataclasses
import functools
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

import keras
import numpy as np

from beambert import io
from beambert.errors import InputError
from beambert.folders import MARKER_FILE
from beambert.model.config import EncoderConfig
from beambert.model.families.debertav2 import WORD_DELTA, for_variables
from beambert.model.shapes import variable_shapes
from beambert.model_files import CHECKPOINTS_FOLDER, PRETRAINING, TRAINING_FILE, WEIGHTS_FILE
from beambert.pipelines.tokenizers.folders import read_folder
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.trainer import model_folders
from beambert.trainer.loop.checkpoints import (
    MODEL,
    checkpoint_path,
    checkpoint_steps,
    read_checkpoint,
)
from beambert.trainer.loop.config import ALL
from beambert.trainer.model_folders import ModelFolder
from beambert.trainer.models import build_pretrainer, pretrained_model, task_model
from beambert.trainer.tasks.base import objective_of_kind
from beambert.trainer.weights.adaptation import (
    KEEP,
    TILE,
    extends,
    fill_tokens,
    replaced_ids,
    tile_positions,
)
from beambert.trainer.weights.arrays import assign
from beambert.trainer.weights.config_files import folder_of, read_config_file
from beambert.trainer.weights.weight_files import find_weight_files


def steps_of(path: str, wanted: str) -> list[int]:
    """Returns the steps of a pre-training's checkpoints that are asked for.

    Args:
      path: model folder of the pre-training, finished or not.
      wanted: a step, or `ALL`.

    Raises:
      InputError: there is no such checkpoint.
    """
    folder = f"{path.rstrip('/')}/{CHECKPOINTS_FOLDER}"
    steps = checkpoint_steps(folder)
    if found := [step for step in steps if wanted in (ALL, str(step))]:
        return found
    raise InputError(
        f"--checkpoint={wanted}: {folder} has no such checkpoint; choose one of its steps "
        f"({', '.join(map(str, steps)) or 'none'})"
    )


def model_at(path: str, step: int) -> AbstractContextManager[str]:
    """Returns a context with a temporary model folder of what a pre-training was at a step.

    Args:
      path: model folder of the pre-training, finished or not.
      step: step of one of the checkpoints.

    Raises:
      InputError: the checkpoint is damaged, or the folder is not that of a pre-training.
    """
    found = _open_pretraining(path, f"--checkpoint={step}")
    model = build_pretrainer(found.training, found.config)
    checkpoint = checkpoint_path(f"{found.path}/{CHECKPOINTS_FOLDER}", step)
    try:
        weights = read_checkpoint(checkpoint, [MODEL])[0][MODEL]
        assign({variable.path: variable for variable in model.trainable_variables}, weights)
    except ValueError as error:
        raise InputError(
            f"{checkpoint}: cannot be read ({io.reason(error)}); choose another --checkpoint"
        ) from error
    return _temporary_folder(found, model)


def averaged(path: str, other: str) -> AbstractContextManager[str]:
    """Returns a context with a temporary model folder of the mean of the weights of two encoders.

    The mean of an encoder and of the one that it went on from keeps more of what that one could do
    (Wortsman et al. 2022, arXiv 2109.01903). What the other one lacks, such as a head, stays.

    Args:
      path: model folder of a pre-training.
      other: an encoder that `open_initial` takes, of the same vocabulary or its beginning.

    Raises:
      InputError: the other one is of another vocabulary or size, or `path` is not a pre-training.
    """
    flag = f"--average_with={other}"
    initial = open_initial(other, "--average_with")
    found = _open_pretraining(path, flag)
    if extends(found.vocabulary, initial.vocabulary):
        initial = initial.with_vocabulary(found.vocabulary)
    for what, theirs, ours in (
        ("vocabulary", initial.vocabulary.sha256, found.vocabulary.sha256),
        ("family or size", variable_shapes(initial.config), variable_shapes(found.config)),
    ):
        if theirs != ours:
            raise InputError(
                f"{flag}: is of another {what} than --model={path}; give the encoder that the "
                "model went on from"
            )
    model = pretrained_model(found)
    variables = {variable.path: variable for variable in model.weights}
    weights = for_variables(initial.read(), variables)
    for name in weights.keys() & variables.keys():
        variables[name].assign((variables[name].numpy() + weights[name]) / 2)
    return _temporary_folder(found, model)


def _open_pretraining(path: str, flag: str) -> ModelFolder:
    """Opens the folder of a pre-training, finished or not, for a flag that needs one."""
    found = model_folders.read_description(path.rstrip("/"), "--model")
    if found.training["kind"] != PRETRAINING:
        raise InputError(f"{flag}: --model={path} is not a pre-training; leave it out")
    return found


@contextlib.contextmanager
def _temporary_folder(found: ModelFolder, model: keras.Model) -> Iterator[str]:
    """Yields a model folder with the description of another one, and with a model's weights."""
    with tempfile.TemporaryDirectory(prefix="beambert-") as made:
        model_folders.describe_model(made, found.config, found.vocabulary, found.training)
        model_folders.save_weights(model, made)
        io.write_bytes(f"{made}/{MARKER_FILE}", b"{}")
        yield made


# Parts of an encoder that initial weights may lack, as a BertModel without a pooler does.
_OPTIONAL = ("pooler", "head")
# Part of a variable's path -> what it is called in messages.
_PARTS = {
    "cls/predictions": "head for masked LM",
    "cls/seq_relationship": "head for pairs",
    "pooler/": "pooler",
    "classifier/": "head for the task",
}
_POSITIONS = "embeddings/position_embeddings"
# Arrays of replaced token detection with an entry for each token, which `variable_shapes` lacks.
_FURTHER_TABLES = (WORD_DELTA, "generator_predictions/output_bias")


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
          way: what to do with positions that were not trained, `KEEP` or `TILE`. Only the second
            gives the encoder more positions than it has.

        Raises:
          InputError: they are to be tiled, and the encoder has no table of them.
        """
        there = self.config.longest_sequence
        trained = min(self.trained_positions or there, there)
        if length <= trained or (way == KEEP and length > there):
            return self
        note = f"{self.path}: positions {trained + 1} to {length} were not trained"
        if not self.config.has_position_table:
            if way == KEEP:
                return dataclasses.replace(self, notes=(note,))
            raise InputError(
                f"--init_positions={way}: {self.path} computes positions and has no table of them; "
                "leave it out"
            )
        first, table = self.config.first_position, f"{self.config.family}/{_POSITIONS}"
        if way == KEEP:
            advice = f"--init_positions={TILE} makes them of the trained ones"
            return dataclasses.replace(self, notes=(f"{note}; {advice}",))

        def read() -> Mapping[str, np.ndarray]:
            weights = self.read()
            if table not in weights:
                return weights
            before, rows = np.split(weights[table], [first])
            filled = tile_positions(rows, trained, length)
            return {**weights, table: np.concatenate([before, filled])}

        return dataclasses.replace(
            self,
            config=self.config.with_longest_sequence(max(there, length)),
            read=read,
            notes=(f"{note}; made of the trained ones (--init_positions={way})",),
        )

    def with_vocabulary(self, vocabulary: Vocabulary) -> "InitialWeights":
        """Returns these weights for a vocabulary that extends that of the encoder, see `extends`.

        The rows of new tokens are those of `fill_tokens`.
        """
        count, rows = len(self.vocabulary), max(self.config.vocab_size, len(vocabulary))
        config = dataclasses.replace(self.config, vocab_size=rows)
        probe = dataclasses.replace(self.config, vocab_size=self.config.vocab_size + 1)
        larger = variable_shapes(probe)
        tables = [p for p, shape in variable_shapes(self.config).items() if larger[p] != shape]

        def read() -> Mapping[str, np.ndarray]:
            weights, replaced = self.read(), replaced_ids(vocabulary, self.vocabulary)
            filled = {
                path: fill_tokens(weights[path], replaced, count, rows)
                for path in weights
                if path in tables or path.endswith(_FURTHER_TABLES)
            }
            return {**weights, **filled}

        note = f"{self.path}: {len(vocabulary) - count:,} new tokens"
        return dataclasses.replace(
            self, config=config, vocabulary=vocabulary, read=read, notes=(*self.notes, note)
        )

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
        variables = {variable.path: variable for variable in model.weights}
        weights = for_variables(self.read(), variables)
        shapes = {path: tuple(variable.shape) for path, variable in variables.items()}
        missing = self._compare(weights, shapes, flag)
        for path, variable in variables.items():
            if path not in missing:
                variable.assign(weights[path])
        unread = [path for path in weights if path not in variables]
        missed = [f"{self.path}: has no {_parts(missing)}, which begins with random weights"]
        extra = [f"{self.path}: has {_parts(unread)}, which the model does not use"]
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
    folder = folder_of(path, flag)
    if folder == path and io.exists(f"{path}/{TRAINING_FILE}"):
        return _open_own(path, flag)
    config = read_config_file(folder, flag)
    files = find_weight_files(path, config, flag)
    vocabulary, do_lower_case = read_folder(folder, flag)
    if len(vocabulary) > config.vocab_size:
        raise InputError(
            f"{flag}={path}: its vocabulary has {len(vocabulary)} tokens, but its configuration "
            f"says {config.vocab_size}; give a vocabulary and a configuration that belong together"
        )

    notes = ()
    if len(vocabulary) < config.vocab_size:
        notes = (
            f"{path}: its vocabulary has {len(vocabulary):,} tokens for {config.vocab_size:,} rows "
            "of embeddings; the last rows have no token",
        )
    for file in files.files:
        io.check_regular(file)
    digests = b"".join(bytes.fromhex(io.sha256_of(name)) for name in sorted(files.files))
    sha256 = hashlib.sha256(digests).hexdigest()
    read = functools.partial(files.read_all, config)
    given = path, config, vocabulary, do_lower_case, None, sha256, read
    return InitialWeights(*given, notes=notes)


def _open_own(path: str, flag: str) -> InitialWeights:
    found = model_folders.open_model(path, flag)
    kind = found.training["kind"]
    load = pretrained_model if kind == PRETRAINING else task_model
    has_other_head = kind != PRETRAINING and not objective_of_kind(kind).IS_ENCODER

    def read() -> dict[str, np.ndarray]:
        model = load(found)
        model = model.encoder if has_other_head else model
        return {variable.path: variable.numpy() for variable in model.variables}

    sha256 = io.sha256_of(f"{found.path}/{WEIGHTS_FILE}")
    length = found.training["max_seq_length"]
    # A training on shorter sequences than its encoder's has more of these.
    trained = found.training["trained_positions"]
    return InitialWeights(
        path, found.config, found.vocabulary, found.do_lower_case, length, sha256, read, trained
    )


def _parts(paths: Sequence[str]) -> str:
    """Returns the parts of a model that variables belong to, in words where there are some."""
    named = (next((w for part, w in _PARTS.items() if part in path), path) for path in paths)
    return _list(list(dict.fromkeys(named)))


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
