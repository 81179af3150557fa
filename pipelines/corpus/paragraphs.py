"""Joins hard-wrapped lines into paragraphs. Pure."""

import re
import statistics

# Printed pages wrap at 60 to 80 characters. A few longer lines, such as tables, may occur.
_MOST_OF_A_LINE = 100
_SHORT_LINES = 0.95
# Least share of lines that continue the one before, which shows in a lower-case first letter. It is
# 0.6 to 0.9 in wrapped prose of languages with cases, and nearly 0 in verse, in lists, and in text
# with one paragraph a line.
_LEAST_CONTINUED = 0.2
_ENDS_SENTENCE = re.compile(r"[.!?:…。！？][\"'”’»)\]_*]*$")
_ENDS_WITH_HYPHEN = re.compile(r"\w-$")


def unwrap(text: str) -> str:
    """Returns the text with one paragraph a line and without blank lines.

    If the lines aren't hard-wrapped, each stays a line. Otherwise their text is joined, so that no
    sentence is cut at the end of a line. A new paragraph starts:

    - after a blank line;
    - after a line that ends a sentence although the next word had room on it;
    - before an indented line, if the line above it ends a sentence.
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
    """Returns whether lines are hard-wrapped.

    Nearly all lines must be short. Also, blank lines must separate paragraphs, or enough lines must
    begin with a lower-case letter.
    """
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
    # A heading in capitals stands above or below prose.
    return has_room and previous.isupper() != line.isupper()


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _join(lines: list[str]) -> str:
    """Joins lines with spaces, and without a space after a hyphen that breaks a word."""
    joined = lines[0]
    for line in lines[1:]:
        is_word = _ENDS_WITH_HYPHEN.search(joined[-2:]) and line[0].isalpha()
        joined += line if is_word else f" {line}"
    return joined
