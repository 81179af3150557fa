"""Whether the memory will be enough, and what is said when it was not."""

import re

import numpy as np
import pytest
import tensorflow as tf

from beambert.errors import InputError
from beambert.model.config import preset
from beambert.model.memory import activation_bytes, parameters, state_bytes
from beambert.model.pretrainer import BertPretrainer
from beambert.trainer.loop.memory import PROGRAM_BYTES, Memory, memory_told

GB = 10**9


def test_the_number_of_parameters(small_config):
    model = BertPretrainer(small_config)
    assert parameters(small_config) == sum(int(np.prod(v.shape)) for v in model.trainable_variables)
    assert state_bytes(1000) == 16_000 and state_bytes(1000, parts=2) == 20_000


@pytest.mark.parametrize(
    ("size", "batch", "measured"),
    # The greatest resident memory of two updates at 128 tokens and 20 predictions, less that of the
    # libraries and 16 bytes for each weight; mebibytes on two cores of an x86-64 server.
    [("tiny", 32, 637), ("tiny", 256, 2415), ("mini", 64, 1684), ("small", 32, 1571)],
)
def test_the_estimate_is_what_was_measured(size, batch, measured):
    config = preset(size, 30522)
    estimate = PROGRAM_BYTES + batch * activation_bytes(config, 128, 20)
    assert estimate == pytest.approx(measured << 20, rel=0.15)


def memory(free: int | None, replicas: int = 1) -> Memory:
    return Memory(4 * GB, 5 * GB, GB // 10, replicas, replicas, free)


def test_what_fits_needs_no_word():
    assert memory(8 * GB).warning(batch_size=32, parts=1) == ""
    assert memory(None).warning(batch_size=32, parts=1) == ""


@pytest.mark.parametrize(
    ("free", "replicas", "batch", "advice"),
    [
        (7 * GB, 1, 32, "give --gradient_accumulation_steps=4, "),
        (7 * GB, 2, 64, "give --gradient_accumulation_steps=8, "),
        (int(5.3 * GB), 1, 32, "give --train_batch_size=8$"),
        (4 * GB, 1, 32, "choose a smaller model, or a machine with more memory$"),
    ],
)
def test_the_warning_says_what_would_fit(free, replicas, batch, advice):
    said = memory(free, replicas).warning(batch, parts=1)
    assert said.startswith(f"--train_batch_size={batch}: the training takes about ")
    assert f"of memory, and {free / 1e9:.1f} GB are free; " in said
    assert re.search(advice, said)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("std::bad_alloc"),
        RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate"),
        tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor"),
        tf.errors.InternalError(None, None, "std::bad_alloc"),
    ],
)
def test_errors_of_memory_are_one_sentence(error):
    with (
        pytest.raises(InputError, match="size=32: the memory is not enough .*; give --grad"),
        memory_told(memory(8 * GB), 32, 1),
    ):
        raise error


@pytest.mark.parametrize(
    "error", [RuntimeError("of another kind"), tf.errors.InternalError(None, None, "bad shape")]
)
def test_other_errors_are_left_alone(error):
    with pytest.raises(type(error), match=str(error)), memory_told(memory(8 * GB), 32, 1):
        raise error
