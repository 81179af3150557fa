"""The contract of a records folder: what is in a record, and how a finished folder says so.

A records folder holds `part-00000-of-00008.tfrecord` …, `info.json` (every parameter, input and
count), `vocab.txt` (the vocabulary its ids mean), `schema.pbtxt` and `statistics.json` (features,
and what was found in them) and `_SUCCESS`, written last. Standard library
only, so that a machine that trains needs neither Beam nor tfx-bsl to read one.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from beambert.pipelines.shared.errors import InputError

INFO_FILE = "info.json"
REJECTS_FILE = "rejects.jsonl"
STATISTICS_FILE = "statistics.json"
# The records that `beambert data --eval_fraction` holds out, inside the records folder.
EVAL_FOLDER = "eval"
FORMAT_VERSION = 1
# next_sentence_labels, as in the original create_pretraining_data.py.
IS_NEXT, RANDOM_NEXT = 0, 1
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
