"""How fast is text cut into tokens on one core, and do the ids equal those of the library itself?

    python -m benchmarks.tokenizers --tokenizer roberta-base albert-base --input 'wiki/wiki_*'
    python -m benchmarks.tokenizers --train --input 'wiki/wiki_*' 'novels/*.txt'

Each tokenizer cuts the same lines as `beambert data` does, and as the `tokenizers` library does
line by line. Without tokenizers of one's own, `--train` learns small ones with the steps of
RoBERTa, ModernBERT, ALBERT, XLM-R and BERT.
"""

import os
import pathlib
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import measuring

# Number of lines that the trained tokenizers are learned from, and of their tokens.
_TRAINING_LINES, _TOKENS = 20_000, 8_000


def read_lines(paths: Sequence[str], most: int) -> list[str]:
    """Returns the first lines of each file that aren't blank, about equally many of each."""
    each = -(-most // len(paths))
    found: list[str] = []
    for path in paths:
        text = pathlib.Path(path).read_text("utf-8", "replace")
        found += [line for line in text.split("\n") if line.strip()][:each]
    return found[:most]


def train_all(lines: Sequence[str], folder: str) -> list[str]:
    """Trains the five kinds of tokenizers; returns their folders."""
    from tests.support.tokenizer_kinds import KINDS, train

    folders = [f"{folder}/{kind}" for kind in KINDS]
    for kind, path in zip(KINDS, folders, strict=True):
        os.makedirs(path)
        train(kind, lines[:_TRAINING_LINES], _TOKENS).save(f"{path}/tokenizer.json")
    return folders


def measure(folder: str, lines: list[str]) -> dict[str, Any]:
    """Returns the speeds, the number of tokens, and the number of lines whose ids differ."""
    from tokenizers import Tokenizer

    from beambert.pipelines.tokenizers.encoding import make_corpus_tokenizer
    from beambert.pipelines.tokenizers.folders import read_given

    vocabulary, do_lower_case = read_given(None, folder, None)
    tokenizer = make_corpus_tokenizer(vocabulary, do_lower_case)
    tokenizer.tokenize_batch(["first"])
    megabytes = sum(len(line.encode()) for line in lines) / 1e6
    started = time.process_time()
    ids, lengths = tokenizer.tokenize_batch(lines)
    ours = time.process_time() - started
    reference = Tokenizer.from_file(f"{folder}/tokenizer.json")
    reference.no_truncation()  # Published files may cut texts at the length of their model.
    started = time.process_time()
    expected = [reference.encode(line, add_special_tokens=False).ids for line in lines]
    library = time.process_time() - started
    parts = np.split(ids, np.cumsum(lengths)[:-1])
    differing = sum(part.tolist() != each for part, each in zip(parts, expected, strict=True))
    return {
        "kind": type(vocabulary).__name__,
        "tokens": len(ids),
        "megabytes_a_second": round(megabytes / ours, 2),
        "library_line_by_line": round(megabytes / library, 2),
        "differing_lines": differing,
    }


def main(argv: Sequence[str]) -> None:
    """Measures and prints.

    Raises:
      InputError: a file is missing, or a tokenizer cannot be used.
    """
    parser = measuring.flag_parser("tokenizers", __doc__)
    add = parser.add_argument
    add("--input", nargs="+", required=True, metavar="GLOB", help="text to cut")
    add("--lines", type=int, default=60_000, help="number of lines (default: %(default)s)")
    add("--tokenizer", nargs="+", default=[], metavar="DIR", help="folders with a tokenizer.json")
    add("--train", action="store_true", help="learn five kinds of tokenizers from the text")
    measuring.add_results_flag(parser)
    flags = parser.parse_args(list(argv))
    lines = read_lines(measuring.files_of("--input", flags.input), flags.lines)
    with tempfile.TemporaryDirectory() as folder:
        folders = [*flags.tokenizer, *(train_all(lines, folder) if flags.train else [])]
        result = {
            "lines": len(lines),
            "tokenizers": {os.path.basename(path): measure(path, lines) for path in folders},
        }
    print(measuring.write_results(flags.results, parser, argv, result))


if __name__ == "__main__":
    measuring.run(main)
