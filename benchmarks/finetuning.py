"""How fast is fine-tuning, compared with Hugging Face's on the same machine?

    python -m benchmarks.finetuning --init=encoder --data_dir=glue/MRPC --task=mrpc \\
        --hugging_face=VENV/bin/python

Both sides have the same encoder (exported to Hugging Face's format) and the same batches of real
examples. A step is forward, backward, clipping and AdamW with dropout, in float32. Hugging Face's
side is measured twice: it pads every batch to its longest text (dynamic padding), or to
--max_seq_length, which is the default of its run_glue.py. All take turns. A figure is of a pass
over --steps batches.
"""

import functools
import sys
import tempfile
from collections.abc import Sequence

from benchmarks import measuring
from benchmarks.peer import Peer


def main(argv: Sequence[str]) -> None:
    """Measures and prints."""
    parser = measuring.flag_parser("finetuning", __doc__)
    add = parser.add_argument
    add("--init", required=True, metavar="DIR", help="encoder of `beambert pretrain`")
    add("--task", required=True, help="classification task")
    add("--data_dir", required=True, metavar="DIR", help="folder with the task's files")
    add("--max_seq_length", type=int, default=128, help="longest input (default: %(default)s)")
    add("--train_batch_size", type=int, default=32, help="examples a step (default: %(default)s)")
    add("--steps", type=int, default=40, help="batches of a pass (default: %(default)s)")
    add("--repeats", type=int, default=5, help="passes; the median counts (default: %(default)s)")
    add(
        "--hugging_face",
        required=True,
        metavar="PYTHON",
        help="interpreter that has torch and transformers",
    )
    measuring.add_results_flag(parser)
    flags = parser.parse_args(list(argv))

    import numpy as np
    import tensorflow as tf

    from beambert.pipelines.tasks.declarations import find_task
    from beambert.pipelines.tasks.task import TRAIN
    from beambert.pipelines.tasks.texts import TextFeatures
    from beambert.trainer import model_folders
    from beambert.trainer.finetuning.batches import batch_rows, choose_lengths, training_batches
    from beambert.trainer.loop.config import OptimizerConfig
    from beambert.trainer.loop.steps import Trainer
    from beambert.trainer.models import build_model
    from beambert.trainer.tasks.base import TaskData, objective_of_kind
    from beambert.trainer.weights.export import export_hugging_face
    from beambert.trainer.weights.initial import open_initial

    found = model_folders.open_model(flags.init, "--init")
    # Only the result goes to stdout.
    tell = functools.partial(print, file=sys.stderr)
    data = TaskData(find_task(flags.task), flags.data_dir, tell)
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
        objective_of_kind(data.task.kind)(lengths),
        OptimizerConfig(5e-5, 1_000_000, 10_000),
        random_seed=1,
    )
    iterator = iter(training_batches(features, lengths, rows).repeat())
    passes = {"beambert": lambda: trainer.train_steps(iterator, flags.steps)}
    with tempfile.TemporaryDirectory() as folder:
        export_hugging_face(flags.init, f"{folder}/encoder")
        names = ("input_ids", "input_mask", "segment_ids", "label_ids")
        arrays = {name: np.stack([batch[name] for batch in batches]) for name in names}
        np.savez(f"{folder}/batches.npz", **arrays)
        peers = {}
        for name, pad_to in (("dynamic_padding", None), ("padded", flags.max_seq_length)):
            asked = {"folder": folder, "labels": len(data.labels), "pad_to": pad_to}
            peer = Peer("hugging_face_finetuning.py", flags.hugging_face, asked)
            peers[f"hugging_face_{name}"] = peer
        passes |= {name: peer.step for name, peer in peers.items()}
        seconds = measuring.median_seconds(passes, flags.repeats)
        for peer in peers.values():
            peer.end()
    examples = flags.steps * flags.train_batch_size
    result = {
        "task": flags.task,
        "hidden_size": found.config.hidden_size,
        "num_hidden_layers": found.config.num_hidden_layers,
        "batch": flags.train_batch_size,
        "mean_tokens": round(float(features.lengths.mean()), 1),
        "lengths": list(lengths),
        "examples_per_second": {name: round(examples / s, 1) for name, s in seconds.items()},
        "times": {name: round(seconds[name] / seconds["beambert"], 2) for name in peers},
    }
    print(measuring.write_results(flags.results, parser, argv, result))


if __name__ == "__main__":
    measuring.run(main)
