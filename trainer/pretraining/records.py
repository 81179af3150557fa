"""Opens, checks and parses records for training."""

import dataclasses
import os
from collections.abc import Mapping, Sequence

import numpy as np

from beambert import io
from beambert.errors import InputError
from beambert.io import reason
from beambert.model.objectives import BERT, COPY, MLM, PAIR_TASKS, SOP
from beambert.pipelines.records.batches import decode, read_file
from beambert.pipelines.records.contract import COPY as COPY_PAIRS
from beambert.pipelines.records.contract import (
    EVAL_FOLDER,
    INFO_FILE,
    LABEL_FEATURE,
    RecordsInfo,
    check_finished,
    feature_shapes,
    label_words,
)
from beambert.pipelines.records.contract import SOP as SOP_PAIRS
from beambert.pipelines.tokenizers.folders import read_beside
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.trainer.pretraining.job import parse_eval_data

# Objective with labels -> the value of --pairs that makes them.
_PAIRS_OF = {BERT: "next", SOP: SOP_PAIRS, COPY: COPY_PAIRS}
_REMEDY = "copy the folder again or make it again with `beambert data`"


@dataclasses.dataclass(frozen=True)
class Records:
    """A finished records folder.

    Attributes:
      folder: path of the folder.
      info: content of its info.json.
      vocabulary: vocabulary that the records' ids belong to.
      has_labels: whether the labels of pairs are read. Records may lack them where they are not.
    """

    folder: str
    info: RecordsInfo
    vocabulary: Vocabulary
    has_labels: bool = True

    @property
    def max_seq_length(self) -> int:
        """Tokens of a record, padding included."""
        return self.info.parameters["max_seq_length"]

    @property
    def max_predictions_per_seq(self) -> int:
        """Prediction slots of a record; 0 of records without masks."""
        return self.info.parameters["max_predictions_per_seq"] if self.info.has_masks else 0

    @property
    def instances(self) -> int:
        """Number of records."""
        return sum(self.counts)

    @property
    def counts(self) -> list[int]:
        """Number of records of each of `files`."""
        return [file["instances"] for file in self.info.files if file["instances"]]

    @property
    def files(self) -> list[str]:
        """Paths of the files that hold records."""
        return [f"{self.folder}/{f['name']}" for f in self.info.files if f["instances"]]


def open_records(folder: str, flag: str, objective: str = BERT) -> Records:
    """Opens a records folder and checks that it is finished and complete.

    Args:
      folder: path of the folder, local or gs://.
      flag: name of the flag that gave the folder, for error messages.
      objective: what is learned from them, one of `model.objectives.OBJECTIVES`.

    Raises:
      InputError: the folder does not exist or is not finished, a file is missing or cut off, or the
        records have other labels than the objective needs.
    """
    folder = folder.rstrip("/")
    check_finished(folder, flag)
    info_path = f"{folder}/{INFO_FILE}"
    info = RecordsInfo.from_json(io.read_bytes(info_path).decode(errors="replace"), info_path)
    vocabulary = read_beside(folder, "")
    if vocabulary.sha256 != info.vocabulary["sha256"]:
        raise InputError(
            f"{vocabulary.name}: not the {vocabulary.WHAT} of the records (its SHA-256 is "
            f"{vocabulary.sha256[:12]}, {INFO_FILE} has {info.vocabulary['sha256'][:12]}); copy "
            "the folder again or make it again with `beambert data`"
        )
    of_masks = ("max_predictions_per_seq",) if info.has_masks else ()
    needed = ("max_seq_length", *of_masks, "do_lower_case")
    if missing := [name for name in needed if name not in info.parameters]:
        raise InputError(f"{info_path}: lacks {missing[0]}; {_REMEDY}")
    sizes = io.sizes(folder, [file["name"] for file in info.files])
    for file, size in zip(info.files, sizes, strict=True):
        if size != file["bytes"]:
            has = "is missing" if size is None else f"has {size} bytes"
            raise InputError(
                f"{folder}/{file['name']}: {has}, but {INFO_FILE} has {file['bytes']}; {_REMEDY}"
            )
    _check_pairs(info, f"{flag}={folder}", objective)
    records = Records(folder, info, vocabulary, has_labels=objective in PAIR_TASKS)
    if not records.instances:
        raise InputError(
            f"{flag}={folder}: has no records; make it again with `beambert data` from more text"
        )
    _check_first(records)
    return records


def _check_pairs(info: RecordsInfo, name: str, objective: str) -> None:
    """Refuses records whose labels are not those that an objective learns from."""
    if objective not in PAIR_TASKS:
        return
    wanted = _PAIRS_OF[objective]
    if not info.has_label:
        raise InputError(
            f"{name}: its records have no {LABEL_FEATURE}, which --objective={objective} learns "
            f"from; give --objective={MLM}, or records that `beambert data` makes of pairs "
            f"(--pairs={wanted})"
        )
    words = label_words(info.parameters.get("pairs"))
    of_records = next(each for each in PAIR_TASKS if label_words(_PAIRS_OF[each]) == words)
    if objective != of_records:
        raise InputError(
            f"{name}: the labels of its records mean {words[0]!r} or {words[1]!r}; give "
            f"--objective={of_records}, or make the records with `beambert data --pairs={wanted}`"
        )


def _check_first(records: Records) -> None:
    """Refuses records whose first one is not as info.json describes it."""
    path = records.files[0]
    try:
        _decode([next(read_file(path))], records)
    except StopIteration:
        raise InputError(f"{path}: has no records; {_REMEDY}") from None
    except (ValueError, InputError) as error:
        raise InputError(
            f"{path}: its first record cannot be read as {INFO_FILE} describes it "
            f"({reason(error)}); {_REMEDY}"
        ) from error


def check_same(records: Records, other: Records, flag: str, parameters: Sequence[str]) -> None:
    """Refuses records that differ from those of --data in the vocabulary or in a parameter.

    Args:
      records, other: the records.
      flag: name of the flag that gave the others.
      parameters: names of the parameters.

    Raises:
      InputError: they differ; the message has both values.
    """
    for name, mine, theirs in (
        (
            records.vocabulary.WHAT,
            records.vocabulary.sha256[:12],
            other.vocabulary.sha256[:12],
        ),
        *((n, records.info.parameters[n], other.info.parameters[n]) for n in parameters),
    ):
        if mine != theirs:
            raise InputError(
                f"{flag}={other.folder}: its {name} is {theirs}, that of --data={records.folder} "
                f"is {mine}; make both in one run of `beambert data`, or with the same flags"
            )


def parse_batch(serialized: Sequence[bytes], records: Records) -> dict[str, np.ndarray]:
    """Parses serialized records [n] into features [n, length], int32 or float32.

    Raises:
      InputError: a record cannot be parsed, or a value is out of range, with which a model would
        compute something without a word.
    """
    try:
        return _decode(serialized, records)
    except ValueError as error:
        raise InputError(
            f"{records.folder}: a record cannot be read as {INFO_FILE} describes it ({error}); "
            f"find it with `beambert verify`, and {_REMEDY}"
        ) from error


def _decode(serialized: Sequence[bytes], records: Records) -> dict[str, np.ndarray]:
    lengths = records.max_seq_length, records.max_predictions_per_seq
    parsed = decode(serialized, feature_shapes(*lengths, records.has_labels))
    for name, limit in _limits(records).items():
        # As unsigned numbers, negative ones are the greatest.
        if (parsed[name].view(np.uint64) >= limit).any():
            raise ValueError(f"{name} has a value that is out of range")
    # Accelerators are slow with 64-bit integers.
    return {
        name: value.astype(np.int32) if value.dtype == np.int64 else value
        for name, value in parsed.items()
    }


def _limits(records: Records) -> dict[str, int]:
    """Returns feature -> the number that is greater than all its values."""
    ids = len(records.vocabulary)
    limits = {"input_ids": ids}
    if records.info.has_masks:
        limits |= {"masked_lm_ids": ids, "masked_lm_positions": records.max_seq_length}
    # The mask, the two segments and the two labels.
    of_two = ("input_mask", "segment_ids", *([LABEL_FEATURE] if records.has_labels else []))
    return limits | dict.fromkeys(of_two, 2)


def open_held_out(records: Records, given: Sequence[str], objective: str) -> Mapping[str, Records]:
    """Returns name of the source -> held-out records; "" is the name of those of all text.

    Args:
      records: training records.
      given: values of --eval_data; none takes what `beambert data` has left in the folder eval of
        the training records, if that exists.
      objective: objective of the training.

    Raises:
      InputError: records cannot be used.
    """
    folders = parse_eval_data(given) if given else _beside(records.folder)
    found = {}
    for name, folder in folders.items():
        found[name] = open_records(folder, "--eval_data", objective)
        compared = ["do_lower_case", "max_seq_length"]
        if records.info.has_masks and found[name].info.has_masks:
            compared.append("max_predictions_per_seq")
        check_same(records, found[name], "--eval_data", compared)
    return found


def _beside(folder: str) -> dict[str, str]:
    """Returns name -> folder of the held-out records in a folder of training records."""
    held_out = f"{folder}/{EVAL_FOLDER}"
    if not io.exists(held_out):
        return {}
    if not io.exists(f"{held_out}/{INFO_FILE}"):
        infos = io.match_in(held_out, f"*/{INFO_FILE}")
        if of_sources := sorted(os.path.dirname(path) for path in infos):
            return {os.path.basename(path): path for path in of_sources}
    return {"": held_out}
