"""Makes the demonstration's corpus and its classification task from installed documentation.

The docstrings of the installed packages and of the standard library are tens of megabytes of
English. Each module becomes a document: wrapped lines are joined into paragraphs, and code and
repeated paragraphs are dropped. The task is to find the package that a paragraph comes from, after
the removal of package names. One module in ten is held out of the corpus. The dev examples of the
task come only from those modules.

    python -m beambert.demo.corpus --output=DIR
"""

import collections
import dataclasses
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

from beambert import console
from beambert import flags as console_flags
from beambert import flags as jobs_flags
from beambert.demo.labelled_task import is_held_out, make_task
from beambert.demo.prose import ModuleText, module_text
from beambert.errors import InputError
from beambert.pipelines.storage.claims import TEMPORARY_PREFIX

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
# This project's packages are left out, as the demonstration must not read itself.
OWN_PACKAGES = frozenset({"pipelines", "model", "trainer", "deploy", "demo", "benchmarks"})
FINISHED_FILE = "info.json"
MINIMUM_DOCUMENT_WORDS = 20
CORPUS_FILES = 4
# The number of training examples per class is so small that pre-training makes a difference.
TRAIN_EXAMPLES = 100
DEV_EXAMPLES = 150


@dataclasses.dataclass(frozen=True)
class CorpusInfo:
    """The content of `corpus/info.json`, which describes corpus and task.

    Attributes:
      modules: number of source files that were read.
      bytes_before: size of all docstrings in UTF-8 before any filter.
      bytes_after: size of the texts in the corpus in UTF-8.
      documents: number of documents in the corpus.
      held_out_documents: number of documents kept out of the corpus.
      paragraphs: number of paragraphs in the corpus.
      paragraphs_dropped: number of dropped paragraphs, by reason.
      classes: numbers of candidates and examples in each split, by class.
      removed_names: names that were removed from the task's texts.
    """

    modules: int
    bytes_before: int
    bytes_after: int
    documents: int
    held_out_documents: int
    paragraphs: int
    paragraphs_dropped: Mapping[str, int]
    classes: Mapping[str, Mapping[str, int]]
    removed_names: Sequence[str]


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
    # A caller may have started threads (TensorFlow does), which a forked process can't survive.
    # A terminal's Ctrl-C is this process's business.
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


def write_task(folder: Path, rows: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Writes each split as a file of tab-separated values."""
    for split, examples in rows.items():
        lines = ["text\tlabel", *map("\t".join, examples)]
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_corpus(
    output_dir: Path,
    *,
    roots: Sequence[Path] | None = None,
    train_examples: int = TRAIN_EXAMPLES,
    dev_examples: int = DEV_EXAMPLES,
    workers: int | None = None,
) -> CorpusInfo:
    """Makes `corpus/` and `task/` in the output folder, unless a finished run has made them.

    Args:
      output_dir: folder to write to; made if missing.
      roots: folders that hold packages (default: those of the running interpreter).
      train_examples: greatest number of training examples per class.
      dev_examples: greatest number of dev examples per class.
      workers: number of processes (default: the number of CPUs).

    Raises:
      InputError: a folder is in the way, or there is too little documentation for two classes.
    """
    corpus, task = output_dir / "corpus", output_dir / "task"
    if (corpus / FINISHED_FILE).exists():
        print(f"{corpus}: already finished, nothing to do", file=sys.stderr)
        return CorpusInfo(**json.loads((corpus / FINISHED_FILE).read_text()))
    for folder in (corpus, task):
        if folder.exists():
            raise InputError(f"{folder}: exists without {corpus / FINISHED_FILE}; remove it")
    if output_dir.exists() and not output_dir.is_dir():
        raise InputError(f"--output={output_dir}: is a file; give a folder")
    start = time.monotonic()
    texts = read_modules(find_modules(roots or installed_roots()), workers or os.cpu_count() or 1)
    documents, dropped = make_documents(texts)
    kept = {name: paragraphs for name, paragraphs in documents.items() if not is_held_out(name)}
    examples = make_task(texts, documents, {"train": train_examples, "dev": dev_examples})

    unfinished = output_dir / f"{TEMPORARY_PREFIX}corpus"
    shutil.rmtree(unfinished, ignore_errors=True)
    for folder in (corpus, task):
        (unfinished / folder.name).mkdir(parents=True)
    write_task(unfinished / task.name, examples.rows)
    info = CorpusInfo(
        modules=len(texts),
        bytes_before=sum(text.docstring_bytes for text in texts),
        bytes_after=write_corpus(unfinished / corpus.name, kept),
        documents=len(kept),
        held_out_documents=len(documents) - len(kept),
        paragraphs=sum(map(len, kept.values())),
        paragraphs_dropped=dropped,
        classes=examples.counts,
        removed_names=examples.removed_names,
    )
    text = json.dumps(dataclasses.asdict(info), indent=2) + "\n"
    (unfinished / corpus.name / FINISHED_FILE).write_text(text, encoding="utf-8")
    # The corpus is moved last, because its info.json says that both folders are complete.
    (unfinished / task.name).rename(task)
    (unfinished / corpus.name).rename(corpus)
    unfinished.rmdir()
    print(f"{info_line(info)}, in {time.monotonic() - start:.0f} s", file=sys.stderr)
    return info


def info_line(info: CorpusInfo) -> str:
    """Returns a line about the corpus and the task."""
    counts = next(iter(info.classes.values()))
    return (
        f"{info.documents:,} documents, {info.bytes_after / 1e6:.1f} MB of "
        f"{info.bytes_before / 1e6:.1f} MB of docstrings; task: {len(info.classes)} classes with "
        f"{counts['train']} training and {counts['dev']} held-out examples each"
    )


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a flag cannot be used, or the corpus cannot be made.
    """
    parser = console_flags.FlagParser(
        prog="python -m beambert.demo.corpus",
        description="Makes a corpus and a classification task from the installed documentation.",
    )
    parser.add_argument("--output", type=Path, required=True, help="folder for corpus/ and task/")
    parser.add_argument(
        "--train_examples",
        type=int,
        default=TRAIN_EXAMPLES,
        help="training examples per class (default: %(default)s)",
    )
    parser.add_argument(
        "--dev_examples",
        type=int,
        default=DEV_EXAMPLES,
        help="dev examples per class (default: %(default)s)",
    )
    parser.add_argument(
        "--workers", type=int, help="number of processes (default: the number of CPUs)"
    )
    flags = parser.parse_args(argv)
    jobs_flags.check_minimum(flags, 1, "train_examples", "dev_examples", "workers")
    make_corpus(
        flags.output,
        train_examples=flags.train_examples,
        dev_examples=flags.dev_examples,
        workers=flags.workers,
    )


if __name__ == "__main__":
    sys.exit(console.run_main("corpus", main, sys.argv[1:]))
