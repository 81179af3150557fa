"""Reads the vocabulary and the text normalization that belong to other systems' weights."""

from typing import Any

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.json_objects import parse_object
from beambert.pipelines.storage import tensorflow_files
from beambert.pipelines.tokenizers.folders import read_folder
from beambert.pipelines.wordpiece.vocabulary import Vocabulary


def read_vocabulary(folder: str, flag: str) -> tuple[Vocabulary, bool]:
    """Reads the tokenizer of a folder; see `folders.read_folder`."""
    return read_folder(folder, flag, tensorflow_files.read_bytes, tensorflow_files.exists)


def read_json(path: str) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
      InputError: the file cannot be read, or it holds something else.
    """
    try:
        return parse_object(tensorflow_files.read_bytes(path))
    except ValueError as error:
        raise InputError(f"{path}: not a JSON object ({error}); copy it again") from error
