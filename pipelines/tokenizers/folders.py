"""Reads the vocabulary or tokenizer of a folder, or that of flags, on any file system."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from beambert.config import setting
from beambert.errors import InputError
from beambert.io import parse_object
from beambert.pipelines.tokenizers.vocabulary import (
    CONTINUES,
    LONGEST_WORD,
    LONGEST_WORD_SETTING,
    LONGEST_WORD_THERE,
    MOST_LONGEST_WORD,
    MOST_TOKENS,
    SPECIAL_TOKENS,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    UNKNOWN,
    VOCABULARY_FILE,
    TokenizerVocabulary,
    Vocabulary,
    by_id,
)

# Returns the content of a file, given its path and the flag that gave it, for messages.
Read = Callable[[str, str], bytes]
# Returns whether there is a file or a folder.
Exists = Callable[[str], bool]
# Settings of BertTokenizer (transformers) -> their names in the normalizer of a tokenizer.json.
_IN_NORMALIZER = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
# Settings of BertTokenizer and BertJapaneseTokenizer -> the only value with which they cut text as
# `wordpiece.Tokenizer` does.
_FIXED = {
    "tokenize_chinese_chars": True,
    "word_tokenizer_type": "basic",
    "subword_tokenizer_type": "wordpiece",
}

# The classes of transformers 4 and 5 that take no such values but those of tokenizer.json.
_FOLLOW_THE_FILE = ("PreTrainedTokenizerFast", "TokenizersBackend")
# Tokens that were added to a vocab.txt, and their ids.
_ADDED_FILE = "added_tokens.json"
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
    config = _config(f"{folder}/{TOKENIZER_CONFIG_FILE}", read, exists, flag)
    path = f"{folder}/{TOKENIZER_FILE}"
    if not exists(path):
        path = f"{folder}/{VOCABULARY_FILE}"
        longest = config.get(LONGEST_WORD_SETTING, LONGEST_WORD)
        return Vocabulary.parse(read(path, flag), f"{flag}={path}" if flag else path, longest)
    return TokenizerVocabulary.read(read(path, flag), f"{flag}={path}" if flag else path, config)


def read_folder(folder: str, flag: str, read: Read, exists: Exists) -> tuple[Vocabulary, bool]:
    """Reads the tokenizer of a Hugging Face folder: its tokenizer.json, or else its vocab.txt.

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
    added = {*_config(f"{folder}/{_ADDED_FILE}", read, exists, flag)}
    listed = config.get("added_tokens_decoder")
    for token in listed.values() if isinstance(listed, dict) else ():
        added |= {token.get("content")} if isinstance(token, dict) else set()

    def check_added(vocabulary: Vocabulary, file: str) -> None:
        if more := added - {*vocabulary.tokens, None}:
            raise InputError(
                f"{name}: {min(more)!r} was added to its tokenizer, and {file} lacks it; "
                f"{_save_again(folder)}"
            )

    if exists(tokenizer_file):
        data = read(tokenizer_file, flag)
        found = _read_tokenizer(tokenizer_file, f"{flag}={tokenizer_file}", data, config)
        check_added(found[0], TOKENIZER_FILE)
        return found
    if not exists(vocab_file):
        _refuse_other_files(folder, flag, exists)
        raise InputError(
            f"{name}: has no {VOCABULARY_FILE} or {TOKENIZER_FILE}; copy one next to the weights"
        )
    # BertTokenizer of transformers has other words of most characters than the original.
    longest = config.get(LONGEST_WORD_SETTING, LONGEST_WORD_THERE if config else LONGEST_WORD)
    if not _is_longest_word(longest):
        raise InputError(
            f"{name}: its tokenizer has {LONGEST_WORD_SETTING} {str(longest)[:60]!r}, which is not "
            f"a number from 1 to {MOST_LONGEST_WORD}; correct the file"
        )
    vocabulary = Vocabulary.parse(read(vocab_file, flag), f"{flag}={vocab_file}", longest)
    check_added(vocabulary, VOCABULARY_FILE)
    do_lower_case = config.get("do_lower_case")
    if do_lower_case is None:
        do_lower_case = all(t == t.lower() for t in vocabulary.tokens if not t.startswith("["))
    if not isinstance(do_lower_case, bool):
        raise InputError(
            f"{name}: its tokenizer has do_lower_case {str(do_lower_case)[:60]!r}, which "
            "is neither true nor false; correct the file"
        )
    for key, value in (_FIXED | {"strip_accents": do_lower_case}).items():
        if config.get(key) not in (None, value):
            raise InputError(
                f"{name}: its tokenizer has {key} {config[key]!r}, but with do_lower_case "
                f"{do_lower_case!r} only {value!r} is supported without a {TOKENIZER_FILE}; take "
                "another model"
            )
    return vocabulary, do_lower_case


def _refuse_other_files(folder: str, flag: str, exists: Exists) -> None:
    """Raises InputError if the folder has a tokenizer in another form than a tokenizer.json."""
    for name in _FOREIGN_FILES:
        if exists(f"{folder}/{name}"):
            raise InputError(
                f"{flag}={folder}: its tokenizer is {name} and not a {TOKENIZER_FILE}; "
                f"{_save_again(folder)}"
            )


def _save_again(folder: str) -> str:
    """Returns the advice for a folder whose tokenizer is in another form."""
    return (
        f"transformers makes one: AutoTokenizer.from_pretrained({folder!r}).save_pretrained("
        f"{folder!r})"
    )


def _read_tokenizer(
    path: str, name: str, data: bytes, config: Mapping[str, Any]
) -> tuple[Vocabulary, bool]:
    """Reads a tokenizer.json, with the content of the tokenizer_config.json next to it."""
    tokenizer = _object(data, path)
    do_lower_case = _case_of_bert(tokenizer, config)
    if do_lower_case is not None and (vocabulary := _vocabulary_of(tokenizer, path)):
        return vocabulary, do_lower_case
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


def _case_of_bert(tokenizer: Mapping[str, Any], config: Mapping[str, Any]) -> bool | None:
    """Returns whether a tokenizer.json lower-cases text; None if it isn't BERT's.

    It is BERT's if it cuts text as `wordpiece.Tokenizer` does, and adds no other tokens.
    """
    model, normalizer = tokenizer.get("model"), tokenizer.get("normalizer")
    if not isinstance(model, dict) or not isinstance(normalizer, dict):
        return None
    if config.get("tokenizer_class") not in _FOLLOW_THE_FILE:
        # BertTokenizerFast of transformers gives the normalizer the values of its configuration.
        given = {_IN_NORMALIZER.get(key, ""): value for key, value in config.items()}
        normalizer = normalizer | {k: v for k, v in given.items() if k and v is not None}
    added = tokenizer.get("added_tokens") or []
    tokens, lowers = model.get("vocab"), normalizer.get("lowercase")
    is_bert = (
        model.get("type") == "WordPiece"
        and model.get("continuing_subword_prefix") == CONTINUES
        and model.get("unk_token") == UNKNOWN
        and _is_longest_word(model.get(LONGEST_WORD_SETTING, LONGEST_WORD_THERE))
        and isinstance(tokens, dict)
        and tokens.keys() >= {*SPECIAL_TOKENS}
        and {token.get("content") for token in added} <= {*SPECIAL_TOKENS}
        and normalizer.get("type") == "BertNormalizer"
        and isinstance(lowers, bool)
        and normalizer.get("clean_text") is True
        and normalizer.get("strip_accents") in (None, lowers)
        and normalizer.get("handle_chinese_chars") is True
        and (tokenizer.get("pre_tokenizer") or {}).get("type") == "BertPreTokenizer"
    )
    return lowers if is_bert else None


def _is_longest_word(value: Any) -> bool:
    return type(value) is int and 1 <= value <= MOST_LONGEST_WORD


def _config(path: str, read: Read, exists: Exists, flag: str) -> dict[str, Any]:
    return _object(read(path, flag), path) if exists(path) else {}


def _object(data: bytes, path: str) -> dict[str, Any]:
    try:
        return parse_object(data)
    except ValueError as error:
        raise InputError(f"{path}: not a JSON object ({error}); copy it again") from error


def _vocabulary_of(tokenizer: Mapping[str, Any], path: str) -> Vocabulary | None:
    """Returns the vocabulary of word pieces; None if a vocab.txt cannot have its tokens."""
    ids = tokenizer["model"]["vocab"]
    numbers = {number for number in ids.values() if type(number) is int}
    if len(numbers) < len(ids) or min(numbers) < 0 or max(numbers) >= MOST_TOKENS:
        raise InputError(
            f"{path}: has no WordPiece vocabulary with an id from 0 on for each token; copy it "
            "again"
        )
    tokens = by_id(ids, max(numbers) + 1)
    longest = tokenizer["model"].get(LONGEST_WORD_SETTING, LONGEST_WORD_THERE)
    data = "".join(f"{token}\n" for token in tokens).encode(errors="replace")
    vocabulary = Vocabulary.parse(data, path, longest)
    return vocabulary if vocabulary.tokens == tokens else None


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
