"""A tokenizer.json of Hugging Face's `tokenizers` library as a vocabulary."""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from beambert.errors import InputError
from beambert.json_objects import parse_object
from beambert.pipelines.tokenizers.pieces import BYTES, METASPACE, as_piece, characters_of, mark_of
from beambert.pipelines.tokenizers.roles import ROLES, Frame, find_roles, frame_of
from beambert.pipelines.wordpiece.vocabulary import (
    CLASSIFY,
    CONTINUES,
    MASK,
    MOST_TOKENS,
    NO_ID,
    PADDING,
    SEPARATE,
    UNKNOWN,
    SpecialIds,
    Vocabulary,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER_FILE, TOKENIZER_CONFIG_FILE = "tokenizer.json", "tokenizer_config.json"
# A number of tokens up to which an id takes two bytes on its way through the pipeline.
MOST_IN_TWO_BYTES = 1 << 16
# Role -> the token of that role among word pieces.
_SHOWN = {
    "padding": PADDING,
    "unknown": UNKNOWN,
    "classify": CLASSIFY,
    "separate": SEPARATE,
    "mask": MASK,
}
# No tokenizer has a token for this character, so that it becomes an unknown one.
_NONCHARACTER = "\uffff"
# Attributes that follow from the data, and take as much room in a pickle.
_OF_DATA = frozenset(("tokens", "pieces"))
_REMEDY = "copy it again, or learn one with `beambert vocab --kind=bpe`"


@dataclasses.dataclass(frozen=True)
class TokenizerVocabulary(Vocabulary):
    """A tokenizer of another kind than BERT's, in the place of a vocabulary.

    Attributes:
      tokens: one token for each id; an id that the tokenizer does not use has "[unused…]".
      name: path of its file, for error messages.
      data: content of tokenizer.json.
      roles: ids of the special tokens.
      reserved: ids of tokens that stand for no text.
      mark: mark of words, see `pieces.mark_of`.
      space_before, marks_spaces, separators, second_segment, lower_cases: see `Vocabulary`.
      has_frame: whether the tokenizer itself frames texts as we do. Otherwise it is told to when it
        is exported.
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
        """Checks nothing: `read` has checked the tokenizer."""

    @classmethod
    def read(
        cls, data: bytes, name: str, config: Mapping[str, Any] | None = None
    ) -> "TokenizerVocabulary":
        """Reads a tokenizer.json.

        Args:
          data: content of the file.
          name: flag and path of the file, for messages.
          config: content of the tokenizer_config.json beside it, if there is one.

        Raises:
          InputError: the file is damaged, it lacks a role, or it marks where words end and not
            where they begin.
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
        tokens = _by_id(ids)
        with _told(name):  # It may have a vocabulary that cannot spell a letter.
            frame, space = _frame(tokenizer), _depends_on_space(tokenizer)
            tokenizer.encode(_NONCHARACTER)
        roles = find_roles(ids, frame, config or {}, name)
        added = tokenizer.get_added_tokens_decoder()
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
        """Returns what a pickle holds: `data` once, and not the tokens that are in it.

        Dataflow takes jobs of at most 20 MB, and several steps of a job have a tokenizer.
        """
        return {name: value for name, value in vars(self).items() if name not in _OF_DATA}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Takes what a pickle holds, and the tokens in it (a second for 250,000)."""
        ids = load(state["data"], state["name"]).get_vocab(with_added_tokens=True)
        vars(self).update(state, tokens=_by_id(ids))

    def serialize(self) -> bytes:
        """Returns the content of tokenizer.json as it was read."""
        return self.data

    @functools.cached_property
    def sha256(self) -> str:
        """Hash of what tokenizer.json says, by which tokenizers are compared."""
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
        return fast | names

    def tokens_by_role(self) -> dict[str, str]:
        """Returns role -> its token, for the roles that have one."""
        roles = dataclasses.asdict(self.roles)
        return {role: self.tokens[number] for role, number in roles.items() if number != NO_ID}

    def about(self) -> dict[str, object]:
        """Returns what info.json of records says of the tokenizer."""
        token_bytes = 2 if len(self) <= MOST_IN_TWO_BYTES else 4
        told = {"special_tokens": self.tokens_by_role(), "token_bytes": token_bytes}
        return super().about() | told

    @property
    def marks_spaces(self) -> bool:
        """Whether a word has other tokens behind a space than behind other text."""
        return self.mark in (BYTES, METASPACE)

    @property
    def special(self) -> SpecialIds:
        """The ids of the special tokens."""
        return self.roles

    @functools.cached_property
    def pieces(self) -> tuple[str, ...]:
        """The tokens as word pieces, for people: "##x" continues a word, [MASK] is a mask."""
        shown = {getattr(self.roles, role): token for role, token in _SHOWN.items()}
        reserved = set(self.reserved)
        return tuple(
            shown.get(number) or (token if number in reserved else as_piece(token, self.mark))
            for number, token in enumerate(self.tokens)
        )

    @property
    def is_reserved(self) -> np.ndarray:
        """Whether each token stands for no text, bool [tokens]: special and unused tokens."""
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
        """Checks nothing: the tokenizer has its own rules for the case of text."""


def tokenizer_sha256(data: bytes) -> str:
    """Returns the hash of what a tokenizer.json says.

    Another program writes the same content with other white space, and with settings of truncation
    and padding, which have no effect here. The hash of what is damaged is that of its bytes.
    """
    with contextlib.suppress(ValueError):
        content = parse_object(data) | {"truncation": None, "padding": None}
        data = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(data).hexdigest()


def load(data: bytes, name: str) -> "Tokenizer":
    """Returns the tokenizer of a tokenizer.json, without padding and without truncation.

    Text never becomes a special token: "[SEP]" or "</s>" in a text is spelled like other text.

    Raises:
      InputError: the library cannot read it.
    """
    # Beam and the trainer bring their own processes; threads in each would compete.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from tokenizers import Tokenizer

    with _told(name):
        tokenizer = Tokenizer.from_str(data.decode())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    return tokenizer


@contextlib.contextmanager
def _told(name: str) -> Iterator[None]:
    """Turns errors of the library into an `InputError`."""
    try:
        yield
    except BaseException as error:
        # The library raises plain exceptions, and where it foresaw nothing, a panic of Rust.
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
        raise InputError(f"{name}: is no tokenizer.json ({error}); {_REMEDY}") from error
    return content


def _by_id(ids: Mapping[str, int]) -> tuple[str, ...]:
    """Returns one token for each id; an id without a token has "[unused-…]"."""
    tokens = [f"[unused-{number}]" for number in range(max(ids.values(), default=-1) + 1)]
    for token, number in ids.items():
        tokens[number] = token
    return tuple(tokens)


def _frame(tokenizer: "Tokenizer") -> Frame | None:
    one, two = tokenizer.encode("a"), tokenizer.encode("a", "a")
    return frame_of(
        list(zip(one.ids, one.sequence_ids, strict=True)),
        list(zip(two.ids, two.sequence_ids, two.type_ids, strict=True)),
    )


def _depends_on_space(tokenizer: "Tokenizer") -> bool:
    """Returns whether a word has other tokens behind a space than at the beginning of a text."""
    alone, behind = (tokenizer.encode(text, add_special_tokens=False) for text in ("a", " a"))
    return alone.ids != behind.ids


def _lower_cases(tokenizer: "Tokenizer") -> bool:
    rules = tokenizer.normalizer
    return rules is not None and "A" not in rules.normalize_str("A")
