"""Model folders: what is in one, and reading and writing them on any file system TensorFlow knows.

Their files are those that `pipelines.storage.weights` names, vocab.txt, and the markers of
`pipelines.storage.claims`.
"""

import contextlib
import dataclasses
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from beambert.model.config import BertConfig, preset
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage import claims, tensorflow_files
from beambert.pipelines.storage.claims import MARKER_FILE, UNFINISHED_FILE
from beambert.pipelines.storage.weights import (
    CHECKPOINTS_FOLDER,
    CONFIG_FILE,
    TENSORBOARD_FOLDER,
    TRAINING_FILE,
    WEIGHTS_FILE,
)
from beambert.pipelines.wordpiece.vocabulary import VOCABULARY_FILE, Vocabulary

# Beside checkpoints that lie elsewhere than in the model folder.
JOB_FILE = "job.json"
# Kind of an encoder in training.json; the others are those of tasks.
PRETRAINING = "pretraining"


@dataclasses.dataclass(frozen=True)
class ModelFolder:
    """A finished model folder.

    Attributes:
      path: of the folder.
      config: of the encoder.
      vocabulary: what its ids mean.
      training: its training.json.
    """

    path: str
    config: BertConfig
    vocabulary: Vocabulary
    training: Mapping[str, Any]

    @property
    def do_lower_case(self) -> bool:
        """How text was normalized."""
        return self.training["do_lower_case"]


@dataclasses.dataclass(frozen=True)
class TrainingFolders:
    """Where a training writes.

    Attributes:
      model: the model folder.
      checkpoints: `model`/checkpoints, unless given.
      tensorboard: `model`/tensorboard, unless given.
    """

    model: str
    checkpoints: str
    tensorboard: str

    @classmethod
    def of(
        cls, model: str, checkpoints: str | None = None, tensorboard: str | None = None
    ) -> "TrainingFolders":
        """Fills in what isn't given."""
        model = model.rstrip("/")
        checkpoints = (checkpoints or f"{model}/{CHECKPOINTS_FOLDER}").rstrip("/")
        tensorboard = (tensorboard or f"{model}/{TENSORBOARD_FOLDER}").rstrip("/")
        return cls(model, checkpoints, tensorboard)


def job_identity(training: Mapping[str, Any], config: BertConfig) -> dict[str, Any]:
    """Returns what decides a training's result; the same job may continue with the rest changed.

    Args:
      training: what its training.json is to hold.
      config: of the encoder.
    """
    # What lies at the paths is compared by its SHA-256.
    paths = ("data", "data_dir", "init")
    job = {name: value for name, value in training.items() if name not in paths}
    decisive = ("train_batch_size", "random_seed", "gradient_accumulation_steps", "dtype")
    loop = {name: training["loop"][name] for name in decisive}
    return job | {"loop": loop, "model": dataclasses.asdict(config)}


def claim(output: TrainingFolders, job: Mapping[str, Any], chief: bool) -> bool:
    """Makes folders ours before anything is spent; see `pipelines.storage.claims.is_finished`.

    Of several workers, the chief claims; the others only look whether all is done.

    Raises:
      InputError: one holds something else, or can't be made.
    """
    path = output.model
    names = tensorflow_files.list_folder(path)

    def read(name: str) -> bytes:
        return tensorflow_files.read_bytes(f"{path}/{name}", "--model_dir")

    if claims.is_finished(path, names, read, job, "--model_dir"):
        return True
    tensorflow_files.make_folder(path, "--model_dir")
    if not output.checkpoints.startswith(f"{path}/"):
        _claim_checkpoints(output.checkpoints, job, chief)
    if chief:
        tensorflow_files.write_bytes(f"{path}/{UNFINISHED_FILE}", claims.serialize_job(job))
        tensorflow_files.make_folder(output.tensorboard, "--tensorboard_dir")
    return False


def _claim_checkpoints(path: str, job: Mapping[str, Any], chief: bool) -> None:
    """Refuses a folder of checkpoints of another job; they would be continued."""
    file, mine = f"{path}/{JOB_FILE}", claims.serialize_job(job)
    if tensorflow_files.exists(file):
        if tensorflow_files.read_bytes(file) != mine:
            raise InputError(
                f"--checkpoint_dir={path}: holds checkpoints of another job; choose another folder "
                "or delete it"
            )
    elif chief:
        tensorflow_files.make_folder(path, "--checkpoint_dir")
        tensorflow_files.write_bytes(file, mine)


@contextlib.contextmanager
def held(path: str, chief: bool = True) -> Iterator[None]:
    """Keeps other commands from filling a folder at the same time, if it is a local one.

    Of several workers, the chief holds it. The kernel takes it back when the process ends, however
    that happens.

    Raises:
      InputError: another process holds it.
    """
    if "://" in path or not chief:
        yield
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InputError(
                    f"--model_dir={path}: another process is at work there; wait for its end, or "
                    "choose another folder"
                ) from error
        yield
    finally:
        os.close(descriptor)


def finish(path: str, job: Mapping[str, Any]) -> None:
    """Marks a folder as complete, and deletes what killed runs have left in it."""
    tensorflow_files.write_bytes(f"{path}/{MARKER_FILE}", claims.serialize_job(job))
    for left in (f"{path}/{UNFINISHED_FILE}", *tensorflow_files.leftovers(path)):
        tensorflow_files.delete(left)


def open_model(path: str, flag: str) -> ModelFolder:
    """Opens a finished model folder.

    Raises:
      InputError: not there, not finished, or not whole.
    """
    path = path.rstrip("/")
    if not tensorflow_files.is_folder(path):
        raise InputError(f"{flag}={path}: no such folder")
    if not tensorflow_files.exists(f"{path}/{MARKER_FILE}"):
        raise InputError(
            f"{flag}={path}: not a finished model folder (no {MARKER_FILE}); "
            "give the command that makes it again, which continues it"
        )
    try:
        config = BertConfig.from_json(tensorflow_files.read_text(f"{path}/{CONFIG_FILE}"))
        training = json.loads(tensorflow_files.read_bytes(f"{path}/{TRAINING_FILE}"))
    except ValueError as error:
        raise InputError(f"{flag}={path}: {error}") from error
    vocabulary = read_vocabulary(f"{path}/{VOCABULARY_FILE}", flag)
    return ModelFolder(path, config, vocabulary, training)


def read_vocabulary(path: str, flag: str) -> Vocabulary:
    """Reads a vocab.txt.

    Raises:
      InputError: it can't be read or isn't a vocabulary.
    """
    return Vocabulary.parse(tensorflow_files.read_bytes(path), f"{flag}={path}")


def describe_model(
    path: str, config: BertConfig, vocabulary: Vocabulary, training: Mapping[str, Any]
) -> None:
    """Writes the files that say what a model is."""
    for name, data in (
        (CONFIG_FILE, config.to_json().encode()),
        (VOCABULARY_FILE, vocabulary.serialize()),
        (TRAINING_FILE, claims.serialize_job(training)),
    ):
        tensorflow_files.write_bytes(f"{path}/{name}", data)


def save_weights(model: keras.Model, path: str) -> None:
    """Writes a model's weights; Keras itself writes to local files only.

    Raises:
      InputError: they can't be written.
    """
    target = f"{path}/{WEIGHTS_FILE}"
    with tempfile.TemporaryDirectory() as local, tensorflow_files.told(target, "written"):
        file = os.path.join(local, WEIGHTS_FILE)
        model.save_weights(file)
        tf.io.gfile.copy(file, target, overwrite=True)


def load_weights(model: keras.Model, path: str) -> None:
    """Reads a model's weights.

    Raises:
      InputError: the file is missing, damaged, or of another model.
    """
    with tempfile.TemporaryDirectory() as local:
        file = os.path.join(local, WEIGHTS_FILE)
        try:
            tf.io.gfile.copy(f"{path}/{WEIGHTS_FILE}", file)
            model.load_weights(file)
        except (tf.errors.OpError, OSError, ValueError, KeyError) as error:
            reason, remedy = tensorflow_files.reason(error), "copy the folder again or train again"
            raise claims.refusal(f"{path}/{WEIGHTS_FILE}", "loaded", reason, remedy) from error


def model_config(name: str, vocab_size: int) -> BertConfig:
    """Returns the configuration of a published size or of a bert_config.json.

    Raises:
      InputError: no such size or file, or a vocabulary of another size.
    """
    try:
        if name.endswith(".json"):  # also on gs://
            config = BertConfig.from_json(tensorflow_files.read_text(name))
        else:
            config = preset(name, vocab_size)
    except InputError as error:
        raise InputError(f"--model={error}") from error
    except ValueError as error:
        raise InputError(f"--model={name}: {error}") from error
    if config.vocab_size < vocab_size:
        raise InputError(
            f"--model={name}: its vocab_size is {config.vocab_size}, the records' vocabulary has "
            f"{vocab_size} tokens; mend the file or make the records with its vocabulary"
        )
    return config
