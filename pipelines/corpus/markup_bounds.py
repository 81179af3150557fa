"""Tells pages whose unclosed markup would keep the parser busy for minutes. Pure.

For each marker without its end the parser reads on to the end of the page and then starts again. So
its time is bounded by the number of such markers times the length of the page, which one pass over
the page counts. The result doesn't depend on the machine.
"""

import re
from collections import Counter

_MARKS = re.compile(
    r"^\{\||^\|\}(?!\})|\{\{|\}\}|\[\[|\]\]|\[(?=http|//)|\]|<!--|-->|</?[A-Za-z]+|/?>",
    re.MULTILINE,
)
# End of a marker -> its beginning. Single closing brackets end links to other sites.
_ENDS = {"|}": "{|", "}}": "{{", "]]": "[[", "]": "[", "-->": "<!--"}
# Elements that have no end, or whose end may be left out.
_WITHOUT_END = {"br", "hr", "wbr", "li", "dt", "dd", "td", "th", "tr", "p", "img", "references"}
# Greatest product of the page's length and the number of its unclosed markers; the parser takes up
# to 0.15 seconds a million for the first kind, and a twentieth of that for the second.
_MOST_COSTLY, _MOST_CHEAP = 5_000_000, 100_000_000
_CHEAP = ("[", "<!--", "element")


def is_tangled(wikitext: str) -> bool:
    """Returns whether a page has too many markers without an end."""
    unclosed = count_unclosed(wikitext)
    cheap = sum(unclosed[kind] for kind in _CHEAP)
    costly = unclosed.total() - cheap
    length = len(wikitext)
    return costly * length > _MOST_COSTLY or cheap * length > _MOST_CHEAP


def count_unclosed(wikitext: str) -> Counter[str]:
    """Returns kind -> number of markers without an end.

    The kinds are the beginnings of the markers, "tag" for tags without ">", and "element" for
    elements without a closing tag.
    """
    opened: Counter[str] = Counter()
    elements: Counter[str] = Counter()
    unclosed: Counter[str] = Counter()
    tag = ""  # name of the tag that is open, with "/" in front if it closes an element
    for match in _MARKS.finditer(wikitext):
        mark = match[0]
        if mark in (">", "/>"):
            name = tag.removeprefix("/")
            if tag and mark == ">" and name not in _WITHOUT_END:
                if tag == name:
                    elements[name] += 1
                elif elements[name]:
                    elements[name] -= 1
            tag = ""
        elif mark in _ENDS:
            beginning = _ENDS[mark]
            if opened[beginning]:
                opened[beginning] -= 1
        elif mark[0] == "<" and mark != "<!--":
            unclosed["tag"] += bool(tag)
            tag = mark[1:].lower()
        else:
            opened[mark] += 1
    unclosed["tag"] += bool(tag)
    unclosed["element"] += elements.total()
    return unclosed + opened
