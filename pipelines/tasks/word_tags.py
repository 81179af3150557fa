"""Sentences of words with tags, in files of columns as CoNLL's; the standard library alone."""

import pathlib
from collections.abc import Iterator, Sequence

from beambert.pipelines.tasks import tables
from beambert.pipelines.tasks.examples import TaggedExample
from beambert.pipelines.tasks.tables import BadRow

# What CoNLL's files have between documents.
_DOCUMENT_START = "-DOCSTART-"


def read_sentences(
    path: pathlib.Path, labels: Sequence[str] | None
) -> Iterator[TaggedExample | BadRow]:
    """Yields the sentences of a file of columns: the word first, its tag last."""
    words: list[str] = []
    tags: list[str] = []
    bad: BadRow | None = None
    width = None
    numbered = [*tables.lines(tables.read_text(path)), (0, "")]
    for number, line in numbered:
        # Columns are set apart by tabs, or by spaces.
        fields = line.split("\t") if "\t" in line else line.split()
        if not any(field.strip() for field in fields):
            if bad or words:
                yield bad or TaggedExample(tuple(words), tuple(tags) if width > 1 else None)
            words, tags, bad = [], [], None
            continue
        if fields[0] == _DOCUMENT_START:
            continue
        width = width or len(fields)
        word, tag = fields[0].strip(), fields[-1].strip()
        if len(fields) != width:
            remedy = "correct it, or put an empty line between sentences."
            found = BadRow(path, number, f"has not {width} columns but {len(fields)}", remedy)
        elif len(word.split()) != 1:
            found = BadRow(path, number, f"has no single word ({word!r})", "correct it.")
        elif not tag:
            found = BadRow(path, number, "has an empty tag", "fill it in.")
        elif width > 1 and labels is not None and tag not in labels:
            found = tables.unknown_label(path, number, tag, labels)
        else:
            found = None
        bad = bad or found
        words.append(word)
        tags.append(tag)
