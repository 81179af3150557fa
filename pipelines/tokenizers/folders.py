"""Reads the vocabulary or tokenizer of a folder, or that of flags, on any file system."""

import codecs
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beambert import io
from beambert.config import setting
from beambert.errors import InputError
from beambert.pipelines.tokenizers.vocabulary import (
    CLASSIFY,
    CONTINUES,
    LONGEST_WORD,
    LONGEST_WORD_SETTING,
    LONGEST_WORD_THERE,
    MASK,
    MOST_LONGEST_WORD,
    MOST_TOKENS,
    ROLES,
    SEPARATE,
    SPECIAL_TOKENS,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    UNKNOWN,
    VOCABULARY_FILE,
    Frame,
    TokenizerVocabulary,
    Vocabulary,
    by_id,
    content_of,
    frame_of,
    load,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Settings of BertTokenizer (transformers) -> their names in the normalizer of a tokenizer.json, and
# their values where nothing says.
_IN_NORMALIZER: dict[str, tuple[str, bool | None]] = {
    "do_lower_case": ("lowercase", True),
    "strip_accents": ("strip_accents", None),
    "tokenize_chinese_chars": ("handle_chinese_chars", True),
}
# Its classes that read these settings.
_BERT_CLASSES = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MPNetTokenizer")
# Class -> the special tokens that it has where nothing says, by the order of `_SPECIAL_NAMES`.
_SPECIAL_NAMES = (*(names[0] for names, _ in ROLES.values()), "bos_token", "eos_token")
_OF_ROBERTA = ("<pad>", "<unk>", "<s>", "</s>", "<mask>", "<s>", "</s>")
_SPECIAL_OF_CLASS = dict.fromkeys(_BERT_CLASSES, SPECIAL_TOKENS) | {
    "AlbertTokenizer": ("<pad>", "<unk>", CLASSIFY, SEPARATE, MASK, CLASSIFY, SEPARATE),
    "DebertaV2Tokenizer": (*SPECIAL_TOKENS, CLASSIFY, SEPARATE),
    "MPNetTokenizer": ("<pad>", UNKNOWN, *_OF_ROBERTA[2:]),
    "RobertaTokenizer": _OF_ROBERTA,
    "XLMRobertaTokenizer": _OF_ROBERTA,
}
# Class -> the only model of a tokenizer.json that it reads; transformers 5 makes another of others.
_MODEL_OF_CLASS = dict.fromkeys(_SPECIAL_OF_CLASS, "Unigram") | dict.fromkeys(
    _BERT_CLASSES, "WordPiece"
)
_MODEL_OF_CLASS["RobertaTokenizer"] = "BPE"
# Classes whose mask takes the spaces before it, if it is named without rules.
_STRIPS_MASK = ("AlbertTokenizer", "MPNetTokenizer", "RobertaTokenizer", "XLMRobertaTokenizer")
# Classes, and no class, that have no rules beside the files'.
_PLAIN_CLASSES = ("", "PreTrainedTokenizer", "TokenizersBackend")
# Family, and none -> the class of its tokenizer where nothing says.
_CLASS_OF_FAMILY = {
    "": "",
    "modernbert": "",
    "bert": "BertTokenizer",
    "distilbert": "DistilBertTokenizer",
    "electra": "ElectraTokenizer",
    "deberta-v2": "DebertaV2Tokenizer",
    "albert": "AlbertTokenizer",
    "roberta": "RobertaTokenizer",
    "mpnet": "MPNetTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
}
# Tokens that were added to a vocab.txt, and their ids.
_ADDED_FILE, _SPECIAL_FILE = "added_tokens.json", "special_tokens_map.json"
# The configuration of the model.
_MODEL = "config.json"
# Rules of an added token by which text is cut otherwise than at the token alone.
_OWN_RULES = ("single_word", "lstrip", "rstrip", "normalized")
# Settings with special tokens, beside those of `ROLES`.
_MORE_SPECIAL = ("additional_special_tokens", "extra_special_tokens")
# Other files of tokenizers: SentencePiece's of DeBERTa-v3, ALBERT and XLM-R, and BPE's of RoBERTa.
_FOREIGN_FILES = ("spm.model", "spiece.model", "sentencepiece.bpe.model", "vocab.json")


def read_given(
    vocab_file: str | None, tokenizer: str | None, do_lower_case: bool | None
) -> tuple[Vocabulary, bool]:
    """Reads what --vocab_file or --tokenizer names.

    Args:
      vocab_file: path of a vocab.txt.
      tokenizer: path of a tokenizer.json, or of a folder that holds one.
      do_lower_case: whether text is lower-cased and loses its accents; None for the default.

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
            data = io.read_bytes(path, "--tokenizer")
            return _of_tokenizer(_object(data, path), path, f"--tokenizer={path}", data, {})
        # On object storage there are no folders, but only the files in them.
        if not any(io.exists(f"{path}/{name}") for name in (TOKENIZER_FILE, VOCABULARY_FILE)):
            _refuse_other_files(path, "--tokenizer")
            raise InputError(
                f"--tokenizer={tokenizer}: has no {TOKENIZER_FILE}; name that file, or the folder "
                "that holds it"
            )
        return read_folder(path, "--tokenizer")
    flag = "--vocab_file"
    vocabulary = Vocabulary.parse(io.read_bytes(vocab_file, flag), f"{flag}={vocab_file}")
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


def read_beside(folder: str, flag: str) -> Vocabulary:
    """Reads the vocabulary of a folder that BeamBERT made: of records, features or a model.

    Raises:
      InputError: the folder has no vocabulary, or it is damaged.
    """
    config = _config(f"{folder}/{TOKENIZER_CONFIG_FILE}", flag)
    path = f"{folder}/{TOKENIZER_FILE}"
    if io.exists(path):
        return TokenizerVocabulary.read(io.read_bytes(path, flag), io.named(path, flag), config)
    path = f"{folder}/{VOCABULARY_FILE}"
    longest = config.get(LONGEST_WORD_SETTING, LONGEST_WORD)
    return Vocabulary.parse(io.read_bytes(path, flag), io.named(path, flag), longest)


def read_folder(folder: str, flag: str) -> tuple[Vocabulary, bool]:
    """Reads the tokenizer of a Hugging Face folder: its tokenizer.json, or else its vocab.txt.

    The ids are those of AutoTokenizer. A tokenizer.json is read alone. Where the folder's other
    files would have transformers change its tokenizer, the folder is refused; files that
    transformers has saved together agree.

    BERT's word pieces become a `Vocabulary`, whose tokenizer is the fastest. Every other tokenizer
    becomes a `TokenizerVocabulary`.

    Args:
      folder: path of the folder.
      flag: name of the flag that gave the folder, for messages.

    Returns:
      the vocabulary, and whether text must be in lower case and without accents.

    Raises:
      InputError: the folder has no tokenizer, it is damaged or a program, its files disagree, or it
        has a setting that is not supported.
    """

    def optional(name: str) -> dict[str, Any]:
        return _config(f"{folder}/{name}", flag)

    name, settings, model = f"{flag}={folder}", optional(TOKENIZER_CONFIG_FILE), optional(_MODEL)
    _refuse_settings(name, settings)
    named = _class_of(settings, model)
    path, pieces, own = f"{folder}/{TOKENIZER_FILE}", None, []
    if io.exists(path):
        if model.get("model_type") == "modernbert":
            named = ""  # transformers 5 ignores its class.
        data = io.read_bytes(path, flag)
        tokenizer = _object(data, path)
        _check_class(named, tokenizer, name)
        if named in _BERT_CLASSES and not tokenizer.get("normalizer"):
            # transformers 4 cannot read it, and 5 takes the pieces alone.
            tokenizer["model"].pop(LONGEST_WORD_SETTING, None)
            pieces, own = _vocabulary_of(tokenizer, path), tokenizer.get("added_tokens") or []
        else:
            _check_rules(named, settings, tokenizer, name)
    else:
        path = f"{folder}/{VOCABULARY_FILE}"
        # BertTokenizer of transformers has other words of most characters than the original.
        is_original = not model and settings.keys() <= {LONGEST_WORD_SETTING}
        pieces = _read_word_pieces(folder, flag, settings, named, is_original)
        if is_original:
            return pieces, not _has_capitals(pieces)
        named = named if named in _BERT_CLASSES else _BERT_CLASSES[0]
    if pieces:
        tokenizer = json.loads(word_piece_file(pieces.tokens, True, pieces.longest_word))
        tokenizer["normalizer"] |= _normalizer_of(settings, name)
        data = json.dumps(tokenizer).encode()
    settings, added = _added_tokens(settings, tokenizer, named, optional, name)
    if pieces:
        _check_special(settings, name)
    before = json.dumps(tokenizer)
    _add_tokens(tokenizer, [*added, *own], path, name)
    if pieces and (lowers := _case_of_bert(tokenizer)) is not None:
        return pieces, lowers
    data = data if json.dumps(tokenizer) == before else json.dumps(tokenizer).encode()
    vocabulary, do_lower_case = _of_tokenizer(tokenizer, path, f"{flag}={path}", data, settings)
    _check_special_tokens(vocabulary, tokenizer, named, name)
    return vocabulary, do_lower_case


def _check_class(named: str, tokenizer: Mapping[str, Any], name: str) -> None:
    """Refuses a tokenizer.json from which the class of a tokenizer would make another one."""
    kind = (tokenizer.get("model") or {}).get("type")
    is_of_class = kind in (None, _MODEL_OF_CLASS.get(named, kind))
    if not (is_of_class and named in (*_SPECIAL_OF_CLASS, *_PLAIN_CLASSES)):
        raise InputError(
            f"{name}: the rules of its tokenizer_class {named!r:.60} are not those of "
            f"{TOKENIZER_FILE}; if that file suffices, write PreTrainedTokenizerFast as "
            f"tokenizer_class in {TOKENIZER_CONFIG_FILE}"
        )


def _check_rules(
    named: str, settings: Mapping[str, Any], tokenizer: Mapping[str, Any], name: str
) -> None:
    """Refuses settings that have other rules for text than the tokenizer.json of their folder."""
    file, setting = tokenizer.get("normalizer"), tokenizer.get("pre_tokenizer") or {}
    wanted: dict[str, Any] = {}
    if named in _BERT_CLASSES:
        # Without a normalizer, version 5 makes one.
        is_berts = not file or file.get("type") == "BertNormalizer"
        wanted, setting = _normalizer_of(settings, name) if is_berts else {}, file or {}
    elif named == "RobertaTokenizer" and setting.get("type") == "ByteLevel":
        space = settings.get("add_prefix_space", False)
        wanted = {} if space is None else {"add_prefix_space": bool(space)}
    for rule, value in wanted.items():
        if (found := setting.get(rule)) != value:
            raise InputError(
                f"{name}: {rule} is {value} by {TOKENIZER_CONFIG_FILE} and {named}, and {found} in "
                f"{TOKENIZER_FILE}; {_save_again(name)}"
            )


def _read_word_pieces(
    folder: str, flag: str, settings: Mapping[str, Any], named: str, is_original: bool
) -> Vocabulary:
    """Returns the vocabulary of a folder's vocab.txt, with the longest word of its reader."""
    name, path = f"{flag}={folder}", f"{folder}/{VOCABULARY_FILE}"
    if not io.exists(path):
        _refuse_other_files(folder, flag)
        raise InputError(
            f"{name}: has no {VOCABULARY_FILE} or {TOKENIZER_FILE}; copy one next to the weights"
        )
    longest = settings.get(LONGEST_WORD_SETTING, LONGEST_WORD) if is_original else None
    longest = LONGEST_WORD_THERE if longest is None else longest
    if not _is_longest_word(longest):
        raise InputError(
            f"{name}: its tokenizer has {LONGEST_WORD_SETTING} {str(longest)[:60]!r}, which is not "
            f"a number from 1 to {MOST_LONGEST_WORD}; correct the file"
        )
    lines = io.read_bytes(path, flag)
    vocabulary = Vocabulary.parse(lines, f"{flag}={path}", longest)
    if not is_original:
        _check_word_pieces(lines, vocabulary, named, settings, name)
    return vocabulary


def _has_capitals(vocabulary: Vocabulary) -> bool:
    return any(token != token.lower() for token in vocabulary.tokens if not token.startswith("["))


def _check_word_pieces(
    lines: bytes, vocabulary: Vocabulary, named: str, settings: Mapping[str, Any], name: str
) -> None:
    """Refuses a vocab.txt that transformers would read in another way than as word pieces."""
    if named not in (*_BERT_CLASSES, *_PLAIN_CLASSES):
        raise InputError(
            f"{name}: its tokenizer_class {named!r:.60} has no {VOCABULARY_FILE}; if it is one of "
            f"word pieces, write BertTokenizer as tokenizer_class in {TOKENIZER_CONFIG_FILE}"
        )
    if any(
        line.strip() and line != line.strip(b" \t").removeprefix(codecs.BOM_UTF8)
        for line in lines.splitlines()
    ):
        raise InputError(
            f"{name}: {VOCABULARY_FILE} has spaces or a byte order mark around a token, which "
            f"is then found in no text by transformers; {_save_again(name)}"
        )
    if _has_capitals(vocabulary) and settings.get("do_lower_case") is None:
        raise InputError(
            f"{name}: {VOCABULARY_FILE} has capitals, and transformers lower-cases text unless "
            f"do_lower_case is false in {TOKENIZER_CONFIG_FILE}; write true or false there"
        )


def _check_special(settings: Mapping[str, Any], name: str) -> None:
    """Refuses settings of a vocab.txt that name other special tokens than BERT's."""
    for key, value in zip(_SPECIAL_NAMES, SPECIAL_TOKENS, strict=False):
        if (given := content_of(settings.get(key))) != value:
            raise InputError(
                f"{name}: its tokenizer has {key} {given!r:.60}, and only {value!r} is "
                f"supported without a {TOKENIZER_FILE}; {_save_again(name)}"
            )


def _check_special_tokens(
    vocabulary: Vocabulary, tokenizer: Mapping[str, Any], named: str, name: str
) -> None:
    """Refuses a special token that is not found in text, or another one for unknown words."""
    unknown = tokenizer["model"].get("unk_id")  # of a Unigram tokenizer
    if named in _SPECIAL_OF_CLASS and unknown not in (None, vocabulary.special.unknown):
        raise InputError(
            f"{name}: unknown words have the id {unknown} by {TOKENIZER_FILE}, and "
            f"{vocabulary.special.unknown} by {named}; name the token of {unknown} as unk_token in "
            f"{TOKENIZER_CONFIG_FILE}"
        )
    in_text = {token["content"] for token in tokenizer["added_tokens"]}
    for role, token in vocabulary.tokens_by_role().items():
        if token not in in_text:
            raise InputError(
                f"{name}: {token!r} is no special token of {TOKENIZER_FILE}, and transformers "
                f"finds it in no text; write it as {ROLES[role][0][0]} into {TOKENIZER_CONFIG_FILE}"
            )


def _class_of(settings: Mapping[str, Any], model: Mapping[str, Any]) -> str:
    """Returns the name of the tokenizer's class in transformers, or that of an unknown family."""
    family, named = str(model.get("model_type") or ""), settings.get("tokenizer_class")
    named = named or model.get("tokenizer_class") or _CLASS_OF_FAMILY.get(family, family)
    return str(named).removesuffix("Fast")


def _added_tokens(
    settings: dict[str, Any],
    tokenizer: Mapping[str, Any],
    named: str,
    optional: Callable[[str], dict[str, Any]],
    name: str,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Returns the settings with all special tokens, and the tokens that the files add.

    Args:
      settings: content of tokenizer_config.json.
      tokenizer: content of tokenizer.json.
      named: name of the class, which has special tokens where no file says.
      optional: returns the content of another file of the folder; {} without it.
      name: flag and path of the folder, for messages.

    Raises:
      InputError: a setting is of another type.
    """
    usual = dict(zip(_SPECIAL_NAMES, _SPECIAL_OF_CLASS.get(named, ()), strict=False))
    if "pad_token" in (padding := tokenizer.get("padding") or {}):
        usual.setdefault("pad_token", padding["pad_token"])
    if "added_tokens_decoder" in settings:  # The other files are not read then.
        listed, of_map = settings["added_tokens_decoder"], {}
        entries = listed.items() if isinstance(listed, dict) else ()
        added = [{**each, "id": i} for i, each in entries if isinstance(each, dict)]
    else:
        of_map = optional(_SPECIAL_FILE)
        added = [{"content": token, "id": i} for token, i in optional(_ADDED_FILE).items()]
    merged, no_rules = {**usual, **settings, **of_map}, dict.fromkeys(_OWN_RULES, False)
    mask = merged.get("mask_token")
    if named in _STRIPS_MASK and isinstance(mask, str):
        added.append(no_rules | {"content": mask, "lstrip": True})
    keys = [*(key for keys, _ in ROLES.values() for key in keys), "sep_token", "eos_token"]
    special = [merged.get(key) for key in keys]
    for given in (settings, of_map):
        for key in _MORE_SPECIAL:
            more = given.get(key) or []
            if not isinstance(more, dict | list):
                raise InputError(
                    f"{name}: its tokenizer has {key} {str(more)[:60]!r}, which is no list; "
                    "correct the file"
                )
            special += more.values() if isinstance(more, dict) else more
    added += [no_rules | each if isinstance(each, dict) else {"content": each} for each in special]
    return merged, [each for each in added if content_of(each) is not None]


def _normalizer_of(settings: Mapping[str, Any], name: str) -> dict[str, bool | None]:
    """Returns what BertTokenizer of transformers makes of settings for a BertNormalizer.

    Raises:
      InputError: a value is of another type.
    """
    found = {}
    for key, (name_there, default) in _IN_NORMALIZER.items():
        value = settings.get(key, default)
        if not isinstance(value, bool | None):
            raise InputError(
                f"{name}: its tokenizer has {key} {str(value)[:60]!r}, which is neither true nor "
                "false; correct the file"
            )
        if value is not None or key == "strip_accents":
            found[name_there] = value
    return found


def _add_tokens(
    tokenizer: dict[str, Any], added: Sequence[Mapping[str, Any]], path: str, name: str
) -> None:
    """Adds tokens of the vocabulary to those that a tokenizer finds in text before it is cut.

    Args:
      tokenizer: content of tokenizer.json, or what a vocab.txt is; changed.
      added: the tokens that the files of a folder name: each with its content, and maybe an id and
        rules.
      path: path of that tokenizer.json or vocab.txt.
      name: flag and path of the folder, for messages.

    Raises:
      InputError: a token is not in the vocabulary, or has another id or other rules there.
    """
    file, again = path.rpartition("/")[2], _save_again(name)
    entries = {token.get("content"): token for token in tokenizer.get("added_tokens") or []}
    vocabulary = (tokenizer.get("model") or {}).get("vocab") or {}
    if isinstance(vocabulary, list):  # of a Unigram tokenizer: pairs with scores
        vocabulary = {token[0]: number for number, token in enumerate(vocabulary)}
    for token in added:
        content = content_of(token)
        if content not in entries and content in vocabulary:
            usual = dict.fromkeys(_OWN_RULES, False) | {"special": True}
            entries[content] = {"id": vocabulary[content], "content": content} | usual
        if content not in entries:
            raise InputError(
                f"{name}: {content!r} was added to its tokenizer, and {file} lacks it; {again}"
            )
        for rule in ("id", *_OWN_RULES):
            found = entries[content].get(rule)
            if str(value := token.get(rule, found)) != str(found):
                raise InputError(
                    f"{name}: {content!r} has {rule} {found} in {file}, but {value!s:.20} by the "
                    f"folder's other files or the class of its tokenizer; {again}"
                )
    tokenizer["added_tokens"] = sorted(entries.values(), key=lambda token: token["id"])


def _refuse_other_files(folder: str, flag: str) -> None:
    """Raises InputError if the folder has a tokenizer in another form than a tokenizer.json."""
    for name in _FOREIGN_FILES:
        if io.exists(f"{folder}/{name}"):
            raise InputError(
                f"{flag}={folder}: its tokenizer is {name} and not a {TOKENIZER_FILE}; "
                f"{_save_again(f'{flag}={folder}')}"
            )


def _save_again(name: str) -> str:
    """Returns the advice for a folder, given as flag=path, whose tokenizer is in another form."""
    folder = name.partition("=")[2]
    return (
        f"transformers makes one: AutoTokenizer.from_pretrained({folder!r}).save_pretrained("
        f"{folder!r})"
    )


def _of_tokenizer(
    tokenizer: Mapping[str, Any], path: str, name: str, data: bytes, settings: Mapping[str, Any]
) -> tuple[Vocabulary, bool]:
    """Returns the vocabulary of a tokenizer.json, and whether it lower-cases text."""
    do_lower_case = _case_of_bert(tokenizer)
    if do_lower_case is not None and (pieces := _vocabulary_of(tokenizer, path)):
        classify, separate = pieces.special.classify, pieces.special.separate
        if frame_of(load(data, name)) == Frame(classify, separate, 1, 1):
            return pieces, do_lower_case
    vocabulary = TokenizerVocabulary.read(data, name, settings)
    return vocabulary, vocabulary.lower_cases


def _refuse_settings(name: str, settings: Mapping[str, Any]) -> None:
    """Raises InputError for a tokenizer that is a Python module, or cuts special tokens."""
    programs = settings.get("auto_map")
    if isinstance(programs, dict) and "AutoTokenizer" in programs:
        raise InputError(
            f"{name}: its tokenizer is a program (auto_map in {TOKENIZER_CONFIG_FILE}), which is "
            f"never run; if its {TOKENIZER_FILE} suffices, name that file"
        )
    if settings.get("split_special_tokens"):
        raise InputError(
            f"{name}: its tokenizer has split_special_tokens, which is not supported; set it to "
            f"false in {TOKENIZER_CONFIG_FILE} if no text contains special tokens"
        )


def _case_of_bert(tokenizer: Mapping[str, Any]) -> bool | None:
    """Returns whether a tokenizer.json lower-cases text; None if it isn't BERT's.

    It is BERT's if it cuts text as `wordpiece.Tokenizer` does, and adds no other tokens.
    """
    model, normalizer = tokenizer.get("model"), tokenizer.get("normalizer")
    if not isinstance(model, dict) or not isinstance(normalizer, dict):
        return None
    tokens, lowers = model.get("vocab"), normalizer.get("lowercase")
    is_bert = (
        model.get("type") == "WordPiece"
        and model.get("continuing_subword_prefix") == CONTINUES
        and model.get("unk_token") == UNKNOWN
        and _is_longest_word(model.get(LONGEST_WORD_SETTING, LONGEST_WORD_THERE))
        and isinstance(tokens, dict)
        and tokens.keys() >= {*SPECIAL_TOKENS}
        and all(
            token.get("content") in SPECIAL_TOKENS and not any(map(token.get, _OWN_RULES))
            for token in tokenizer.get("added_tokens") or []
        )
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


def _config(path: str, flag: str) -> dict[str, Any]:
    return _object(io.read_bytes(path, flag), path) if io.exists(path) else {}


def _object(data: bytes, path: str) -> dict[str, Any]:
    try:
        return io.parse_object(data)
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


def word_piece_file(
    tokens: Sequence[str],
    do_lower_case: bool,
    longest_word: int = LONGEST_WORD,
    second_segment: int = 1,
) -> bytes:
    """Returns the tokenizer.json of a vocabulary of word pieces.

    text-embeddings-inference reads no vocab.txt, nor does AutoTokenizer for a ModernBERT. The parts
    are those that `transformers` writes for a fast tokenizer of BERT, but for the longest word.

    Args:
      tokens: tokens by id.
      do_lower_case: whether texts are lower-cased and lose their accents.
      longest_word, second_segment: see `Vocabulary`.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    ids = {token: index for index, token in enumerate(tokens)}
    model = models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=longest_word)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=do_lower_case)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    ends = ("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])
    return framed(tokenizer, *ends, 1, second_segment)


def framed(
    tokenizer: "Tokenizer",
    first: tuple[str, int],
    last: tuple[str, int],
    separators: int,
    second_segment: int,
) -> bytes:
    """Returns the tokenizer.json of a tokenizer that frames texts: [CLS] A [SEP] B [SEP].

    Args:
      tokenizer: tokenizer, which is changed.
      first, last: the tokens before and behind, with their ids.
      separators, second_segment: see `Vocabulary`.
    """
    from tokenizers.processors import TemplateProcessing

    one, two = [first[0], "$A"], [f"$B:{second_segment}", f"{last[0]}:{second_segment}"]
    tokenizer.post_processor = TemplateProcessing(
        single=[*one, last[0]],
        pair=[*one, *[last[0]] * separators, *two],
        special_tokens=[first, last],
    )
    return tokenizer.to_str(pretty=True).encode()


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
