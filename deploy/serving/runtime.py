"""Serves exported SavedModels by MLServer, over the Open Inference Protocol (REST and gRPC).

MLServer imports this file from beside `model-settings.json`; it needs TensorFlow, TensorFlow Text
and MLServer, and nothing else of this repository.
"""

import asyncio
import functools
import math
import pathlib
from collections.abc import Awaitable, Callable

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (it registers the operations of the tokenizers)
from mlserver import MLModel
from mlserver.errors import InferenceError, InvalidModelURI
from mlserver.types import (
    InferenceRequest,
    InferenceResponse,
    MetadataTensor,
    RequestInput,
    ResponseOutput,
)
from mlserver.utils import get_model_uri

Predict = Callable[[InferenceRequest], Awaitable[InferenceResponse]]
# The types of the protocol, by those of TensorFlow.
DATATYPES = {tf.string: "BYTES", tf.int32: "INT32", tf.int64: "INT64", tf.float32: "FP32"}


def newest_version(folder: str) -> pathlib.Path:
    """Returns the folder of the version to serve: the greatest number that is whole.

    `beambert export` writes `saved_model.pb` last, so a version with that file is whole.

    Args:
      folder: folder of numbered versions, or of one.

    Raises:
      FileNotFoundError: there is no whole version.
    """
    found = pathlib.Path(folder)
    if (found / "saved_model.pb").is_file():
        return found
    whole = [each.parent for each in found.glob("*/saved_model.pb")]
    versions = [version for version in whole if version.name.isdecimal()]
    if not versions:
        raise FileNotFoundError(f"{folder}: holds no version with a saved_model.pb")
    return max(versions, key=lambda version: int(version.name))


class SavedModelRuntime(MLModel):
    """Answers with the signature `serving_default` of the newest version in `parameters.uri`."""

    async def load(self) -> bool:
        """Loads the newest version; MLServer calls it at the start and for `…/load` requests.

        Raises:
          InvalidModelURI: there is no whole version.
        """
        uri = await get_model_uri(self.settings)
        try:
            version = newest_version(uri)
        except FileNotFoundError as error:
            raise InvalidModelURI(self.name, uri) from error
        loaded = await asyncio.to_thread(tf.saved_model.load, str(version))
        self._loaded = loaded  # The signature alone would not keep the variables.
        self._answer = loaded.signatures["serving_default"]
        self._version = version.name
        self._specs = self._answer.structured_input_signature[1]
        self.inputs = [_tensor(name, spec) for name, spec in self._specs.items()]
        outputs = self._answer.structured_outputs
        self.outputs = [_tensor(name, spec) for name, spec in outputs.items()]
        return True

    def __setattr__(self, name: str, value: object) -> None:
        """Sets an attribute; a `predict` that puts requests together then checks each before.

        MLServer sets one if `max_batch_size` is more than 1. A wrong request that is put together
        with others would be refused with them, or shift their answers.
        """
        super().__setattr__(name, self._checking(value) if name == "predict" else value)

    def _checking(self, predict: Predict) -> Predict:
        @functools.wraps(predict)
        async def check_and_predict(payload: InferenceRequest) -> InferenceResponse:
            self._arguments(payload)
            return await predict(payload)

        return check_and_predict

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Returns the outputs of a request, or of several that MLServer has put together.

        Raises:
          InferenceError: an input is missing, unknown, or not of the model's type and shape, or the
            inputs have different numbers of rows.
        """
        arguments = self._arguments(payload)
        try:
            # In a thread, so that the next requests are put together meanwhile.
            found = await asyncio.to_thread(self._answer, **arguments)
        except tf.errors.OpError as error:
            raise InferenceError(error.message.split("\n", 1)[0]) from error
        outputs = [_encoded(name, value.numpy()) for name, value in found.items()]
        return InferenceResponse(
            model_name=self.name, model_version=self._version, id=payload.id, outputs=outputs
        )

    def _arguments(self, payload: InferenceRequest) -> dict[str, tf.Tensor]:
        """Returns the model's arguments; see `predict`."""
        given = {each.name: each for each in payload.inputs}
        if given.keys() != self._specs.keys():
            raise InferenceError(
                f"the inputs are {', '.join(sorted(given))}; give {', '.join(sorted(self._specs))}"
            )
        found = {name: _decoded(each, self._specs[name]) for name, each in given.items()}
        if len({value.shape[0] for value in found.values()}) > 1:
            rows = ", ".join(f"{name} {value.shape[0]}" for name, value in sorted(found.items()))
            raise InferenceError(
                f"the inputs have different numbers of rows ({rows}); give as many"
            )
        return found


def _tensor(name: str, spec: tf.TensorSpec) -> MetadataTensor:
    """Returns what the protocol tells of a tensor; a size that is not fixed is -1."""
    shape = [-1 if size is None else size for size in spec.shape]
    return MetadataTensor(name=name, datatype=DATATYPES[spec.dtype], shape=shape)


def _decoded(given: RequestInput, spec: tf.TensorSpec) -> tf.Tensor:
    if given.datatype != DATATYPES[spec.dtype]:
        raise InferenceError(
            f"{given.name}: is {given.datatype}; give {DATATYPES[spec.dtype]}, as the model takes"
        )
    values = given.data.root
    if given.datatype == "BYTES":
        values = [each.encode() if isinstance(each, str) else each for each in values]
    try:
        flat = np.array(values, object if spec.dtype == tf.string else spec.dtype.as_numpy_dtype)
        if math.prod(given.shape) != flat.size:
            raise ValueError(f"has {flat.size} values for the shape {list(given.shape)}")
        # Clients of the protocol tend to give a column for a list.
        shape = list(given.shape) if len(given.shape) == len(spec.shape) else [-1]
        if len(spec.shape) > 1 and shape == [-1]:
            raise ValueError(f"has the shape {list(given.shape)}")
        return tf.constant(flat.reshape(shape), spec.dtype)
    except (ValueError, TypeError, OverflowError) as error:
        wanted = [-1 if size is None else size for size in spec.shape]
        raise InferenceError(
            f"{given.name}: {error}; give {given.datatype} of the shape {wanted}"
        ) from error


def _encoded(name: str, value: np.ndarray) -> ResponseOutput:
    if value.dtype == object:
        data, datatype = [each.decode() for each in value.reshape(-1)], "BYTES"
    else:
        data, datatype = value.reshape(-1).tolist(), DATATYPES[tf.as_dtype(value.dtype)]
    return ResponseOutput(name=name, datatype=datatype, shape=list(value.shape), data=data)
