"""The contract of a records folder: its files, and the features of a record.

A records folder holds:
- `part-00000-of-00008.tfrecord` …, the records;
- `info.json`, every parameter, input and count;
- `inputs.jsonl.gz`, the inputs if there are more than 1,000;
- `vocab.txt`, the vocabulary that the records' ids belong to;
- `schema.pbtxt` and `statistics.json`, the features and statistics of their values;
- `_SUCCESS`, the marker, which is written last and holds the job that made the folder.

This module needs only the standard library, so that a machine that trains can read a folder without
Beam and tfx-bsl.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from beambert.pipelines.shared.errors import InputError

INFO_FILE = "info.json"
REJECTS_FILE = "rejects.jsonl"
STATISTICS_FILE = "statistics.json"
# Folder inside the records folder, for the records that `beambert data --eval_fraction` holds out.
EVAL_FOLDER = "eval"
FORMAT_VERSION = 1
# Values of next_sentence_labels, as in the original create_pretraining_data.py.
IS_NEXT, RANDOM_NEXT = 0, 1
SEQUENCE_FEATURES = ("input_ids", "input_mask", "segment_ids")
PREDICTION_FEATURES = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
LABEL_FEATURE = "next_sentence_labels"


def feature_shapes(max_seq_length: int, max_predictions_per_seq: int) -> dict[str, tuple[int, str]]:
    """Returns feature -> (length, type), as the original release writes its records."""
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
    def from_json(cls, text: str, name: str) -> "RecordsInfo":
        """Reads info.json.

        Args:
          text: content of the file.
          name: path of the file, for error messages.

        Raises:
          InputError: the file is not from a records folder, or of another format version.
        """
        try:
            fields = json.loads(text)
            version = fields.pop("format_version")
            if version != FORMAT_VERSION:
                raise InputError(
                    f"{name}: has the records format {version}, but this version of BeamBERT reads "
                    f"{FORMAT_VERSION}; make the records again with `beambert data`"
                )
            return cls(**fields)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{name}: not the info.json of a records folder; "
                "make the records again with `beambert data`"
            ) from error
