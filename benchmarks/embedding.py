"""How many texts are embedded in a second, and do the vectors equal those of sentence-transformers?

    python -m benchmarks.embedding --model=all-MiniLM-L6-v2 --input=texts.txt \\
        --sentence_transformers=venv/bin/python

Both read the same texts in turns, and cut them into batches by length themselves. The model is
loaded before. The first turn, in which our graphs are traced, doesn't count.
"""

import os
import pathlib
import tempfile
from collections.abc import Sequence

import numpy as np

from benchmarks import measuring
from benchmarks.peer import Peer


def main(argv: Sequence[str]) -> None:
    """Measures and prints.

    Raises:
      InputError: the model, a file or the interpreter cannot be used.
    """
    parser = measuring.flag_parser("embedding", __doc__)
    add = parser.add_argument
    add("--model", required=True, metavar="DIR", help="folder of sentence-transformers")
    add("--input", nargs="+", required=True, metavar="GLOB", help="files with a text on each line")
    add("--texts", type=int, default=2000, help="number of texts (default: %(default)s)")
    add("--repeats", type=int, default=3, help="the median counts (default: %(default)s)")
    add("--sentence_transformers", metavar="PYTHON", help="interpreter that has this peer")
    measuring.add_results_flag(parser)
    flags = parser.parse_args(list(argv))

    from beambert.embedding import EmbeddingJob
    from beambert.trainer.embedding.embedder import open_embedder
    from beambert.trainer.embedding.writing import read_texts

    paths = measuring.files_of("--input", flags.input)
    texts = [row.text for row in read_texts(paths, EmbeddingJob(""), {})][: flags.texts]
    embedder = open_embedder(flags.model)
    tokens = sum(map(len, embedder.token_ids(texts)[0]))
    calls = {"beambert": lambda: embedder.embed(texts)}
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "texts.txt").write_text("".join(f"{text}\n" for text in texts))
        peer = None
        if flags.sentence_transformers:
            asked = {"folder": folder, "model": os.path.abspath(flags.model)}
            peer = Peer("sentence_transformers_embedding.py", flags.sentence_transformers, asked)
            calls["sentence_transformers"] = peer.step
        seconds = measuring.median_seconds(calls, flags.repeats)
        result = {
            "texts": len(texts),
            "tokens": tokens,
            "texts_per_second": {
                name: round(len(texts) / second, 1) for name, second in seconds.items()
            },
            "load_average": round(os.getloadavg()[0], 1),
        }
        if peer:
            peer.end()
            result["times"] = round(seconds["sentence_transformers"] / seconds["beambert"], 2)
            theirs, ours = np.load(f"{folder}/vectors.npy"), embedder.embed(texts)[0]
            result["greatest_difference"] = float(np.abs(theirs - ours).max())
    print(measuring.write_results(flags.results, parser, argv, result))


if __name__ == "__main__":
    measuring.run(main)
