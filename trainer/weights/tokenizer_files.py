"""The tokenizer that belongs to weights: reads that of others, writes ours for others."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from beambert import storage
from beambert.errors import InputError
from beambert.model.families.table import family_of
from beambert.model_files import PRETRAINING
from beambert.pipelines.tokenizers.folders import read_folder
from beambert.pipelines.tokenizers.vocabulary import (
    SPECIAL_TOKENS,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    TokenizerVocabulary,
    Vocabulary,
)
from beambert.pipelines.tokenizers.wordpiece import MAX_CHARACTERS_PER_WORD
from beambert.storage import parse_object
from beambert.trainer.model_folders import ModelFolder


def read_vocabulary(folder: str, flag: str) -> tuple[Vocabulary, bool]:
    """Reads the tokenizer of a folder; see `folders.read_folder`."""
    return read_folder(folder, flag, storage.read_bytes, storage.exists)


def read_json(path: str) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
      InputError: the file cannot be read, or it holds something else.
    """
    try:
        return parse_object(storage.read_bytes(path))
    except ValueError as error:
        raise InputError(f"{path}: not a JSON object ({error}); copy it again") from error


def read_optional_json(path: str) -> dict[str, Any]:
    """Reads a JSON object; {} without the file. See `read_json`."""
    return read_json(path) if storage.exists(path) else {}


def read_list(path: str) -> list[Any]:
    """Reads a JSON list.

    Raises:
      InputError: the file cannot be read, or it holds something else.
    """
    try:
        value = json.loads(storage.read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not JSON ({error}); copy it again") from error
    if not isinstance(value, list):
        raise InputError(f"{path}: is a {type(value).__name__}, not a list; copy it again")
    return value


def exported_files(found: ModelFolder) -> dict[str, bytes]:
    """Returns name -> content of the files from which `transformers` makes a model's tokenizer."""
    vocabulary, most = found.vocabulary, found.config.longest_sequence
    if found.training["kind"] != PRETRAINING:  # It was trained on no longer texts, or windows.
        most = found.training["max_seq_length"]
    more = {"model_max_length": most}
    if (found.config.segments or 1) < 2:  # A second segment is none of its inputs.
        more["model_input_names"] = ["input_ids", "attention_mask"]
    if not isinstance(vocabulary, TokenizerVocabulary):
        config = _bert_config(found.do_lower_case) | more
        files = {TOKENIZER_CONFIG_FILE: json_bytes(config), **vocabulary.files()}
        if not family_of(found.config).reads_vocab_txt:
            files[TOKENIZER_FILE] = word_piece_file(vocabulary.tokens, found.do_lower_case)
        return files
    config = vocabulary.config() | more
    data = vocabulary.data if vocabulary.has_frame else _framed(vocabulary)
    return {TOKENIZER_CONFIG_FILE: json_bytes(config), TOKENIZER_FILE: data}


def word_piece_file(tokens: Sequence[str], do_lower_case: bool) -> bytes:
    """Returns the tokenizer.json of a vocabulary of word pieces.

    text-embeddings-inference reads no vocab.txt. The parts are those that `transformers` writes for
    a fast tokenizer of BERT, but for the longest word, which is the original's.

    Args:
      tokens: tokens by id.
      do_lower_case: whether texts are lower-cased and lose their accents.
    """
    ids = {token: index for index, token in enumerate(tokens)}
    first, last = ({"SpecialToken": {"id": name, "type_id": 0}} for name in ("[CLS]", "[SEP]"))
    texts = [{"Sequence": {"id": name, "type_id": index}} for index, name in enumerate("AB")]
    after_b = {"SpecialToken": {"id": "[SEP]", "type_id": 1}}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [
        {"id": ids[name], "content": name, **flags, "special": True} for name in SPECIAL_TOKENS
    ]
    whole = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": sorted(added, key=lambda token: token["id"]),
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": do_lower_case,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [first, texts[0], last],
            "pair": [first, texts[0], last, texts[1], after_b],
            "special_tokens": {
                name: {"id": name, "ids": [ids[name]], "tokens": [name]}
                for name in ("[CLS]", "[SEP]")
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": MAX_CHARACTERS_PER_WORD,
            "vocab": ids,
        },
    }
    return json_bytes(whole)


def json_bytes(value: Mapping[str, Any] | Sequence[Any]) -> bytes:
    """Returns a JSON object or list as the bytes of a file."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _bert_config(do_lower_case: bool) -> dict[str, Any]:
    names = {f"{token[1:-1].lower()}_token": token for token in SPECIAL_TOKENS}
    return names | {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": do_lower_case,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
    }


def _framed(vocabulary: TokenizerVocabulary) -> bytes:
    """Returns a tokenizer.json that frames texts as for the model: [CLS] A [SEP] B [SEP]."""
    from tokenizers import Tokenizer
    from tokenizers.processors import TemplateProcessing

    special, tokens = vocabulary.special, vocabulary.tokens
    first, last = tokens[special.classify], tokens[special.separate]
    tokenizer = Tokenizer.from_str(vocabulary.data.decode())
    tokenizer.post_processor = TemplateProcessing(
        single=[first, "$A", last],
        pair=[first, "$A", last, "$B:1", f"{last}:1"],
        special_tokens=[(first, special.classify), (last, special.separate)],
    )
    return tokenizer.to_str(pretty=True).encode()
