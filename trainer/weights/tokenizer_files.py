"""Reads the vocabulary and the text normalization that belong to other systems' weights."""

from collections.abc import Iterator, Mapping
from typing import Any

from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.json_objects import parse_object
from beambert.pipelines.storage import tensorflow_files
from beambert.pipelines.wordpiece.vocabulary import VOCABULARY_FILE, Vocabulary
from beambert.trainer import model_folders

TOKENIZER_FILE, TOKENIZER_CONFIG_FILE = "tokenizer.json", "tokenizer_config.json"

# Settings of BertTokenizer and BertJapaneseTokenizer (transformers) -> the only value with which
# they cut text at the same places as `pipelines.wordpiece.tokenization`.
_FIXED = {
    "tokenize_chinese_chars": True,
    "word_tokenizer_type": "basic",
    "subword_tokenizer_type": "wordpiece",
}


def read_vocabulary(folder: str, flag: str) -> tuple[Vocabulary, bool]:
    """Reads vocab.txt, or tokenizer.json if there is no vocab.txt.

    Args:
      folder: folder of the weights.
      flag: name of the flag that gave the folder, for error messages.

    Returns:
      the vocabulary, and whether text must be in lower case and without accents.

    Raises:
      InputError: there is no WordPiece vocabulary, or its text is normalized or cut in a way that
        `pipelines.wordpiece.tokenization` does not support.
    """
    vocab_file, tokenizer_file = f"{folder}/{VOCABULARY_FILE}", f"{folder}/{TOKENIZER_FILE}"
    tokenizer = read_json(tokenizer_file) if tensorflow_files.exists(tokenizer_file) else {}
    if tensorflow_files.exists(vocab_file):
        vocabulary = model_folders.read_vocabulary(vocab_file, flag)
    elif tokenizer:
        vocabulary = _vocabulary_of(tokenizer, tokenizer_file)
    else:
        raise InputError(
            f"{flag}={folder}: has no {VOCABULARY_FILE} or {TOKENIZER_FILE}; copy one beside the "
            "weights"
        )
    settings = _settings_of(tokenizer, tokenizer_file)
    config_file = f"{folder}/{TOKENIZER_CONFIG_FILE}"
    if tensorflow_files.exists(config_file):
        given = read_json(config_file)
        settings |= {name: value for name, value in given.items() if value is not None}
    do_lower_case = settings.get("do_lower_case")
    if do_lower_case is None:
        do_lower_case = all(t == t.lower() for t in vocabulary.tokens if not t.startswith("["))
    if not isinstance(do_lower_case, bool):
        raise InputError(
            f"{flag}={folder}: its tokenizer has do_lower_case {str(do_lower_case)[:60]!r}, which "
            "is neither true nor false; correct the file"
        )
    fixed = _FIXED | {"strip_accents": do_lower_case}
    for name, value in fixed.items():
        if settings.get(name, value) != value:
            raise InputError(
                f"{flag}={folder}: its tokenizer has {name} {settings[name]!r}, but with "
                f"do_lower_case {do_lower_case!r} only {value!r} is supported; take another model"
            )
    return vocabulary, do_lower_case


def read_json(path: str) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
      InputError: the file cannot be read, or it holds something else.
    """
    try:
        return parse_object(tensorflow_files.read_bytes(path))
    except ValueError as error:
        raise InputError(f"{path}: not a JSON object ({error}); copy it again") from error


def _vocabulary_of(tokenizer: Mapping[str, Any], path: str) -> Vocabulary:
    try:
        ids = tokenizer["model"]["vocab"]
        tokens = sorted(ids, key=ids.__getitem__)
        is_whole = [ids[token] for token in tokens] == list(range(len(tokens)))
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: has no WordPiece vocabulary; take another model") from error
    if tokenizer["model"].get("type", "WordPiece") != "WordPiece" or not is_whole:
        raise InputError(
            f"{path}: has no WordPiece vocabulary with ids from 0 on; take another model"
        )
    text = "".join(f"{token}\n" for token in tokens)
    try:
        vocabulary = Vocabulary.parse(text.encode(), path)
    except UnicodeEncodeError as error:
        raise InputError(f"{path}: a token has half a character; copy it again") from error
    if len(vocabulary) != len(tokens):
        raise InputError(f"{path}: a token has a line break in it; take another model")
    return vocabulary


def _settings_of(tokenizer: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Returns the settings in tokenizer.json, by their names in tokenizer_config.json."""
    settings: dict[str, Any] = {}
    for step in _steps_of(tokenizer.get("normalizer"), path):
        kind = step.get("type")
        if kind == "BertNormalizer":
            names = {
                "lowercase": "do_lower_case",
                "strip_accents": "strip_accents",
                "handle_chinese_chars": "tokenize_chinese_chars",
            }
            settings |= {names[n]: v for n, v in step.items() if n in names and v is not None}
        elif kind == "Lowercase":
            settings = {"strip_accents": False} | settings | {"do_lower_case": True}
        elif kind == "StripAccents":
            settings["strip_accents"] = True
    return settings


def _steps_of(normalizer: Any, path: str) -> Iterator[Mapping[str, Any]]:
    """Yields the steps of a normalizer in their order, including those inside of sequences."""
    waiting = [] if normalizer is None else [normalizer]
    while waiting:
        step = waiting.pop()
        inner = step.get("normalizers") or [] if isinstance(step, dict) else None
        if not isinstance(inner, list):
            raise InputError(f"{path}: its normalizer is no list of steps; copy it again")
        yield step
        waiting += reversed(inner)
