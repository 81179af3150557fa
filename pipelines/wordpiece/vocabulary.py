"""A WordPiece vocabulary: vocab.txt and its special tokens."""

import dataclasses
import functools
import hashlib
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from beambert.errors import InputError

VOCABULARY_FILE = "vocab.txt"
PADDING, UNKNOWN, CLASSIFY, SEPARATE, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
# Many times as many as in any published vocabulary (XLM-R has 250,002).
MOST_TOKENS = 10_000_000
SPECIAL_TOKENS = (PADDING, UNKNOWN, CLASSIFY, SEPARATE, MASK)
# Beginning of a piece that continues a word.
CONTINUES = "##"
# Value of an id that a vocabulary lacks; only `unknown` may be lacking.
NO_ID = -1


@dataclasses.dataclass(frozen=True)
class SpecialIds:
    """The ids of special tokens, by their roles.

    Attributes:
      padding: id behind the last token of a sequence.
      unknown: id in the place of a word that the vocabulary cannot spell; `NO_ID` if it spells all.
      classify: id before the first token of a sequence.
      separate: id behind each text of a sequence.
      mask: id in the place of a token that is hidden.
    """

    padding: int
    unknown: int
    classify: int
    separate: int
    mask: int


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """A WordPiece vocabulary: its tokens in the order of their ids.

    Attributes:
      tokens: one token for each id.
      name: path of its file, for error messages.
      WHAT: what it is, for messages.
      FILE: name of the file that holds the vocabulary in a folder.
      space_before: what stands before a text that continues another one behind a space, so that its
        tokens are those that it has there. Word pieces do not depend on it.
      marks_spaces: whether a word has other tokens behind a space than behind other text.
      separators: number of separating tokens between the texts of a pair.
      second_segment: segment id of the second text of a pair.
      lower_cases: whether the vocabulary's own rules lower-case text; None if it has no such rules,
        so that they are told by `do_lower_case`.
    """

    tokens: tuple[str, ...]
    name: str = VOCABULARY_FILE
    WHAT: ClassVar[str] = "vocabulary"
    FILE: ClassVar[str] = VOCABULARY_FILE
    space_before: ClassVar[str] = ""
    marks_spaces: ClassVar[bool] = False
    separators: ClassVar[int] = 1
    second_segment: ClassVar[int] = 1
    lower_cases: ClassVar[bool | None] = None

    def __post_init__(self) -> None:
        """Checks that the special tokens are there and that no token is there twice."""
        missing = [token for token in SPECIAL_TOKENS if token not in self.tokens]
        if missing:
            raise InputError(
                f"{self.name}: the vocabulary lacks {', '.join(missing)}; "
                "add one line for each, or learn a vocabulary with `beambert vocab`"
            )
        if len(set(self.tokens)) != len(self.tokens):
            seen: set[str] = set()
            twice = next(token for token in self.tokens if token in seen or seen.add(token))
            raise InputError(f"{self.name}: the token {twice!r} is on two lines; remove one")

    @classmethod
    def parse(cls, data: bytes, name: str) -> "Vocabulary":
        """Reads the original's vocab.txt: one token on each line; the line number is the id.

        Raises:
          InputError: the data is not UTF-8, a special token is missing, a token is there twice, or
            there are too many.
        """
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{name}: the vocabulary is not UTF-8 text (byte {error.start}); convert it"
            ) from error
        if (lines_there := data.count(b"\n")) > MOST_TOKENS:
            raise InputError(
                f"{name}: has {lines_there:,} lines, and a vocabulary has at most {MOST_TOKENS:,}; "
                "check the file"
            )
        # `splitlines` would also split at U+2028 and the like, which vocabularies have as tokens.
        lines = text.removesuffix("\n").split("\n") if text else []
        return cls(tuple(line.strip(" \t\r") for line in lines), name)

    def serialize(self) -> bytes:
        """Returns the bytes of vocab.txt."""
        return "".join(f"{token}\n" for token in self.tokens).encode()

    @functools.cached_property
    def sha256(self) -> str:
        """Hash of vocab.txt, by which the vocabularies of records and models are compared."""
        return hashlib.sha256(self.serialize()).hexdigest()

    def __len__(self) -> int:
        """The number of ids."""
        return len(self.tokens)

    def id_of(self, token: str) -> int:
        """Returns the id of a token; the token must be in the vocabulary."""
        return self.tokens.index(token)

    def files(self) -> Mapping[str, bytes]:
        """Returns name -> content of the files that hold the vocabulary in a folder."""
        return {self.FILE: self.serialize()}

    @functools.cached_property
    def special(self) -> SpecialIds:
        """The ids of the special tokens."""
        return SpecialIds(*map(self.id_of, SPECIAL_TOKENS))

    @property
    def pieces(self) -> tuple[str, ...]:
        """The tokens as word pieces, for people: "##x" continues a word, [MASK] is a mask."""
        return self.tokens

    @property
    def is_reserved(self) -> np.ndarray:
        """Whether each token stands for no text, bool [tokens]: special and unused tokens."""
        return np.array([t in SPECIAL_TOKENS or t.startswith("[unused") for t in self.tokens])

    @property
    def is_continuation(self) -> np.ndarray:
        """Whether each token continues the word before it, bool [tokens]."""
        return np.array([token.startswith(CONTINUES) for token in self.tokens])

    @property
    def characters(self) -> np.ndarray:
        """Number of characters of text that each token stands for, spaces left out, int [tokens].

        The tokens of a text have as many in all whatever the vocabulary, but for unknown ones.
        """
        numbers = np.array([len(self._text_of(token)) for token in self.tokens], np.int64)
        return np.where(self.is_reserved, 0, numbers)

    def _text_of(self, token: str) -> str:
        """Returns the characters of a token that stands for text."""
        return token.removeprefix(CONTINUES) or token

    def about(self) -> dict[str, object]:
        """Returns what info.json of records says of the vocabulary."""
        return {"size": len(self), "sha256": self.sha256}

    def check_case(self, do_lower_case: bool) -> None:
        """Refuses a cased vocabulary for lower-cased text, and an uncased one for cased text.

        Raises:
          InputError: vocabulary and text differ in case.
        """
        words = [t for t in self.tokens if not (t.startswith("[") and t.endswith("]"))]
        capitals = sum(token != token.lower() for token in words)
        # No token of Google's uncased vocabulary has capitals, and 30 % of its cased one do.
        if do_lower_case and capitals > 0.02 * len(words):
            raise InputError(
                f"{self.name}: {capitals} of its {len(words)} tokens have capitals, so it is a "
                "cased vocabulary; pass --do_lower_case=False"
            )
        has_case = any(token != token.upper() for token in words)
        if not do_lower_case and has_case and capitals == 0:
            raise InputError(
                f"{self.name}: none of its tokens has a capital, so it is an uncased vocabulary; "
                "pass --do_lower_case=True"
            )
