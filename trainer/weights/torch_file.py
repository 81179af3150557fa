"""`pytorch_model.bin` -> arrays, without PyTorch and without running code from the pickle."""

import collections
import io
import math
import pickle
import pickletools
import zipfile
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from beambert.storage import read_bytes

# Class of torch's storages -> number format. A pickle names the class (torch/storage.py).
_STORAGES = {
    "DoubleStorage": np.float64,
    "FloatStorage": np.float32,
    "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
}
# The steps of pickles that `torch.save` writes for state dicts. A pickle is a program, and each
# step that isn't needed is one that a stranger could use.
_STEP_NAMES = """
    APPEND APPENDS BINFLOAT BINGET BININT BININT1 BININT2 BINPERSID BINPUT BINUNICODE BUILD
    EMPTY_DICT EMPTY_LIST EMPTY_TUPLE FRAME GLOBAL LONG1 LONG_BINGET LONG_BINPUT MARK MEMOIZE
    NEWFALSE NEWTRUE NONE PROTO REDUCE SETITEM SETITEMS SHORT_BINUNICODE STACK_GLOBAL STOP TUPLE
    TUPLE1 TUPLE2 TUPLE3
"""
_STEPS = frozenset(_STEP_NAMES.split())
# Pickles of state dicts have some hundred bytes for each tensor.
_MOST_BYTES_OF_PICKLE = 1 << 24

# Exceptions of zipfile and pickle for files that they cannot read.
_DAMAGES = (
    zipfile.BadZipFile,
    pickle.UnpicklingError,
    EOFError,
    AttributeError,
    IndexError,
    KeyError,
    MemoryError,
    NotImplementedError,
    OverflowError,
    RecursionError,
    RuntimeError,
    TypeError,
)


def read_torch_file(path: str, most: int) -> dict[str, np.ndarray]:
    """Reads a state dict that `torch.save` of PyTorch 1.6 or later has written.

    The arrays are views of the numbers in the file; tensors that share numbers share memory.

    Args:
      path: path of the file.
      most: greatest number of bytes that the file may have.

    Raises:
      InputError: the file cannot be read, or has more bytes.
      ValueError: the file has another format, or its pickle has something besides tensors.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(read_bytes(path, most=most)))
        (pickled,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
    except (zipfile.BadZipFile, ValueError) as error:
        raise ValueError(
            "not a file of PyTorch 1.6 or later; save the model as safetensors"
        ) from error
    try:
        # torch.save compresses nothing. A small file could hold any number of compressed bytes.
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
            raise ValueError("it has compressed parts, which PyTorch doesn't write")
        if archive.getinfo(pickled).file_size > _MOST_BYTES_OF_PICKLE:
            raise ValueError("its list of tensors is too long")
        steps = archive.read(pickled)
        _check_steps(steps)
        loaded = _Unpickler(steps, archive, pickled.removesuffix("data.pkl")).load()
        tensors = {name: each for name, each in loaded.items() if isinstance(each, _Tensor)}
        return {name: tensor.numbers for name, tensor in tensors.items() if isinstance(name, str)}
    except _DAMAGES as error:
        raise ValueError(str(error) or type(error).__name__) from error


def _check_steps(pickled: bytes) -> None:
    """Refuses a pickle with steps that state dicts don't have.

    Raises:
      ValueError: it has one, or it numbers its objects so that they ask for much memory.
    """
    for count, (step, argument, _) in enumerate(pickletools.genops(pickled)):
        if step.name not in _STEPS:
            raise ValueError(f"its list of tensors has a step {step.name}, which is not allowed")
        # Python makes room for as many objects as the greatest number says.
        if step.name in ("BINPUT", "LONG_BINPUT") and argument > count:
            raise ValueError("its list of tensors is damaged")


# Tuples have no attributes that a pickle could set, unlike functions, classes and arrays.
class _Storage(NamedTuple):
    """The numbers of a file in the archive."""

    numbers: np.ndarray


class _Format(NamedTuple):
    """A number format."""

    dtype: Any


class _Tensor(NamedTuple):
    """A tensor's numbers."""

    numbers: np.ndarray


class _Function(NamedTuple):
    """A function that a pickle may call."""

    function: Callable[..., Any]

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


class _Unpickler(pickle.Unpickler):
    """An unpickler that accepts tensors and refuses everything else."""

    def __init__(self, pickled: bytes, archive: zipfile.ZipFile, folder: str):
        super().__init__(io.BytesIO(pickled))
        self._archive = archive
        self._folder = folder
        self._storages: dict[tuple[str, str], _Storage] = {}

    def persistent_load(self, identifier: tuple) -> _Storage:
        _, storage, key, _, _ = identifier
        if not isinstance(storage, _Format) or not isinstance(key, str):
            raise ValueError("it names numbers of an unknown format")
        found = str(storage.dtype), key
        if found not in self._storages:
            data = self._archive.read(f"{self._folder}data/{key}")
            self._storages[found] = _Storage(np.frombuffer(data, storage.dtype))
        return self._storages[found]

    def find_class(self, module: str, name: str) -> Any:
        known = {
            ("collections", "OrderedDict"): _Function(collections.OrderedDict),
            ("torch._utils", "_rebuild_tensor_v2"): _Function(_rebuild_tensor),
            ("torch._utils", "_rebuild_parameter"): _Function(lambda tensor, *_: tensor),
        }
        if module == "torch" and name in _STORAGES:
            return _Format(_STORAGES[name])
        if (module, name) not in known:
            raise ValueError(f"asks for {module}.{name}, which is not a tensor")
        return known[module, name]


def _rebuild_tensor(
    storage: _Storage, offset: int, shape: tuple, strides: tuple, *_: Any
) -> _Tensor:
    if not isinstance(storage, _Storage):
        raise TypeError("a tensor has no numbers")
    numbers, sizes = storage.numbers, (offset, *shape, *strides)
    if len(shape) > 8 or not all(
        isinstance(one_size, int) and 0 <= one_size < 1 << 48 for one_size in sizes
    ):
        raise ValueError("a tensor has an impossible shape")
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    # With strides of 0 a few numbers would fill any memory.
    if last >= len(numbers) or math.prod(shape) > len(numbers):
        raise ValueError(f"a tensor of shape {shape} reaches beyond its {len(numbers)} numbers")
    byte_strides = [stride * numbers.itemsize for stride in strides]
    view = np.lib.stride_tricks.as_strided(numbers[offset:], shape, byte_strides, writeable=False)
    return _Tensor(view)
