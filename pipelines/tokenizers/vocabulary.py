"""Vocabularies: BERT's vocab.txt, and the tokenizer.json of Hugging Face's `tokenizers` library.

`TokenizerVocabulary` is a `Vocabulary`, so that records, features and models take either.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from beambert.compression import decompressed
from beambert.errors import InputError
from beambert.io import parse_object
from beambert.pipelines.tokenizers.pieces import (
    BYTES,
    CONTINUES,
    METASPACE,
    as_piece,
    characters_of,
    mark_of,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

VOCABULARY_FILE = "vocab.txt"
TOKENIZER_FILE, TOKENIZER_CONFIG_FILE = "tokenizer.json", "tokenizer_config.json"
PADDING, UNKNOWN, CLASSIFY, SEPARATE, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_TOKENS = (PADDING, UNKNOWN, CLASSIFY, SEPARATE, MASK)
# Value of an id that a vocabulary lacks; only `unknown` may be lacking.
NO_ID = -1
# Many times the size of any published vocabulary (XLM-R has 250,002 tokens).
MOST_TOKENS = 10_000_000
# Role -> its names in tokenizer_config.json, and the usual tokens of that role: those of BERT, and
# those of RoBERTa, XLM-R and T5.
ROLES = {
    "padding": (("pad_token",), (PADDING, "<pad>")),
    "unknown": (("unk_token",), (UNKNOWN, "<unk>")),
    "classify": (("cls_token", "bos_token"), (CLASSIFY, "<s>", "<cls>")),
    "separate": (("sep_token", "eos_token"), (SEPARATE, "</s>", "<sep>")),
    "mask": (("mask_token",), (MASK, "<mask>")),
}
# tokenization.py, WordpieceTokenizer: a word of more characters is [UNK].
LONGEST_WORD = 200
# The greatest such number of a `Vocabulary`: regular expressions of TensorFlow count up to 1,000.
MOST_LONGEST_WORD = 999
# Setting of a tokenizer.json's word pieces for it, and its value there without one.
LONGEST_WORD_SETTING, LONGEST_WORD_THERE = "max_input_chars_per_word", 100
# No tokenizer has a token for this character, so it becomes an unknown token.
_NONCHARACTER = "\uffff"
# Attributes that follow from `data`, and would make a pickle twice as large.
_DERIVED = frozenset(("tokens", "pieces"))
_REMEDY = "copy it again, or learn one with `beambert vocab --kind=bpe`"


@dataclasses.dataclass(frozen=True)
class SpecialIds:
    """The ids of special tokens, by their roles.

    Attributes:
      padding: id after the last token of a sequence.
      unknown: id of a word that the vocabulary cannot spell; `NO_ID` if it spells everything.
      classify: id before the first token of a sequence.
      separate: id after each text of a sequence.
      mask: id that replaces a hidden token.
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
      longest_word: number of characters of the longest word; a longer one is unknown.
      WHAT: what it is, for messages.
      FILE: name of the file that holds the vocabulary in a folder.
      space_before: string to put before a text that follows a space in a longer text, so that it
        gets the tokens that it has there; "" for word pieces, which do not depend on spaces.
      marks_spaces: whether a word has other tokens after a space than after other text.
      separators: number of separating tokens between the texts of a pair.
      second_segment: segment id of the second text of a pair.
      lower_cases: whether the vocabulary's own rules lower-case text; None if it has no rules, and
        `do_lower_case` decides.
    """

    tokens: tuple[str, ...]
    name: str = VOCABULARY_FILE
    longest_word: int = LONGEST_WORD
    WHAT: ClassVar[str] = "vocabulary"
    FILE: ClassVar[str] = VOCABULARY_FILE
    space_before: ClassVar[str] = ""
    marks_spaces: ClassVar[bool] = False
    separators: ClassVar[int] = 1
    second_segment: ClassVar[int] = 1
    lower_cases: ClassVar[bool | None] = None

    def __post_init__(self) -> None:
        """Checks that there are all special tokens."""
        missing = [token for token in SPECIAL_TOKENS if token not in self.tokens]
        if missing:
            raise InputError(
                f"{self.name}: the vocabulary lacks {', '.join(missing)}; "
                "add one line for each, or learn a vocabulary with `beambert vocab`"
            )

    @classmethod
    def parse(cls, data: bytes, name: str, longest_word: int = LONGEST_WORD) -> "Vocabulary":
        """Reads the original's vocab.txt: one token on each line; the line number is the id.

        The data is decompressed first if the name ends in .gz, .bz2 or .zst. A token on several
        lines has the id of the last, as in the original; the other ids are not used.

        Raises:
          InputError: the data is not UTF-8, a special token is missing, or there are too many
            tokens.
        """
        data = decompressed(name, data)
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
        # `splitlines` would also split at U+2028 and similar, which are tokens of vocabularies.
        lines = text.removesuffix("\n").split("\n") if text else []
        ids = {line.strip(" \t\r"): number for number, line in enumerate(lines)}
        return cls(by_id(ids, len(lines)), name, longest_word)

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
        files = {self.FILE: self.serialize()}
        if self.longest_word != LONGEST_WORD:
            config = json.dumps({LONGEST_WORD_SETTING: self.longest_word}) + "\n"
            files[TOKENIZER_CONFIG_FILE] = config.encode()
        return files

    @functools.cached_property
    def special(self) -> SpecialIds:
        """The ids of the special tokens."""
        return SpecialIds(*map(self.id_of, SPECIAL_TOKENS))

    def tokens_by_role(self) -> dict[str, str]:
        """Returns role -> its token, for the roles that have one."""
        roles = dataclasses.asdict(self.special)
        return {role: self.tokens[number] for role, number in roles.items() if number != NO_ID}

    @property
    def pieces(self) -> tuple[str, ...]:
        """The tokens as word pieces, for people: "##x" continues a word, [MASK] is a mask."""
        return self.tokens

    @property
    def is_reserved(self) -> np.ndarray:
        """Whether each token is special or unused, so that it stands for no text, bool [tokens]."""
        return np.array([t in SPECIAL_TOKENS or t.startswith("[unused") for t in self.tokens])

    @property
    def is_continuation(self) -> np.ndarray:
        """Whether each token continues the word before it, bool [tokens]."""
        return np.array([token.startswith(CONTINUES) for token in self.tokens])

    @property
    def characters(self) -> np.ndarray:
        """Number of characters of text that each token stands for, spaces left out, int [tokens].

        Their sum over the tokens of a text is the same for every vocabulary, except for unknown
        tokens.
        """
        numbers = np.array([len(self._text_of(token)) for token in self.tokens], np.int64)
        return np.where(self.is_reserved, 0, numbers)

    def _text_of(self, token: str) -> str:
        """Returns the characters of a token that stands for text."""
        return token.removeprefix(CONTINUES) or token

    def about(self) -> dict[str, object]:
        """Returns the description of the vocabulary in info.json of records."""
        return {"size": len(self), "sha256": self.sha256}

    def check_case(self, do_lower_case: bool) -> None:
        """Compares the case of the vocabulary with that of the text.

        Raises:
          InputError: a cased vocabulary is given for lower-cased text, or an uncased one for cased
            text.
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


@dataclasses.dataclass(frozen=True)
class TokenizerVocabulary(Vocabulary):
    """The vocabulary of a tokenizer.json.

    Attributes:
      tokens: one token for each id; an id that the tokenizer does not use has "[unused…]".
      name: path of its file, for error messages.
      data: content of tokenizer.json.
      roles: ids of the special tokens.
      reserved: ids of tokens that stand for no text.
      mark: word mark, see `pieces.mark_of`.
      space_before, marks_spaces, separators, second_segment, lower_cases: see `Vocabulary`.
      has_frame: whether the tokenizer adds special tokens as BERT does. Otherwise the export adds
        this to it.
    """

    WHAT: ClassVar[str] = "tokenizer"
    FILE: ClassVar[str] = TOKENIZER_FILE

    data: bytes = b""
    roles: SpecialIds = SpecialIds(0, 0, 0, 0, 0)
    reserved: tuple[int, ...] = ()
    mark: str = ""
    space_before: str = ""
    separators: int = 1
    second_segment: int = 1
    lower_cases: bool = False
    has_frame: bool = True

    def __post_init__(self) -> None:
        """Checks nothing, since `read` checks the tokenizer."""

    @classmethod
    def read(
        cls, data: bytes, name: str, config: Mapping[str, Any] | None = None
    ) -> "TokenizerVocabulary":
        """Reads a tokenizer.json.

        Args:
          data: content of the file.
          name: flag and path of the file, for messages.
          config: content of the tokenizer_config.json next to it, if there is one.

        Raises:
          InputError: the file is damaged, has no token for a role, or marks the ends of words
            instead of their beginnings.
        """
        content = _parse(data, name)
        tokenizer = load(data, name)
        if content["model"].get("end_of_word_suffix"):
            raise InputError(
                f"{name}: marks where words end (end_of_word_suffix), so that masks of whole words "
                "cannot be drawn; take a byte-level BPE, a Unigram or a WordPiece tokenizer"
            )
        ids = tokenizer.get_vocab(with_added_tokens=True)
        size = max(ids.values(), default=-1) + 1
        if size > MOST_TOKENS:
            raise InputError(
                f"{name}: has the id {size - 1:,}, and a tokenizer has at most {MOST_TOKENS:,} "
                f"tokens; {_REMEDY}"
            )
        unknown = content["model"].get("unk_token")
        if unknown not in ids and content["model"].get("type") in ("WordPiece", "WordLevel"):
            raise InputError(f"{name}: lacks its token of unknown words, {unknown!r}; {_REMEDY}")
        if len(set(ids.values())) < len(ids):
            raise InputError(f"{name}: gives several tokens the same id; {_REMEDY}")
        tokens = by_id(ids, size)
        with _translate_errors(name):  # Its vocabulary may be unable to spell a letter.
            frame, space = frame_of(tokenizer), _depends_on_space(tokenizer)
            tokenizer.encode(_NONCHARACTER)
        roles = find_roles(ids, frame, config or {}, name)
        added = tokenizer.get_added_tokens_decoder()
        _check_normalized(
            tokenizer, [each.content for each in added.values() if each.normalized], name
        )
        special = {number for number, token in added.items() if token.special}
        special |= {number for number, token in enumerate(tokens) if token.startswith("[unused")}
        special |= {number for number in dataclasses.astuple(roles) if number != NO_ID}
        return cls(
            tokens,
            name,
            data=data,
            roles=roles,
            reserved=tuple(sorted(special)),
            mark=mark_of(content),
            space_before=" " if space else "",
            separators=frame.separators if frame else 1,
            second_segment=frame.second_segment if frame else 1,
            lower_cases=_lower_cases(tokenizer),
            has_frame=frame is not None,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state for a pickle, without the tokens, which are in `data` too.

        Dataflow accepts jobs of at most 20 MB, and several steps of a job have a tokenizer.
        """
        return {name: value for name, value in vars(self).items() if name not in _DERIVED}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Restores the tokens from `data` (a second for 250,000)."""
        ids = load(state["data"], state["name"]).get_vocab(with_added_tokens=True)
        vars(self).update(state, tokens=by_id(ids, max(ids.values()) + 1))

    def serialize(self) -> bytes:
        """Returns the content of tokenizer.json as it was read."""
        return self.data

    @functools.cached_property
    def sha256(self) -> str:
        """Hash of the content of tokenizer.json, by which tokenizers are compared."""
        return tokenizer_sha256(self.data)

    def files(self) -> Mapping[str, bytes]:
        """Returns tokenizer.json, and a tokenizer_config.json that names the special tokens."""
        config = json.dumps(self.config(), indent=2, ensure_ascii=False) + "\n"
        return {TOKENIZER_FILE: self.data, TOKENIZER_CONFIG_FILE: config.encode()}

    def config(self) -> dict[str, Any]:
        """Returns the tokenizer_config.json with which `transformers` reads tokenizer.json."""
        names = {ROLES[role][0][0]: token for role, token in self.tokens_by_role().items()}
        segments = ["token_type_ids"] if self.second_segment else []
        inputs = ["input_ids", *segments, "attention_mask"]
        fast = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": inputs}
        splitter = parse_object(self.data).get("pre_tokenizer") or {}
        space = {k: v for k, v in splitter.items() if k == "add_prefix_space"}  # else False in 4
        return fast | names | space

    def about(self) -> dict[str, object]:
        """Returns the description of the tokenizer in info.json of records."""
        return super().about() | {"special_tokens": self.tokens_by_role()}

    @property
    def marks_spaces(self) -> bool:
        """Whether a word has other tokens after a space than after other text."""
        return self.mark in (BYTES, METASPACE)

    @property
    def special(self) -> SpecialIds:
        """The ids of the special tokens."""
        return self.roles

    @functools.cached_property
    def pieces(self) -> tuple[str, ...]:
        """The tokens as word pieces, for people: "##x" continues a word, [MASK] is a mask."""
        shown = {getattr(self.roles, role): usual[0] for role, (_, usual) in ROLES.items()}
        reserved = set(self.reserved)
        return tuple(
            shown.get(number) or (token if number in reserved else as_piece(token, self.mark))
            for number, token in enumerate(self.tokens)
        )

    @property
    def is_reserved(self) -> np.ndarray:
        """Whether each token is special or unused, so that it stands for no text, bool [tokens]."""
        found = np.zeros(len(self), bool)
        found[list(self.reserved)] = True
        return found

    @property
    def is_continuation(self) -> np.ndarray:
        """Whether each token continues the word before it, bool [tokens]."""
        begins = [piece.startswith(CONTINUES) for piece in self.pieces]
        return np.array(begins) & ~self.is_reserved

    def _text_of(self, token: str) -> str:
        """Returns the characters of a token that stands for text."""
        return characters_of(token, self.mark)

    def check_case(self, do_lower_case: bool) -> None:
        """Checks nothing, since the tokenizer has its own rules for the case of text."""


def tokenizer_sha256(data: bytes) -> str:
    """Returns the hash of the content of a tokenizer.json.

    White space does not matter, nor do the settings of truncation and padding, which other programs
    write and which have no effect here. The hash of a damaged file is that of its bytes.
    """
    with contextlib.suppress(ValueError):
        content = parse_object(data) | {"truncation": None, "padding": None}
        data = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(data).hexdigest()


def load(data: bytes, name: str, roles: SpecialIds | None = None) -> "Tokenizer":
    """Returns the tokenizer of a tokenizer.json, without padding and without truncation.

    Text never becomes a special token: "[SEP]" or "</s>" in a string is spelled as other text is.

    Args:
      data: content of the file.
      name: flag and path of the file, for messages.
      roles: ids of the tokens for which that holds; other special tokens, such as markers of
        entities that were added, are read in text. None for all special tokens.

    Raises:
      InputError: the library cannot read it.
    """
    # Beam and the trainer start processes of their own; threads in each would compete.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from tokenizers import Tokenizer

    with _translate_errors(name):
        tokenizer = Tokenizer.from_str(data.decode())
        added = tokenizer.get_added_tokens_decoder().items()
        in_frame = () if roles is None else dataclasses.astuple(roles)
        if in_frame and any(token.special and number not in in_frame for number, token in added):
            content = parse_object(data)
            for token in content["added_tokens"]:
                token["special"] = token["id"] in in_frame
            tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    return tokenizer


@contextlib.contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    """Raises errors of the library as an `InputError`."""
    try:
        yield
    except BaseException as error:
        # The library raises plain exceptions, and a panic of Rust where it handles no error.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"{name}: cannot be read as a tokenizer ({reason}); {_REMEDY}") from error


def _parse(data: bytes, name: str) -> dict[str, Any]:
    try:
        content = parse_object(data)
        if not isinstance(content.get("model"), dict):
            raise ValueError("it has no model")
    except ValueError as error:
        raise InputError(f"{name}: not a tokenizer.json ({error}); {_REMEDY}") from error
    return content


def _check_normalized(tokenizer: "Tokenizer", added: list[str], name: str) -> None:
    """Refuses added tokens of which the library finds one or another, by chance.

    Args:
      tokenizer: the tokenizer.
      added: its added tokens that are found in normalized text.
      name: flag and path of the tokenizer, for messages.
    """
    found: dict[str, str] = {}
    for token in added if tokenizer.normalizer else ():
        other = found.setdefault(tokenizer.normalizer.normalize_str(token), token)
        if other != token:
            raise InputError(
                f"{name}: its added tokens {other!r} and {token!r} are the same text once it is "
                "normalized; remove one, or set its `normalized` to false"
            )


def by_id(ids: Mapping[str, int], size: int) -> tuple[str, ...]:
    """Returns one token for each id below `size`; an id without a token has "[unused-…]"."""
    tokens = [f"[unused-{number}]" for number in range(size)]
    for token, number in ids.items():
        tokens[number] = token
    return tuple(tokens)


@dataclasses.dataclass(frozen=True)
class Frame:
    """How a tokenizer makes [CLS] text [SEP] of a text and [CLS] A [SEP] … B [SEP] of a pair.

    Attributes:
      classify: id before the first text.
      separate: id after each text.
      separators: number of separating tokens between two texts, at least 1.
      second_segment: segment id of the second text.
    """

    classify: int
    separate: int
    separators: int
    second_segment: int


def frame_of(tokenizer: "Tokenizer") -> Frame | None:
    """Returns the frame of a tokenizer; None if it frames texts otherwise, or not at all."""
    one, two = tokenizer.encode("a"), tokenizer.encode("a", "a")
    owners = zip(one.ids, one.sequence_ids, strict=True)
    text = [number for number, owner in owners if owner is not None]
    if len(one.ids) != len(text) + 2:
        return None
    classify, separate = one.ids[0], one.ids[-1]
    separators = len(two.ids) - 2 * len(text) - 2
    second, segment = 1 + len(text) + separators, two.type_ids[-1]
    is_framed = (
        separators >= 1
        and one.ids == [classify, *text, separate]
        and two.ids == [classify, *text, *[separate] * separators, *text, separate]
        and two.type_ids == [0] * second + [segment] * (len(two.ids) - second)
    )
    return Frame(classify, separate, separators, segment) if is_framed else None


def _depends_on_space(tokenizer: "Tokenizer") -> bool:
    """Returns whether a word has other tokens after a space than at the beginning of a text."""
    alone, after = (tokenizer.encode(text, add_special_tokens=False) for text in ("a", " a"))
    return alone.ids != after.ids


def _lower_cases(tokenizer: "Tokenizer") -> bool:
    rules = tokenizer.normalizer
    return rules is not None and "A" not in rules.normalize_str("A")


def find_roles(
    ids: Mapping[str, int], frame: Frame | None, config: Mapping[str, Any], name: str
) -> SpecialIds:
    """Returns the ids of the special tokens.

    They come from the tokenizer's frame, from tokenizer_config.json, or from the usual tokens.

    Args:
      ids: id of each token.
      frame: how the tokenizer frames texts.
      config: content of tokenizer_config.json; empty without one.
      name: flag and path of the tokenizer, for messages.

    Raises:
      InputError: a role has no token, or two roles have the same one. A tokenizer that spells every
        text needs none for unknown words.
    """
    found: dict[str, int] = {}
    for role, (settings, usual) in ROLES.items():
        of_frame = getattr(frame, role, None)
        named = [
            token for setting in settings if (token := content_of(config.get(setting))) is not None
        ]
        tokens = named[:1] or [token for token in usual if token in ids]
        found[role] = of_frame if of_frame is not None else ids.get(next(iter(tokens), ""), NO_ID)
    missing = [role for role, number in found.items() if number == NO_ID and role != "unknown"]
    if missing:
        role = missing[0]
        raise InputError(
            f"{name}: has no token for the role {role}; add one such as {ROLES[role][1][0]} to the "
            f"tokenizer, or name it as {ROLES[role][0][0]} in tokenizer_config.json"
        )
    needed = {role: number for role, number in found.items() if role != "unknown"}
    if len(set(needed.values())) < len(needed):
        numbers = list(needed.values())
        twice = next(number for number in numbers if numbers.count(number) > 1)
        same = " and ".join(role for role, number in needed.items() if number == twice)
        raise InputError(
            f"{name}: has one token for the roles {same}; give each its own token in "
            "tokenizer_config.json"
        )
    return SpecialIds(**found)


def content_of(value: Any) -> str | None:
    """Returns the token of a setting, which is a string or an object with `content`."""
    value = value.get("content") if isinstance(value, dict) else value
    return value if isinstance(value, str) else None
