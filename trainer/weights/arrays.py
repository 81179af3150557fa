"""Arrays by name: as a file of safetensors, and as the values of variables."""

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import safetensors.numpy

# Type of numbers in a file -> that of NumPy, little-endian as the format is.
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4"} | {
    "BF16": ml_dtypes.bfloat16
}


def to_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Returns the content of a file of safetensors."""
    # The library writes the memory of an array as it lies there.
    in_order = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    return safetensors.numpy.save(in_order, metadata={"format": "pt"})  # transformers wants it.


def from_bytes(data: bytes) -> dict[str, np.ndarray]:
    """Returns the arrays of a file of safetensors.

    Raises:
      ValueError: it is damaged, or has numbers of another type.
    """
    try:
        return {
            name: np.frombuffer(tensor["data"], _DTYPES[tensor["dtype"]]).reshape(tensor["shape"])
            for name, tensor in safetensors.deserialize(data)
        }
    except safetensors.SafetensorError as error:
        raise ValueError(str(error)) from error
    except KeyError as error:
        raise ValueError(f"numbers of the type {error} are not read") from error


def assign(variables: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Sets variables, all or none.

    Raises:
      ValueError: there is not exactly one array of a variable's name and shape for each.
    """
    if others := sorted(arrays.keys() ^ variables.keys()):
        where = "the file" if others[0] in arrays else "the model"
        raise ValueError(f"only {where} has {others[0]}")
    for name, variable in variables.items():
        if arrays[name].shape != (shape := tuple(variable.shape)):
            raise ValueError(f"{name} has shape {arrays[name].shape}, that of the model is {shape}")
    for name, variable in variables.items():
        variable.assign(arrays[name])
