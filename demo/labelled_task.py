"""The classification task of the demonstration: which package does a paragraph come from?

The training examples come from modules in the corpus, the dev examples from modules outside it. The
names of the packages are removed from both. All functions are pure.
"""

import collections
import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping, Sequence, Set

from beambert.demo.prose import ModuleText, paragraph_key, reason_to_drop, stable_hash
from beambert.errors import InputError

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


@dataclasses.dataclass(frozen=True)
class LabelledTask:
    """The examples of the task.

    Attributes:
      rows: (text, label) of each split, shuffled, with equal numbers of each label.
      counts: numbers of candidates and examples in each split, by label.
      removed_names: names that were removed from the texts.
    """

    rows: Mapping[str, Sequence[tuple[str, str]]]
    counts: Mapping[str, Mapping[str, int]]
    removed_names: Sequence[str]


def make_task(
    texts: Sequence[ModuleText],
    documents: Mapping[str, Sequence[str]],
    limits: Mapping[str, int],
) -> LabelledTask:
    """Makes the task from the packages with the most paragraphs.

    No held-out example shares SHARED_RUN_WORDS words in a row with a training example.

    Args:
      texts: texts of all modules.
      documents: paragraphs of each module, without duplicates.
      limits: greatest number of examples per label in the splits "train" and "dev", in this order.

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
    return LabelledTask(rows, counts, names)


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
