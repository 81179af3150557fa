"""The contract of a features folder, and how to read one. It needs neither Beam nor tfx-bsl.

A features folder holds a folder of record files for each split of a task, `schema.pbtxt`,
`labels.txt`, `vocab.txt` or `tokenizer.json` (of the ids), `info.json` (`FeaturesInfo`) and
`_SUCCESS`, which is written last. A record is an example, or a window of a question:

    row                             number of the example among the used examples of its split
    input_ids, segment_ids          ids and segments of its tokens, without padding
    sequence_lengths                number of tokens in the sequence of each ending (choice only)
    label_ids                       index of the label, a number, an index for each token, or 0 or 1
                                    for each label
    start_positions, end_positions  positions of the answer's first and last token (span only)
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from beambert import storage
from beambert.errors import InputError
from beambert.folders import MARKER_FILE, describe_difference
from beambert.pipelines.records.contract import INFO_FILE, FolderInfo
from beambert.pipelines.tasks.declarations import KINDS
from beambert.pipelines.tasks.task import Task, TaskFeatures
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.ragged import ranges, starts_of
from beambert.storage import check_names

ROW, SEQUENCE_LENGTHS = "row", "sequence_lengths"
TOKEN_FEATURES = ("input_ids", "segment_ids")
# Name of a count of each split in info.json.
LOST_TOKENS = "sequences_that_lost_tokens"
_RECORDS_AT_A_TIME = 4096
# The flags behind the values of `made_from`.
FLAGS_OF = (
    {
        "task.name": "--task",
        "task.text_columns": "--text_columns",
        "task.label_column": "--label_column",
        "task.choice_columns": "--choice_columns",
        "data_sha256": "--data_dir",
        "vocabulary_sha256": "--vocab_file or --tokenizer",
        "do_lower_case": "--do_lower_case",
        "max_seq_length": "--max_seq_length",
    },
    {"labels": "--labels"},
)


def feature_names(kind: str) -> set[str]:
    """Returns the names of a record's features."""
    inputs = KINDS[kind]
    of_choice = (SEQUENCE_LENGTHS,) if inputs.HAS_CHOICES else ()
    return {ROW, *TOKEN_FEATURES, *of_choice, *inputs.TARGETS, *inputs.TOKEN_TARGETS}


def made_from(
    task: Task,
    labels: Sequence[str],
    vocabulary: Vocabulary,
    do_lower_case: bool,
    max_seq_length: int,
    data_sha256: Mapping[str, str],
) -> dict[str, Any]:
    """Returns all that decides the features of a task, in the types of JSON.

    Args:
      task: declaration of the task.
      labels: labels in index order.
      vocabulary: vocabulary of the ids.
      do_lower_case: whether text is lower-cased and loses its accents.
      max_seq_length: greatest number of tokens in a sequence.
      data_sha256: split -> SHA-256 of its file.
    """
    of_task = dataclasses.asdict(task)
    of_task.pop("class_weights", None)  # they belong to the loss
    decided = {
        "task": of_task,
        "labels": list(labels),
        "vocabulary_sha256": vocabulary.sha256,
        "do_lower_case": do_lower_case,
        "max_seq_length": max_seq_length,
        "data_sha256": dict(data_sha256),
    }
    return json.loads(json.dumps(decided))


@dataclasses.dataclass(frozen=True)
class FeaturesInfo(FolderInfo):
    """The info.json of a features folder.

    Attributes:
      made_from: all that decides the features, see the function `made_from`.
      splits: split -> counts of the examples read, used and left out, counts of the features, and
        `files`: the `name` in the features folder, `records`, `bytes` and `sha256` of each.
      versions: versions of the libraries that shaped the records.
    """

    FOLDER = "features folder"
    REMEDY = "make the features again with `beambert features`"

    made_from: Mapping[str, Any]
    splits: Mapping[str, Mapping[str, Any]]
    versions: Mapping[str, str]

    def fault(self) -> str:
        """Returns ""; a file that lacks something is of something else."""
        missing = {"task", "max_seq_length", "data_sha256"} - self.made_from.keys()
        for split in self.splits.values():
            missing |= {"files", LOST_TOKENS} - split.keys()
        if missing:
            raise KeyError(missing)
        for split in self.splits.values():
            check_names(file["name"] for file in split["files"])
        return ""


@dataclasses.dataclass(frozen=True)
class TaskFeatureFiles:
    """The features of a task in a finished features folder.

    Attributes:
      flag: the flag with its value that named the folder, for messages.
      info: info.json of the folder.
      files: split -> paths of its record files.
    """

    flag: str
    info: FeaturesInfo
    files: Mapping[str, Sequence[str]]

    def check(self, wanted: Mapping[str, Any]) -> None:
        """Refuses features that were made from something else than what is wanted.

        Args:
          wanted: all that decides the features, see `made_from`; other splits are ignored.

        Raises:
          InputError: something differs; the message names both values.
        """
        found = dict(self.info.made_from)
        hashes = found["data_sha256"]
        found["data_sha256"] = {split: hashes.get(split) for split in wanted["data_sha256"]}
        difference = describe_difference(found, wanted, FLAGS_OF)
        if difference:
            raise InputError(
                f"{self.flag}: the features are not those that are needed ({difference}); make "
                "them again with `beambert features`, or leave the flag out"
            )

    def count_cut(self, split: str) -> int:
        """Returns the number of sequences of a split that lost tokens."""
        return self.info.splits[split][LOST_TOKENS]

    def read(self, split: str) -> TaskFeatures:
        """Reads the features of a split.

        Raises:
          InputError: a file cannot be read, or its records are not features of this kind.
        """
        return read_features(self.info.made_from["task"]["kind"], self.files[split], self.flag)


def open_features(folder: str, flag: str) -> TaskFeatureFiles:
    """Opens a finished features folder.

    Args:
      folder: path of the folder, on any file system that TensorFlow knows.
      flag: flag that named it, for messages.

    Raises:
      InputError: the folder is not a finished features folder, or one of its files has changed.
    """
    folder, flag = folder.rstrip("/"), f"{flag}={folder}"
    if not storage.exists(f"{folder}/{MARKER_FILE}"):
        raise InputError(
            f"{flag}: not a finished features folder; make one with `beambert features`"
        )
    name = f"{folder}/{INFO_FILE}"
    info = FeaturesInfo.from_json(storage.read_text(name), name)
    for file in (file for split in info.splits.values() for file in split["files"]):
        digest, path = hashlib.sha256(), f"{folder}/{file['name']}"
        for chunk in storage.read_chunks(path):
            digest.update(chunk)
        if digest.hexdigest() != file["sha256"]:
            raise InputError(
                f"{flag}: {file['name']} has changed since it was written; make the features again"
            )
    files = {
        split: [f"{folder}/{file['name']}" for file in one_split["files"]]
        for split, one_split in info.splits.items()
    }
    return TaskFeatureFiles(flag, info, files)


def read_features(kind: str, paths: Sequence[str], flag: str) -> TaskFeatures:
    """Reads record files and puts their records in order.

    Args:
      kind: kind of the task.
      paths: paths of the files; .gz files are decompressed.
      flag: flag that named them, for messages.

    Raises:
      InputError: a file cannot be read, or its records are not features of this kind.
    """
    is_compressed = all(path.endswith(".gz") for path in paths)
    records = tf.data.TFRecordDataset(list(paths), "GZIP" if is_compressed else "")
    inputs = KINDS[kind]
    tokens = (*TOKEN_FEATURES, *inputs.TOKEN_TARGETS)
    ragged = (*tokens, SEQUENCE_LENGTHS) if inputs.HAS_CHOICES else tokens
    spec = {name: tf.io.RaggedFeature(tf.int64) for name in ragged}
    spec[ROW] = tf.io.FixedLenFeature([], tf.int64)
    for name, dtype in inputs.TARGETS.items():
        parsed = tf.float32 if dtype is np.float32 else tf.int64
        per_label = inputs.HAS_TARGET_PER_LABEL
        spec[name] = tf.io.RaggedFeature(parsed) if per_label else tf.io.FixedLenFeature([], parsed)
    batches = records.batch(_RECORDS_AT_A_TIME).map(lambda some: tf.io.parse_example(some, spec))
    try:
        parts = list(batches)
    except (tf.errors.OpError, ValueError) as error:
        raise InputError(
            f"{flag}: its records cannot be read as those of a {kind} task; make them again with "
            "`beambert features`"
        ) from error
    if not parts:
        raise InputError(f"{flag}: {paths[0]} … has no records; make them again")

    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(p[name], "values", p[name]).numpy() for p in parts])

    totals = np.concatenate([part["input_ids"].row_lengths().numpy() for part in parts])
    order = np.argsort(joined(ROW), kind="stable")
    places = ranges(starts_of(totals)[order], totals[order])
    lengths = totals[:, None]
    if inputs.HAS_CHOICES:
        lengths = joined(SEQUENCE_LENGTHS).reshape(len(totals), -1)
    ids, segments = (joined(name)[places].astype(np.int32) for name in TOKEN_FEATURES)
    targets = {name: joined(name).astype(dtype) for name, dtype in inputs.TARGETS.items()}
    if inputs.HAS_TARGET_PER_LABEL:
        targets = {name: values.reshape(len(totals), -1) for name, values in targets.items()}
    return TaskFeatures(
        ids,
        segments,
        lengths[order].ravel().astype(np.int64),
        {name: values[order] for name, values in targets.items()},
        {name: joined(name)[places].astype(np.int32) for name in inputs.TOKEN_TARGETS},
        lengths.shape[1],
    )
