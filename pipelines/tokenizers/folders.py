"""Reads the vocabulary or tokenizer of a folder, or that of flags, on any file system."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from beambert.config import setting
from beambert.errors import InputError
from beambert.pipelines.tokenizers.vocabulary import (
    SPECIAL_TOKENS,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    VOCABULARY_FILE,
    TokenizerVocabulary,
    Vocabulary,
)
from beambert.storage import parse_object

# Returns the content of a file, given its path and the flag that gave it, for messages.
Read = Callable[[str, str], bytes]
# Returns whether there is a file or a folder.
Exists = Callable[[str], bool]
# Settings of BertTokenizer and BertJapaneseTokenizer (transformers) -> the only value with which
# they cut text as `wordpiece.Tokenizer` does.
_FIXED = {
    "tokenize_chinese_chars": True,
    "word_tokenizer_type": "basic",
    "subword_tokenizer_type": "wordpiece",
}

# Other files of tokenizers: SentencePiece's of DeBERTa-v3, ALBERT and XLM-R, and BPE's of RoBERTa.
_FOREIGN_FILES = ("spm.model", "spiece.model", "sentencepiece.bpe.model", "vocab.json")


def read_given(
    vocab_file: str | None,
    tokenizer: str | None,
    do_lower_case: bool | None,
    read: Read,
    exists: Exists,
) -> tuple[Vocabulary, bool]:
    """Reads what --vocab_file or --tokenizer names.

    Args:
      vocab_file: path of a vocab.txt.
      tokenizer: path of a tokenizer.json, or of a folder that holds one.
      do_lower_case: whether text is lower-cased and loses its accents; None for the default.
      read, exists: access to files.

    Returns:
      the vocabulary, and whether text is lower-cased.

    Raises:
      InputError: both or neither are given, the file cannot be used, or the text would have another
        case than the vocabulary.
    """
    check_flags(vocab_file, tokenizer, do_lower_case)
    if tokenizer:
        path = tokenizer.rstrip("/")
        if path.endswith(".json"):
            return _read_tokenizer(path, f"--tokenizer={path}", read(path, "--tokenizer"), {})
        # On object storage there are no folders, but only the files in them.
        if not any(exists(f"{path}/{name}") for name in (TOKENIZER_FILE, VOCABULARY_FILE)):
            _refuse_other_files(path, "--tokenizer", exists)
            raise InputError(
                f"--tokenizer={tokenizer}: has no {TOKENIZER_FILE}; name that file, or the folder "
                "that holds it"
            )
        return read_folder(path, "--tokenizer", read, exists)
    flag = "--vocab_file"
    vocabulary = Vocabulary.parse(read(vocab_file, flag), f"{flag}={vocab_file}")
    do_lower_case = True if do_lower_case is None else do_lower_case
    vocabulary.check_case(do_lower_case)
    return vocabulary, do_lower_case


def check_flags(
    vocab_file: str | None, tokenizer: str | None, do_lower_case: bool | None = None
) -> None:
    """Checks the combination of flags.

    Raises:
      InputError: --vocab_file and --tokenizer are both given or both missing, or --do_lower_case is
        given with --tokenizer.
    """
    if vocab_file and tokenizer:
        raise InputError(
            f"--tokenizer={tokenizer}: cannot be given with --vocab_file; leave one of them out"
        )
    if not vocab_file and not tokenizer:
        raise InputError(
            "--vocab_file: missing; give the vocab.txt of `beambert vocab`, or another kind of "
            "tokenizer with --tokenizer"
        )
    if tokenizer and do_lower_case is not None:
        raise InputError(
            f"--do_lower_case={do_lower_case}: cannot be given with --tokenizer, which has its "
            "own rules for the case of text; leave it out"
        )


def read_beside(folder: str, flag: str, read: Read, exists: Exists) -> Vocabulary:
    """Reads the vocabulary of a folder that BeamBERT made: of records, features or a model.

    Raises:
      InputError: the folder has no vocabulary, or it is damaged.
    """
    path = f"{folder}/{TOKENIZER_FILE}"
    if not exists(path):
        path = f"{folder}/{VOCABULARY_FILE}"
        return Vocabulary.parse(read(path, flag), f"{flag}={path}" if flag else path)
    name = f"{flag}={path}" if flag else path
    config = _config(f"{folder}/{TOKENIZER_CONFIG_FILE}", read, exists, flag)
    return TokenizerVocabulary.read(read(path, flag), name, config)


def read_folder(folder: str, flag: str, read: Read, exists: Exists) -> tuple[Vocabulary, bool]:
    """Reads the tokenizer of a Hugging Face folder: vocab.txt, tokenizer.json or both.

    BERT's word pieces become a `Vocabulary`, whose tokenizer is the fastest. Every other
    tokenizer.json becomes a `TokenizerVocabulary`.

    Args:
      folder: path of the folder.
      flag: name of the flag that gave the folder, for messages.
      read, exists: access to files.

    Returns:
      the vocabulary, and whether text must be in lower case and without accents.

    Raises:
      InputError: the folder has no tokenizer, it is damaged or a program, or a vocab.txt has
        settings that `wordpiece.Tokenizer` does not support.
    """
    name = f"{flag}={folder}"
    vocab_file, tokenizer_file = f"{folder}/{VOCABULARY_FILE}", f"{folder}/{TOKENIZER_FILE}"
    config = _config(f"{folder}/{TOKENIZER_CONFIG_FILE}", read, exists, flag)
    _refuse_programs(name, config)
    tokenizer, data = {}, b""
    if exists(tokenizer_file):
        data = read(tokenizer_file, flag)
        tokenizer = _object(data, tokenizer_file)
    if not tokenizer and not exists(vocab_file):
        _refuse_other_files(folder, flag, exists)
        raise InputError(
            f"{name}: has no {VOCABULARY_FILE} or {TOKENIZER_FILE}; copy one next to the weights"
        )
    if tokenizer and not _is_bert(tokenizer):
        return _read_tokenizer(tokenizer_file, f"{flag}={tokenizer_file}", data, config)
    if exists(vocab_file):
        vocabulary = Vocabulary.parse(read(vocab_file, flag), f"{flag}={vocab_file}")
    else:
        vocabulary = _vocabulary_of(tokenizer, tokenizer_file)
    settings = _settings_of(tokenizer, tokenizer_file)
    settings |= {key: value for key, value in config.items() if value is not None}
    do_lower_case = settings.get("do_lower_case")
    if do_lower_case is None:
        do_lower_case = all(t == t.lower() for t in vocabulary.tokens if not t.startswith("["))
    if not isinstance(do_lower_case, bool):
        raise InputError(
            f"{name}: its tokenizer has do_lower_case {str(do_lower_case)[:60]!r}, which "
            "is neither true nor false; correct the file"
        )
    fixed = _FIXED | {"strip_accents": do_lower_case}
    for key, value in fixed.items():
        if settings.get(key, value) == value:
            continue
        if tokenizer.get("pre_tokenizer"):  # The library supports more settings.
            return _read_tokenizer(tokenizer_file, f"{flag}={tokenizer_file}", data, config)
        raise InputError(
            f"{name}: its tokenizer has {key} {settings[key]!r}, but with "
            f"do_lower_case {do_lower_case!r} only {value!r} is supported; take another model"
        )
    return vocabulary, do_lower_case


def _refuse_other_files(folder: str, flag: str, exists: Exists) -> None:
    """Raises InputError if the folder has a tokenizer in another form than a tokenizer.json."""
    for name in _FOREIGN_FILES:
        if exists(f"{folder}/{name}"):
            raise InputError(
                f"{flag}={folder}: its tokenizer is {name} and not a {TOKENIZER_FILE}, which "
                f"transformers makes: AutoTokenizer.from_pretrained({folder!r}).save_pretrained("
                f"{folder!r})"
            )


def _read_tokenizer(
    path: str, name: str, data: bytes, config: Mapping[str, Any]
) -> tuple[Vocabulary, bool]:
    tokenizer = _object(data, path)
    if not config and _is_bert(tokenizer) and _is_exact(tokenizer):
        settings = _settings_of(tokenizer, path)
        return _vocabulary_of(tokenizer, path), settings["do_lower_case"]
    vocabulary = TokenizerVocabulary.read(data, name, config)
    return vocabulary, vocabulary.lower_cases


def _refuse_programs(name: str, config: Mapping[str, Any]) -> None:
    """Raises InputError if the tokenizer is a Python module of the folder."""
    programs = config.get("auto_map")
    if isinstance(programs, dict) and "AutoTokenizer" in programs:
        raise InputError(
            f"{name}: its tokenizer is a program (auto_map in {TOKENIZER_CONFIG_FILE}), which is "
            f"never run; if its {TOKENIZER_FILE} suffices, name that file"
        )


def _is_bert(tokenizer: Mapping[str, Any]) -> bool:
    """Returns whether a tokenizer.json has word pieces with BERT's special tokens."""
    model = tokenizer.get("model")
    if not isinstance(model, dict) or model.get("type", "WordPiece") != "WordPiece":
        return False
    tokens = model.get("vocab")
    return not isinstance(tokens, dict) or all(token in tokens for token in SPECIAL_TOKENS)


def _is_exact(tokenizer: Mapping[str, Any]) -> bool:
    """Returns whether a tokenizer.json cuts text as `wordpiece.Tokenizer` does."""
    normalizer = tokenizer.get("normalizer") or {}
    lowers = normalizer.get("lowercase")
    return (
        normalizer.get("type") == "BertNormalizer"
        and isinstance(lowers, bool)
        and normalizer.get("strip_accents") in (None, lowers)
        and normalizer.get("handle_chinese_chars") is True
        and (tokenizer.get("pre_tokenizer") or {}).get("type") == "BertPreTokenizer"
        and tokenizer["model"].get("continuing_subword_prefix") == "##"
    )


def _config(path: str, read: Read, exists: Exists, flag: str) -> dict[str, Any]:
    return _object(read(path, flag), path) if exists(path) else {}


def _object(data: bytes, path: str) -> dict[str, Any]:
    try:
        return parse_object(data)
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
    """Yields the steps of a normalizer in order, including those inside sequences."""
    waiting = [] if normalizer is None else [normalizer]
    while waiting:
        step = waiting.pop()
        inner = step.get("normalizers") or [] if isinstance(step, dict) else None
        if not isinstance(inner, list):
            raise InputError(f"{path}: its normalizer is not a list of steps; copy it again")
        yield step
        waiting += reversed(inner)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """The vocabulary or tokenizer of a job; a base for the job's dataclass."""

    vocab_file: str | None = setting(None, help="WordPiece vocabulary, one token a line")
    tokenizer: str | None = setting(
        None,
        metavar="PATH",
        help="tokenizer.json of another kind of tokenizer, or its folder, instead of --vocab_file",
    )
    do_lower_case: bool | None = setting(
        None,
        help="True for an uncased vocabulary, False for a cased one (default: True); cannot be "
        "given with --tokenizer",
    )
