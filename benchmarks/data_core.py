"""How fast does text become records, how long does each stage take, and what does Beam cost?

    python -m benchmarks.data_core --input='wiki/wiki_*' --vocab_file=vocab.txt
    python -m benchmarks.data_core --original=bert/create_pretraining_data.py

With `--original`, the original release's create_pretraining_data.py (google-research/bert) runs on
the same sentences, vocabulary and parameters, and the ratio is printed. No figure includes start-up
(imports, building the tokenizer). Everything runs on one core.
"""

import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from beambert import process
from beambert.errors import InputError
from beambert.io import match_inputs
from benchmarks import measuring

RUN_ORIGINAL = """
import sys, time
import tensorflow.compat.v1 as tf
tf.logging.set_verbosity(tf.logging.ERROR)
sys.modules["tensorflow"] = tf
path = sys.argv[1]
sys.path.insert(0, path.rsplit("/", 1)[0])
sys.argv = sys.argv[1:]
import create_pretraining_data as original
tf.flags.FLAGS(sys.argv)
started = time.perf_counter()
original.main(None)
print("SECONDS", time.perf_counter() - started)
"""


class Stopwatch:
    """Adds up the seconds of named stages."""

    def __init__(self) -> None:
        """Starts the clock."""
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """Adds the time since the last lap to a stage."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now


def run_core(paths: list[str], vocabulary: object, folder: pathlib.Path, dupe_factor: int) -> dict:
    """Runs the pure functions without Beam; returns seconds, instances and the sentences read."""
    from beambert.pipelines.corpus.documents import Document
    from beambert.pipelines.corpus.encodings import SAMPLE_BYTES
    from beambert.pipelines.corpus.formats import recognise
    from beambert.pipelines.pretraining import documents as compact
    from beambert.pipelines.pretraining import instances
    from beambert.pipelines.pretraining.masks import TokenIds
    from beambert.pipelines.records.encoding import RecordWriter, encode_examples
    from beambert.pipelines.text.sentences import split_sentences
    from beambert.pipelines.tokenizers.compiled_pieces import Tokenizer

    tokenizer, ids = Tokenizer(vocabulary, do_lower_case=True), TokenIds.of(vocabulary)
    tokenizer.tokenize_batch(["warm up"])
    watch, parts, sentences = Stopwatch(), [], []
    for path in paths:
        with open(path, "rb") as file:
            reader = recognise(file.read(SAMPLE_BYTES))
            file.seek(0)
            documents = [
                d for d in reader.read_lines(file) if isinstance(d, Document) and d.text.strip()
            ]
        watch.lap("read")
        split = [split_sentences(document) for document in documents]
        watch.lap("split")
        tokens, lengths = tokenizer.tokenize_batch([s for each in split for s in each])
        watch.lap("tokenize")
        packed = compact.compact_documents(split, tokens, lengths, len(vocabulary))
        parts.append(compact.CompactDocuments.unpack(packed.pack()))
        watch.lap("pack")
        sentences += split
    used, made = instances.DocumentCounts(), instances.InstanceCounts()
    parameters = instances.InstanceParameters(dupe_factor=dupe_factor)
    with open(folder / "core.tfrecord", "wb") as file:
        writer = RecordWriter(file)
        ordered = instances.order_documents(compact.CompactDocuments.concatenate(parts), ids, used)
        watch.lap("order")
        pairs = instances.pair_documents(ordered, parameters, 0, made)
        watch.lap("pairs")
        for rows in instances.build_instances(ordered.tokens, pairs, ids, parameters, 0, made):
            watch.lap("masks")
            examples = encode_examples(rows)
            watch.lap("encode")
            writer.write(examples)
            watch.lap("write")
    return {"seconds": watch.seconds, "instances": made.instances, "sentences": sentences}


def run_beam(paths: list[str], vocab_file: str, folder: pathlib.Path, dupe_factor: int) -> float:
    """Runs `beambert data` in this process; returns the megabytes a second that it prints."""
    from beambert.pipelines import create_pretraining_data

    flags = [f"--vocab_file={vocab_file}", f"--output={folder / 'beam'}"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        create_pretraining_data.main(["--input", *paths, *flags, f"--dupe_factor={dupe_factor}"])
    return float(re.search(r"done in .*, ([0-9.]+) MB/s", printed.getvalue())[1])


def run_original(
    script: str, sentences: list[list[str]], vocab_file: str, folder: pathlib.Path, dupe_factor: int
) -> float:
    """Runs the original script on the same sentences; returns the seconds of its main."""
    text = folder / "sentences.txt"
    documents = ("\n".join(sentence) for sentence in sentences if sentence)
    text.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    flags = [
        f"--input_file={text}",
        f"--output_file={folder / 'original.tfrecord'}",
        f"--vocab_file={vocab_file}",
        f"--dupe_factor={dupe_factor}",
    ]
    ran = subprocess.run(
        [sys.executable, "-c", RUN_ORIGINAL, os.path.abspath(script), *flags],
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise InputError(f"--original={script}: failed with this message:\n{ran.stderr[-2000:]}")
    return float(ran.stdout.split("SECONDS")[1])


def measure(paths: list[str], vocab_file: str, dupe_factor: int, original: str | None) -> dict:
    """Returns the speeds and their ratios.

    Args:
      paths: files of the corpus.
      vocab_file: path of the vocabulary.
      dupe_factor: number of passes over the corpus.
      original: path of the original script; None leaves it out.

    Raises:
      InputError: the original script failed.
    """
    from beambert.pipelines.tokenizers.vocabulary import Vocabulary

    with open(vocab_file, "rb") as file:
        vocabulary = Vocabulary.parse(file.read(), vocab_file)
    megabytes = sum(os.path.getsize(path) for path in paths) / 1e6
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        (folder / "first").mkdir()
        run_core(paths[:1], vocabulary, folder / "first", 1)  # The first use compiles the loops.
        core = run_core(paths, vocabulary, folder, dupe_factor)
        beam = megabytes / run_beam(paths, vocab_file, folder, dupe_factor)
        total = sum(core["seconds"].values())
        result = {
            "megabytes": round(megabytes, 1),
            "dupe_factor": dupe_factor,
            "instances": core["instances"],
            "core_megabytes_per_second": round(megabytes / total, 2),
            "core_instances_per_second": round(core["instances"] / total),
            "share": {name: round(s / total, 3) for name, s in core["seconds"].items()},
            "beam_megabytes_per_second": round(megabytes / beam, 2),
            "beam_seconds_per_core_second": round(beam / total, 2),
        }
        if original:
            seconds = run_original(original, core["sentences"], vocab_file, folder, dupe_factor)
            result["original_megabytes_per_second"] = round(megabytes / seconds, 3)
            result["core_times_original"] = round(seconds / total, 1)
            result["beam_times_original"] = round(seconds / beam, 1)
    return result


def main(argv: Sequence[str]) -> None:
    """Measures and prints.

    Raises:
      InputError: there is no corpus or no vocabulary, or the original script failed.
    """
    process.keep_freed_memory()  # as the commands do
    parser = measuring.flag_parser("data_core", __doc__)
    add = parser.add_argument
    add("--input", default="demo-output/corpus/*.jsonl", help="corpus (default: %(default)s)")
    add(
        "--vocab_file",
        default="demo-output/trained/vocab.txt",
        help="vocabulary of the corpus (default: %(default)s)",
    )
    add("--dupe_factor", type=int, default=5, help="passes over it (default: %(default)s)")
    add("--original", metavar="FILE", help="the original release's create_pretraining_data.py")
    measuring.add_results_flag(parser)
    flags = parser.parse_args(list(argv))
    paths = [file.path for file in match_inputs([flags.input])]
    match_inputs([flags.vocab_file], "--vocab_file")
    # TensorFlow is not loaded yet. It will start as many threads as the process has cores.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    result = measure(paths, flags.vocab_file, flags.dupe_factor, flags.original)
    print(measuring.write_results(flags.results, parser, argv, result))


if __name__ == "__main__":
    measuring.run(main)
