"""How fast is a pre-training step on this machine, and what share of its arithmetic peak is that?

    python -m benchmarks.training_step --model=tiny --train_batch_size=64

The peak is what TensorFlow's own matrix multiplication reaches here in the same run, so the share
can be compared between machines. If `torch` and `transformers` are installed, Hugging Face's
BertForPreTraining trains on the same shapes with AdamW, and the ratio is printed.
"""

import argparse
import json
import os
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

PREDICTIONS = 20


def seconds_a_call(call: Callable[[], object], repeats: int) -> float:
    """Returns the median time of a call, after one that isn't counted."""
    call()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return sorted(times)[len(times) // 2]


def random_features(config: object, batch: int, length: int) -> dict:
    """Returns a full batch of random records as int32 and float32 arrays."""
    import numpy as np

    random = np.random.default_rng(1)
    ids = random.integers(5, config.vocab_size, (batch, length), np.int32)
    positions = np.sort(random.permuted(np.tile(np.arange(1, length), (batch, 1)), axis=1), axis=1)
    return {
        "input_ids": ids,
        "input_mask": np.ones_like(ids),
        "segment_ids": np.repeat([[0] * (length // 2) + [1] * (length - length // 2)], batch, 0),
        "masked_lm_positions": positions[:, :PREDICTIONS].astype(np.int32),
        "masked_lm_ids": random.integers(5, config.vocab_size, (batch, PREDICTIONS), np.int32),
        "masked_lm_weights": np.ones((batch, PREDICTIONS), np.float32),
        "next_sentence_labels": random.integers(0, 2, (batch, 1), np.int32),
    }


def step_flops(config: object, batch: int, length: int) -> float:
    """Returns the multiplications and additions of a step's matrix products, times three.

    Forward once, backward twice; per token of a layer 4 H² for attention's projections, 2 H F for
    the feed-forward layer and 2 L H for the scores; the heads at the predicted positions only.
    """
    h, f = config.hidden_size, config.intermediate_size
    layer = 4 * h * h + 2 * h * f + 2 * length * h
    tokens, predictions = batch * length, batch * PREDICTIONS
    products = tokens * config.num_hidden_layers * layer + predictions * h * (h + config.vocab_size)
    return 3 * 2 * products


def matmul_peak(repeats: int) -> float:
    """Returns the floating-point operations a second of a 2048-wide product."""
    import tensorflow as tf

    size = 2048
    left, right = tf.random.normal([size, size]), tf.random.normal([size, size])
    return 2 * size**3 / seconds_a_call(lambda: tf.matmul(left, right).numpy(), repeats)


def ours(config: object, features: dict, steps: int, repeats: int) -> float:
    """Returns the seconds of one of our steps, optimizer included."""
    import tensorflow as tf

    from model.pretrainer import BertPretrainer
    from trainer.config import OptimizerConfig
    from trainer.loop import Trainer
    from trainer.objectives import PretrainingObjective

    trainer = Trainer(
        tf.distribute.get_strategy(),
        lambda: BertPretrainer(config, seed=1),
        PretrainingObjective(),
        OptimizerConfig(1e-4, 1_000_000, 10_000),
        random_seed=1,
    )
    tensors = {name: tf.constant(array) for name, array in features.items()}
    tensors = {k: tf.cast(v, tf.int32) if v.dtype.is_integer else v for k, v in tensors.items()}
    iterator = iter(tf.data.Dataset.from_tensors(tensors).repeat())
    return seconds_a_call(lambda: trainer.train_steps(iterator, steps), repeats) / steps


def hugging_face(config: object, features: dict, repeats: int) -> float | None:
    """Returns the seconds of one step of the peer, or None where it isn't installed."""
    try:
        import torch
        import transformers
    except ImportError:
        return None
    torch.set_num_threads(os.cpu_count())
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
    sizes = {name: getattr(config, name) for name in (*names, "intermediate_size")}
    model = transformers.BertForPreTraining(transformers.BertConfig(**sizes))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    tensors = {name: torch.tensor(array).long() for name, array in features.items()}
    labels = torch.full_like(tensors["input_ids"], -100)
    labels.scatter_(1, tensors["masked_lm_positions"], tensors["masked_lm_ids"])

    def step() -> None:
        optimizer.zero_grad()
        loss = model(
            input_ids=tensors["input_ids"],
            attention_mask=tensors["input_mask"],
            token_type_ids=tensors["segment_ids"],
            labels=labels,
            next_sentence_label=tensors["next_sentence_labels"][:, 0],
        ).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return seconds_a_call(step, repeats)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--vocab_size", type=int, default=30522)
    parser.add_argument("--train_batch_size", type=int, default=32)
    parser.add_argument("--max_seq_length", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=7)
    flags = parser.parse_args()

    from model.config import preset

    config = preset(flags.model, flags.vocab_size)
    batch, length = flags.train_batch_size, flags.max_seq_length
    features = random_features(config, batch, length)
    seconds = ours(config, features, steps=5, repeats=flags.repeats)
    peak = matmul_peak(flags.repeats)
    result = {
        "model": flags.model,
        "vocab_size": flags.vocab_size,
        "batch": f"{batch} x {length}",
        "tokens_per_second": round(batch * length / seconds),
        "share_of_matmul_peak": round(step_flops(config, batch, length) / seconds / peak, 3),
        "matmul_peak_gigaflops": round(peak / 1e9),
    }
    peer = hugging_face(config, features, flags.repeats)
    if peer is not None:
        result["times_hugging_face"] = round(peer / seconds, 2)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
