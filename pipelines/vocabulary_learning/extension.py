"""Chooses new pieces for a WordPiece vocabulary: those that save most tokens of a corpus. Pure.

A word is cut from left to right, and each piece is the longest one that fits (Wu et al. 2016, arXiv
1609.08144, section 4.1). So if two or more neighbouring pieces of a word are joined to a new piece,
the new one is found where the first of them began, and the pieces behind it stay. It saves as many
tokens, less one, as it joins.
"""

import dataclasses
import heapq
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from beambert.errors import InputError
from beambert.pipelines.tokenizers.pieces import cut, longest_of
from beambert.pipelines.tokenizers.vocabulary import CONTINUES, Vocabulary

# Greatest number of characters of a word that pieces are learned from. What is longer is no word.
LONGEST_PIECE = 50


@dataclasses.dataclass(frozen=True)
class Extension:
    """A vocabulary and what it is extended by.

    Attributes:
      vocabulary: the vocabulary, whose tokens keep their ids.
      number: number of pieces to choose; 0 if they are given.
      given: pieces that are given.
    """

    vocabulary: Vocabulary
    number: int = 0
    given: tuple[str, ...] = ()

    def extended(self, words: Mapping[str, int]) -> Vocabulary:
        """Returns the vocabulary with its new pieces behind the old ones.

        Args:
          words: word -> its count in the corpus.

        Raises:
          InputError: the corpus has too few words that the vocabulary cuts.
        """
        tokens = self.vocabulary.tokens
        new = self.given or choose_pieces(tokens, words, self.number)
        if len(new) < self.number:
            raise InputError(
                f"--add={self.number}: only {len(new):,} new pieces would save a token of this "
                "text; add fewer, or give more text"
            )
        return Vocabulary((*tokens, *new))


def choose_pieces(pieces: Sequence[str], words: Mapping[str, int], number: int) -> list[str]:
    """Returns new pieces, each the one that saves most tokens beside those before it.

    Args:
      pieces: the pieces of the vocabulary.
      words: word -> its count in the corpus.
      number: greatest number of pieces; there are fewer if no more would save a token.
    """
    known = set(pieces)
    longest = longest_of(known)
    usual = (word for word in words if len(word) <= LONGEST_PIECE)
    cuts = {word: found for word in usual if (found := cut(word, known, longest))}
    saved: defaultdict[str, int] = defaultdict(int)
    holders: defaultdict[str, set[str]] = defaultdict(set)
    for word in cuts:
        for joined, tokens in _joined(cuts[word]):
            saved[joined] += tokens * words[word]
            holders[joined].add(word)
    # Entries whose number is no longer true stay in the heap until they come up.
    heap = [(-tokens, joined) for joined, tokens in saved.items()]
    heapq.heapify(heap)
    chosen: list[str] = []
    while heap and len(chosen) < number:
        tokens, joined = heapq.heappop(heap)
        if -tokens != saved[joined] or not tokens:
            continue
        chosen.append(joined)
        known.add(joined)
        longest = max(longest, len(joined.removeprefix(CONTINUES)))
        for word in sorted(holders[joined]):
            changed = dict.fromkeys(each for each, _ in _joined(cuts[word]))
            for each, tokens in _joined(cuts[word]):
                saved[each] -= tokens * words[word]
                holders[each].discard(word)
            cuts[word] = cut(word, known, longest)
            for each, tokens in _joined(cuts[word]):
                saved[each] += tokens * words[word]
                holders[each].add(word)
            for each in changed:
                heapq.heappush(heap, (-saved[each], each))
    return chosen


def _joined(pieces: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yields each join of neighbouring pieces, and the number of tokens that it saves."""
    ends: dict[str, int] = {}
    for first, end in itertools.combinations(range(len(pieces) + 1), 2):
        if end - first < 2:
            continue
        rest = (piece.removeprefix(CONTINUES) for piece in pieces[first + 1 : end])
        joined = pieces[first] + "".join(rest)
        # One that begins inside of the same piece is not found there.
        if first >= ends.get(joined, 0):
            ends[joined] = end
            yield joined, end - first - 1


def unknown_words(pieces: Sequence[str], words: Mapping[str, int]) -> int:
    """Returns how many of the words become [UNK], since no pieces spell them."""
    known = set(pieces)
    longest = longest_of(known)
    return sum(times for word, times in words.items() if not cut(word, known, longest))


def tokens_of(pieces: Sequence[str], words: Mapping[str, int]) -> int:
    """Returns the number of tokens that words take; a word that cannot be spelled takes one."""
    known = set(pieces)
    longest = longest_of(known)
    return sum(times * len(cut(word, known, longest) or [word]) for word, times in words.items())
