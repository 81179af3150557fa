"""The folders of sentence-transformers: which modules follow the encoder, and their settings."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from beambert import storage
from beambert.errors import InputError
from beambert.model.sentence_encoder import CLS, MEAN, MODES, Pooling
from beambert.model_files import TRAINING_FILE
from beambert.pipelines.tokenizers.vocabulary import TOKENIZER_CONFIG_FILE
from beambert.storage import check_names
from beambert.trainer.weights.tokenizer_files import read_list, read_optional_json

# The modules in their order, and the settings of the encoder's, of all, and of a module.
MODULES_FILE, ENCODER_FILE = "modules.json", "sentence_bert_config.json"
SETTINGS_FILE, MODULE_FILE = "config_sentence_transformers.json", "config.json"
# Names of classes of sentence-transformers, without their modules.
TRANSFORMER, POOLING, NORMALIZE = "Transformer", "Pooling", "Normalize"
# Setting of the class Pooling -> what it is here; its other settings have no counterpart.
MODES_THERE = {"pooling_mode_mean_tokens": MEAN, "pooling_mode_cls_token": CLS}
# Number of tokens of a text of one token, with [CLS] and [SEP].
LEAST_LENGTH = 3


@dataclasses.dataclass(frozen=True)
class SentenceSettings:
    """How a folder makes embeddings of texts.

    Attributes:
      encoder: folder of the encoder.
      pooling: what is made of the tokens.
      max_seq_length: greatest number of tokens; None if the folder says nothing.
      lowers: whether texts are lower-cased before the tokenizer gets them.
      prefix: what is put before each text.
    """

    encoder: str
    pooling: Pooling = Pooling()
    max_seq_length: int | None = None
    lowers: bool = False
    prefix: str = ""


def read_settings(path: str, flag: str) -> SentenceSettings:
    """Reads the settings of a folder; one that says nothing of embeddings has the defaults.

    Raises:
      InputError: a file is damaged, or a module has no counterpart here.
    """
    path = path.rstrip("/")
    if not storage.exists(f"{path}/{MODULES_FILE}"):
        return _own_settings(path)
    name = f"{flag}={path}"
    modules = read_list(f"{path}/{MODULES_FILE}")
    try:
        kinds = [module["type"].rpartition(".")[2] for module in modules]
        folders = [f"{path}/{module['path']}".rstrip("/") for module in modules]
        check_names(module["path"] for module in modules if module["path"])
    except ValueError as error:
        raise InputError(f"{path}/{MODULES_FILE}: {error}; take another model") from error
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f"{path}/{MODULES_FILE}: has a module without its type or path; copy it again"
        ) from error
    if kinds not in ([TRANSFORMER, POOLING], [TRANSFORMER, POOLING, NORMALIZE]):
        raise InputError(
            f"{name}: has the modules {', '.join(kinds)}, and only {TRANSFORMER}, {POOLING} and "
            f"{NORMALIZE} are supported, in this order; take another model"
        )
    mode = _mode(read_optional_json(f"{folders[1]}/{MODULE_FILE}"), name)
    encoder = read_optional_json(f"{folders[0]}/{ENCODER_FILE}")
    tokenizer = read_optional_json(f"{folders[0]}/{TOKENIZER_CONFIG_FILE}")
    # Newer folders have the length in the tokenizer's settings only.
    length = encoder.get("max_seq_length") or tokenizer.get("model_max_length")
    if length is not None and (not isinstance(length, int) or length < LEAST_LENGTH):
        raise InputError(
            f"{name}: reads {length!r:.40} tokens at most, and a text has at least {LEAST_LENGTH}; "
            "copy its files again"
        )
    return SentenceSettings(
        folders[0],
        Pooling(mode, is_normalized=NORMALIZE in kinds),
        length,
        bool(encoder.get("do_lower_case")),
        _prefix(read_optional_json(f"{path}/{SETTINGS_FILE}"), name),
    )


def prefix_notes(init: str) -> list[str]:
    """Returns a sentence about the default prompt of a fine-tuning's encoder, if it has one."""
    if not (prefix := read_settings(init, "--init").prefix):
        return []
    return [
        f"--init={init}: puts {prefix!r} before each text by default, and the new model does not; "
        "write it before the texts of train and dev if it shall stay, and give it to `beambert "
        "embed` as --prefix"
    ]


def _own_settings(path: str) -> SentenceSettings:
    """Returns the settings of an embedding or a similarity model, or the defaults."""
    training = read_optional_json(f"{path}/{TRAINING_FILE}")
    if training.get("pooling") not in MODES:
        return SentenceSettings(path)
    return SentenceSettings(path, Pooling(training["pooling"], is_normalized=True))


def _mode(settings: Mapping[str, Any], name: str) -> str:
    """Returns the pooling that a folder's settings ask for."""
    modes = [setting for setting, is_on in settings.items() if is_on is True]
    modes = [setting for setting in modes if setting.startswith("pooling_mode_")]
    if "pooling_mode" in settings:  # Newer folders have its name in place of a setting for each.
        named = settings["pooling_mode"]
        modes = named if isinstance(named, list) else [named]
    known = MODES_THERE | {MEAN: MEAN, CLS: CLS}
    if len(modes) != 1 or modes[0] not in known:
        raise InputError(
            f"{name}: pools by {' and '.join(map(str, modes)) or 'nothing'}, and only the mean of "
            "the tokens or the first token is supported; take another model"
        )
    if settings.get("include_prompt", True) is not True:
        raise InputError(
            f"{name}: leaves the prefix out of the pooling (include_prompt), which is not "
            "supported; take another model"
        )
    return known[modes[0]]


def _prefix(settings: Mapping[str, Any], name: str) -> str:
    """Returns the prompt that a folder puts before texts if nothing else is asked for."""
    prompts, default = settings.get("prompts") or {}, settings.get("default_prompt_name")
    if default is None:
        return ""
    if not isinstance(prompts, dict) or not isinstance(prompts.get(default), str):
        raise InputError(
            f"{name}: has no prompt {default!r}, which its {SETTINGS_FILE} names; copy it again"
        )
    return prompts[default]
