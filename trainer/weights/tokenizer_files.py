"""The tokenizer that belongs to weights: reads that of others, writes ours for others."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beambert import io
from beambert.errors import InputError
from beambert.model_files import PRETRAINING
from beambert.pipelines.tokenizers.folders import framed, word_piece_file
from beambert.pipelines.tokenizers.vocabulary import (
    LONGEST_WORD_SETTING,
    LONGEST_WORD_THERE,
    SPECIAL_TOKENS,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    TokenizerVocabulary,
    Vocabulary,
)
from beambert.trainer.model_folders import ModelFolder

if TYPE_CHECKING:
    from beambert.pipelines.tokenizers.encoding import SubwordTokenizer


def read_optional_json(path: str) -> dict[str, Any]:
    """Reads a JSON object of another system; {} without the file."""
    return io.read_object(path, remedy="copy it again") if io.exists(path) else {}


def read_list(path: str) -> list[Any]:
    """Reads a JSON list.

    Raises:
      InputError: the file cannot be read, or it holds something else.
    """
    try:
        value = json.loads(io.read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not JSON ({error}); copy it again") from error
    if not isinstance(value, list):
        raise InputError(f"{path}: is a {type(value).__name__}, not a list; copy it again")
    return value


def exported_files(found: ModelFolder) -> dict[str, bytes]:
    """Returns name -> content of the files from which `transformers` makes a model's tokenizer."""
    vocabulary, is_encoder = found.vocabulary, found.training["kind"] == PRETRAINING
    # No longer texts, or windows, were trained on.
    most = found.training["trained_positions" if is_encoder else "max_seq_length"]
    more, second = {"model_max_length": most}, vocabulary.second_segment
    if (found.config.segments or 1) < 2:  # A second segment is none of its inputs.
        more["model_input_names"] = ["input_ids", "attention_mask"]
        # text-embeddings-inference does not read that. The tokenizer of an encoder stays that of
        # the records, with which `pretrain --init` goes on.
        second = second if is_encoder else 0
    if not isinstance(vocabulary, TokenizerVocabulary):
        config = _bert_config(found.do_lower_case, vocabulary.longest_word) | more
        return vocabulary.files() | {
            TOKENIZER_CONFIG_FILE: json_bytes(config),
            TOKENIZER_FILE: word_piece_file(
                vocabulary.tokens, found.do_lower_case, vocabulary.longest_word, second
            ),
        }
    config = vocabulary.config() | more
    data = vocabulary.data
    if not vocabulary.has_frame or second != vocabulary.second_segment:
        from tokenizers import Tokenizer

        special = vocabulary.special
        first, last = ((vocabulary.tokens[i], i) for i in (special.classify, special.separate))
        tokenizer = Tokenizer.from_str(data.decode())
        data = framed(tokenizer, first, last, vocabulary.separators, second)
    return {TOKENIZER_CONFIG_FILE: json_bytes(config), TOKENIZER_FILE: data}


def transformers_tokenizer(vocabulary: Vocabulary, do_lower_case: bool) -> "SubwordTokenizer":
    """Returns the tokenizer of a vocabulary as `transformers` has it.

    It reads special tokens in text: title, "[SEP]" and abstract are two segments.
    """
    if not isinstance(vocabulary, TokenizerVocabulary):
        data = word_piece_file(vocabulary.tokens, do_lower_case, vocabulary.longest_word)
        vocabulary = TokenizerVocabulary.read(data, vocabulary.name)
    from beambert.pipelines.tokenizers.encoding import SubwordTokenizer

    return SubwordTokenizer(vocabulary, spells_special=False)


def json_bytes(value: Mapping[str, Any] | Sequence[Any]) -> bytes:
    """Returns a JSON object or list as the bytes of a file."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _bert_config(do_lower_case: bool, longest_word: int) -> dict[str, Any]:
    # BertTokenizer of transformers 5 reads no longest word in tokenizer.json.
    fast = "BertTokenizer" if longest_word == LONGEST_WORD_THERE else "PreTrainedTokenizerFast"
    names = {f"{token[1:-1].lower()}_token": token for token in SPECIAL_TOKENS}
    return names | {
        "tokenizer_class": fast,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "do_lower_case": do_lower_case,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
        LONGEST_WORD_SETTING: longest_word,
    }
