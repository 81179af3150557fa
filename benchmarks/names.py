"""How many names of real text does `data --scrub_model` replace, what else, and how fast?

    python -m benchmarks.names --scrub_model=en_core_web_sm --trees en_gum-ud-dev.conllu \\
        en_gum-ud-test.conllu

The text is that of GUM (Universal Dependencies, English-GUM), in whose trees people have marked
entities. A name is an entity of a type below, all of whose words are proper nouns, a title such as
Professor among them. It is hidden if placeholders cover it, of whatever name, and its last word is
told by itself. What is replaced without a proper noun in it is a mistake.
"""

import pathlib
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks import measuring

# Type of an entity in GUM -> what replaces it.
TYPES = {"person": "person", "place": "location", "organization": "organization"}
_ENTITIES = re.compile(r"(?:^|\|)Entity=([^|]*)")
# A bracket that opens has number and type, "(4-person-new-…"; one that closes has the number, "4)".
_BRACKET = re.compile(r"\((\d+)-(\w+)[^()]*(\))?|(\d+)\)")


class Name(NamedTuple):
    """A name in a document: its type in GUM, its place, and where its last word begins."""

    type: str
    start: int
    end: int
    last: int


class Annotated(NamedTuple):
    """A document, a sentence a line, with its names and the places of all proper nouns."""

    text: str
    names: list[Name]
    proper_nouns: list[tuple[int, int]]


def read_documents(content: str) -> Iterator[Annotated]:
    """Yields the documents of a file of trees with GUM's entities."""
    for document in re.split(r"^# newdoc id.*\n", content, flags=re.MULTILINE)[1:]:
        made = Annotated("", [], [])
        text = ""
        for tree in document.strip().split("\n\n"):
            line = re.search(r"^# text = (.*)$", tree, re.MULTILINE)[1]
            _read_tree(tree, line, len(text), made)
            text += line + "\n"
        yield made._replace(text=text)


def _read_tree(tree: str, line: str, offset: int, document: Annotated) -> None:
    """Adds the names and proper nouns of a tree; its line begins at `offset` of the document."""
    # Number -> type, and place and part of speech of each word so far, of the open entities.
    is_open: dict[str, tuple[str, list[tuple[int, int, str]]]] = {}
    position = 0
    for row in (row.split("\t") for row in tree.split("\n") if row[:1].isdigit()):
        if not row[0].isdigit():
            continue
        if (start := line.find(row[1], position)) < 0:
            start, row[1] = position, ""  # A part of a contraction, which isn't written so.
        position = start + len(row[1])
        if row[3] == "PROPN":
            document.proper_nouns.append((offset + start, offset + position))
        marks = _ENTITIES.search(row[9])
        marks = list(_BRACKET.finditer(marks[1])) if marks else []
        is_open |= {mark[1]: (mark[2], []) for mark in marks if mark[1]}
        for _, words in is_open.values():
            words.append((offset + start, offset + position, row[3]))
        for number in (mark[1] if mark[3] else mark[4] for mark in marks if mark[3] or mark[4]):
            kind, words = is_open.pop(number, ("", []))
            if kind in TYPES and words and all(word[2] == "PROPN" for word in words):
                document.names.append(Name(kind, words[0][0], words[-1][1], words[-1][0]))


def measure(documents: Sequence[Annotated], model: str) -> dict[str, Any]:
    """Returns the shares of the names that are hidden, what else is replaced, and the speed."""
    from beambert.pipelines.text.scrubbing import recognize

    recognize("It begins.", [*TYPES.values()], model)  # The model is loaded once.
    there, hidden, last_hidden = Counter(), Counter(), Counter()
    replaced, mistaken = Counter(), Counter()
    started = time.process_time()
    found = [recognize(document.text, [*TYPES.values()], model) for document in documents]
    seconds = time.process_time() - started
    for document, places in zip(documents, found, strict=True):
        covered = {at for (start, end), _ in places for at in range(start, end)}
        for name in document.names:
            there[name.type] += 1
            hidden[name.type] += covered.issuperset(range(name.start, name.end))
            last_hidden[name.type] += covered.issuperset(range(name.last, name.end))
        proper = {at for start, end in document.proper_nouns for at in range(start, end)}
        for (start, end), name in places:
            replaced[name] += 1
            mistaken[name] += proper.isdisjoint(range(start, end))
    characters = sum(len(document.text) for document in documents)
    return {
        "documents": len(documents),
        "megabytes": round(characters / 1e6, 3),
        "megabytes_per_second": round(characters / 1e6 / seconds, 4),
        "names": {
            kind: {
                "number": there[kind],
                "hidden": round(hidden[kind] / there[kind], 4),
                "last_word_hidden": round(last_hidden[kind] / there[kind], 4),
            }
            for kind in TYPES
            if there[kind]
        },
        "replaced": {
            name: {
                "number": replaced[name],
                "without_a_proper_noun": round(mistaken[name] / replaced[name], 4),
            }
            for name in sorted(replaced)
        },
    }


def main(argv: Sequence[str]) -> None:
    """Measures and prints.

    Raises:
      InputError: a file or the model is missing or cannot be used.
    """
    from beambert.pipelines.text.scrubbing import check_recognition, describe_model

    parser = measuring.flag_parser("names", __doc__)
    parser.add_argument("--scrub_model", required=True, metavar="NAME", help="as in data")
    parser.add_argument("--trees", nargs="+", required=True, metavar="FILE", help="files of GUM")
    measuring.add_results_flag(parser)
    flags = parser.parse_args(list(argv))
    check_recognition([*TYPES.values()], flags.scrub_model)
    documents = [
        document
        for path in measuring.files_of("--trees", flags.trees)
        for document in read_documents(pathlib.Path(path).read_text("utf-8"))
    ]
    result = {"model": describe_model(flags.scrub_model)} | measure(documents, flags.scrub_model)
    print(measuring.write_results(flags.results, parser, argv, result))


if __name__ == "__main__":
    measuring.run(main)
