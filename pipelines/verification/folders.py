"""Finds the records to verify: files, info.json, vocabulary and features of each folder.

A folder of `beambert data` may have the held-out records in `eval/`. If it was made for several
lengths, it has a folder for each (`128/`, `512/`). Each of these is a records folder. Other folders
with TFRecord files, and files that match a pattern, are verified without an info.json.
"""

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence

from beambert import io
from beambert.errors import InputError
from beambert.folders import MARKER_FILE, UNFINISHED_FILE
from beambert.io import TEMPORARY_PREFIX, has_wildcard, read_bytes
from beambert.pipelines.records.contract import (
    EVAL_FOLDER,
    INFO_FILE,
    LABEL_FEATURE,
    NONE,
    PREDICTION_FEATURES,
    STATIC,
    RecordsInfo,
)
from beambert.pipelines.records.reading import RecordFeatures, find_features, first_record
from beambert.pipelines.tokenizers.folders import read_beside, read_given
from beambert.pipelines.tokenizers.vocabulary import (
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    VOCABULARY_FILE,
    TokenizerVocabulary,
    Vocabulary,
)

# The files that define the ids of records; a folder has one of them.
_VOCABULARIES = frozenset((VOCABULARY_FILE, TOKENIZER_FILE))

# The names of record files contain this, those of most other projects too.
_IN_NAME = "tfrecord"
# Rough sizes of stored records. Only the size of a sample depends on them.
_BYTES_A_POSITION = 5
_GZIP_RATIO = 6


@dataclasses.dataclass(frozen=True)
class FoundFolder:
    """A folder whose records are verified together.

    Attributes:
      path: path of the folder, or the pattern that its files match.
      files: path -> bytes of the record files.
      info: content of info.json; None if the folder has none.
      vocabulary: vocabulary of the records; None if there is none.
      features: names and lengths of the records' features; None if no record can be read.
      training: path of the folder with the training records, if these are held out; else empty.
      faults: faults of the folder itself, one message each.
      expected_records: rough number of records, for the size of samples.
    """

    path: str
    files: Mapping[str, int]
    info: RecordsInfo | None
    vocabulary: Vocabulary | None
    features: RecordFeatures | None
    training: str
    faults: tuple[str, ...]
    expected_records: int

    @property
    def made_with(self) -> RecordsInfo:
        """The info.json, or what is known without one; no `pairs` if the records have no label."""
        vocab_size = len(self.vocabulary) if self.vocabulary else None
        info = self.info or RecordsInfo({}, {"size": vocab_size}, (), (), {}, {})
        if self.features is None or self.features.has_label:
            return info
        return dataclasses.replace(info, parameters={**info.parameters, "pairs": NONE})


def find_folders(
    inputs: Sequence[str], vocab_file: str | None, tokenizer: str | None = None
) -> list[FoundFolder]:
    """Returns the folders to verify.

    Args:
      inputs: paths of folders, or patterns of files.
      vocab_file, tokenizer: vocabulary or tokenizer of all records; None takes that next to them.

    Raises:
      InputError: a path does not exist, or a folder holds no records.
    """
    given = _read_given(vocab_file, tokenizer) if vocab_file or tokenizer else None
    found: dict[str, FoundFolder] = {}
    for path in inputs:
        tree = _list_tree(path)
        if tree is None:
            found[path] = _loose_files(path, given)
            continue
        folders = {
            inner: names
            for inner, names in tree.items()
            if any(_IN_NAME in name or name in (INFO_FILE, UNFINISHED_FILE) for name in names)
        }
        if not folders:
            raise InputError(
                f"{path}: holds no records (no {INFO_FILE} and no file with {_IN_NAME!r} in its "
                f"name); check the path, or give a pattern: '{_join(path, '*')}'"
            )
        for inner, names in folders.items():
            folder = _join(path, inner)
            before, is_held_out, _ = f"/{inner}/".partition(f"/{EVAL_FOLDER}/")
            outer = before.strip("/") if is_held_out else inner
            vocabularies = [
                _join(path, place)
                for place in (inner, outer, "")
                if not _VOCABULARIES.isdisjoint(tree.get(place, {}))
            ]
            training = _join(path, outer) if is_held_out else ""
            # A held-out folder that is also given by itself keeps its training records.
            if training or folder not in found:
                found[folder] = _folder(folder, names, training, given, vocabularies)
    return _with_shared_vocabularies(found.values())


def _with_shared_vocabularies(folders: Iterable[FoundFolder]) -> list[FoundFolder]:
    """Makes folders with the same vocabulary share one object.

    A pipeline sends each object to the workers, and Dataflow accepts jobs of at most 20 MB.
    """
    first: dict[tuple[tuple[str, bytes], ...], Vocabulary] = {}

    def shared(vocabulary: Vocabulary | None) -> Vocabulary | None:
        return vocabulary and first.setdefault(tuple(vocabulary.files().items()), vocabulary)

    return [dataclasses.replace(folder, vocabulary=shared(folder.vocabulary)) for folder in folders]


def _join(path: str, *names: str) -> str:
    return os.path.join(path.rstrip("/") or "/", *(name for name in names if name))


def _list_tree(path: str) -> dict[str, dict[str, int]] | None:
    """Returns inner folder -> file name -> bytes, for the inner folders that may hold records.

    Returns None if the path is not a folder.
    """
    if io.is_local(path):
        if not os.path.isdir(path):
            return None
        sizes = {}
        for folder, _, names in os.walk(path):
            for file in (os.path.join(folder, name) for name in names):
                with contextlib.suppress(FileNotFoundError):  # It was deleted meanwhile.
                    # That of a link itself, which may lead nowhere; reading it reports that.
                    sizes[os.path.relpath(file, path)] = os.lstat(file).st_size
    elif has_wildcard(path):
        return None
    else:
        start = path.rstrip("/") + "/"
        inside = io.match_files(f"{start}**")
        sizes = {file.path.removeprefix(start): file.bytes for file in inside if not file.is_folder}
        if not sizes:
            return None
    # The given folder may be that of the held-out records.
    whole = io.absolute(path)
    outer = f"{EVAL_FOLDER}/" if whole.rpartition("/")[2] == EVAL_FOLDER else ""
    tree: dict[str, dict[str, int]] = {"": {}}
    for name, size in sorted(sizes.items()):
        inner, _, name = name.rpartition("/")
        is_temporary = name.startswith(TEMPORARY_PREFIX)
        if _may_hold_records(f"{outer}{inner}".strip("/")) and not is_temporary:
            tree.setdefault(inner, {})[name] = size
    return tree


def _may_hold_records(inner: str) -> bool:
    """Returns whether a path inside a given folder is like "", "128", "128/eval" or "eval/NAME"."""
    names = inner.split("/") if inner else []
    if names and names[0].isdecimal():
        del names[0]
    # Held out are all documents, or those of each source of --source.
    return not names or (names[0] == EVAL_FOLDER and len(names) <= 2)


def _loose_files(pattern: str, given: Vocabulary | None) -> FoundFolder:
    files = {file.path: file.bytes for file in io.match_inputs([pattern], "")}
    if given is None:
        folder = os.path.dirname(next(iter(files)))
        if any(io.exists(os.path.join(folder, name)) for name in _VOCABULARIES):
            given = read_beside(folder, "")
    found = _records_folder(pattern, files, vocabulary=given)
    if found.features is None and not any(_IN_NAME in name for name in files):
        raise InputError(f"{pattern}: holds no TFRecords; name a records folder, or its files")
    return found


def _folder(
    folder: str,
    names: Mapping[str, int],
    training: str,
    given: Vocabulary | None,
    vocabularies: Sequence[str],
) -> FoundFolder:
    """Reads a folder's info.json and vocabulary and compares them with its files."""
    files = {_join(folder, name): size for name, size in names.items() if _IN_NAME in name}
    info, faults = None, []
    if INFO_FILE in names:
        path = _join(folder, INFO_FILE)
        info = RecordsInfo.from_json(read_bytes(path, "info").decode("utf-8", "replace"), path)
        listed = {_join(folder, file["name"]) for file in info.files}
        faults += [f"{path} is listed in {INFO_FILE} but missing" for path in listed - files.keys()]
        faults += [f"{path} is not listed in {INFO_FILE}" for path in files.keys() - listed]
        faults.sort()
    if (info or UNFINISHED_FILE in names) and MARKER_FILE not in names:
        faults.insert(
            0,
            f"{folder} is unfinished (it has no {MARKER_FILE}); run the same `beambert data` "
            "command again",
        )
    vocabulary = given
    if vocabulary is None and vocabularies:
        vocabulary = read_beside(vocabularies[0], "")
    if info and vocabulary and vocabulary.sha256 != info.vocabulary["sha256"]:
        faults.append(
            f"{vocabulary.name} is not the {vocabulary.WHAT} that the records were made with"
        )
    special = (info.vocabulary.get("special_tokens") if info else None) or {}
    if info and (needed := TOKENIZER_FILE if special else VOCABULARY_FILE) not in names:
        faults.append(f"{_join(folder, needed)} is missing")
    if isinstance(vocabulary, TokenizerVocabulary) and special not in (
        {},
        vocabulary.tokens_by_role(),
    ):
        faults.append(
            f"{vocabulary.name} has other special tokens than {INFO_FILE} says; put back the "
            f"{TOKENIZER_CONFIG_FILE} that the records were made with"
        )
    made = _records_folder(folder, files, info=info, vocabulary=vocabulary, training=training)
    if info and made.features:
        faults += _differences(folder, info, made.features)
    return dataclasses.replace(made, faults=tuple(faults))


def _differences(folder: str, info: RecordsInfo, features: RecordFeatures) -> list[str]:
    """Returns a fault for every property of the records that differs from info.json."""
    parameters, faults = info.parameters, []
    properties = [("pairs", LABEL_FEATURE, info.has_label, features.has_label)]
    if info.has_masks != features.has_masks:
        masks = ("masks", PREDICTION_FEATURES[0], info.has_masks, features.has_masks)
        properties.insert(0, masks)
    else:  # The length of predictions is 0 without masks.
        for name in ("max_seq_length", "max_predictions_per_seq"):
            listed, found = parameters.get(name), getattr(features, name)
            if isinstance(listed, int) and listed != found:
                faults.append(
                    f"{folder}: {INFO_FILE} says {name} is {listed}, but the records have {found}"
                )
    for name, feature, is_listed, is_found in properties:
        if is_listed != is_found:
            value = parameters.get(name, STATIC if name == "masks" else None)
            faults.append(
                f"{folder}: {INFO_FILE} says {name} is {value}, but the records "
                f"{'have' if is_found else 'lack'} {feature}"
            )
    return faults


def _records_folder(
    path: str,
    files: Mapping[str, int],
    *,
    vocabulary: Vocabulary | None,
    info: RecordsInfo | None = None,
    training: str = "",
) -> FoundFolder:
    """Describes record files; the features come from the first record that can be read."""
    records = ((record, name) for name in files if (record := first_record(name)) is not None)
    features = next((find_features(record, name) for record, name in records), None)
    positions = sum(
        size * (_GZIP_RATIO if name.endswith(".gz") else 1) / _BYTES_A_POSITION
        for name, size in files.items()
    )
    return FoundFolder(
        path,
        files,
        info,
        vocabulary,
        features,
        training,
        faults=(),
        expected_records=int(positions / features.max_seq_length) if features else 0,
    )


def _read_given(vocab_file: str | None, tokenizer: str | None) -> Vocabulary:
    if tokenizer:
        return read_given(vocab_file, tokenizer, None)[0]
    return Vocabulary.parse(read_bytes(vocab_file, "--vocab_file"), vocab_file)
