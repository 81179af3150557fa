"""Makes the demonstration's corpus and its classification task from installed documentation.

Every machine that ran the set-up has tens of megabytes of English: the docstrings of the installed
packages and of the standard library. One module becomes one document; wrapped lines are joined
into paragraphs, code is dropped, and a paragraph that occurred before is dropped. The text also
labels itself: the task is to tell from which package a paragraph comes, package names removed.
One module in ten is held out of the corpus, and only those give the task's held-out paragraphs.

    python -m demo.corpus --output=DIR
"""

import argparse
import ast
import collections
import dataclasses
import functools
import gc
import hashlib
import inspect
import itertools
import json
import multiprocessing
import os
import re
import shutil
import sys
import sysconfig
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path

EXCLUDED_FOLDERS = frozenset(
    {
        *("__pycache__", "site-packages", "dist-packages"),
        *("test", "tests"),  # Their docstrings are labels, not documentation.
        *("_vendor", "_vendored"),  # Copies of packages found elsewhere.
        "transports",  # Generated clients repeat every docstring there, in a fifth of all source.
    }
)
EXCLUDED_FILES = re.compile(r"test_.*\.py|.*_tests?\.py|conftest\.py")
# This project's packages, should they be installed: the demonstration must not read itself.
OWN_PACKAGES = frozenset({"pipelines", "model", "trainer", "deploy", "demo", "benchmarks"})
FINISHED_FILE = "info.json"

# Under these directives of reStructuredText stands prose; under any other, code, tables, formulae.
_PROSE_DIRECTIVE = re.compile(
    r"\.\. *(?:note|warning|seealso|important|tip|hint|caution|attention|deprecated|version\w+)::"
)
_DIRECTIVE = re.compile(r"\.\.(?:\s|$)")
_UNDERLINE = re.compile(r"[=\-~^*+#_|\"'`. ]{3,}")
_FIELD = re.compile(r"[:@](?!(?:class|func|meth|mod|ref|attr|data|obj|exc|py)\b)[\w ,*.\[\]|]+:\s*")
_TYPE_LINE = re.compile(r"[:@]r?type\b|[\w*, .]{1,60}? : \S")
_ENTRY = re.compile(
    r"[`*]{0,2}[A-Za-z_][\w.*-]*[`*]{0,2}(?:\s*\([^()]*(?:\([^()]*\)[^()]*)*\))?:(?:\s+|$)"
)
_BULLET = re.compile(r"(?:[-*+•#]+|\(?\d{1,2}[.)])\s+")
_MARKUP = (
    (re.compile(r"`([^`<]*?)\s*<[^`>]*>`_*"), r"\1"),
    (re.compile(r":[\w:+-]+:`[~!]?([^`]*)`"), r"\1"),
    (re.compile(r"\[([^\]]*)\]\([^)\s]*\)"), r"\1"),
    (re.compile(r"<?https?://\S+"), ""),
    (re.compile(r"\s?\[[\w*#-]+\]_"), ""),
    (re.compile(r"`+_*|(?<!\w)\*{1,2}(?=\S)|(?<=\S)\*{1,2}(?!\w)"), ""),
    (re.compile(r"::(?=\s|$)"), ":"),
)
_MARKUP_SIGN = re.compile(r"[`*\[<]|::|://")
_PLAIN_WORD = re.compile(
    r"(?<!\S)[(\"']?[A-Za-z][a-z]*(?:['’-][a-z]+)*[)\"']*[.,;:?!]*[)\"']?(?!\S)"
)
_PATH = re.compile(r"\w+(?:[.\-/]\w+)*")
_NOT_LETTERS = re.compile(r"[\W\d_]+")
MINIMUM_WORDS = 4
MINIMUM_PLAIN_SHARE = 0.65
MINIMUM_DOCUMENT_WORDS = 20

HELD_OUT_ONE_IN = 10
# Few enough that what pre-training teaches about the words is worth more than what they show.
TRAIN_EXAMPLES = 200
DEV_EXAMPLES = 150
WORDS_IN_EXAMPLE = (12, 60)
SHARED_RUN_WORDS = 8
# A candidate class is passed over when this share of its paragraphs stands in a chosen class too:
# copies and successors of one code base (keras in tensorflow, vertexai in google) are one subject.
MAXIMUM_SHARED = 0.05
MINIMUM_ALIAS_MODULES = 2


@dataclasses.dataclass(frozen=True)
class ModuleText:
    """What one source file gave.

    Attributes:
      name: dotted module name.
      docstring_bytes: size of all docstrings before any filter.
      paragraphs: (paragraph, key) in source order; equal keys mean near-exact duplicates.
      dropped: paragraphs dropped, by reason.
      aliases: (package, name) of each `import package as name`.
      parsed: whether the file is valid Python for this interpreter.
    """

    name: str
    docstring_bytes: int = 0
    paragraphs: tuple[tuple[str, int], ...] = ()
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    aliases: tuple[tuple[str, str], ...] = ()
    parsed: bool = True


@dataclasses.dataclass(frozen=True)
class CorpusInfo:
    """What was made, as written to `corpus/info.json`.

    Attributes:
      modules: source files looked at.
      modules_dropped: of these, files that gave no document, by reason.
      bytes_before: UTF-8 bytes of all docstrings before any filter.
      bytes_after: UTF-8 bytes of the documents' texts in the corpus.
      documents: documents in the corpus.
      held_out_documents: documents kept out of the corpus.
      paragraphs: paragraphs in the corpus.
      paragraphs_dropped: paragraphs dropped, by reason.
      classes: for each class, candidates and examples of each file of the task.
      removed_names: the names removed from the task's text.
    """

    modules: int
    modules_dropped: Mapping[str, int]
    bytes_before: int
    bytes_after: int
    documents: int
    held_out_documents: int
    paragraphs: int
    paragraphs_dropped: Mapping[str, int]
    classes: Mapping[str, Mapping[str, int]]
    removed_names: Sequence[str]


def stable_hash(text: str) -> int:
    """Returns 64 bits that depend on nothing but the text."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest())


def paragraph_key(paragraph: str) -> int:
    """Returns a hash that ignores case, digits and punctuation."""
    return stable_hash(_NOT_LETTERS.sub(" ", paragraph.lower()).strip())


def is_held_out(module: str) -> bool:
    """Says whether a module is kept out of the corpus, by its name alone."""
    return stable_hash(module) % HELD_OUT_ONE_IN == 0


def prose_lines(docstring: str) -> Iterator[tuple[int, str]]:
    """Yields (indentation, stripped line) without code; an empty line ends a paragraph."""
    fenced = doctest = False
    block_indent = None  # Lines further in than this belong to a block that is not prose.
    for line in docstring.splitlines():
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if text.startswith("```"):
            fenced = not fenced
            text = ""
        if not text:
            doctest = False
        elif block_indent is not None and indent <= block_indent:
            block_indent = None
        if text and (fenced or block_indent is not None):
            continue
        if text.startswith(">>>"):
            doctest = True
        if doctest:
            text = ""
        if _DIRECTIVE.match(text):
            block_indent = None if _PROSE_DIRECTIVE.match(text) else indent
            text = ""
        elif text.endswith("::"):
            block_indent = indent
        yield indent, text


def join_paragraphs(docstring: str) -> list[str]:
    """Joins the hard-wrapped lines of a docstring into paragraphs, without code and headings."""
    paragraphs: list[list[str]] = [[]]
    previous_indent, hanging = 0, False
    for indent, text in prose_lines(docstring):
        if _UNDERLINE.fullmatch(text):
            if len(paragraphs[-1]) == 1:
                paragraphs.pop()  # The line over an underline is a heading.
            text = ""
        if not text or _TYPE_LINE.match(text):
            paragraphs.append([])
            continue
        marker = _FIELD.match(text) or _ENTRY.match(text) or _BULLET.match(text)
        if marker or indent < previous_indent or (indent > previous_indent and not hanging):
            paragraphs.append([])
        paragraphs[-1].append(text[marker.end() :] if marker else text)
        previous_indent, hanging = indent, marker is not None
    return [" ".join(lines) for lines in paragraphs if any(lines)]


def strip_markup(text: str) -> str:
    """Removes the inline decoration of reStructuredText and Markdown, and runs of white space."""
    if _MARKUP_SIGN.search(text):  # Most paragraphs have none, and seven searches cost more.
        for pattern, replacement in _MARKUP:
            text = pattern.sub(replacement, text)
    return " ".join(text.split())


def reason_to_drop(paragraph: str) -> str | None:
    """Returns why a paragraph is not worth learning from, or None."""
    words = paragraph.count(" ") + 1
    if words < MINIMUM_WORDS:
        return "few words"
    if len(_PLAIN_WORD.findall(paragraph)) < MINIMUM_PLAIN_SHARE * words:
        return "not prose"
    return None


# Generated clients repeat each docstring in their synchronous, asynchronous and transport modules.
@functools.lru_cache(maxsize=20_000)
def clean_docstring(docstring: str) -> tuple[tuple[tuple[str, int], ...], Mapping[str, int]]:
    """Returns the (paragraph, key) pairs worth keeping, and the number dropped by reason."""
    kept, dropped = [], collections.Counter()
    for marked_up in join_paragraphs(inspect.cleandoc(docstring)):
        paragraph = strip_markup(marked_up)
        reason = reason_to_drop(paragraph)
        if reason:
            dropped[reason] += 1
        else:
            kept.append((paragraph, paragraph_key(paragraph)))
    return tuple(kept), dropped


def docstrings(node: ast.AST) -> Iterator[str]:
    """Yields the docstrings of a module, its classes and its functions in source order."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield ast.get_docstring(node, clean=False) or ""
    for field in ("body", "handlers", "orelse", "finalbody"):
        # Only statements hold statements: expressions are never visited, which is most of the tree.
        for child in getattr(node, field, ()):
            yield from docstrings(child)


def bare_aliases(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yields (package, name) for each `import package as name` at the top of a module."""
    for statement in tree.body:
        for item in statement.names if isinstance(statement, ast.Import) else ():
            if item.asname and "." not in item.name:
                yield item.name, item.asname.strip("_").lower()


def read_module(source: tuple[str, str]) -> ModuleText:
    """Reads one (module name, path)."""
    name, path = source
    try:
        content = Path(path).read_bytes()
        if b'"""' not in content and b"'''" not in content:
            return ModuleText(name)  # No docstring of more than a line, hence no need to parse.
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OSError):
        return ModuleText(name, parsed=False)
    found = [text.encode("utf-8", "ignore").decode() for text in docstrings(tree)]
    cleaned = [clean_docstring(text) for text in found]
    dropped = sum((collections.Counter(reasons) for _, reasons in cleaned), collections.Counter())
    return ModuleText(
        name,
        docstring_bytes=sum(len(text.encode()) for text in found),
        paragraphs=tuple(itertools.chain.from_iterable(paragraphs for paragraphs, _ in cleaned)),
        dropped=dropped,
        aliases=tuple(bare_aliases(tree)),
    )


def installed_roots() -> list[Path]:
    """Returns the folders of the running interpreter that packages and modules are found in."""
    return sorted({Path(sysconfig.get_path(key)) for key in ("purelib", "platlib", "stdlib")})


def find_modules(roots: Iterable[Path]) -> list[tuple[str, str]]:
    """Returns (module name, path) of the source files under the roots, sorted by name."""
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


def _prepare_worker() -> None:
    # Syntax trees hold no cycles, and looking for some doubles the time to build them.
    gc.disable()
    warnings.simplefilter("ignore")


def read_modules(sources: Sequence[tuple[str, str]], workers: int) -> list[ModuleText]:
    """Reads all modules in parallel, in order, with a progress line."""
    texts = []
    # A caller may have started threads (TensorFlow does), which a forked process can't survive.
    with multiprocessing.get_context("spawn").Pool(workers, _prepare_worker) as pool:
        for text in pool.imap(read_module, sources, chunksize=32):
            texts.append(text)
            if len(texts) % 500 == 0 or len(texts) == len(sources):
                print(f"\rread {len(texts):,} of {len(sources):,} modules", end="", file=sys.stderr)
    print(file=sys.stderr)
    return texts


def make_documents(
    texts: Iterable[ModuleText],
) -> tuple[dict[str, list[str]], dict[str, int], dict[str, int]]:
    """Keeps each paragraph where it occurs first, and the modules with enough of them.

    Returns:
      The paragraphs of each module, the paragraphs dropped and the modules dropped, by reason.
    """
    dropped: collections.Counter[str] = collections.Counter()
    modules_dropped: collections.Counter[str] = collections.Counter()
    documents, seen = {}, set()
    for text in texts:
        dropped.update(text.dropped)
        fresh = {key: paragraph for paragraph, key in text.paragraphs if key not in seen}
        seen.update(fresh)
        dropped["duplicate"] += len(text.paragraphs) - len(fresh)
        if sum(len(paragraph.split()) for paragraph in fresh.values()) >= MINIMUM_DOCUMENT_WORDS:
            documents[text.name] = list(fresh.values())
        else:
            dropped["in a short document"] += len(fresh)
            modules_dropped["few words" if text.parsed else "not parsed"] += 1
    return documents, dict(dropped), dict(modules_dropped)


def usable_words(paragraph: str) -> bool:
    """Says whether a paragraph has the length of an example."""
    return WORDS_IN_EXAMPLE[0] <= paragraph.count(" ") + 1 <= WORDS_IN_EXAMPLE[1]


def rank_packages(texts: Iterable[ModuleText]) -> list[tuple[str, set[int]]]:
    """Returns (package, keys of its paragraphs of usable length), most paragraphs first."""
    keys: dict[str, set[int]] = collections.defaultdict(set)
    for text in texts:
        package = text.name.partition(".")[0]
        keys[package].update(key for paragraph, key in text.paragraphs if usable_words(paragraph))
    return sorted(keys.items(), key=lambda item: (-len(item[1]), item[0]))


def choose_classes(
    ranked: Iterable[tuple[str, set[int]]], number: int, minimum: int
) -> tuple[list[str], list[str]]:
    """Chooses the packages with most to say, passing over those that repeat a chosen one.

    Returns:
      The chosen packages, and all that were considered until enough were chosen.
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
        raise ValueError(f"fewer than two packages have {minimum} paragraphs to learn from")
    return list(chosen), considered


def names_of(packages: Iterable[str], texts: Iterable[ModuleText]) -> list[str]:
    """Returns the packages' names, the parts of them, and the names they are imported as."""
    packages = set(packages)
    aliases = collections.Counter(alias for text in texts for alias in set(text.aliases))
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
    # Digits and underscores end a word here, unlike at \b: np_array holds np, and input does not.
    return re.compile(rf"{long}|(?<![a-z])(?:{short})(?![a-z])", re.IGNORECASE)


def remove_names(paragraph: str, names: Sequence[str]) -> str:
    """Removes each word or dotted path that holds a name, in any case."""
    name = _any_name(tuple(names))
    text = _PATH.sub(lambda path: " " if name.search(path[0]) else path[0], paragraph)
    return re.sub(r" +([,.;:)])", r"\1", " ".join(text.split()))


def word_runs(paragraph: str) -> set[int]:
    """Returns the hashes of all runs of SHARED_RUN_WORDS words, ignoring case and punctuation."""
    words = _NOT_LETTERS.sub(" ", paragraph.lower()).split()
    ends = range(SHARED_RUN_WORDS, len(words) + 1)
    return {stable_hash(" ".join(words[end - SHARED_RUN_WORDS : end])) for end in ends}


def candidates(documents: Mapping[str, Sequence[str]], label: str, held_out: bool) -> list[str]:
    """Returns a package's paragraphs of usable length, shuffled by their hash."""
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
    """Takes the first usable paragraphs without names, new keys and no barred run of words.

    Args:
      paragraphs: candidates in order of preference.
      names: what to remove from them.
      limit: how many to take at most.
      seen: keys of all examples taken so far; added to.
      barred: hashes of the runs of words that no example may hold.
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


def write_task(
    folder: Path,
    documents: Mapping[str, Sequence[str]],
    classes: Sequence[str],
    names: Sequence[str],
    limits: Mapping[str, int],
) -> dict[str, dict[str, int]]:
    """Writes train.tsv from the corpus's modules and dev.tsv from the others, classes balanced.

    No held-out example shares SHARED_RUN_WORDS words in a row with a training example.

    Returns:
      For each class, the candidates and the examples of each file.
    """
    counts: dict[str, dict[str, int]] = {label: {} for label in classes}
    seen: set[int] = set()
    barred: frozenset[int] = frozenset()
    for split, limit in limits.items():
        taken = {}
        for label in classes:
            found = candidates(documents, label, held_out=split == "dev")
            taken[label] = take_examples(found, names, limit, seen, barred)
            counts[label][f"{split}_candidates"] = len(found)
        number = min(map(len, taken.values()))
        rows = [(text, label) for label, texts in taken.items() for text in texts[:number]]
        rows.sort(key=lambda row: stable_hash(row[0]))
        lines = ["text\tlabel", *map("\t".join, rows)]
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        barred = frozenset().union(*(word_runs(text) for text, _ in rows))
        for label in classes:
            counts[label][split] = number
    return counts


def write_corpus(folder: Path, documents: Mapping[str, Sequence[str]], files: int) -> int:
    """Writes documents as JSON Lines, dealt in turn to the files; returns the texts' bytes."""
    texts = {name: "\n".join(paragraphs) for name, paragraphs in documents.items()}
    lines = [json.dumps({"id": name, "text": text}) + "\n" for name, text in texts.items()]
    for index in range(files):
        path = folder / f"documents-{index:05d}-of-{files:05d}.jsonl"
        path.write_text("".join(lines[index::files]), encoding="utf-8")
    return sum(len(text.encode()) for text in texts.values())


def make_corpus(
    output_dir: Path,
    *,
    roots: Sequence[Path] | None = None,
    number_of_files: int = 4,
    number_of_classes: int = 8,
    train_examples: int = TRAIN_EXAMPLES,
    dev_examples: int = DEV_EXAMPLES,
    workers: int | None = None,
) -> CorpusInfo:
    """Makes `corpus/` and `task/` in the output folder, or returns what a finished run left there.

    Args:
      output_dir: folder to write to; made if missing.
      roots: folders that hold packages; those of the running interpreter by default.
      number_of_files: files to deal the documents to.
      number_of_classes: classes of the task, at most.
      train_examples: training examples a class, at most.
      dev_examples: held-out examples a class, at most.
      workers: processes; the number of CPUs by default.

    Raises:
      FileExistsError: an unfinished corpus or task is in the way.
      ValueError: the roots hold too little documentation for two classes.
    """
    corpus, task = output_dir / "corpus", output_dir / "task"
    if (corpus / FINISHED_FILE).exists():
        print(f"{corpus} is finished already: nothing to do", file=sys.stderr)
        return CorpusInfo(**json.loads((corpus / FINISHED_FILE).read_text()))
    for folder in (corpus, task):
        if folder.exists():
            raise FileExistsError(f"{folder} exists without {corpus / FINISHED_FILE}: remove it")
    start = time.monotonic()
    texts = read_modules(find_modules(roots or installed_roots()), workers or os.cpu_count() or 1)
    documents, paragraphs_dropped, modules_dropped = make_documents(texts)
    kept = {name: texts for name, texts in documents.items() if not is_held_out(name)}
    ranked = rank_packages(texts)
    classes, considered = choose_classes(ranked, number_of_classes, train_examples + dev_examples)
    names = names_of(considered, texts)

    unfinished = output_dir / ".unfinished_corpus"
    shutil.rmtree(unfinished, ignore_errors=True)
    for folder in (corpus, task):
        (unfinished / folder.name).mkdir(parents=True)
    limits = {"train": train_examples, "dev": dev_examples}
    info = CorpusInfo(
        modules=len(texts),
        modules_dropped=modules_dropped,
        bytes_before=sum(text.docstring_bytes for text in texts),
        bytes_after=write_corpus(unfinished / corpus.name, kept, number_of_files),
        documents=len(kept),
        held_out_documents=len(documents) - len(kept),
        paragraphs=sum(map(len, kept.values())),
        paragraphs_dropped=paragraphs_dropped,
        classes=write_task(unfinished / task.name, documents, classes, names, limits),
        removed_names=names,
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
    """Returns what was made in one line."""
    counts = next(iter(info.classes.values()))
    return (
        f"{info.documents:,} documents, {info.bytes_after / 1e6:.1f} MB of "
        f"{info.bytes_before / 1e6:.1f} MB of docstrings; task: {len(info.classes)} classes with "
        f"{counts['train']} training and {counts['dev']} held-out examples each"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        prog="python -m demo.corpus",
        description="Makes a corpus and a classification task from the installed documentation.",
    )
    parser.add_argument("--output", type=Path, required=True, help="folder for corpus/ and task/")
    parser.add_argument("--train_examples", type=int, default=TRAIN_EXAMPLES, help="a class")
    parser.add_argument("--dev_examples", type=int, default=DEV_EXAMPLES, help="a class")
    parser.add_argument("--workers", type=int, help="processes (default: the number of CPUs)")
    flags = parser.parse_args(argv)
    try:
        make_corpus(
            flags.output,
            train_examples=flags.train_examples,
            dev_examples=flags.dev_examples,
            workers=flags.workers,
        )
    except (FileExistsError, ValueError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


if __name__ == "__main__":
    main()
