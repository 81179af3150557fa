"""The configuration of an encoder, as its folder has it; importing this module loads no Keras."""

from typing import Any

from beambert import io
from beambert.errors import InputError
from beambert.model.config import EncoderConfig, parse_config
from beambert.model.families.table import read_config
from beambert.model_files import CONFIG_FILE
from beambert.pipelines.records.contract import has_shards
from beambert.trainer.weights.given_path import refuse_missing

# Names of the configuration file; the first that exists is read.
CONFIG_FILES = (CONFIG_FILE, "config.json")


def folder_of(path: str, flag: str) -> str:
    """Returns the folder of an encoder: the path, or the folder of a TF1 checkpoint's prefix.

    Raises:
      InputError: there is neither.
    """
    path = path.rstrip("/")
    refuse_missing(path, flag)
    return path if io.is_folder(path) else path.rpartition("/")[0] or "."


def read_config_file(folder: str, flag: str) -> EncoderConfig:
    """Reads the configuration of an encoder from its folder.

    Raises:
      InputError: there is none, or it is damaged, of an unknown family, or names code of its own.
    """
    for name in CONFIG_FILES:
        path = f"{folder}/{name}"
        if io.exists(path):
            text = io.read_text(path)
            try:
                if code := parse_config(text).get("auto_map"):
                    raise InputError(
                        f"{path}: names Python code of its own in auto_map ({_code(code)}), which "
                        "is never run; take a model that transformers has a class for"
                    )
                return read_config(text)
            except ValueError as error:
                raise InputError(
                    f"{path}: {error}; copy the file again if it was changed, or take another model"
                ) from error
    if has_shards(io.list_folder(folder)):
        raise InputError(f"{flag}={folder}: is a records folder; name that of an encoder")
    if io.is_folder(f"{folder}/encoder"):
        raise InputError(f"{flag}={folder}: has its encoder in a folder; name {folder}/encoder")
    raise InputError(
        f"{flag}={folder}: has no {' or '.join(CONFIG_FILES)}; copy it next to the weights"
    )


def _code(auto_map: Any) -> str:
    """Returns the Python files that an `auto_map` names, for a message."""
    classes = auto_map.values() if isinstance(auto_map, dict) else [auto_map]
    files = {f"{str(class_).rpartition('--')[2].split('.')[0]}.py" for class_ in classes}
    return ", ".join(sorted(files))[:100]
