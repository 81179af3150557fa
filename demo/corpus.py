"""Makes the demonstration's corpus and its classification task from installed documentation.

The docstrings of the installed packages and of the standard library are tens of megabytes of
English. Each module becomes a document: wrapped lines are joined into paragraphs, and code and
repeated paragraphs are dropped. One module in ten is held out of the corpus.

The task is to find the package that a paragraph comes from, after the names of packages are removed
from it. The training examples come from modules in the corpus, the dev examples from the others.

    python -m beambert.demo.corpus --output=DIR
"""

import collections
import functools
import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import sysconfig
import time
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from beambert import cli
from beambert.demo.prose import ModuleText, module_text, paragraph_key, reason_to_drop, stable_hash
from beambert.errors import InputError
from beambert.flags import FlagParser
from beambert.storage import TEMPORARY_PREFIX

HELD_OUT_ONE_IN = 10
CLASSES = 8
WORDS_IN_EXAMPLE = (12, 60)
SHARED_RUN_WORDS = 8
# A package is left out if more than this share of its paragraphs also occurs in a chosen package.
# Copies and successors of a code base (keras in tensorflow, vertexai in google) have one subject.
MAXIMUM_SHARED = 0.05
MINIMUM_ALIAS_MODULES = 2
_PATH = re.compile(r"\w+(?:[.\-/]\w+)*")
_NOT_LETTERS = re.compile(r"[\W\d_]+")


def make_task(
    texts: Sequence[ModuleText],
    documents: Mapping[str, Sequence[str]],
    limits: Mapping[str, int],
) -> tuple[dict[str, list[tuple[str, str]]], dict[str, dict[str, int]], list[str]]:
    """Makes the task from the packages with the most paragraphs.

    No held-out example shares SHARED_RUN_WORDS words in a row with a training example.

    Args:
      texts: texts of all modules.
      documents: paragraphs of each module, without duplicates.
      limits: greatest number of examples per label in the splits "train" and "dev", in this order.

    Returns:
      (text, label) of each split, shuffled, with equal numbers of each label; numbers of candidates
      and examples in each split, by label; the names that were removed from the texts.

    Raises:
      InputError: there are too few texts for two classes.
    """
    labels, considered = choose_classes(rank_packages(texts), CLASSES, sum(limits.values()))
    names = names_of(considered, texts)
    rows: dict[str, list[tuple[str, str]]] = {}
    counts: dict[str, dict[str, int]] = {label: {} for label in labels}
    seen: set[int] = set()
    barred: set[int] = set()
    for split, limit in limits.items():
        taken = {}
        for label in labels:
            found = candidates(documents, label, held_out=split == "dev")
            taken[label] = take_examples(found, names, limit, seen, barred)
            counts[label][f"{split}_candidates"] = len(found)
        number = min(map(len, taken.values()))
        rows[split] = [(text, label) for label, chosen in taken.items() for text in chosen[:number]]
        rows[split].sort(key=lambda row: stable_hash(row[0]))
        barred = set().union(*(word_runs(text) for text, _ in rows[split]))
        for label in labels:
            counts[label][split] = number
    return rows, counts, names


def is_held_out(module: str) -> bool:
    """Returns whether a module is kept out of the corpus, which depends only on its name."""
    return stable_hash(module) % HELD_OUT_ONE_IN == 0


def usable_words(paragraph: str) -> bool:
    """Returns whether a paragraph has a suitable length for an example."""
    return WORDS_IN_EXAMPLE[0] <= paragraph.count(" ") + 1 <= WORDS_IN_EXAMPLE[1]


def rank_packages(texts: Iterable[ModuleText]) -> list[tuple[str, set[int]]]:
    """Returns (package, keys of its paragraphs of suitable length), most paragraphs first."""
    keys: dict[str, set[int]] = collections.defaultdict(set)
    for text in texts:
        package = text.name.partition(".")[0]
        keys[package].update(key for paragraph, key in text.paragraphs if usable_words(paragraph))
    return sorted(keys.items(), key=lambda item: (-len(item[1]), item[0]))


def choose_classes(
    ranked: Iterable[tuple[str, set[int]]], number: int, minimum: int
) -> tuple[list[str], list[str]]:
    """Chooses the packages with the most paragraphs, without those that repeat a chosen one.

    Args:
      ranked: (package, keys of its paragraphs), most paragraphs first.
      number: greatest number of packages to choose.
      minimum: least number of paragraphs of a package.

    Returns:
      The chosen packages, and all packages that were considered.

    Raises:
      InputError: fewer than two packages have enough paragraphs.
    """
    chosen: dict[str, set[int]] = {}
    considered = []
    for package, keys in ranked:
        if len(chosen) == number or len(keys) < minimum:
            break
        considered.append(package)
        shared = max((len(keys & others) for others in chosen.values()), default=0)
        if shared <= MAXIMUM_SHARED * len(keys):
            chosen[package] = keys
    if len(chosen) < 2:
        raise InputError(
            f"--train_examples, --dev_examples: fewer than two installed packages have {minimum} "
            "paragraphs; take fewer examples"
        )
    return list(chosen), considered


def names_of(packages: Iterable[str], texts: Iterable[ModuleText]) -> list[str]:
    """Returns the names of packages, the parts of these names, and common import aliases."""
    packages = set(packages)
    aliases = collections.Counter(alias for text in texts for alias in text.aliases)
    names = {part for name in packages for part in (name, *name.split("_"))}
    names |= {
        alias
        for (package, alias), modules in aliases.items()
        if package in packages and modules >= MINIMUM_ALIAS_MODULES
    }
    return sorted({name.strip("_").lower() for name in names if len(name) > 1} - {""})


@functools.lru_cache(maxsize=8)
def _any_name(names: tuple[str, ...]) -> re.Pattern[str]:
    short = "|".join(re.escape(name) for name in names if len(name) <= 3) or "(?!)"
    long = "|".join(re.escape(name) for name in names if len(name) > 3) or "(?!)"
    # Unlike at \b, digits and underscores end a word here: np_array holds np, but input does not.
    return re.compile(rf"{long}|(?<![a-z])(?:{short})(?![a-z])", re.IGNORECASE)


def remove_names(paragraph: str, names: Sequence[str]) -> str:
    """Removes each word or dotted path that contains a name, in upper or lower case."""
    name = _any_name(tuple(names))
    text = _PATH.sub(lambda path: " " if name.search(path[0]) else path[0], paragraph)
    return re.sub(r" +([,.;:)])", r"\1", " ".join(text.split()))


def word_runs(paragraph: str) -> set[int]:
    """Returns the hashes of all runs of SHARED_RUN_WORDS words, ignoring case and punctuation."""
    words = _NOT_LETTERS.sub(" ", paragraph.lower()).split()
    ends = range(SHARED_RUN_WORDS, len(words) + 1)
    return {stable_hash(" ".join(words[end - SHARED_RUN_WORDS : end])) for end in ends}


def candidates(documents: Mapping[str, Sequence[str]], label: str, held_out: bool) -> list[str]:
    """Returns a package's paragraphs of suitable length, in the order of their hashes."""
    found = [
        paragraph
        for module, paragraphs in documents.items()
        if module.partition(".")[0] == label and is_held_out(module) == held_out
        for paragraph in filter(usable_words, paragraphs)
    ]
    return sorted(found, key=lambda paragraph: (stable_hash(paragraph), paragraph))


def take_examples(
    paragraphs: Iterable[str], names: Sequence[str], limit: int, seen: set[int], barred: Set[int]
) -> list[str]:
    """Takes the first paragraphs that make good examples, with names removed.

    Args:
      paragraphs: candidates in order of preference.
      names: names to remove from the paragraphs.
      limit: greatest number of examples.
      seen: keys of all examples so far; those of the new ones are added.
      barred: hashes of the runs of words that no example may contain.
    """
    taken: list[str] = []
    for paragraph in paragraphs:
        if len(taken) == limit:
            break
        text = remove_names(paragraph, names)
        key = paragraph_key(text)
        good = usable_words(text) and reason_to_drop(text) is None and key not in seen
        if good and barred.isdisjoint(word_runs(text)):
            seen.add(key)
            taken.append(text)
    return taken


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
# The number of training examples per class is so small that pre-training makes a difference.
TRAIN_EXAMPLES = 100
DEV_EXAMPLES = 150


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
      train_examples: greatest number of training examples per class.
      dev_examples: greatest number of dev examples per class.
      workers: number of processes (default: the number of CPUs).

    Returns:
      the content of `corpus/info.json`: numbers of modules, documents, paragraphs and those that
      were dropped, by reason; sizes of docstrings and texts in UTF-8; what `make_task` counts.

    Raises:
      InputError: a folder is in the way, or there is too little documentation for two classes.
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
    limits = {"train": train_examples, "dev": dev_examples}
    rows, classes, removed_names = make_task(texts, documents, limits)

    unfinished = output_dir / f"{TEMPORARY_PREFIX}corpus"
    shutil.rmtree(unfinished, ignore_errors=True)
    for folder in (corpus, task):
        (unfinished / folder.name).mkdir(parents=True)
    for split, examples in rows.items():
        lines = "".join(f"{text}\t{label}\n" for text, label in [("text", "label"), *examples])
        (unfinished / task.name / f"{split}.tsv").write_text(lines, encoding="utf-8")
    info = {
        "modules": len(texts),
        "bytes_before": sum(text.docstring_bytes for text in texts),
        "bytes_after": write_corpus(unfinished / corpus.name, kept),
        "documents": len(kept),
        "held_out_documents": len(documents) - len(kept),
        "paragraphs": sum(map(len, kept.values())),
        "paragraphs_dropped": dropped,
        "classes": classes,
        "removed_names": removed_names,
    }
    text = json.dumps(info, indent=2) + "\n"
    (unfinished / corpus.name / FINISHED_FILE).write_text(text, encoding="utf-8")
    # The corpus is moved last, because its info.json says that both folders are complete.
    (unfinished / task.name).rename(task)
    (unfinished / corpus.name).rename(corpus)
    unfinished.rmdir()
    print(
        f"{len(kept):,} documents, {info['bytes_after'] / 1e6:.1f} MB; a task with {len(classes)} "
        f"classes, in {time.monotonic() - start:.0f} s",
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
