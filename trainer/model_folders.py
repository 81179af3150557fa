"""Model folders: reads and writes them on any file system that TensorFlow knows.

A model folder holds the files that `beambert.model_files` names, vocab.txt or
tokenizer.json, and the markers of `beambert.folders`.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from beambert import folders, io
from beambert.errors import InputError
from beambert.folders import MARKER_FILE, folders_held
from beambert.model.config import EncoderConfig
from beambert.model.families.table import FAMILIES, read_config
from beambert.model.layers import most_rows
from beambert.model_files import (
    CONFIG_FILE,
    RESULTS_FILE,
    TRAINING_FILE,
    WEIGHTS_FILE,
    check_unchanged,
)
from beambert.pipelines.records.contract import has_shards
from beambert.pipelines.tokenizers.folders import read_beside
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.trainer.loop.config import DECISIVE_SETTINGS, TrainingFolders
from beambert.trainer.loop.engine import Engine, translate_out_of_memory
from beambert.trainer.weights.arrays import assign, from_bytes, to_bytes


@dataclasses.dataclass(frozen=True)
class ModelFolder:
    """A finished model folder.

    Attributes:
      path: path of the folder, without a slash at the end.
      config: configuration of the encoder.
      vocabulary: vocabulary of the input ids.
      training: content of training.json.
    """

    path: str
    config: EncoderConfig
    vocabulary: Vocabulary
    training: Mapping[str, Any]

    @property
    def do_lower_case(self) -> bool:
        """Whether the input is lower-cased and stripped of accents."""
        return self.training["do_lower_case"]


def job_identity(training: Mapping[str, Any], config: EncoderConfig) -> dict[str, Any]:
    """Returns the settings that decide a training's result.

    An interrupted job may be continued with any other setting changed.

    Args:
      training: content of the training.json to be written.
      config: configuration of the encoder.
    """
    # Inputs are compared by their SHA-256, so that they may be moved to other paths.
    paths = ("data", "data_dir", "init", "distill_from")
    job = {name: value for name, value in training.items() if name not in paths}
    loop = {name: training["loop"][name] for name in DECISIVE_SETTINGS}
    return job | {"loop": loop, "model": config.identity()}


def check_rows(
    config: EncoderConfig, length: int, batch_size: int, parts: int, sequences: int = 1
) -> None:
    """Refuses a batch whose parts are too large for the index of dropout.

    Args:
      config: configuration of the encoder.
      length: number of tokens in a sequence.
      batch_size: number of examples in an update.
      parts: number of parts of the batch that are computed by themselves.
      sequences: number of sequences of an example.

    Raises:
      InputError: a part is too large.
    """
    most = most_rows(config, length) // sequences
    if batch_size // parts > most:
        each = f"{sequences} sequences" if sequences > 1 else "a sequence"
        raise InputError(
            f"--train_batch_size={batch_size}: at most {most:,} examples, each {each} of {length} "
            "tokens, can be computed at once; take fewer, or raise --gradient_accumulation_steps"
        )


def claim(output: TrainingFolders, job: Mapping[str, Any], chief: bool) -> bool:
    """Reserves a model folder for a job before any work; see `folders.claim_output`.

    If there are several workers, only the chief writes to the folder.

    Returns:
      True if the same job is already finished.

    Raises:
      InputError: the folder holds something else, or cannot be made.
    """
    path = output.model_dir
    if folders.claim_output(path, job, flag="--model_dir", writes=chief):
        return True
    if chief:
        for folder in (output.checkpoint_dir, output.best_weights):
            for left in io.leftovers(folder):
                io.delete(left)
        io.make_folder(output.tensorboard_dir, "--model_dir")
    return False


def train_in(
    plan: Any,
    engine: Engine,
    train: Callable[[Callable[[], None]], tuple[keras.Model, dict[str, float]]],
    write: Callable[[keras.Model], None] = lambda _: None,
) -> dict[str, float]:
    """Trains in the folders of a plan, finishes the model folder, and returns the results.

    Args:
      plan: plan of a pre-training or a fine-tuning.
      engine: what computes.
      train: takes a function that checks the lock, trains, and returns the model and its results.
      write: writes further files of the model.

    Raises:
      InputError: a folder holds something else or cannot be written, or memory is exhausted.
    """
    output, loop, identity = plan.job.output, plan.job.loop, plan.identity
    chief, path = engine.is_chief, output.model_dir
    sizes = loop.train_batch_size, loop.gradient_accumulation_steps
    # Of several workers only the chief writes.
    locked = folders_held([path] if chief else [], "--model_dir")
    with locked as lock, translate_out_of_memory(*sizes):
        if claim(output, identity, chief):
            print(f"{path}: already finished by the same command, nothing to do")
            return io.read_object(f"{path}/{RESULTS_FILE}")
        model, results = train(lock.check)
        if chief:
            lock.check()
            save_weights(model, path)
            write(model)
            io.write_bytes(f"{path}/{RESULTS_FILE}", json.dumps(results, indent=1).encode())
            folders.finish_output(path, identity)
            print(f"{path}: finished", flush=True)
        return results


def open_model(path: str, flag: str) -> ModelFolder:
    """Opens a finished model folder.

    Raises:
      InputError: the folder is missing, unfinished or damaged, or its description was changed after
        its training.
    """
    path = path.rstrip("/")
    if not io.is_folder(path):
        raise InputError(f"{flag}={path}: no such folder; {io.CHECK}")
    if not io.exists(f"{path}/{MARKER_FILE}"):
        if io.exists(f"{path}/config.json"):
            raise InputError(
                f"{flag}={path}: is a folder of Hugging Face, and not of `beambert pretrain` or "
                f"`finetune`; train from it with --init={path}"
            )
        raise InputError(
            f"{flag}={path}: not a finished model folder (no {MARKER_FILE}) of `beambert pretrain` "
            "or `finetune`; check the path, or run the command that makes it again, which "
            "continues it"
        )
    if fault := fault_of(io.list_folder(path)):
        raise InputError(f"{flag}={path}: {fault}")
    found = read_description(path, flag)
    described = {**found.training, "model": found.config.identity()}
    if "vocabulary_sha256" in described:
        described["vocabulary_sha256"] = found.vocabulary.sha256
    marker = io.read_bytes(f"{path}/{MARKER_FILE}")
    check_unchanged(f"{flag}={path}", marker, described)
    return found


def read_description(path: str, flag: str) -> ModelFolder:
    """Reads the files of a model folder that describe the model, be it finished or not.

    Raises:
      InputError: one of them is missing or damaged.
    """
    try:
        config = read_config(io.read_text(f"{path}/{CONFIG_FILE}"))
    except ValueError as error:
        raise InputError(f"{flag}={path}: {error}; copy the folder again") from error
    needed = "kind", "max_seq_length", "do_lower_case"
    training = io.read_object(f"{path}/{TRAINING_FILE}", *needed, flag=flag)
    vocabulary = read_beside(path, flag)
    return ModelFolder(path, config, vocabulary, training)


def fault_of(names: Sequence[str]) -> str:
    """Returns why a folder with these names is not a model folder; "" if it is one."""
    if TRAINING_FILE in names:
        return ""
    what = (
        "is a records folder" if has_shards(names) else f"not a model folder (no {TRAINING_FILE})"
    )
    return f"{what}; name a folder that `beambert pretrain` or `finetune` makes"


def describe_model(
    path: str, config: EncoderConfig, vocabulary: Vocabulary, training: Mapping[str, Any]
) -> None:
    """Writes the files of a model folder that describe the model."""
    for name, data in (
        (CONFIG_FILE, config.to_json().encode()),
        *vocabulary.files().items(),
        (TRAINING_FILE, folders.serialize_job(training)),
    ):
        io.write_bytes(f"{path}/{name}", data)


def save_weights(model: keras.Model, path: str) -> None:
    """Writes a model's weights, by the paths of its variables.

    Raises:
      InputError: the weights cannot be written.
    """
    arrays = {variable.path: variable.numpy() for variable in model.weights}
    io.write_bytes(f"{path}/{WEIGHTS_FILE}", to_bytes(arrays))


def load_weights(model: keras.Model, path: str) -> None:
    """Reads a model's weights.

    Raises:
      InputError: the file is missing or damaged, holds the weights of another model, or has a
        weight that is not finite.
    """
    file = f"{path}/{WEIGHTS_FILE}"
    data = io.read_bytes(file, most=None)
    try:
        arrays = from_bytes(data)
        assign({variable.path: variable for variable in model.weights}, arrays)
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("it has weights that are not finite")
    except ValueError as error:
        remedy = "copy the folder again or train again"
        raise io.refusal(file, "loaded", str(error), remedy) from error


def model_config(name: str, vocabulary: Vocabulary, family: str | None = None) -> EncoderConfig:
    """Returns the configuration of a size or of a configuration file.

    Args:
      name: size of the family, or path of a bert_config.json or a config.json of Hugging Face.
      vocabulary: vocabulary of the model.
      family: name of the family; None for BERT, or for that of a configuration file.

    Raises:
      InputError: the size or the file does not exist, or the vocabulary is larger than the model's.
    """
    described, vocab_size = FAMILIES[family or "bert"], len(vocabulary)
    if name.endswith(".json"):  # may be on gs://
        try:
            config = read_config(io.read_text(name, "--model"))
        except ValueError as error:
            raise InputError(f"--model={name}: {error}; correct the file") from error
    elif name in described.sizes:
        config = described.sized(name, vocab_size, vocabulary.special.padding)
    else:
        sizes = ", ".join(described.sizes)
        raise InputError(f"--model={name}: unknown model size {name!r}; choose one of {sizes}")
    if family and config.family != family:
        raise InputError(
            f"--family={family}: --model={name} is a configuration of the family {config.family}; "
            "leave --family out"
        )
    if config.vocab_size < vocab_size:
        raise InputError(
            f"--model={name}: its vocab_size is {config.vocab_size}, but the vocabulary has "
            f"{vocab_size} tokens; correct the file or use the vocabulary that goes with it"
        )
    return config
