"""Reads sentences of words with tags from files of columns, such as CoNLL's."""

import pathlib
import re
from collections.abc import Iterator, Sequence

from beambert.pipelines.corpus.encodings import DEFAULT_ENCODING
from beambert.pipelines.tasks import tables
from beambert.pipelines.tasks.examples import TaggedExample
from beambert.pipelines.tasks.tables import BadRow

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
# The columns of a word and its universal part of speech (UPOS) among the ten, from 0.
_TREE_COLUMNS, _TREE_WORD_AND_UPOS = 10, (1, 3)


def read_sentences(
    path: pathlib.Path, labels: Sequence[str] | None, encoding: str = DEFAULT_ENCODING
) -> Iterator[TaggedExample | BadRow]:
    """Yields the sentences of a file whose first column is the word and whose last is its tag.

    A word of CoNLL-U is the second of its columns, and its tag is the part of speech in the fourth.
    """
    text = tables.read_text(path, encoding)
    return (sentence for _, sentence in sentences_of(path, text, labels))


def sentences_of(
    path: pathlib.PurePath, text: str, labels: Sequence[str] | None
) -> Iterator[tuple[int, TaggedExample | BadRow]]:
    """Yields the number of the first line and the sentence, for each sentence of a file's text."""
    first = 0
    words: list[str] = []
    tags: list[str] = []
    bad: BadRow | None = None
    is_tree = _TREES.match(text) is not None
    columns, width = (_TREE_WORD_AND_UPOS, _TREE_COLUMNS) if is_tree else ((0, -1), 0)
    numbered = [*tables.lines(text), (0, "")]
    for number, line in numbered:
        if is_tree and _NO_WORD.match(line):
            continue
        # Columns are separated by tabs or by spaces.
        fields = line.split("\t") if "\t" in line else line.split()
        if not any(field.strip() for field in fields):
            if bad or words:
                yield first, bad or TaggedExample(tuple(words), tuple(tags) if width > 1 else None)
            words, tags, bad = [], [], None
            continue
        if fields[0] == _DOCUMENT_START:
            continue
        width = width or len(fields)
        word, tag = (fields[column].strip() if len(fields) == width else "" for column in columns)
        if len(fields) != width:
            remedy = "correct it, or put an empty line between sentences"
            found = BadRow(path, number, f"needs {width} columns but has {len(fields)}", remedy)
        elif len(word.split()) != 1:
            found = BadRow(
                path,
                number,
                f"has no single word in column {columns[0] + 1} ({word!r})",
                "correct it",
            )
        elif not tag:
            found = BadRow(path, number, "has an empty tag", "fill it in")
        elif width > 1 and labels is not None and tag not in labels:
            found = tables.unknown_label(path, number, tag, labels)
        else:
            found = None
        bad = bad or found
        first = first if words else number
        words.append(word)
        tags.append(tag)


def running_texts(path: pathlib.PurePath, text: str) -> Iterator[str]:
    """Yields each sentence of a file's text as it was written, as far as the file tells.

    A row that `sentences_of` refuses counts, too: a word may have spaces, as those of Vietnamese
    have, and may lack a tag. CoNLL-U has sentences in comments; without them, words are written as
    the rows of several words say ("im" in place of "in", "dem").
    """
    is_tree = path.suffix == ".conllu" or _TREES.match(text) is not None
    written, words, last = "", "", 0
    for _, line in (*tables.lines(text), (0, "")):
        fields = line.split("\t") if "\t" in line else line.split()
        if not any(field.strip() for field in fields):
            if written or words:
                yield written or words.strip()
            written, words, last = "", "", 0
        elif not is_tree:
            words += "" if fields[0] == _DOCUMENT_START else f"{fields[0].strip()} "
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
