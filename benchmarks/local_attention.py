"""What do time and memory of local attention come to, beside attention to the whole sequence?

    python -m benchmarks.local_attention --results=benchmarks/results/local_attention.json
    python -m benchmarks.local_attention --max_seq_length=512,2048 --hugging_face=VENV/bin/python

It measures one attention layer of ModernBERT, forward and backward, on the same number of tokens at
each length, in float32. Each measurement has a process of its own, whose memory is its peak less
what it had after a few tokens. Hugging Face's layer runs in the interpreter that is given, which
needs torch and transformers and nothing of this repository.
"""

import json
import pathlib
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from beambert.errors import InputError
from benchmarks import measuring

LOCAL, GLOBAL = "local", "global"
# Number of tokens that are computed first, so that the libraries have what they need.
_FEW = 16
_PEER = pathlib.Path(__file__).with_name("peers") / "hugging_face_attention.py"


def measure(kind: str, length: int, tokens: int, width: int, repeats: int) -> dict[str, float]:
    """Returns the seconds and the bytes that a layer takes for each token.

    Args:
      kind: `LOCAL` or `GLOBAL`.
      length: tokens of a sequence.
      tokens: tokens of a batch.
      width: width of the layer, with heads of 64.
      repeats: number of measurements; the median counts.
    """
    import numpy as np
    import tensorflow as tf

    from beambert.model.families.modernbert import ModernBertConfig
    from beambert.model.modernbert_encoder import ModernBertAttention

    config = ModernBertConfig(
        vocab_size=1, hidden_size=width, num_attention_heads=max(width // 64, 1)
    )
    layer = ModernBertAttention(config, seed=1, index=0 if kind == GLOBAL else 1)
    layer.build()
    x = tf.constant(np.random.default_rng(1).standard_normal((tokens, width), np.float32))
    mask = tf.ones((tokens // length, length), tf.int32)
    weights = [variable.value for variable in layer.trainable_variables]

    @tf.function(jit_compile=True)
    def gradients(x: tf.Tensor, mask: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.square(layer(x, mask)))
        return tape.gradient(loss, [x, *weights])

    gradients(x[:_FEW], tf.ones((1, _FEW), tf.int32))
    seconds, before = [], _peak_bytes()
    for _ in range(repeats + 1):
        started = time.perf_counter()
        gradients(x, mask)[0].numpy()
        seconds.append(time.perf_counter() - started)
    return {
        # The first one compiles.
        "seconds": statistics.median(seconds[1:]) / tokens,
        "bytes": (_peak_bytes() - before) / tokens,
    }


def _peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _in_a_process(command: Sequence[object]) -> dict[str, float]:
    """Returns the JSON in the last line that a command prints.

    Raises:
      InputError: the command cannot be run, or it failed.
    """
    words = list(map(str, command))
    try:
        done = subprocess.run(words, check=False, stdout=subprocess.PIPE, text=True)
    except OSError as error:
        raise InputError(
            f"{words[0]}: cannot be run ({error.strerror}); name a Python interpreter"
        ) from error
    if done.returncode:
        raise InputError(f"{words[0]}: the measurement failed; see its message above")
    return json.loads(done.stdout.splitlines()[-1])


def main(argv: Sequence[str]) -> None:
    """Measures and prints."""
    parser = measuring.flag_parser("local_attention", __doc__)
    add = parser.add_argument
    add("--max_seq_length", default="128,512,2048,8192", help="default: %(default)s")
    add("--tokens", type=int, default=8192, help="tokens of a batch (default: %(default)s)")
    add("--width", type=int, default=256, help="width of the layer (default: %(default)s)")
    add("--repeats", type=int, default=5, help="the median counts (default: %(default)s)")
    add("--hugging_face", metavar="PYTHON", help="interpreter that has torch and transformers")
    add("--one", metavar="KIND,LENGTH", help="measure one layer in this process")
    measuring.add_results_flag(parser)
    flags = parser.parse_args(list(argv))
    sizes = flags.tokens, flags.width, flags.repeats
    if flags.one:
        kind, length = flags.one.split(",")
        print(json.dumps(measure(kind, int(length), *sizes)))
        return
    given = [f"--{n}={v}" for n, v in zip(("tokens", "width", "repeats"), sizes, strict=True)]
    rows = []
    for length in map(int, flags.max_seq_length.split(",")):
        for kind in (LOCAL, GLOBAL):
            command = [sys.executable, "-m", "benchmarks.local_attention", *given]
            found = {"beambert": _in_a_process([*command, f"--one={kind},{length}"])}
            if flags.hugging_face:
                command = [flags.hugging_face, _PEER, kind, length, *sizes]
                found["hugging_face"] = _in_a_process(command)
            rows.append(
                {
                    "max_seq_length": length,
                    "attention": kind,
                    "microseconds_a_token": {
                        name: round(1e6 * each["seconds"], 2) for name, each in found.items()
                    },
                    "kilobytes_a_token": {
                        name: round(each["bytes"] / 1000, 1) for name, each in found.items()
                    },
                }
            )
    print(measuring.write_results(flags.results, parser, argv, rows))


if __name__ == "__main__":
    measuring.run(main)
