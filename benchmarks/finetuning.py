"""How fast is fine-tuning, beside Hugging Face's on the same machine?

    python -m benchmarks.finetuning --init=encoder --data_dir=glue/MRPC --task=mrpc \\
        --hugging_face=VENV/bin/python

The same encoder (exported to Hugging Face's format), the same batches of real examples, forward,
backward, clipping and AdamW with dropout, in float32. Hugging Face's side pads every batch to its
longest text (dynamic padding), and once more to --max_seq_length, as its run_glue.py does unless
told otherwise. All take turns; the figures are of passes over --steps batches.
"""

import argparse
import json
import os
import statistics
import tempfile
import time

from benchmarks.peers import Peer

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--init", required=True, help="an encoder of `beambert pretrain`")
    parser.add_argument("--task", required=True, help="of classification")
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--max_seq_length", type=int, default=128)
    parser.add_argument("--train_batch_size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--hugging_face", metavar="PYTHON", help="has torch and transformers")
    flags = parser.parse_args()

    import numpy as np
    import tensorflow as tf

    from beambert.pipelines.model_inputs.texts import TextFeatures
    from beambert.pipelines.tasks.declarations import TRAIN, find_task
    from beambert.trainer import model_folders
    from beambert.trainer.finetuning.batches import batch_rows, choose_lengths, training_batches
    from beambert.trainer.finetuning.data import ExampleData
    from beambert.trainer.finetuning.objectives import OBJECTIVES
    from beambert.trainer.loop.config import OptimizerConfig
    from beambert.trainer.loop.steps import Trainer
    from beambert.trainer.task_models import build_model
    from beambert.trainer.weights.export import export_hugging_face
    from beambert.trainer.weights.initial import open_initial

    found = model_folders.open_model(flags.init, "--init")
    data = ExampleData(find_task(flags.task), flags.data_dir, None)
    data.tokenize(TextFeatures(found.vocabulary, found.do_lower_case, flags.max_seq_length))
    features = data.features(TRAIN)
    lengths = choose_lengths(features.example_lengths, flags.max_seq_length)
    rows = batch_rows(features.example_lengths, lengths, flags.train_batch_size, flags.steps, 1)
    batches = list(training_batches(features, lengths, rows).as_numpy_iterator())

    def build():
        model = build_model(data.task.kind, found.config, len(data.labels), seed=1)
        open_initial(flags.init, "--init").load_into(model, "--init")
        return model

    trainer = Trainer(
        tf.distribute.get_strategy(),
        build,
        OBJECTIVES[data.task.kind](lengths),
        OptimizerConfig(5e-5, 1_000_000, 10_000),
        random_seed=1,
    )
    iterator = iter(training_batches(features, lengths, rows).repeat())
    passes = {"beambert": lambda: trainer.train_steps(iterator, flags.steps)}
    peers = {}
    with tempfile.TemporaryDirectory() as folder:
        if flags.hugging_face:
            export_hugging_face(flags.init, f"{folder}/encoder")
            names = ("input_ids", "input_mask", "segment_ids", "label_ids")
            arrays = {name: np.stack([batch[name] for batch in batches]) for name in names}
            np.savez(f"{folder}/batches.npz", **arrays)
            for name, pad_to in (("dynamic_padding", None), ("padded", flags.max_seq_length)):
                asked = {"folder": folder, "labels": len(data.labels), "pad_to": pad_to}
                peer = Peer("finetuning_peer.py", flags.hugging_face, asked)
                peers[f"hugging_face_{name}"] = peer
        passes |= {name: peer.step for name, peer in peers.items()}
        seconds: dict[str, list[float]] = {name: [] for name in passes}
        for repeat in range(flags.repeats + 1):
            for name, run in passes.items():
                started = time.perf_counter()
                run()
                if repeat:  # the first one compiles
                    seconds[name].append(time.perf_counter() - started)
        for peer in peers.values():
            peer.end()
    median = {name: statistics.median(times) for name, times in seconds.items()}
    examples = flags.steps * flags.train_batch_size
    result = {
        "task": flags.task,
        "hidden_size": found.config.hidden_size,
        "num_hidden_layers": found.config.num_hidden_layers,
        "batch": flags.train_batch_size,
        "mean_tokens": round(float(features.lengths.mean()), 1),
        "lengths": list(lengths),
        "examples_per_second": {name: round(examples / s, 1) for name, s in median.items()},
        "times": {n: round(s / median["beambert"], 2) for n, s in median.items() if n in peers},
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
