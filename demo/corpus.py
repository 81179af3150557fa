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
import shutil
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
from beambert.folders import folders_held
from beambert.io import TEMPORARY_PREFIX, read_object
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


def make_task(
    documents: Mapping[str, Sequence[str]], limits: Mapping[str, int]
) -> dict[str, list[Example]]:
    """Returns the examples of each split, shuffled.

    Args:
      documents: paragraphs of each module, without duplicates.
      limits: greatest number of examples in the splits "dev" and "train".

    Raises:
      InputError: a split would have no example.
    """
    seen, splits = set(), {}
    for split in ("dev", "train"):
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
        splits[split] = found[: limits[split]]
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
FINISHED_FILE = "info.json"
MINIMUM_DOCUMENT_WORDS = 20
CORPUS_FILES = 4
# They are so few that pre-training makes a difference.
TRAIN_EXAMPLES, DEV_EXAMPLES = 2000, 600


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


def write_corpus(folder: Path, documents: Mapping[str, Sequence[str]]) -> int:
    """Writes documents as JSON Lines, spread over the files; returns the size of the texts."""
    texts = {name: "\n".join(paragraphs) for name, paragraphs in documents.items()}
    lines = [json.dumps({"id": name, "text": text}) + "\n" for name, text in texts.items()]
    for index in range(CORPUS_FILES):
        path = folder / f"documents-{index:05d}-of-{CORPUS_FILES:05d}.jsonl"
        path.write_text("".join(lines[index::CORPUS_FILES]), encoding="utf-8")
    return sum(len(text.encode()) for text in texts.values())


def make_corpus(
    output_dir: Path,
    *,
    roots: Sequence[Path] | None = None,
    train_examples: int = TRAIN_EXAMPLES,
    dev_examples: int = DEV_EXAMPLES,
    workers: int | None = None,
) -> dict[str, Any]:
    """Makes `corpus/` and `task/` in the output folder, unless a finished run has made them.

    Args:
      output_dir: folder to write to; made if missing.
      roots: folders that hold packages (default: those of the running interpreter).
      train_examples: greatest number of training examples.
      dev_examples: greatest number of dev examples.
      workers: number of processes (default: the number of CPUs).

    Returns:
      the content of `corpus/info.json`: numbers of modules, documents, paragraphs and those that
      were dropped, by reason; sizes of docstrings and texts in UTF-8; numbers of examples.

    Raises:
      InputError: a folder is in the way, another command makes it, or there is too little
        documentation.
    """
    with folders_held([str(output_dir)], "--output"):
        examples = {"train": train_examples, "dev": dev_examples}
        return _make(
            output_dir, roots or installed_roots(), examples, workers or os.cpu_count() or 1
        )


def _make(
    output_dir: Path, roots: Sequence[Path], examples: Mapping[str, int], workers: int
) -> dict[str, Any]:
    corpus, task = output_dir / "corpus", output_dir / "task"
    if (corpus / FINISHED_FILE).exists():
        print(f"{corpus}: already finished, nothing to do", file=sys.stderr)
        return read_object(str(corpus / FINISHED_FILE), flag="--output")
    for folder in (corpus, task):
        if folder.exists():
            raise InputError(f"{folder}: exists without {corpus / FINISHED_FILE}; remove it")
    start = time.monotonic()
    texts = read_modules(find_modules(roots), workers)
    documents, dropped = make_documents(texts)
    kept = {name: paragraphs for name, paragraphs in documents.items() if not is_held_out(name)}
    splits = make_task(documents, examples)

    unfinished = output_dir / f"{TEMPORARY_PREFIX}corpus"
    shutil.rmtree(unfinished, ignore_errors=True)
    for folder in (corpus, task):
        (unfinished / folder.name).mkdir(parents=True)
    for split, rows in splits.items():
        lines = ("".join(f"{word}\t{tag}\n" for word, tag in example) for example in rows)
        path = unfinished / task.name / f"{split}.conll"
        path.write_text("\n".join(lines), encoding="utf-8")
    info = {
        "modules": len(texts),
        "bytes_before": sum(text.docstring_bytes for text in texts),
        "bytes_after": write_corpus(unfinished / corpus.name, kept),
        "documents": len(kept),
        "held_out_documents": len(documents) - len(kept),
        "paragraphs": sum(map(len, kept.values())),
        "paragraphs_dropped": dropped,
        "examples": {split: len(rows) for split, rows in splits.items()},
    }
    text = json.dumps(info, indent=2) + "\n"
    (unfinished / corpus.name / FINISHED_FILE).write_text(text, encoding="utf-8")
    # The corpus is moved last, because its info.json says that both folders are complete.
    (unfinished / task.name).rename(task)
    (unfinished / corpus.name).rename(corpus)
    unfinished.rmdir()
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
