"""Hard-wrapped lines -> paragraphs. Pure."""

import re
import statistics

# Printed pages wrap at 60 to 80 characters; a few long lines (tables, links) don't matter.
_MOST_OF_A_LINE = 100
_SHORT_LINES = 0.95
# Of the lines that follow another, how many go on in lower case: 0.6 to 0.9 of wrapped prose in
# languages with cases, next to none of verse, of lists, and where each line is a paragraph.
_LEAST_CONTINUED = 0.2
_ENDS_SENTENCE = re.compile(r"[.!?:…。！？][\"'”’»)\]_*]*$")
_ENDS_WITH_HYPHEN = re.compile(r"\w-$")


def unwrap(text: str) -> str:
    """Joins hard-wrapped lines into paragraphs, one a line; blank lines go.

    Where lines aren't wrapped each stays as it is. Where they are, a new paragraph starts after a
    blank line, and after a line that ends a sentence though there was room for the next word, or
    that ends one before an indented line. So no sentence is cut where a page's line was.
    """
    lines = [line.rstrip() for line in text.splitlines()]
    if not _is_wrapped(lines):
        return "\n".join(line.strip() for line in lines if line)
    width = statistics.quantiles([len(line) for line in lines if line], n=20)[-2]
    paragraphs: list[list[str]] = []
    previous = ""
    for line in lines:
        if line and previous and not _starts_paragraph(previous, line, width):
            paragraphs[-1].append(line.strip())
        elif line:
            paragraphs.append([line.strip()])
        previous = line
    return "\n".join(map(_join, paragraphs))


def _is_wrapped(lines: list[str]) -> bool:
    """Whether nearly all lines are short, and blank lines or their first letters tell the rest."""
    filled = [line for line in lines if line]
    short = sum(len(line) <= _MOST_OF_A_LINE for line in filled)
    if len(filled) < 2 or short < _SHORT_LINES * len(filled):
        return False
    if len(filled) < len(lines):
        return True
    continued = sum(line.lstrip()[:1].islower() for line in filled[1:])
    return continued >= _LEAST_CONTINUED * (len(filled) - 1)


def _starts_paragraph(previous: str, line: str, width: float) -> bool:
    if line.lstrip()[0].islower():
        return False
    has_room = len(previous) + 1 + len(line.split(maxsplit=1)[0]) <= width
    if _ENDS_SENTENCE.search(previous):
        return has_room or _indentation(line) > _indentation(previous)
    # A heading in capitals above or below prose.
    return has_room and previous.isupper() != line.isupper()


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _join(lines: list[str]) -> str:
    """Joins with spaces, but for a word with a hyphen where it was broken."""
    joined = lines[0]
    for line in lines[1:]:
        is_word = _ENDS_WITH_HYPHEN.search(joined[-2:]) and line[0].isalpha()
        joined += line if is_word else f" {line}"
    return joined
