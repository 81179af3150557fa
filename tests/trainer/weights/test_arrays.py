"""Arrays by name, compared with the library `safetensors`."""

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from beambert.trainer.weights.arrays import from_bytes, to_bytes


def test_arrays_in_any_order_of_memory_are_written_by_their_values():
    """As some accelerators return them."""
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    given = {"columns": np.asfortranarray(rows), "part": rows[:, ::2], "number": np.float32(2)}
    found = safetensors.numpy.load(to_bytes(given))
    assert found.keys() == given.keys()
    for name, array in given.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].shape == array.shape


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int64, ml_dtypes.bfloat16])
def test_numbers_of_other_types_are_read(dtype):
    array = np.array([[1, -2], [0, 4]], dtype)
    found = from_bytes(safetensors.numpy.save({"a": array}))["a"]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, array)


def test_other_numbers_are_refused():
    with pytest.raises(ValueError, match="C64"):
        from_bytes(safetensors.numpy.save({"a": np.ones(2, np.complex64)}))
