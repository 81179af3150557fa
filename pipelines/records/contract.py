"""The contract of a records folder: its files, and the features of a record.

A records folder holds:
- `part-00000-of-00008.tfrecord` …, the records;
- `info.json`, every parameter, input and count;
- `inputs.jsonl.gz`, the inputs if there are more than 1,000;
- `rejects.jsonl` and `overlaps.jsonl`, documents that could not be read, and those that share text
  with evaluation files;
- `vocab.txt`, the vocabulary that the records' ids belong to;
- `schema.pbtxt` and `statistics.json`, the features and statistics of their values;
- `_SUCCESS`, the marker, which is written last and holds the job that made the folder.

A record has the features of the original release. With `--pairs=none` it has no
`next_sentence_labels`: it is [CLS], full sentences of one or more documents, and [SEP], with one
more [SEP] between two documents. All its segment ids are 0.

With `--masks=none` a record has none of the `masked_lm_…` features. Its `input_ids` are the text,
and the training draws the masks. info.json then has `"masks": "none"`, and neither
`MASK_PARAMETERS` nor the counts `predictions` and `predictions_per_instance`. Where info.json has
no `masks`, the records have masks.

Importing this module needs only the standard library, so that a machine that trains can read a
folder without Beam and tfx-bsl.
"""

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from beambert.errors import InputError
from beambert.folders import MARKER_FILE, UNFINISHED_FILE
from beambert.io import check_names, exists, match_in, parse_object

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2


INFO_FILE = "info.json"
# Version of the format of a records folder.
FORMAT_VERSION = 1
_REMEDY = "make the records again with `beambert data`"
REJECTS_FILE = "rejects.jsonl"
OVERLAPS_FILE = "overlaps.jsonl"
STATISTICS_FILE, SCHEMA_FILE = "statistics.json", "schema.pbtxt"
# Reason under which info.json counts documents that share text with evaluation files.
OVERLAP = "evaluation_text"
# Folder inside the records folder, for the records that `beambert data --eval_fraction` holds out.
EVAL_FOLDER = "eval"
# Greatest value of `beambert data --max_seq_length`: the positions of ModernBERT (Warner et al.
# 2024, arXiv 2412.13663), the longest of all families.
LONGEST_SEQUENCE = 8192
# A record of the longest sequence has less than a hundredth of this number of bytes, so that a
# larger length is damage.
MOST_RECORD_BYTES = 1 << 24
# Paper, section 3.1, task 1: 15 % of the tokens are chosen. 80 % of these become [MASK], 10 % a
# random token, and 10 % stay as they are.
MASKED_LM_PROB = 0.15
MASK_SHARE, RANDOM_SHARE, SAME_SHARE = 0.8, 0.1, 0.1
# Values of next_sentence_labels, as in the original create_pretraining_data.py. With --pairs=sop
# they mean that the segments are in order or swapped, as in ALBERT's script of the same name; with
# --pairs=copy that one is a copy of the other, or of another text.
IS_NEXT, RANDOM_NEXT = 0, 1
SEQUENCE_FEATURES = ("input_ids", "input_mask", "segment_ids")
PREDICTION_FEATURES = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
LABEL_FEATURE = "next_sentence_labels"
# Values of --pairs, and of `pairs` in info.json: records without `LABEL_FEATURE`, records whose
# label is the order of the segments (sentence-order prediction), and records whose label
# distinguishes a noisy copy from another text.
NONE, SOP, COPY = "none", "sop", "copy"
# Value of `pairs` -> what the labels 0 and 1 mean, for people; None stands for all other values.
_LABEL_WORDS = {
    None: ("is next", "random next"),
    SOP: ("in order", "swapped"),
    COPY: ("copy", "other text"),
}
# Value of --masks other than `NONE`, which means that records have no `PREDICTION_FEATURES`.
STATIC = "static"
# The parameters of masks, which the info.json of records without masks does not have.
MASK_PARAMETERS = frozenset(
    ("max_predictions_per_seq", "masked_lm_prob", "do_whole_word_mask", "do_span_mask")
)


def label_words(pairs: str | None) -> tuple[str, str]:
    """Returns what the labels 0 and 1 mean, for people.

    Args:
      pairs: the records' parameter `pairs`; None if it is unknown.
    """
    return _LABEL_WORDS.get(pairs, _LABEL_WORDS[None])


def feature_shapes(
    max_seq_length: int, max_predictions_per_seq: int, has_label: bool = True
) -> dict[str, tuple[int, str]]:
    """Returns feature -> (length, type), as the original release writes its records.

    Args:
      max_seq_length: tokens of a record, padding included.
      max_predictions_per_seq: prediction slots of a record; 0 of records without masks.
      has_label: whether the records have `LABEL_FEATURE`.
    """
    shapes = dict.fromkeys(SEQUENCE_FEATURES, (max_seq_length, "int64"))
    if max_predictions_per_seq:
        shapes |= dict.fromkeys(PREDICTION_FEATURES, (max_predictions_per_seq, "int64"))
        shapes["masked_lm_weights"] = (max_predictions_per_seq, "float32")
    if has_label:
        shapes[LABEL_FEATURE] = (1, "int64")
    return shapes


def shard_name(index: int, count: int) -> str:
    """Returns the file name of shard `index` of `count`."""
    return f"part-{index:05d}-of-{count:05d}.tfrecord"


def has_shards(names: Sequence[str]) -> bool:
    """Returns whether a folder with these names has shards, compressed ones among them."""
    return any(re.fullmatch(r"part-\d+-of-\d+\.tfrecord(\.gz)?", name) for name in names)


@dataclasses.dataclass(frozen=True)
class RecordsInfo:
    """The info.json of a records folder.

    Attributes:
      parameters: flag -> value, for every parameter that the records depend on.
      vocabulary: `size` and `sha256` of the vocabulary.
      inputs: `path`, `bytes` and `modified` of every file read; of more than 1,000 files only the
        number of `files`, their `bytes` and the `sha256` of the list in `inputs.jsonl.gz`.
      files: `name`, `instances`, `bytes` and `sha256` of every file written.
      counts: counts of documents, sentences, tokens and instances.
      versions: library -> version, for the libraries that the records depend on.
    """

    parameters: Mapping[str, Any]
    vocabulary: Mapping[str, Any]
    inputs: Sequence[Mapping[str, Any]] | Mapping[str, Any]
    files: Sequence[Mapping[str, Any]]
    counts: Mapping[str, Any]
    versions: Mapping[str, str]

    def to_json(self) -> str:
        """Returns the text of info.json."""
        fields = {"format_version": FORMAT_VERSION} | dataclasses.asdict(self)
        return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, name: str) -> Self:
        """Reads info.json.

        Args:
          text: content of the file.
          name: path of the file, for error messages.

        Raises:
          InputError: the file is not from a records folder, has another format version, or has
            impossible values.
        """
        try:
            fields = parse_object(text)
            version = fields.pop("format_version")
            info = cls(**fields) if version == FORMAT_VERSION else None
            fault = f"has the format {version}, not {FORMAT_VERSION}"
            fault = info.fault() if info else fault
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{name}: not the info.json of a records folder; {_REMEDY}") from error
        if fault:
            raise InputError(f"{name}: {fault}; {_REMEDY}")
        return info

    @property
    def pairs(self) -> str | None:
        """The value of --pairs; None where it isn't known."""
        return self.parameters.get("pairs")

    @property
    def masked_lm_prob(self) -> float:
        """The share of the filled positions to predict, or the paper's where it isn't known."""
        return self.parameters.get("masked_lm_prob", MASKED_LM_PROB)

    @property
    def has_label(self) -> bool:
        """Whether the records have `LABEL_FEATURE`."""
        return self.pairs != NONE

    @property
    def has_masks(self) -> bool:
        """Whether the records have `PREDICTION_FEATURES`."""
        return self.parameters.get("masks") != NONE

    @property
    def documents(self) -> int | None:
        """Number of documents that the records are made of; None where it isn't known.

        A divided document counts in the folder that has its beginning. Of the few in the held-out
        folder of one source, that is often another folder.
        """
        of_sources = self.counts.get("sources", {}).values()
        if "source" in self.parameters and not all("passes" in source for source in of_sources):
            return None
        return self.counts.get("documents", {}).get("used")

    @property
    def passes(self) -> int | None:
        """Number of passes over the documents, the greatest of any source; None if unknown."""
        of_sources = self.counts.get("sources", {}).values()
        over = [
            source["passes"]
            for source in of_sources
            if isinstance(source.get("passes"), int | float)
        ]
        return math.ceil(max(over)) if over else self.parameters.get("dupe_factor")

    def fault(self) -> str:
        """Returns an impossible length, number of records, rate or kind of masks; "" if none is."""
        for name in ("max_seq_length", "max_predictions_per_seq"):
            value = self.parameters.get(name, 1)
            if not (isinstance(value, int) and 1 <= value <= LONGEST_SEQUENCE):
                return f"says {name} is {value!r}, which must be from 1 to {LONGEST_SEQUENCE}"
        rate = self.parameters.get("masked_lm_prob", 0)
        if not (isinstance(rate, int | float) and 0 <= rate <= 1):
            return f"says masked_lm_prob is {rate!r}, which must be from 0 to 1"
        masks = self.parameters.get("masks", STATIC)
        if masks not in (STATIC, NONE):
            return f"says masks is {masks!r}, which must be {STATIC!r} or {NONE!r}"
        if masks == NONE and (named := sorted(MASK_PARAMETERS & self.parameters.keys())):
            return f"says masks is {NONE!r}, but names {named[0]}"
        check_names(file["name"] for file in self.files)
        for file in self.files:
            instances = file["instances"]
            if not (isinstance(instances, int) and instances >= 0):
                return f"says {file['name']} has {instances!r} records"
        return ""


def check_finished(
    folder: str,
    flag: str,
) -> None:
    """Checks that a path is a finished records folder.

    Args:
      folder: path of the folder.
      flag: name of the flag that gave the folder, for error messages.

    Raises:
      InputError: the folder does not exist, or is not finished.
    """
    folder = folder.rstrip("/")
    if not exists(folder):
        raise InputError(
            f"{flag}={folder}: no such folder; check the path, or make it with `beambert data`"
        )
    if exists(f"{folder}/{MARKER_FILE}"):
        return
    if inside := match_in(folder, f"[0-9]*/{MARKER_FILE}"):
        found = ", ".join(path.removesuffix(f"/{MARKER_FILE}") for path in inside)
        raise InputError(f"{flag}={folder}: holds records for several lengths; name one of {found}")
    if not any(exists(f"{folder}/{name}") for name in (UNFINISHED_FILE, INFO_FILE)):
        raise InputError(f"{flag}={folder}: is not a records folder; make one with `beambert data`")
    raise InputError(
        f"{flag}={folder}: not a finished records folder (no {MARKER_FILE}); "
        "run `beambert data` again, which completes it"
    )


def records_schema(
    max_seq_length: int, max_predictions_per_seq: int, vocab_size: int, has_label: bool = True
) -> "schema_pb2.Schema":
    """Returns the TensorFlow Metadata schema of a records folder, for TFX's tools.

    Args:
      max_seq_length: tokens of a record, padding included.
      max_predictions_per_seq: prediction slots of a record.
      vocab_size: number of ids.
      has_label: whether the records have `LABEL_FEATURE`.

    Returns:
      every feature with its type, its fixed shape, and the range of its values.
    """
    from tensorflow_metadata.proto.v0 import schema_pb2

    highest = {
        "input_ids": vocab_size - 1,
        "input_mask": 1,
        "segment_ids": int(has_label),
        "masked_lm_positions": max_seq_length - 1,
        "masked_lm_ids": vocab_size - 1,
        "masked_lm_weights": 1,
        LABEL_FEATURE: 1,
    }
    schema = schema_pb2.Schema()
    shapes = feature_shapes(max_seq_length, max_predictions_per_seq, has_label)
    for name, (length, kind) in shapes.items():
        feature = schema.feature.add(name=name)
        feature.shape.dim.add(size=length)
        # Every record has the feature.
        feature.presence.min_fraction = 1.0
        if kind == "int64":
            feature.type = schema_pb2.INT
            feature.int_domain.min, feature.int_domain.max = 0, highest[name]
        else:
            feature.type = schema_pb2.FLOAT
            feature.float_domain.min, feature.float_domain.max = 0.0, highest[name]
    return schema
