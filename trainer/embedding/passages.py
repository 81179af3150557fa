"""Divides texts into passages that an encoder reads whole."""

import re
from collections.abc import Iterator


def passages(text: str, most_words: int) -> Iterator[tuple[int, str]]:
    """Yields the passages of a text, each with its first character, counted from 0.

    Args:
      text: the text.
      most_words: greatest number of words, parts between white space; 0 for one passage.
    """
    if not most_words:
        yield 0, text
        return
    words = list(re.finditer(r"\S+", text))
    # Equal parts are better than full ones and a rest of one word.
    count = -(-len(words) // most_words)
    for number in range(count):
        part = words[number * len(words) // count : (number + 1) * len(words) // count]
        yield part[0].start(), text[part[0].start() : part[-1].end()]
