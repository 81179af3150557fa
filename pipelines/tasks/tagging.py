"""Tagging: a label for each word of a sentence, and named entities as spans of tags."""

import collections
import dataclasses
import itertools
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from beambert.errors import InputError
from beambert.pipelines.tasks import tables
from beambert.pipelines.tasks.metrics import precision_recall_f1, scores_by_name
from beambert.pipelines.tasks.saved_models import Model
from beambert.pipelines.tasks.table_task import (
    check_labels,
    parted,
    several,
)
from beambert.pipelines.tasks.tables import BadRow
from beambert.pipelines.tasks.task import (
    NO_LABEL,
    TAGGING,
    ExampleFile,
    Mistake,
    Outcomes,
    Record,
    Task,
    TaskFeatures,
    Texts,
)

if TYPE_CHECKING:
    from beambert.pipelines.tasks.texts import TextFeatures

OUTSIDE = "O"
# CoNLL's files have this word between documents.
_DOCUMENT_START = "-DOCSTART-"
# Endings of files that certainly have columns of words; text files may also hold running text.
WORDS_ENDINGS = (".conll", ".conllu")
# The beginning of a file of CoNLL-U: comments, and ten columns for the first word, or for the first
# words if they are written as one (universaldependencies.org, "CoNLL-U Format").
_TREES = re.compile(r"(?:\s+|#[^\n]*\n)*+(?:1(?:-\d+)?|0\.1)\t(?:[^\t\n]*\t){8}[^\t\n]*(?:\n|\Z)")
# Lines of CoNLL-U that are no words: comments, words written as one, and words not written.
_NO_WORD = re.compile(r"#|\d+[-.]\d+\t")
# Lines of CoNLL-U that have a sentence as it was written, and words that are written as one.
_SENTENCE_TEXT = re.compile(r"#\s*text\s*=\s*(.*)")
_WRITTEN_AS_ONE = re.compile(r"\d+-(\d+)")
# Stands for the spaces inside a word.
_NO_BREAK = "\u00a0"
# The columns of a word and its universal part of speech (UPOS) among the ten, from 0.
_TREE_COLUMNS, _TREE_WORD_AND_UPOS = 10, (1, 3)


@dataclasses.dataclass(frozen=True)
class TaggedExample:
    """A sentence whose words have labels.

    Attributes:
      words: words of the sentence.
      tags: one tag for each word as written in the file, or None in a file without tags.
      columns: always empty; it exists because the other kinds of examples have it.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    columns: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def truth(self) -> tuple[str, ...] | None:
        """The right tags, or None."""
        return self.tags

    def texts(self) -> Texts:
        """Returns the texts by the names of a SavedModel's inputs."""
        return {"text": " ".join(self.words)}


def sentences_of(
    path: pathlib.PurePath, text: str, labels: Sequence[str] | None
) -> Iterator[tuple[int, TaggedExample | BadRow]]:
    """Yields the number of the first line and the sentence, for each sentence of a file's text.

    The first column is the word and the last one its tag. A word of CoNLL-U is the second of its
    columns, and its tag is the part of speech in the fourth.
    """
    is_tree = _TREES.match(text) is not None
    columns, width = (_TREE_WORD_AND_UPOS, _TREE_COLUMNS) if is_tree else ((0, -1), 0)
    for block in _blocks(text):
        first, words, tags, bad = 0, [], [], None
        for number, line, fields in block:
            if (is_tree and _NO_WORD.match(line)) or line.startswith(_DOCUMENT_START):
                continue
            width = width or len(fields)
            word, tag = (fields[column] if len(fields) == width else "" for column in columns)
            # Spaces separate the words of a sentence; a tokenizer reads both as white space.
            word, tag = _NO_BREAK.join(word.split()) or _NO_BREAK * bool(word), tag.strip()
            if len(fields) != width:
                remedy = "correct it, or put an empty line between sentences"
                found = BadRow(path, number, f"needs {width} columns but has {len(fields)}", remedy)
            elif not word:
                reason = f"has no word in column {columns[0] + 1}"
                found = BadRow(path, number, reason, "correct it")
            elif not tag:
                found = BadRow(path, number, "has an empty tag", "fill it in")
            elif width > 1 and labels is not None and tag not in labels:
                found = tables.unknown_label(path, number, tag, labels)
            else:
                found = None
            first, bad = first or number, bad or found
            words.append(word)
            tags.append(tag)
        if words:
            yield first, bad or TaggedExample(tuple(words), tuple(tags) if width > 1 else None)


def _blocks(text: str) -> Iterator[list[tuple[int, str, list[str]]]]:
    """Yields the lines between blank ones: number, line and columns.

    In a text with tabs these separate the columns, else white space.
    """
    separator = "\t" if "\t" in text else None
    numbered = ((number, line, line.split(separator)) for number, line in tables.lines(text))
    for is_filled, block in itertools.groupby(numbered, lambda row: any(map(str.strip, row[2]))):
        if is_filled:
            yield list(block)


def running_texts(path: pathlib.PurePath, text: str) -> Iterator[str]:
    """Yields each sentence of a file's text as it was written, as far as the file tells.

    A row that `sentences_of` refuses counts, too: a word may lack a tag. CoNLL-U has sentences in
    comments; without them, words are written as the rows of several words say ("im" in place of
    "in", "dem").
    """
    is_tree = path.suffix == ".conllu" or _TREES.match(text) is not None
    for block in _blocks(text):
        written, words, last = "", "", 0
        for _, line, fields in block:
            if not is_tree:
                words += "" if line.startswith(_DOCUMENT_START) else f"{fields[0].strip()} "
            elif line.startswith("#"):
                if found := _SENTENCE_TEXT.match(line):
                    written = found[1].strip()
            elif len(fields) > 1:
                number, word = fields[0].strip(), fields[1].strip()
                if as_one := _WRITTEN_AS_ONE.fullmatch(number):
                    last = int(as_one[1])
                elif not number.isdecimal() or int(number) <= last:
                    continue  # It is not written, or was written with others.
                words += word + ("" if "SpaceAfter=No" in fields[-1].split("|") else " ")
        if written or words:
            yield written or words.strip()


@dataclasses.dataclass(frozen=True)
class Entity:
    """An entity: consecutive words of a sentence.

    Attributes:
      type: the part of its tags behind the first hyphen; "" if there is none.
      start: position of its first word.
      end: position after its last word.
    """

    type: str
    start: int
    end: int


def is_entity_tag(tag: str) -> bool:
    """Whether a tag is O, B-type or I-type."""
    return tag == OUTSIDE or tag.startswith(("B-", "I-"))


def entities(tags: Sequence[str]) -> list[Entity]:
    """Returns the entities of one sentence, in order.

    Raises:
      InputError: a tag is none of O, B-type, I-type.
    """
    found: list[Entity] = []
    start, current = 0, None
    for position, tag in enumerate([*tags, OUTSIDE]):
        prefix, _, name = tag.partition("-")
        if not is_entity_tag(tag):
            raise InputError(
                f"--task: the tag {tag!r} is none of O, B-type and I-type, in which entities are "
                "counted; rename the tags, or take --task=word_labels"
            )
        kind = None if tag == OUTSIDE else name
        if prefix == "I" and kind == current:
            continue
        if current is not None:
            found.append(Entity(current, start, position))
        start, current = position, kind
    return found


@dataclasses.dataclass(frozen=True)
class TagOutcomes(Outcomes):
    """The outcomes of a tagging.

    Attributes:
      types: types of entities, sorted.
      entities: counts of true, predicted and correct entities, [sentences, types, 3].
      words: counts of words, right tags, and words outside entities, [sentences, 3].
    """

    types: tuple[str, ...]
    entities: NDArray[np.int64]
    words: NDArray[np.int64]

    FEATURES = ("tags", "predicted_tags")
    METRICS = ("accuracy",)

    @classmethod
    def of_records(cls, records: Sequence[Record]) -> Self:
        """Returns the outcomes of prediction records."""
        pairs = [[list(map(_text, record[name])) for name in cls.FEATURES] for record in records]
        tags = {tag for pair in pairs for side in pair for tag in side}
        # Other labels of words form no entities, and their tasks have no metric of entities.
        has_entities = all(map(is_entity_tag, tags))
        sides = [[set(entities(side)) if has_entities else set() for side in p] for p in pairs]
        types = sorted({entity.type for pair in sides for side in pair for entity in side})
        counts = np.zeros((len(pairs), len(types), 3), int)
        for i, (true, predicted) in enumerate(sides):
            for column, found in enumerate((true, predicted, true & predicted)):
                for entity in found:
                    counts[i, types.index(entity.type), column] += 1
        words = [
            (len(true), sum(a == b for a, b in zip(true, predicted, strict=True)), true.count("O"))
            for true, predicted in pairs
        ]
        return cls(tuple(types), counts, np.array(words))

    def __len__(self) -> int:
        """The number of sentences."""
        return len(self.words)

    def take(self, examples: NDArray[np.int64]) -> Self:
        """Returns the outcomes at some indices."""
        return type(self)(self.types, self.entities[examples], self.words[examples])

    def scores(self, names: Sequence[str], positive: int) -> dict[str, float]:
        """Returns metrics by name, over all entities (not a mean over types) and over all words.

        A predicted entity is right if there is a true one with the same type and the same words.
        """
        words, right, _ = self.words.sum(axis=0)
        of_entities = precision_recall_f1(*self.entities.sum(axis=(0, 1)))
        keys = ("entity_precision", "entity_recall", "entity_f1")
        found = dict(zip(keys, map(float, of_entities), strict=True))
        found["accuracy"] = float(right / words)
        return {name: found[name] for name in names}

    def constants(self) -> list[tuple[str, Self]]:
        """Returns the constant answer O for every word."""
        entities = self.entities * np.array([1, 0, 0])
        return [("O", type(self)(self.types, entities, self.words[:, [0, 2, 2]]))]

    def details(self, labels: Sequence[str]) -> dict[str, Any]:
        """Returns the scores of entities `by_type`."""
        counts = self.entities.sum(axis=0)
        by_type = scores_by_name(self.types, counts)
        return {"by_type": {name: one for name, one in by_type.items() if any(one.values())}}


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _named(words: Sequence[str], tags: Sequence[str]) -> str:
    found = entities(tags)
    return "\n".join(f"{' '.join(words[one.start : one.end])} ({one.type})" for one in found) or "–"


def outside_index(labels: Sequence[str]) -> int:
    """Returns the index of the label for words that were cut off a sequence.

    This is the label of words outside entities, or the first label if there is none.
    """
    return labels.index(OUTSIDE) if OUTSIDE in labels else 0


@dataclasses.dataclass(frozen=True)
class Tagging(Task):
    """A task that asks for the label of each word of a sentence."""

    OUTCOMES = TagOutcomes

    kind: ClassVar[str] = TAGGING
    OBJECTIVE: ClassVar[str] = "beambert.trainer.tasks.tagging:TaggingObjective"
    OWN: ClassVar[Mapping[str, Any] | None] = {}
    metrics: tuple[str, ...] = ("entity_f1", "entity_precision", "entity_recall")

    ENDINGS = (*WORDS_ENDINGS, ".txt", ".tsv")
    COLUMN_FLAGS = frozenset({"labels"})
    OUTPUTS = ("tags",)
    WEIGHT = ("errors", "with the most wrong or missed entities, or wrong tags of other kinds")
    WITHOUT_MODEL = "the commonest tag of train"
    BY_WORDS = "each word's commonest tag"

    def read(
        self, path: pathlib.Path, is_labelled: bool, labels: Sequence[str] | None
    ) -> ExampleFile:
        """Reads the sentences."""
        text = tables.read_text(path, self.encoding)
        return parted(sentence for _, sentence in sentences_of(path, text, labels))

    def check_split(
        self, path: pathlib.Path, is_labelled: bool, examples: Sequence[Any], first: Any
    ) -> None:
        """Refuses a split that must have tags and has none."""
        check_labels(path, examples)
        if is_labelled and examples[0].tags is None:
            raise InputError(f"{path}: has no column of tags; put each word's tag behind it")

    def find_labels(self, path: pathlib.Path, train: Sequence[TaggedExample]) -> tuple[str, ...]:
        """Returns the declared tags, or those of train, sorted."""
        labels = self.labels
        if labels is None:
            tags = {tag for example in train for tag in example.tags or ()}
            labels = several(path, tags, "as tags of words")
        others = [label for label in labels if not is_entity_tag(label)]
        if others and self.metrics == type(self).metrics:
            raise InputError(
                f"{path}: has the tag {others[0]!r}, which is none of O, B-type and I-type; "
                "rename the tags, or take --task=word_labels"
            )
        return labels

    def label_names(self, example: TaggedExample) -> Iterable[str]:
        """Returns the tags of the words."""
        return example.tags or ()

    def is_pair(self, example: TaggedExample) -> bool:
        """Returns False: a sentence stands by itself."""
        return False

    def outcomes(
        self, examples: Sequence[Any], labels: Sequence[str], outputs: Mapping[str, Any]
    ) -> TagOutcomes:
        """Returns the outcomes of `tags`, [examples][words]."""
        pairs = zip(examples, outputs["tags"], strict=True)
        records = [{"tags": example.tags, "predicted_tags": tags} for example, tags in pairs]
        return TagOutcomes.of_records(records)

    def baseline(
        self, train: Sequence[Any], examples: Sequence[Any], labels: Sequence[str]
    ) -> TagOutcomes:
        """Returns the outcomes of the commonest tag for every word."""
        counts = collections.Counter(tag for example in train for tag in example.tags)
        ((tag, _),) = counts.most_common(1)
        tags = [[tag] * len(example.words) for example in examples]
        return self.outcomes(examples, labels, {"tags": tags})

    def by_words(
        self, train: Sequence[Any], examples: Sequence[Any], labels: Sequence[str]
    ) -> TagOutcomes:
        """Returns the outcomes of a table of words; words that it lacks have the commonest tag."""
        counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
        for example in train:
            for word, tag in zip(example.words, example.tags, strict=True):
                counts[word][tag] += 1
        commonest = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
        ((other, _),) = sum(counts.values(), collections.Counter()).most_common(1)
        tags = [[commonest.get(word, other) for word in example.words] for example in examples]
        return self.outcomes(examples, labels, {"tags": tags})

    @classmethod
    def features(
        cls, examples: Sequence[Any], labels: Sequence[str], text_features: "TextFeatures"
    ) -> TaskFeatures:
        """See `Task.features`."""
        from beambert.pipelines.tasks.texts import (
            SEQUENCES_AT_A_TIME,
            first_pieces,
            without_padding,
        )

        index = {label: i for i, label in enumerate(labels)}
        batches, label_ids = [], []
        for number, (features, pieces) in enumerate(first_pieces(examples, text_features)):
            some = examples[number * SEQUENCES_AT_A_TIME :][: len(pieces)]
            batches.append(features)
            found = np.full_like(features["input_ids"], NO_LABEL)
            rows, words = np.nonzero(pieces > 0)
            if some[0].tags is not None:
                tags = [index[some[row].tags[word]] for row, word in zip(rows, words, strict=True)]
                found[rows, pieces[rows, words]] = tags
            label_ids.append(found[features["input_mask"] > 0])
        targets = {"label_ids": np.concatenate(label_ids)} if examples[0].tags is not None else {}
        return TaskFeatures(*without_padding(batches), {}, targets)

    @staticmethod
    def text_columns_of(training: Mapping[str, Any]) -> list[str]:
        """Returns the column of the sentence."""
        return ["text"]

    @staticmethod
    def unlabelled(texts: Sequence[str], choices: Sequence[str]) -> TaggedExample:
        """Returns the words of a text."""
        return TaggedExample(tuple(texts[0].split()), None)

    @staticmethod
    def answer(
        labels: Sequence[str], example: Any, outputs: Mapping[str, Any], i: int
    ) -> dict[str, Any]:
        """Returns the words and the tag of each."""
        tags = [tag.decode() for tag in outputs["tags"][i] if tag]
        return {"words": list(example.words), "tags": tags}

    @staticmethod
    def truth_of(example: TaggedExample, labels: Sequence[str]) -> dict[str, list[Any]]:
        """Returns the tags."""
        return {"tags": [tag.encode() for tag in example.tags]}

    @staticmethod
    def recorded(model: Model, record: Record, outputs: Mapping[str, np.ndarray], i: int) -> Record:
        """Returns the tags of the words."""
        return {"predicted_tags": outputs["tags"][i][: len(record["tags"])].tolist()}

    @staticmethod
    def check_record(record: Record, model: Model) -> None:
        """Refuses tags that labels.txt lacks, and more or fewer tags than words."""
        tags = [tag.decode(errors="replace") for tag in record["predicted_tags"]]
        unknown = [tag for tag in tags if tag not in model.labels]
        if unknown or len(tags) != len(record["tags"]):
            raise InputError(
                f"--model={model.path}: gives {unknown[0]!r}, which is not in labels.txt; put the "
                "model's own labels.txt next to it"
                if unknown
                else f"--model={model.path}: gives {len(tags)} tags for {len(record['tags'])} "
                "words; export the model again"
            )

    @staticmethod
    def mistake(record: Record, example: TaggedExample) -> Mistake:
        """Returns a mistake whose weight is the number of wrong or missed entities.

        If a tag is none of O, B-type and I-type, it is the number of wrong tags.
        """
        words, tags = example.words, example.tags
        predicted = [tag.decode() for tag in record["predicted_tags"]]
        if all(map(is_entity_tag, (*tags, *predicted))):
            wrong = set(entities(tags)) ^ set(entities(predicted))
            shown = [_named(words, tags), _named(words, predicted)]
        else:
            triples = zip(words, tags, predicted, strict=True)
            wrong = [triple for triple in triples if triple[1] != triple[2]]
            shown = ["\n".join(f"{triple[0]} ({triple[i]})" for triple in wrong) for i in (1, 2)]
        return Mistake(" ".join(words), *shown, float(len(wrong)))
