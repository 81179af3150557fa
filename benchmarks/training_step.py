"""How fast is a pre-training step, compared with Hugging Face's and KerasHub's BERT on the machine?

    python -m benchmarks.training_step --model=tiny
    python -m benchmarks.training_step --model=tiny --objective=rtd --optimizer=muon
    python -m benchmarks.training_step --model=base \\
        --hugging_face=VENV/bin/python --keras_hub=VENV/bin/python

A peer runs in the interpreter that is given. That interpreter needs torch and transformers, or
keras-hub, and nothing of this repository. All take turns in one run, on the same shapes. A step is
forward, backward, clipping and AdamW, in float32. The peak is the speed of TensorFlow's own matrix
multiplication in the same run. The optimizer's share is what a step takes longer than the same
step without an update. Of KerasHub there is a model for masked LM alone, and Hugging Face's knows
the objectives as its classes do: sentence order and copies have the heads of next sentences there.
"""

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence

from beambert.model.objectives import BERT, GENERATOR_SIZE, OBJECTIVES, RTD
from beambert.trainer.loop.config import ADAMW, FLOAT32, OPTIMIZERS
from benchmarks import measuring
from benchmarks.peer import Peer

PREDICTIONS = 20
PEERS = ("hugging_face", "keras_hub")
# Fields of a configuration that have the same names in the peers.
SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
)


def random_features(
    vocab_size: int, batch: int, length: int, fill: float, predictions: int = PREDICTIONS
) -> dict:
    """Returns a batch of random records as int32 and float32 arrays.

    Args:
      vocab_size: number of ids.
      batch: number of sequences.
      length: number of positions of each.
      fill: mean share of the positions that are not padding. A tenth of the sequences is short, as
        with `short_seq_prob`; the other sequences share the rest of the padding.
      predictions: number of prediction slots of each.
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
    slots = np.arange(predictions) < np.maximum(1, np.round(0.15 * lengths))[:, None]
    positions = np.sort(
        [np.resize(1 + random.permutation(n - 1), predictions) for n in lengths], axis=1
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


def make_trainer(
    engine: object,
    config: object,
    features: dict,
    objective: str,
    optimizer: str = ADAMW,
    dtype: str = FLOAT32,
    *,
    unpadded: bool = True,
) -> object:
    """Returns a trainer that computes batches like the features without padding, or with it."""
    from beambert.model.unpadding import Capacity
    from beambert.trainer.loop.config import OptimizerConfig
    from beambert.trainer.loop.steps import Trainer
    from beambert.trainer.models import build_pretrainer
    from beambert.trainer.pretraining.cost import ROWS_MULTIPLE
    from beambert.trainer.pretraining.objective import make_objective

    capacities = {}
    if unpadded and not features["input_mask"].all():
        # `cost.capacity_for` gives a few hundredths more rows than the mean.
        rows = [
            ROWS_MULTIPLE * math.ceil(1.03 * features[name].sum() / ROWS_MULTIPLE)
            for name in ("input_mask", "masked_lm_weights")
        ]
        capacities = {tuple(features["input_mask"].shape): Capacity(*rows)}
    training = {"objective": objective, "generator_size": GENERATOR_SIZE}
    return Trainer(
        engine,
        lambda: build_pretrainer(training, config, seed=1),
        make_objective(objective, capacities, mask_id=4),
        OptimizerConfig(1e-4, 1_000_000, 10_000, optimizer=optimizer),
        random_seed=1,
        dtype=dtype,
    )


def ours(
    config: object, features: dict, objective: str, optimizer: str, *, updates: bool = True
) -> Callable[[], object]:
    """Returns a function that does one of our steps, with the optimizer unless not `updates`."""
    import tensorflow as tf

    from beambert.trainer.loop.config import TENSORFLOW, Devices
    from beambert.trainer.loop.engine import make_engine

    engine = make_engine(Devices(engine=TENSORFLOW))
    trainer = make_trainer(engine, config, features, objective, optimizer)
    if not updates:  # The gradients are computed all the same, since their norm is told.
        trainer._optimizer.apply = lambda gradients, *_: tf.linalg.global_norm(gradients)
    tensors = {name: tf.constant(array) for name, array in features.items()}
    iterator = iter(tf.data.Dataset.from_tensors(tensors).repeat())
    return lambda: trainer.train_steps(iterator, 1)


def matmul_peak() -> float:
    """Returns the floating-point operations a second that float32 matrix products reach here."""
    import tensorflow as tf

    # The matrices are wide enough to reach the peak, and small enough to take little time.
    width, products = (8192, 20) if tf.config.list_logical_devices("GPU") else (1024, 10)

    @tf.function(autograph=False)
    def multiply(seed):
        # The matrix is random: products of a constant would be computed at compile time.
        matrix = product = tf.random.stateless_normal([width, width], seed, stddev=width**-0.5)
        for _ in range(products):
            product = tf.matmul(product, matrix)
        return tf.reduce_sum(product)

    seconds = []
    for repeat in range(4):
        started = time.perf_counter()
        multiply(tf.constant([repeat, 0])).numpy()
        seconds.append(time.perf_counter() - started)
    return products * 2 * width**3 / min(seconds)


def main(argv: Sequence[str]) -> None:
    """Measures and prints."""
    parser = measuring.flag_parser("training_step", __doc__)
    add = parser.add_argument
    add("--model", default="tiny", help="a published size (default: %(default)s)")
    add("--objective", default=BERT, choices=OBJECTIVES, help="default: %(default)s")
    add("--optimizer", default=ADAMW, choices=OPTIMIZERS, help="default: %(default)s")
    add("--vocab_size", type=int, default=30522, help="default: %(default)s")
    add("--train_batch_size", type=int, default=32, help="default: %(default)s")
    add("--max_seq_length", type=int, default=128, help="default: %(default)s")
    add("--fill", type=float, default=1.0, help="share that is not padding (default: %(default)s)")
    add("--repeats", type=int, default=7, help="the median counts (default: %(default)s)")
    for name in PEERS:
        add(f"--{name}", metavar="PYTHON", help="interpreter that has this peer")
    measuring.add_results_flag(parser)
    flags = parser.parse_args(list(argv))

    import numpy as np

    from beambert.model.config import BERT_SIZES, BertConfig
    from beambert.model.families.family import generator_config
    from beambert.model.flops import electra_flops, training_flops

    config = BertConfig(flags.vocab_size, **BERT_SIZES[flags.model])
    batch, length = flags.train_batch_size, flags.max_seq_length
    features = random_features(flags.vocab_size, batch, length, flags.fill)
    pythons = {name: getattr(flags, name) for name in PEERS if getattr(flags, name)}
    with tempfile.TemporaryDirectory() as folder:
        np.savez(f"{folder}/batch.npz", **features)
        asked = {
            "folder": folder,
            "objective": flags.objective,
            "sizes": {size: getattr(config, size) for size in SIZES},
        }
        peers = {
            name: Peer(f"{name}_pretraining.py", python, asked) for name, python in pythons.items()
        }
        peaks = []
        steps = {
            "beambert": ours(config, features, flags.objective, flags.optimizer),
            "gradients": ours(config, features, flags.objective, flags.optimizer, updates=False),
            **{name: peer.step for name, peer in peers.items()},
            "matmul": lambda: peaks.append(matmul_peak()),
        }
        seconds = measuring.median_seconds(steps, flags.repeats)
        for peer in peers.values():
            peer.end()
    peak = statistics.median(peaks)
    tokens, step = batch * length, seconds["beambert"]
    if flags.objective == RTD:
        generator = generator_config(config, GENERATOR_SIZE)
        flops = electra_flops(config, generator, batch, length, PREDICTIONS)
    else:
        flops = training_flops(config, batch, length, PREDICTIONS)
    result = {
        "model": flags.model,
        "objective": flags.objective,
        "optimizer": flags.optimizer,
        "vocab_size": flags.vocab_size,
        "batch": f"{batch} x {length}",
        "fill": round(float(features["input_mask"].mean()), 3),
        "tokens_per_second": {n: round(tokens / seconds[n]) for n in ("beambert", *peers)},
        "times": {name: round(seconds[name] / step, 2) for name in peers},
        "optimizer_share": round(max(0.0, 1 - seconds["gradients"] / step), 3),
        "share_of_matmul_peak": round(flops / step / peak, 3),
        "matmul_peak_gigaflops": round(peak / 1e9),
    }
    print(measuring.write_results(flags.results, parser, argv, result))


if __name__ == "__main__":
    measuring.run(main)
