"""`pytorch_model.bin` -> arrays, without PyTorch and without running code from the pickle."""

import collections
import io
import pickle
import zipfile
from typing import Any

import ml_dtypes
import numpy as np

from beambert.pipelines.storage.tensorflow_files import read_bytes

# Class of torch's storages -> number format. A pickle names the class (torch/storage.py).
_STORAGES = {
    "DoubleStorage": np.float64,
    "FloatStorage": np.float32,
    "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
}

# Exceptions of zipfile and pickle for files that they cannot read.
_DAMAGES = (
    zipfile.BadZipFile,
    pickle.UnpicklingError,
    EOFError,
    AttributeError,
    IndexError,
    TypeError,
)


def read_torch_file(path: str) -> dict[str, np.ndarray]:
    """Reads a state dict that `torch.save` of PyTorch 1.6 or later has written.

    Raises:
      ValueError: the file has another format, or its pickle has something besides tensors.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(read_bytes(path)))
        (pickled,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
    except (zipfile.BadZipFile, ValueError) as error:
        raise ValueError(
            "not a file of PyTorch 1.6 or later; save the model as safetensors"
        ) from error
    try:
        loaded = _Unpickler(archive, pickled.removesuffix("data.pkl")).load()
        return {name: value for name, value in loaded.items() if isinstance(value, np.ndarray)}
    except _DAMAGES as error:
        raise ValueError(str(error)) from error


class _Unpickler(pickle.Unpickler):
    """An unpickler that accepts tensors and refuses everything else."""

    def __init__(self, archive: zipfile.ZipFile, folder: str):
        super().__init__(archive.open(f"{folder}data.pkl"))
        self._archive = archive
        self._folder = folder

    def persistent_load(self, identifier: tuple) -> np.ndarray:
        _, storage, key, _, _ = identifier
        return np.frombuffer(self._archive.read(f"{self._folder}data/{key}"), storage)

    def find_class(self, module: str, name: str) -> Any:
        known = {
            ("collections", "OrderedDict"): collections.OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
            ("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
        }
        if module == "torch" and name in _STORAGES:
            return _STORAGES[name]
        if (module, name) not in known:
            raise ValueError(f"asks for {module}.{name}, which is not a tensor")
        return known[module, name]


def _rebuild_tensor(
    storage: np.ndarray, offset: int, shape: tuple, strides: tuple, *_: Any
) -> np.ndarray:
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if min((offset, *shape, *strides)) < 0 or last >= len(storage):
        raise ValueError(f"a tensor of shape {shape} reaches beyond its {len(storage)} numbers")
    byte_strides = [stride * storage.itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(storage[offset:], shape, byte_strides).copy()
