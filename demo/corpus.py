"""Makes the demonstration's corpus and its classification task from installed documentation.

The docstrings of the installed packages and of the standard library are tens of megabytes of
English. Each module becomes a document: wrapped lines are joined into paragraphs, and code and
repeated paragraphs are dropped. One module in ten is held out of the corpus.

The task is to find the preposition that was taken out of a sentence, given what stands before and
behind it, as a program that corrects English does. The words alone say little about it, but their
order much. The training examples come from modules in the corpus, the dev examples from the others.

    python -m beambert.demo.corpus --output=DIR
"""

import collections
import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import sysconfig
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from beambert import cli
from beambert.demo.prose import ModuleText, module_text, stable_hash
from beambert.errors import InputError
from beambert.flags import FlagParser
from beambert.storage import TEMPORARY_PREFIX

HELD_OUT_ONE_IN = 10
PREPOSITIONS = ("by", "for", "from", "in", "of", "on", "to", "with")
# Between two words of letters, where no name or code is near.
_BETWEEN = re.compile(rf"(?<=[a-z] )(?:{'|'.join(PREPOSITIONS)})(?= [a-z])")
_SENTENCE_END = re.compile(r"(?<=[.!?]) ")
WORDS_IN_EXAMPLE = (8, 30)
# An example with these many words of another on both sides of the gap would not be new.
WORDS_BESIDE = 3


class Gap(NamedTuple):
    """An example: what stands before a preposition, what stands behind it, and the preposition."""

    before: str
    behind: str
    preposition: str


def is_held_out(module: str) -> bool:
    """Returns whether a module is kept out of the corpus, which depends only on its name."""
    return stable_hash(module) % HELD_OUT_ONE_IN == 0


def make_gap(sentence: str) -> Gap | None:
    """Takes one preposition out of a sentence; None for one without any, or of another length."""
    least, most = WORDS_IN_EXAMPLE
    found = list(_BETWEEN.finditer(sentence))
    if not found or not least <= sentence.count(" ") + 1 <= most:
        return None
    chosen = found[stable_hash(sentence) % len(found)]
    return Gap(sentence[: chosen.start() - 1], sentence[chosen.end() + 1 :], chosen[0])


def make_task(
    documents: Mapping[str, Sequence[str]], limits: Mapping[str, int]
) -> dict[str, list[Gap]]:
    """Returns the examples of each split, shuffled, with equally many of each preposition.

    Args:
      documents: paragraphs of each module, without duplicates.
      limits: greatest number of examples per preposition in the splits "dev" and "train".

    Raises:
      InputError: a split would have no example of a preposition.
    """
    seen, splits = set(), {}
    for split in ("dev", "train"):
        found: dict[str, list[Gap]] = {preposition: [] for preposition in PREPOSITIONS}
        for module, paragraphs in documents.items():
            if is_held_out(module) != (split == "dev"):
                continue
            for sentence in (each for text in paragraphs for each in _SENTENCE_END.split(text)):
                gap = make_gap(sentence)
                if gap and (key := _neighbours(gap)) not in seen:
                    seen.add(key)
                    found[gap.preposition].append(gap)
        number = min(limits[split], *map(len, found.values()))
        if not number:
            raise InputError("--output: there are too few installed modules for the task")
        chosen = [gap for gaps in found.values() for gap in sorted(gaps, key=_order)[:number]]
        splits[split] = sorted(chosen, key=_order)
    return splits


def _neighbours(gap: Gap) -> tuple[tuple[str, ...], tuple[str, ...]]:
    before, behind = gap.before.lower().split(), gap.behind.lower().split()
    return tuple(before[-WORDS_BESIDE:]), tuple(behind[:WORDS_BESIDE])


def _order(gap: Gap) -> tuple[int, Gap]:
    return stable_hash(" ".join(gap)), gap


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
# Examples per preposition. They are so few that pre-training makes a difference.
TRAIN_EXAMPLES, DEV_EXAMPLES = 100, 150


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
      train_examples: greatest number of training examples per preposition.
      dev_examples: greatest number of dev examples per preposition.
      workers: number of processes (default: the number of CPUs).

    Returns:
      the content of `corpus/info.json`: numbers of modules, documents, paragraphs and those that
      were dropped, by reason; sizes of docstrings and texts in UTF-8; numbers of examples.

    Raises:
      InputError: a folder is in the way, or there is too little documentation.
    """
    corpus, task = output_dir / "corpus", output_dir / "task"
    if (corpus / FINISHED_FILE).exists():
        print(f"{corpus}: already finished, nothing to do", file=sys.stderr)
        return json.loads((corpus / FINISHED_FILE).read_text())
    for folder in (corpus, task):
        if folder.exists():
            raise InputError(f"{folder}: exists without {corpus / FINISHED_FILE}; remove it")
    if output_dir.exists() and not output_dir.is_dir():
        raise InputError(f"--output={output_dir}: is a file; give a folder")
    start = time.monotonic()
    texts = read_modules(find_modules(roots or installed_roots()), workers or os.cpu_count() or 1)
    documents, dropped = make_documents(texts)
    kept = {name: paragraphs for name, paragraphs in documents.items() if not is_held_out(name)}
    splits = make_task(documents, {"train": train_examples, "dev": dev_examples})

    unfinished = output_dir / f"{TEMPORARY_PREFIX}corpus"
    shutil.rmtree(unfinished, ignore_errors=True)
    for folder in (corpus, task):
        (unfinished / folder.name).mkdir(parents=True)
    for split, gaps in splits.items():
        lines = "".join("\t".join(row) + "\n" for row in [("text", "text_b", "label"), *gaps])
        (unfinished / task.name / f"{split}.tsv").write_text(lines, encoding="utf-8")
    info = {
        "modules": len(texts),
        "bytes_before": sum(text.docstring_bytes for text in texts),
        "bytes_after": write_corpus(unfinished / corpus.name, kept),
        "documents": len(kept),
        "held_out_documents": len(documents) - len(kept),
        "paragraphs": sum(map(len, kept.values())),
        "paragraphs_dropped": dropped,
        "examples": {split: len(gaps) for split, gaps in splits.items()},
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
        description="Makes a corpus and a classification task from the installed documentation.",
    )
    parser.add_argument("--output", type=Path, required=True, help="folder for corpus/ and task/")
    make_corpus(parser.parse_args(argv).output)


if __name__ == "__main__":
    sys.exit(cli.run_main("corpus", main, sys.argv[1:]))
