"""Loads and calls SavedModels."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from beambert.errors import InputError
from beambert.pipelines.storage import known_graphs
from beambert.pipelines.storage.model_files import GRAPH_FILE

FINGERPRINT_FILE = "fingerprint.pb"
# TensorFlow reads no protocol buffer of more bytes.
_MOST_BYTES_OF_GRAPH = (1 << 31) - 1


def read_graph(path: str) -> Any:
    """Returns the content of a SavedModel's saved_model.pb, and runs nothing of it.

    Its fingerprint is looked at, too: of one that is damaged TensorFlow logs a traceback.

    Args:
      path: path of the SavedModel's folder, on any file system of TensorFlow.

    Raises:
      InputError: a file cannot be read, or is damaged.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import fingerprint_pb2, saved_model_pb2

    # Commands import this module for their --help, which must not load TensorFlow.
    from beambert.pipelines.storage import tensorflow_files

    file = f"{path}/{FINGERPRINT_FILE}"
    try:
        if tensorflow_files.exists(file):
            fingerprint_pb2.FingerprintDef.FromString(tensorflow_files.read_bytes(file))
        file = f"{path}/{GRAPH_FILE}"
        graph = saved_model_pb2.SavedModel.FromString(
            tensorflow_files.read_bytes(file, most=_MOST_BYTES_OF_GRAPH)
        )
    except DecodeError as error:
        raise InputError(f"{file}: is damaged; export the model again") from error
    if not graph.meta_graphs:
        raise InputError(f"{file}: is damaged; export the model again")
    return graph


def load(path: str, name: str, is_trusted: bool = False) -> Any:
    """Loads a SavedModel whose graph is like those of this project.

    Args:
      path: path of its folder, on any file system of TensorFlow.
      name: flag and path of the model, for messages.
      is_trusted: whether the graph may do whatever it does, see `known_graphs`.

    Raises:
      InputError: the model cannot be loaded, or its graph is not known.
    """
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (registers the tokenizer's operations)

    graph = read_graph(path)
    if not is_trusted:
        known_graphs.check(graph, name)
    with _loading(name):
        return tf.saved_model.load(path)


def check_weights(path: str, name: str) -> None:
    """Refuses a SavedModel with a weight that is no finite number.

    It reads all weights, so it is for the command, and not for each of its workers.

    Raises:
      InputError: there is such a weight, or the weights cannot be read.
    """
    with _loading(name):
        for variable, value in variables(path):
            if not np.isfinite(value).all():
                raise ValueError(f"{variable} has weights that are no finite numbers")


@contextlib.contextmanager
def _loading(name: str) -> Iterator[None]:
    """Turns errors about a model's files into an `InputError`."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # A damaged file may raise any exception.
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"{name}: cannot be loaded ({reason}); copy it again, or export it again"
        ) from error


def variables(path: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the name and value of each floating-point variable of a SavedModel.

    Raises:
      InputError: a file of the variables is no regular file.
    """
    import tensorflow as tf

    from beambert.pipelines.storage import tensorflow_files

    prefix = f"{path}/variables/variables"
    files = tensorflow_files.match(f"{prefix}.*")
    if not files:  # a graph without variables
        return
    for file in files:
        tensorflow_files.check_regular(file)
    reader = tf.train.load_checkpoint(prefix)
    for name, dtype in reader.get_variable_to_dtype_map().items():
        if dtype.is_floating:
            yield name, reader.get_tensor(name)


def call(
    model: Any, inputs: Mapping[str, np.ndarray | Sequence[Any]], signature: str = "serving_default"
) -> dict[str, np.ndarray]:
    """Returns the outputs of a loaded SavedModel for a batch, by their names.

    Args:
      model: the loaded model, see `load`.
      inputs: the batch, by the names of the signature's inputs.
      signature: name of the signature to call.
    """
    import tensorflow as tf

    given = {name: tf.constant(values) for name, values in inputs.items()}
    outputs = model.signatures[signature](**given)
    return {name: tensor.numpy() for name, tensor in outputs.items()}


def call_on_texts(
    model: Any, texts: Sequence[Mapping[str, str | Sequence[str]]]
) -> dict[str, np.ndarray]:
    """Returns the outputs for a batch of texts, each given by the names of the model's inputs."""
    return call(model, {name: [one[name] for one in texts] for name in texts[0]})
