"""What do weights of 8 bits cost in quality, and what do they save in size and time?

    python -m benchmarks.int8 --model=all-MiniLM-L6-v2 --data=STS-B/dev.tsv

    # by one thread
    taskset -c 0 python -m benchmarks.int8 --model=all-MiniLM-L6-v2 --data=STS-B/dev.tsv

Embeds both sentences of each row, padded to `--max_seq_length`, by TensorFlow, by the ONNX graph of
the encoder in onnxruntime, and by that graph with weights of 8 bits. The quality is the Spearman
correlation of the cosines with the scores. Needs the extra onnx.
"""

import csv
from collections.abc import Callable, Sequence

import numpy as np

from beambert.errors import InputError
from benchmarks import measuring

BATCH_SIZE = 40


def main(argv: Sequence[str]) -> None:
    """Measures and prints.

    Raises:
      InputError: the model or the file cannot be used, or the extra onnx is not installed.
    """
    parser = measuring.flag_parser("int8", __doc__)
    add = parser.add_argument
    add("--model", required=True, metavar="DIR", help="encoder, or folder of sentence-transformers")
    add("--data", required=True, metavar="FILE", help="table with sentence1, sentence2 and score")
    add("--max_seq_length", type=int, default=64, help="tokens of a row (default: %(default)s)")
    add("--repeats", type=int, default=7, help="the median counts (default: %(default)s)")
    measuring.add_results_flag(parser)
    flags = parser.parse_args(list(argv))

    import tensorflow as tf

    from beambert.pipelines.tasks.metrics import spearman
    from beambert.trainer.embedding.embedder import open_embedder
    from beambert.trainer.serving.onnx_export import int8_of, onnx_of

    with open(flags.data, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    if not rows or not {"sentence1", "sentence2", "score"} <= rows[0].keys():
        raise InputError(f"--data={flags.data}: has no rows with sentence1, sentence2 and score")
    embedder = open_embedder(flags.model)
    scores = np.array([float(row["score"]) for row in rows])
    texts = [row[f"sentence{number}"] for number in (1, 2) for row in rows]
    ids, mask = _padded(embedder.token_ids(texts)[0], flags.max_seq_length)
    exact = onnx_of(embedder.encoder, flags.max_seq_length, "sequence_output")
    graphs = {"onnxruntime": exact, "onnxruntime, int8": int8_of(exact)}
    in_tensorflow = tf.function(
        lambda ids, mask: embedder.encoder.encode(ids, mask, tf.zeros_like(ids)), autograph=False
    )
    ways = {"tensorflow": lambda *batch: in_tensorflow(*map(tf.constant, batch)).numpy()}
    ways |= {name: _runner(data) for name, data in graphs.items()}
    first = (ids[:BATCH_SIZE], mask[:BATCH_SIZE])
    calls = {name: lambda encode=encode: encode(*first) for name, encode in ways.items()}
    seconds = measuring.median_seconds(calls, flags.repeats)
    result = {"rows": len(rows), "sentences_timed": len(first[0]), "ways": {}}
    for name, encode in ways.items():
        vectors = _pooled(encode, ids, mask)
        cosines = np.sum(vectors[: len(rows)] * vectors[len(rows) :], axis=1)
        result["ways"][name] = {
            "spearman": round(spearman(scores, cosines), 4),
            "seconds": round(seconds[name], 3),
        }
        if name in graphs:
            result["ways"][name]["megabytes"] = round(len(graphs[name]) / 1e6, 1)
    print(measuring.write_results(flags.results, parser, argv, result))


def _padded(rows: Sequence[np.ndarray], length: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns ids and mask, int32 [rows, length]; longer rows are cut."""
    ids = np.zeros((len(rows), length), np.int32)
    mask = np.zeros_like(ids)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = row[:length]
        mask[number, : len(row)] = 1
    return ids, mask


def _runner(data: bytes) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Returns the function that encodes ids and mask by an ONNX graph."""
    import onnxruntime

    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    taken = [one_input.name for one_input in session.get_inputs()]

    def encode(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}
        return session.run(None, {name: inputs[name] for name in taken})[0]

    return encode


def _pooled(encode: Callable, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Returns the mean of each row's tokens with the length 1, float32 [rows, hidden size].

    Args:
      encode: (ids, mask) -> hidden states, with the tokens of all rows in two or three axes.
      ids, mask: int32 [rows, length] each.
    """
    found = []
    for start in range(0, len(ids), BATCH_SIZE):
        batch_mask = mask[start : start + BATCH_SIZE]
        states = encode(ids[start : start + BATCH_SIZE], batch_mask)
        weights = batch_mask[..., None]
        mean = (states.reshape(*batch_mask.shape, -1) * weights).sum(axis=1) / weights.sum(axis=1)
        found.append(mean / np.linalg.norm(mean, axis=1, keepdims=True))
    return np.concatenate(found)


if __name__ == "__main__":
    measuring.run(main)
