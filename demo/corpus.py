"""Makes the demonstration's corpus and its task from installed documentation.

The docstrings of the installed packages and of the standard library are tens of megabytes of
English. Each module becomes a document: wrapped lines are joined into paragraphs, and code and
repeated paragraphs are dropped. One module in ten is held out of the corpus.

The task is to restore commas and full stops, as after speech recognition: to tag each word by the
mark behind it. The words alone do not tell it. Its training examples come from modules in the
corpus, its dev examples from others.

    python -m beambert.demo.corpus --output=DIR
"""

import collections
import itertools
import json
import multiprocessing
import os
import re
import signal
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from beambert import cli
from beambert.demo.prose import ModuleText, module_text, stable_hash
from beambert.errors import InputError
from beambert.flags import FlagParser
from beambert.folders import claimed, refuse_others
from beambert.io import write_bytes
from beambert.pipelines.tasks.tagging import OUTSIDE

HELD_OUT_ONE_IN = 10
# Tags of the words that a mark follows; the others have `OUTSIDE`.
COMMA, STOP = "B-comma", "B-stop"
_WORD = re.compile(r"\w(?:.*\w)?")
WORDS_IN_EXAMPLE = 16
# Long documents would be most of the task.
EXAMPLES_A_DOCUMENT = 2
# No two examples begin with the same words: generated documentation repeats its phrases.
DIFFERENT_WORDS = 3
# Greatest number of examples of each split, so few that pre-training makes a difference.
EXAMPLES = {"dev": 600, "train": 2000}

# Words and their tags.
Example = Sequence[tuple[str, str]]


def is_held_out(module: str) -> bool:
    """Returns whether a module is kept out of the corpus, which depends only on its name."""
    return stable_hash(module) % HELD_OUT_ONE_IN == 0


def tagged(paragraph: str) -> list[tuple[str, str]]:
    """Returns the words of a paragraph, in small letters and without marks, and their tags."""
    found = []
    for each in paragraph.split(" "):
        if word := _WORD.search(each):
            behind = each[word.end() :]
            tag = STOP if re.search("[.!?]", behind) else COMMA if "," in behind else OUTSIDE
            found.append((word[0].lower(), tag))
    return found


def examples_of(paragraphs: Iterable[str]) -> Iterator[Example]:
    """Yields pieces of the paragraphs of a document that are as long as an example."""
    for words in map(tagged, paragraphs):
        for end in range(WORDS_IN_EXAMPLE, len(words) + 1, WORDS_IN_EXAMPLE):
            yield words[end - WORDS_IN_EXAMPLE : end]


def make_task(documents: Mapping[str, Sequence[str]]) -> dict[str, list[Example]]:
    """Returns the examples of each split, shuffled.

    Args:
      documents: paragraphs of each module, without duplicates.

    Raises:
      InputError: a split would have no example.
    """
    seen, splits = set(), {}
    for split, most in EXAMPLES.items():
        found = []
        for module, paragraphs in documents.items():
            if is_held_out(module) != (split == "dev"):
                continue
            for example in itertools.islice(examples_of(paragraphs), EXAMPLES_A_DOCUMENT):
                beginning = tuple(word for word, _ in example[:DIFFERENT_WORDS])
                if beginning not in seen:
                    seen.add(beginning)
                    found.append(example)
        if not found:
            raise InputError("--output: there are too few installed modules for the task")
        found.sort(key=lambda example: (stable_hash(str(example)), example))
        splits[split] = found[:most]
    return splits


EXCLUDED_FOLDERS = frozenset(
    {
        *("__pycache__", "site-packages", "dist-packages"),
        *("test", "tests"),  # Their docstrings are labels, not documentation.
        *("_vendor", "_vendored"),  # Copies of packages found elsewhere.
        "transports",  # Generated clients repeat every docstring there, in a fifth of all source.
    }
)
# Tests and generated modules (protocol buffers, and files that repeat a client's docstrings).
EXCLUDED_FILES = re.compile(
    r"test_.*\.py|.*_tests?\.py|conftest\.py|.*_pb2(_grpc)?\.py|async_client\.py|pagers\.py"
)
# This project's packages are left out.
OWN_PACKAGES = frozenset({"pipelines", "model", "trainer", "deploy", "demo", "benchmarks"})
INFO_FILE = "info.json"
MINIMUM_DOCUMENT_WORDS = 20
CORPUS_FILES = 4


def installed_roots() -> list[Path]:
    """Returns the folders in which the running interpreter finds packages and modules."""
    return sorted({Path(sysconfig.get_path(key)) for key in ("purelib", "platlib", "stdlib")})


# The number of modules between two progress lines. They take a few seconds.
MODULES_A_LINE = 4000


def find_modules(roots: Iterable[Path]) -> list[tuple[str, str]]:
    """Returns (module name, path) of all source files under the roots, sorted by name."""
    modules = {}
    for root in roots:
        for folder, folders, files in os.walk(root):
            inside = Path(folder).relative_to(root)
            folders[:] = [name for name in folders if name not in EXCLUDED_FOLDERS]
            if not inside.parts:
                folders[:] = [name for name in folders if name not in OWN_PACKAGES]
            for file in files:
                if file.endswith(".py") and not EXCLUDED_FILES.fullmatch(file):
                    parts = (*inside.parts, file.removesuffix(".py"))
                    name = ".".join(parts).removesuffix(".__init__")
                    modules.setdefault(name, str(Path(folder, file)))
    return sorted(modules.items())


def read_module(source: tuple[str, str]) -> ModuleText:
    """Returns the text of a module, given its name and path."""
    name, path = source
    return module_text(name, Path(path).read_text(encoding="utf-8", errors="ignore"))


def read_modules(sources: Sequence[tuple[str, str]], workers: int) -> list[ModuleText]:
    """Returns the texts of all modules in their order, read in parallel with progress lines."""
    texts = []
    # A forked process would not survive threads of the caller (TensorFlow starts some). Only this
    # process handles a terminal's Ctrl-C.
    ignoring = {"initializer": signal.signal, "initargs": (signal.SIGINT, signal.SIG_IGN)}
    with multiprocessing.get_context("spawn").Pool(workers, **ignoring) as pool:
        for text in pool.imap(read_module, sources, chunksize=128):
            texts.append(text)
            if len(texts) % MODULES_A_LINE == 0 or len(texts) == len(sources):
                print(f"read {len(texts):,} of {len(sources):,} modules", flush=True)
    return texts


def make_documents(
    texts: Iterable[ModuleText],
) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Makes documents of modules, without repeated paragraphs and short documents.

    Returns:
      The paragraphs of each document by module name, and the number of those dropped by reason.
    """
    dropped: collections.Counter[str] = collections.Counter()
    documents, seen = {}, set()
    for text in texts:
        dropped.update(text.dropped)
        fresh = {key: paragraph for paragraph, key in text.paragraphs if key not in seen}
        seen.update(fresh)
        dropped["duplicate"] += len(text.paragraphs) - len(fresh)
        if sum(paragraph.count(" ") + 1 for paragraph in fresh.values()) >= MINIMUM_DOCUMENT_WORDS:
            documents[text.name] = list(fresh.values())
        else:
            dropped["in a short document"] += len(fresh)
    return documents, dict(dropped)


def make_corpus(
    output_dir: Path, roots: Sequence[Path] | None = None, workers: int | None = None
) -> dict[str, Any]:
    """Makes `corpus/` and `task/` in the output folder, unless a finished run has made them.

    Args:
      output_dir: folder to write to; made if missing.
      roots: folders that hold packages (default: those of the running interpreter).
      workers: number of processes (default: the number of CPUs).

    Returns:
      the content of `corpus/info.json`: numbers of modules, documents, paragraphs and those that
      were dropped, by reason; sizes of docstrings and texts in UTF-8; numbers of examples.

    Raises:
      InputError: a folder is in the way, another command makes it, or there is too little
        documentation.
    """
    task = f"{output_dir}/task"
    # The corpus is finished after both are there.
    with claimed(f"{output_dir}/corpus", {"made_by": "beambert.demo.corpus"}) as corpus:
        if corpus.is_finished:
            print(f"{corpus.path}: already finished, nothing to do", file=sys.stderr)
            return corpus.read_json(INFO_FILE)
        refuse_others(task, [f"{split}.conll" for split in EXAMPLES])
        start = time.monotonic()
        modules = find_modules(roots or installed_roots())
        texts = read_modules(modules, workers or os.cpu_count() or 1)
        documents, dropped = make_documents(texts)
        splits = make_task(documents)
        for split, rows in splits.items():
            examples = ("".join(f"{word}\t{tag}\n" for word, tag in example) for example in rows)
            write_bytes(f"{task}/{split}.conll", "\n".join(examples).encode())
        kept = {name: "\n".join(each) for name, each in documents.items() if not is_held_out(name)}
        lines = [json.dumps({"id": name, "text": text}) + "\n" for name, text in kept.items()]
        for index in range(CORPUS_FILES):
            name = f"documents-{index:05d}-of-{CORPUS_FILES:05d}.jsonl"
            corpus.write(name, "".join(lines[index::CORPUS_FILES]).encode())
        info = {
            "modules": len(texts),
            "bytes_before": sum(text.docstring_bytes for text in texts),
            "bytes_after": sum(len(text.encode()) for text in kept.values()),
            "documents": len(kept),
            "held_out_documents": len(documents) - len(kept),
            "paragraphs": sum(len(documents[name]) for name in kept),
            "paragraphs_dropped": dropped,
            "examples": {split: len(rows) for split, rows in splits.items()},
        }
        corpus.write_json(INFO_FILE, info)
    print(
        f"{len(kept):,} documents, {info['bytes_after'] / 1e6:.1f} MB; a task with "
        f"{len(splits['train']):,} examples, in {time.monotonic() - start:.0f} s",
        file=sys.stderr,
    )
    return info


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a flag cannot be used, or the corpus cannot be made.
    """
    parser = FlagParser(
        prog="python -m beambert.demo.corpus",
        description="Makes a corpus and a task from the installed documentation.",
    )
    parser.add_argument("--output", type=Path, required=True, help="folder for corpus/ and task/")
    make_corpus(parser.parse_args(argv).output)


if __name__ == "__main__":
    sys.exit(cli.run_main("corpus", main, sys.argv[1:]))
