"""How fast is a pre-training step, beside Hugging Face's and KerasHub's BERT on the same machine?

    python -m benchmarks.training_step --model=tiny
    python -m benchmarks.training_step --model=base \\
        --hugging_face=VENV/bin/python --keras_hub=VENV/bin/python

A peer runs in the interpreter that is given, which needs torch and transformers, or keras-hub, and
nothing of this repository. All take turns in one run, on the same shapes, in float32: forward,
backward, clipping and AdamW. The peak is what TensorFlow's own matrix multiplication reaches here
in the same run.
"""

import argparse
import json
import math
import os
import statistics
import time
from collections.abc import Callable

from benchmarks.peers import Peer

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

PREDICTIONS = 20
PEERS = ("hugging_face", "keras_hub")


def seconds_of(call: Callable[[], object]) -> float:
    """Returns how long a call takes."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def random_features(vocab_size: int, batch: int, length: int, fill: float) -> dict:
    """Returns a batch of random records as int32 and float32 arrays.

    Args:
      vocab_size: of the ids.
      batch: sequences.
      length: positions of each.
      fill: mean share of the positions that are not padding; a tenth of the sequences is short, as
        `short_seq_prob` has it, and the rest of what is missing is spread over the others.
    """
    import numpy as np

    random = np.random.default_rng(1)
    ids = random.integers(5, vocab_size, (batch, length), np.int32)
    lengths = np.full(batch, length)
    if fill < 1:
        short = max(batch // 10, 1)
        lengths[:short] = length // 4
        shares = random.beta(4, 1, batch - short)
        lengths[short:] = np.clip(length * shares * fill / 0.8, 8, length)
    mask = (np.arange(length) < lengths[:, None]).astype(np.int32)
    slots = np.arange(PREDICTIONS) < np.maximum(1, np.round(0.15 * lengths))[:, None]
    positions = np.sort(
        [np.resize(1 + random.permutation(n - 1), PREDICTIONS) for n in lengths], axis=1
    )
    return {
        "input_ids": ids * mask,
        "input_mask": mask,
        "segment_ids": (np.arange(length) >= lengths[:, None] // 2).astype(np.int32) * mask,
        "masked_lm_positions": (positions * slots).astype(np.int32),
        "masked_lm_ids": random.integers(5, vocab_size, slots.shape, np.int32) * slots,
        "masked_lm_weights": slots.astype(np.float32),
        "next_sentence_labels": random.integers(0, 2, (batch, 1), np.int32),
    }


def ours(config: object, features: dict) -> Callable[[], object]:
    """Returns a function that does one of our steps, optimizer included."""
    import tensorflow as tf

    from beambert.model.packing import Capacity
    from beambert.model.pretrainer import BertPretrainer
    from beambert.trainer.loop.config import OptimizerConfig
    from beambert.trainer.loop.steps import Trainer
    from beambert.trainer.pretraining.capacity import ROWS_MULTIPLE
    from beambert.trainer.pretraining.objective import PretrainingObjective

    capacities = {}
    if not features["input_mask"].all():
        # `capacity.capacity_for` has rows for a few hundredths more than the mean.
        rows = [
            ROWS_MULTIPLE * math.ceil(1.03 * features[name].sum() / ROWS_MULTIPLE)
            for name in ("input_mask", "masked_lm_weights")
        ]
        capacities = {features["input_mask"].shape[1]: Capacity(*rows)}
    trainer = Trainer(
        tf.distribute.get_strategy(),
        lambda: BertPretrainer(config, seed=1),
        PretrainingObjective(capacities),
        OptimizerConfig(1e-4, 1_000_000, 10_000),
        random_seed=1,
    )
    tensors = {name: tf.constant(array) for name, array in features.items()}
    iterator = iter(tf.data.Dataset.from_tensors(tensors).repeat())
    return lambda: trainer.train_steps(iterator, 1)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--vocab_size", type=int, default=30522)
    parser.add_argument("--train_batch_size", type=int, default=32)
    parser.add_argument("--max_seq_length", type=int, default=128)
    parser.add_argument("--fill", type=float, default=1.0, help="share that is not padding")
    parser.add_argument("--repeats", type=int, default=7)
    for name in PEERS:
        parser.add_argument(f"--{name}", metavar="PYTHON", help="interpreter that has this peer")
    flags = parser.parse_args()

    import tensorflow as tf

    from beambert.model.config import preset
    from beambert.model.flops import training_flops
    from beambert.trainer.loop.strategy import matmul_peak

    config = preset(flags.model, flags.vocab_size)
    batch, length = flags.train_batch_size, flags.max_seq_length
    features = random_features(flags.vocab_size, batch, length, flags.fill)
    sizes = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
    asked = {size: getattr(config, size) for size in (*sizes, "intermediate_size")}
    asked |= {"batch": batch, "length": length, "fill": flags.fill}
    peers = {
        name: Peer("training_step_peers.py", getattr(flags, name), asked | {"peer": name})
        for name in PEERS
        if getattr(flags, name)
    }
    steps = {"beambert": ours(config, features)} | {n: peer.step for n, peer in peers.items()}
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    peaks = []
    for repeat in range(flags.repeats + 1):
        for name, step in steps.items():
            took = seconds_of(step)
            if repeat:  # the first one compiles
                seconds[name].append(took)
        peaks.append(matmul_peak(tf.distribute.get_strategy(), "float32"))
    for peer in peers.values():
        peer.end()
    median = {name: statistics.median(times) for name, times in seconds.items()}
    peak = statistics.median(peaks)
    flops = training_flops(config, batch, length, PREDICTIONS)
    result = {
        "model": flags.model,
        "vocab_size": flags.vocab_size,
        "batch": f"{batch} x {length}",
        "fill": round(float(features["input_mask"].mean()), 3),
        "tokens_per_second": {name: round(batch * length / s) for name, s in median.items()},
        "times": {n: round(s / median["beambert"], 2) for n, s in median.items() if n in peers},
        "share_of_matmul_peak": round(flops / median["beambert"] / peak, 3),
        "matmul_peak_gigaflops": round(peak / 1e9),
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
