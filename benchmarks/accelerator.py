"""What does an accelerator do in some minutes: losses, speed, memory, a training?

    python -m benchmarks.accelerator --data=records/128 --out=cpu --sizes=tiny --tokens=1024
    python -m benchmarks.accelerator --data=records/128 --out=gpu --expected=cpu/accelerator.json

It runs on what JAX finds, and needs neither TensorFlow nor a network. First come the held-out
losses of some steps of tiny, next to those of `--expected`, which an earlier run on the same
records has left. results/accelerator_cpu.json has those of a processor, and the commands that make
its records again. Then the speed of masked LM in bfloat16, without dropout, which fused attention
lacks: of each size and length with fused attention and plain, with padding and without, and of the
same model and batch in Hugging Face's transformers on torch, if it is installed. Then the largest
batch and its memory. The rest of the time is a training of small. Speeds count tokens without
padding. Each measurement has its own process. After each, `--out` has the figures so far as
accelerator.json and accelerator.md, so that a run that is cut off still counts.
"""

import importlib.metadata
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from beambert.errors import InputError
from benchmarks import measuring, training_step
from benchmarks.peer import Peer

FILL = 0.77
# What is measured of each size and length, most important first.
FUSED, PEER, FUSED_PADDED, PLAIN_PADDED, PLAIN = WAYS = (
    *("fused", "transformers", "fused, padded"),
    *("plain, padded", "plain"),
)
# Operations a second in bfloat16, of the data sheets of NVIDIA (without sparsity) and of Google.
# Elsewhere the peak is what matrix products reach.
PEAKS = {
    **{"H100": 989e12, "H200": 989e12, "A100": 312e12},
    **{"TPU v4": 275e12, "TPU v5 lite": 197e12, "TPU v5": 459e12, "TPU v6 lite": 918e12},
}
# Shares of the time after which the part ends.
LOSSES_END, SPEED_ENDS, MEMORY_ENDS = 0.4, 0.7, 0.75
# A training of a budget loads and saves outside of it, too.
SAVING_SECONDS = 20
MEASURED_SECONDS = 3


def config_of(size: str, length: int) -> Any:
    """Returns the configuration of a size for sequences of a length."""
    from beambert.model.config import BERT_SIZES, BertConfig
    from beambert.model.families.modernbert import ModernBertConfig

    config = (
        ModernBertConfig(30522) if size == "modern_base" else BertConfig(30522, **BERT_SIZES[size])
    )
    config = config.with_dropout(0.0)
    return config.with_longest_sequence(max(length, config.longest_sequence))


def features_of(config: Any, length: int, tokens: int) -> dict[str, Any]:
    """Returns a batch of about that number of positions."""
    batch = max(tokens // length, 1)
    predictions = -(-15 * length // 100)
    return training_step.random_features(config.vocab_size, batch, length, FILL, predictions)


def measure_device() -> dict[str, Any]:
    """Returns the devices, and the operations a second that one of them reaches."""
    import jax
    import jax.numpy as jnp

    from beambert.trainer.loop.config import JAX, Devices
    from beambert.trainer.loop.engine import make_engine

    engine = make_engine(Devices(engine=JAX))
    is_cpu = jax.default_backend() == "cpu"
    width, products = (1024, 4) if is_cpu else (8192, 30)
    matrix = jnp.full((width, width), 1 / width, jnp.float32 if is_cpu else jnp.bfloat16)
    multiply = jax.jit(lambda x: jax.lax.fori_loop(0, products, lambda _, y: y @ x, x))
    seconds = []
    for _ in range(4):
        started = time.perf_counter()
        multiply(matrix).block_until_ready()
        seconds.append(time.perf_counter() - started)
    kind = jax.devices()[0].device_kind
    reached = products * 2 * width**3 / min(seconds)
    names = ("jax", "keras", "torch", "transformers")
    has_peer = _version("torch") and _version("transformers")
    missing = {PEER: not has_peer} | dict.fromkeys(
        (FUSED, FUSED_PADDED), engine.fused_attention is None
    )
    return {
        "device": f"{len(jax.devices())} x {kind}",
        "devices": len(jax.devices()),
        "ways": [way for way in WAYS if not missing.get(way)],
        "matmul_peak": reached,
        "peak": next((peak for name, peak in PEAKS.items() if name in kind), reached),
        "versions": {name: _version(name) for name in names if _version(name)},
    }


def _version(library: str) -> str | None:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


def measure_speed(way: str, size: str, length: int, tokens: int) -> dict[str, Any]:
    """Returns the seconds of a step on a device's batch, its tokens and its operations."""
    from beambert.model.flops import training_flops
    from beambert.model.unpadding import Capacity

    config = config_of(size, length)
    features = features_of(config, length, tokens)
    used = Capacity(int(features["input_mask"].sum()), int(features["masked_lm_weights"].sum()))
    shape = features["masked_lm_ids"].shape
    found = {
        "batch": f"{shape[0]} x {length}",
        "tokens": used.tokens,
        "flops": training_flops(config, shape[0], length, shape[1], used),
    }
    if way == PEER:
        return found | _measure_peer(config, features)
    return found | _measure_ours(config, features, way)


def _measure_ours(config: Any, features: dict[str, Any], way: str) -> dict[str, Any]:
    import jax

    from beambert.trainer.loop.config import JAX, Devices
    from beambert.trainer.loop.engine import make_engine

    started = time.perf_counter()
    engine = make_engine(Devices(engine=JAX))
    if way in (PLAIN, PLAIN_PADDED):
        engine.fused_attention = None
    unpadded = way in (FUSED, PLAIN)
    trainer = training_step.make_trainer(
        engine, config, features, "mlm", dtype="bfloat16", unpadded=unpadded
    )
    batches = engine.distribute(lambda _: itertools.repeat(features))
    trainer.train_steps(batches, 1)
    seconds_to_start = time.perf_counter() - started
    seconds = _seconds_of_a_step(lambda steps: trainer.train_steps(batches, steps))
    memory = jax.local_devices()[0].memory_stats() or {}
    return {
        "seconds": seconds,
        "seconds_to_start": seconds_to_start,
        "memory": memory.get("peak_bytes_in_use"),
    }


def _measure_peer(config: Any, features: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    rates = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
    names = (*training_step.SIZES, "max_position_embeddings")
    sizes = {name: getattr(config, name) for name in names}
    sizes |= rates if config.family == "bert" else {}
    with tempfile.TemporaryDirectory() as folder:
        np.savez(f"{folder}/batch.npz", **features)
        asked = {"folder": folder, "objective": "mlm", "family": config.family, "sizes": sizes}
        peer = Peer("hugging_face_pretraining.py", sys.executable, asked | {"on_device": True})
    peer.step()
    seconds = _seconds_of_a_step(lambda steps: [peer.step() for _ in range(steps)])
    peer.end()
    return {"seconds": seconds}


def _seconds_of_a_step(run: Any) -> float:
    """Returns the mean of as many steps as fill some seconds."""
    started = time.perf_counter()
    run(2)
    steps = max(2, int(2 * MEASURED_SECONDS / (time.perf_counter() - started)))
    started = time.perf_counter()
    run(steps)
    return (time.perf_counter() - started) / steps


def command(*arguments: object) -> list[str]:
    """Returns the command of a process that this interpreter runs."""
    return [sys.executable, "-m", *map(str, arguments)]


class Report:
    """Runs the measurements, and writes the figures so far after each."""

    def __init__(self, out: str, minutes: float, expected: dict[str, Any]):
        """Makes the folder; the time counts from now."""
        self._out = pathlib.Path(out)
        self._out.mkdir(parents=True, exist_ok=True)
        self._started, self._seconds, self._expected = time.monotonic(), 60 * minutes, expected
        self.found: dict[str, Any] = {"losses": {}, "speed": [], "memory": []}

    def left(self, share: float = 1) -> float:
        """Returns the seconds until this share of the time is over."""
        return self._started + share * self._seconds - time.monotonic()

    def run(self, words: Sequence[str], share: float = 1, **environment: str) -> tuple[str, str]:
        """Returns what a process prints and why it failed; it ends when that share is over."""
        try:
            done = subprocess.run(
                words,
                env=os.environ | environment,
                timeout=max(self.left(share), 1),
                capture_output=True,
                text=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "", "the time is over"
        with (self._out / "accelerator.log").open("a", encoding="utf-8") as log:
            log.write(f"{' '.join(words)}\n{done.stdout}{done.stderr}\n")
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return done.stdout, last[:200] if done.returncode else ""

    def measure(self, kind: str, share: float = 1, **case: Any) -> dict[str, Any]:
        """Returns what the function of a kind of measurement returns in a process."""
        words = command("benchmarks.accelerator", f"--one={json.dumps({'kind': kind} | case)}")
        printed, error = self.run(words, share)
        return case | ({"error": error} if error else json.loads(printed.splitlines()[-1]))

    def write(self) -> None:
        """Writes the figures as JSON and as a page."""
        text = json.dumps(self.found, indent=1)
        (self._out / "accelerator.json").write_text(f"{text}\n", encoding="utf-8")
        page = "\n".join(self._page())
        (self._out / "accelerator.md").write_text(f"{page}\n", encoding="utf-8")

    def _page(self) -> Iterator[str]:
        device = self.found["device"]
        reached, peak = device["matmul_peak"] / 1e12, device["peak"] / 1e12
        yield f"# {device['device']}\n"
        yield f"Peak: {peak:.3g} TFLOP/s; matrix products reach {reached:.3g}. {device['versions']}"
        losses = ["type", "step", "here", "expected", "relative difference"]
        speed = ["size", "length", "way", "batch", "tokens/s", "MFU", "peak GB", "seconds to start"]
        yield from _table("Held-out losses of tiny", losses, self._losses())
        yield from _table("Speed", speed, map(_cells, self.found["speed"]))
        yield from _table("Memory", speed, map(_cells, self.found["memory"]))
        training = self.found.get("training", {}).items()
        yield from _table("Training of small", ["name", "value"], training)

    def _losses(self) -> Iterator[list[object]]:
        for dtype, found in self.found["losses"].items():
            for step, loss in found.items():
                expected = self._expected.get("losses", {}).get(dtype, {}).get(step)
                is_there = expected is not None and step != "error"
                difference = f"{abs(loss / expected - 1):.1e}" if is_there else "-"
                yield [dtype, step, loss, expected, difference]

    def pretrain(
        self, name: str, share: float, *flags: str, **environment: str
    ) -> tuple[pathlib.Path, str]:
        """Trains; returns the model folder and why the training failed."""
        folder = self._out / name
        words = command("beambert", "pretrain", "--engine=jax", "--dropout=0", "--objective=mlm")
        words += [f"--model_dir={folder}", *flags]
        return folder, self.run(words, share, **environment)[1]

    def add_losses(self, dtype: str, data: str, steps: int) -> None:
        """Adds the held-out losses of a short training."""
        folder, error = self.pretrain(
            f"losses-{dtype}",
            LOSSES_END,
            *(f"--data={data}", "--model=tiny", f"--num_train_steps={steps}"),
            *(
                f"--eval_steps={max(steps // 5, 1)}",
                "--train_batch_size=32",
                "--learning_rate=1e-3",
                f"--dtype={dtype}",
            ),
            JAX_DEFAULT_MATMUL_PRECISION="highest",
        )
        self.found["losses"][dtype] = {"error": error} if error else _held_out(folder)

    def add_speed(self, part: str, share: float, **case: Any) -> bool:
        """Adds a row to "speed" or "memory"; returns whether it was measured."""
        row = self.measure("speed", share, **case)
        if "seconds" in row:
            devices = 1 if case["way"] == PEER else self.found["device"]["devices"]
            row["tokens_per_second"] = devices * row["tokens"] / row["seconds"]
            row["mfu"] = row["flops"] / row["seconds"] / self.found["device"]["peak"]
        self.found[part].append(row)
        self.write()
        return "seconds" in row

    def add_training(self, data: str) -> None:
        """Adds the results of a training that takes the rest of the time."""
        budget = f"--budget={self.left() - SAVING_SECONDS:.0f}s"
        flags = (f"--data={data}", "--model=small", budget, "--dtype=auto")
        folder, error = self.pretrain("small", 1, *flags)
        results = folder / "results.json"
        self.found["training"] = {"error": error} if error else json.loads(results.read_text())


def _held_out(folder: pathlib.Path) -> dict[str, float]:
    """Returns the held-out losses of a training by their steps."""
    rows = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return {str(row["step"]): row["loss"] for row in rows if row["split"] == "eval"}


def _table(title: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yields the lines of a table in Markdown."""
    yield f"\n## {title}\n"
    yield from (f"| {' | '.join(map(str, cells))} |" for cells in (names, ["---"] * len(names)))
    yield from (f"| {' | '.join(map(str, cells))} |" for cells in rows)


def _cells(row: dict[str, Any]) -> list[object]:
    """Returns the cells of a measured speed."""
    cells = [row["size"], row["length"], row["way"]]
    if "seconds" not in row:
        return [*cells, row["error"], *["-"] * 4]
    memory, start = row.get("memory"), row.get("seconds_to_start")
    return [
        *(*cells, row["batch"], f"{row['tokens_per_second']:,.0f}", f"{row['mfu']:.1%}"),
        *(f"{memory / 1e9:.1f}" if memory else "-", f"{start:.0f}" if start else "-"),
    ]


def main(argv: Sequence[str]) -> None:
    """Measures and writes."""
    parser = measuring.flag_parser("accelerator", __doc__)
    add = parser.add_argument
    add("--data", metavar="DIR", help="records folder made by `beambert data`")
    add("--out", metavar="DIR", help="folder of the figures; an earlier run's is written over")
    stored = pathlib.Path(__file__).with_name("results") / "accelerator_cpu.json"
    add("--expected", default=stored, help="accelerator.json of a processor (default: the stored)")
    add("--minutes", type=float, default=8, help="of all of it (default: %(default)s)")
    add("--steps", type=int, default=50, help="of the losses (default: %(default)s)")
    add("--sizes", default="base,small,modern_base,large,tiny", help="default: %(default)s")
    add("--lengths", default="512,128,2048,8192", help="default: %(default)s")
    add("--tokens", type=int, default=32768, help="positions of a batch (default: %(default)s)")
    add("--one", metavar="JSON", help="measure this in this process")
    flags = parser.parse_args(list(argv))
    if flags.one:
        os.environ["KERAS_BACKEND"] = "jax"
        case = json.loads(flags.one)
        measure = {"device": measure_device, "speed": measure_speed}[case.pop("kind")]
        print(json.dumps(measure(**case)))
        return
    for name in ("data", "out"):
        if not getattr(flags, name):
            raise InputError(f"--{name}: is needed; give a folder")
    expected = json.loads(pathlib.Path(flags.expected).read_text())
    expected = expected.get("result", expected)  # The stored file also names its command.
    records = json.loads(pathlib.Path(flags.data, "info.json").read_text())["files"]
    digests = [each["sha256"] for each in records]
    report = Report(
        flags.out, flags.minutes, expected if expected["records_sha256"] == digests else {}
    )
    report.found["records_sha256"] = digests
    report.found["device"] = device = report.measure("device")
    if "error" in device:
        raise InputError(f"JAX: cannot be used ({device['error']}); install it for this device")
    for dtype in ("float32", "bfloat16"):
        report.add_losses(dtype, flags.data, flags.steps)
        report.write()
    sizes, lengths = flags.sizes.split(","), [int(each) for each in flags.lengths.split(",")]
    cases = itertools.product(*map(enumerate, (device["ways"], sizes, lengths)))
    for (_, way), (_, size), (_, length) in sorted(cases, key=lambda each: sum(n for n, _ in each)):
        if report.left(SPEED_ENDS) <= 0:
            break
        case = {"way": way, "size": size, "length": length, "tokens": flags.tokens}
        report.add_speed("speed", SPEED_ENDS, **case)
    way = FUSED if FUSED in device["ways"] else PLAIN
    case = {"way": way, "size": sizes[0], "length": lengths[0]}
    tokens = 2 * flags.tokens
    while report.left(MEMORY_ENDS) > 0:
        if not report.add_speed("memory", MEMORY_ENDS, **case, tokens=tokens):
            break
        tokens *= 2
    report.add_training(flags.data)
    report.write()
    print(f"{flags.out}/accelerator.md")


if __name__ == "__main__":
    measuring.run(main)
