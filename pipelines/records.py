"""The contract of a records folder: what is in a record, and how a finished folder says so.

A records folder holds `part-00000-of-00008.tfrecord` …, `info.json` (every parameter, input and
count), `vocab.txt` (the vocabulary its ids mean), `schema.pbtxt` and `statistics.json` (features,
and what was found in them) and `_SUCCESS`, written last. Standard library
only, so that a machine that trains needs neither Beam nor tfx-bsl to read one.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.errors import InputError

INFO_FILE = "info.json"
VOCABULARY_FILE = "vocab.txt"
REJECTS_FILE = "rejects.jsonl"
STATISTICS_FILE = "statistics.json"
# The records that `beambert data --eval_fraction` holds out, inside the records folder.
EVAL_FOLDER = "eval"
# The Hadoop and Spark convention for "everything in this folder is complete".
MARKER_FILE = "_SUCCESS"
# Written first and removed last: tells our own unfinished folder from somebody else's.
UNFINISHED_FILE = "_UNFINISHED"
FORMAT_VERSION = 1

# next_sentence_labels, as in the original create_pretraining_data.py.
IS_NEXT, RANDOM_NEXT = 0, 1

PADDING, UNKNOWN, CLASSIFY, SEPARATE, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_TOKENS = (PADDING, UNKNOWN, CLASSIFY, SEPARATE, MASK)

SEQUENCE_FEATURES = ("input_ids", "input_mask", "segment_ids")
PREDICTION_FEATURES = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
LABEL_FEATURE = "next_sentence_labels"


def feature_shapes(max_seq_length: int, max_predictions_per_seq: int) -> dict[str, tuple[int, str]]:
    """Returns name -> (length, type) of every feature, as the original release writes them."""
    shapes = dict.fromkeys(SEQUENCE_FEATURES, (max_seq_length, "int64"))
    shapes |= dict.fromkeys(PREDICTION_FEATURES, (max_predictions_per_seq, "int64"))
    shapes["masked_lm_weights"] = (max_predictions_per_seq, "float32")
    shapes[LABEL_FEATURE] = (1, "int64")
    return shapes


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """A WordPiece vocabulary: its tokens in the order of their ids.

    Attributes:
      tokens: one token an id.
      name: where it came from, for error messages.
    """

    tokens: tuple[str, ...]
    name: str = VOCABULARY_FILE

    def __post_init__(self) -> None:
        """Checks what every user of a vocabulary relies on."""
        missing = [token for token in SPECIAL_TOKENS if token not in self.tokens]
        if missing:
            raise InputError(
                f"{self.name}: the vocabulary lacks {', '.join(missing)}; "
                "add one line for each, or learn a vocabulary with `beambert vocab`"
            )
        if len(set(self.tokens)) != len(self.tokens):
            seen: set[str] = set()
            twice = next(token for token in self.tokens if token in seen or seen.add(token))
            raise InputError(f"{self.name}: the token {twice!r} stands on two lines; remove one")

    @classmethod
    def parse(cls, data: bytes, name: str) -> "Vocabulary":
        """Reads the original's vocab.txt: one token a line, the line number is the id.

        Raises:
          InputError: not UTF-8, a special token is missing, or a token stands twice.
        """
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{name}: the vocabulary is not UTF-8 text (byte {error.start}); convert it"
            ) from error
        # Only line feeds end a token: vocabularies hold U+2028 and the like as tokens.
        lines = text.removesuffix("\n").split("\n") if text else []
        return cls(tuple(line.strip(" \t\r") for line in lines), name)

    def serialize(self) -> bytes:
        """Returns the bytes of vocab.txt."""
        return "".join(f"{token}\n" for token in self.tokens).encode()

    @property
    def sha256(self) -> str:
        """The hash that records and models are compared by."""
        return hashlib.sha256(self.serialize()).hexdigest()

    def __len__(self) -> int:
        """The number of ids."""
        return len(self.tokens)

    def id_of(self, token: str) -> int:
        """Returns the id of a token that is known to be there."""
        return self.tokens.index(token)

    def check_case(self, do_lower_case: bool) -> None:
        """Refuses a cased vocabulary on lower-cased text and the reverse.

        Raises:
          InputError: naming the vocabulary and the flag.
        """
        words = [t for t in self.tokens if not (t.startswith("[") and t.endswith("]"))]
        capitals = sum(token != token.lower() for token in words)
        # Google's uncased vocabulary has none, its cased one 30 %; the gap is wide.
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


def shard_name(index: int, count: int) -> str:
    """Returns the file name of shard `index` of `count`."""
    return f"part-{index:05d}-of-{count:05d}.tfrecord"


@dataclasses.dataclass(frozen=True)
class RecordsInfo:
    """The info.json of a records folder.

    Attributes:
      parameters: every parameter that shapes the records, by flag name.
      vocabulary: `size` and `sha256`.
      inputs: the files read: `path`, `bytes`, `modified`.
      files: the files written: `name`, `instances`, `bytes`, `sha256`.
      counts: documents, sentences, tokens, instances and what was made of them.
      versions: of the libraries that shaped the records.
    """

    parameters: Mapping[str, Any]
    vocabulary: Mapping[str, Any]
    inputs: Sequence[Mapping[str, Any]]
    files: Sequence[Mapping[str, Any]]
    counts: Mapping[str, Any]
    versions: Mapping[str, str]

    def to_json(self) -> str:
        """Returns the text of info.json."""
        fields = {"format_version": FORMAT_VERSION} | dataclasses.asdict(self)
        return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, name: str) -> "RecordsInfo":
        """Reads info.json.

        Raises:
          InputError: it is not ours, or of a later format.
        """
        try:
            fields = json.loads(text)
            version = fields.pop("format_version")
            if version != FORMAT_VERSION:
                raise InputError(
                    f"{name}: records format {version}, this version reads {FORMAT_VERSION}; "
                    "make the records again with `beambert data`"
                )
            return cls(**fields)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{name}: not the info.json of a records folder; "
                "make the records again with `beambert data`"
            ) from error
