"""Random legal files of others: tokenizer.json and config.json have one meaning at every door."""

import json
import pathlib
import tempfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from support.nasty_text import NASTY
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, trainers

from beambert.model.config import BertConfig
from beambert.model.families.table import FAMILIES, read_config
from beambert.model_files import PRETRAINING
from beambert.pipelines.tokenizers.encoding import make_tokenizer
from beambert.pipelines.tokenizers.folders import read_beside, read_folder, read_given
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS
from beambert.trainer.model_folders import ModelFolder
from beambert.trainer.weights.tokenizer_files import (
    exported_files,
    transformers_tokenizer,
)

# Rust lower-cases character by character: a Σ at the end of a word is no ς to it.
CHARACTERS = "".join(dict.fromkeys(NASTY.replace("Σ", "") + "theTHEéñ北 .,-#1"))
WORDS = ("the", "THE", "thé", "then", "##he", "##n", "1", ".", "#", "北", "##北")
ROLES = dict(zip(("pad", "unk", "cls", "sep", "mask"), SPECIAL_TOKENS, strict=True))
CONFIG = {"tokenizer_class": "PreTrainedTokenizerFast"} | {
    f"{role}_token": token for role, token in ROLES.items()
}
MARKERS = ("[E1]", "covid", "then ")


def _bert() -> some.SearchStrategy:
    flags = dict.fromkeys(("clean_text", "handle_chinese_chars", "lowercase"), some.booleans())
    strip = some.sampled_from([None, True, False])
    return some.builds(normalizers.BertNormalizer, strip_accents=strip, **flags)


NORMALIZERS = some.one_of(
    some.booleans().map(lambda lowers: normalizers.BertNormalizer(lowercase=lowers)),
    _bert(),
    some.sampled_from(
        [
            None,
            normalizers.NFKC(),
            normalizers.Lowercase(),
            normalizers.Replace("e", "E"),
            normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
        ]
    ),
)
SPLITS = some.sampled_from(
    [
        pre_tokenizers.BertPreTokenizer(),
        pre_tokenizers.BertPreTokenizer(),
        pre_tokenizers.Whitespace(),
        pre_tokenizers.WhitespaceSplit(),
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(True)]),
    ]
)


@some.composite
def tokenizers(draw) -> Tokenizer:
    """A tokenizer of word pieces, of pairs of bytes or of Unigram, with added tokens."""
    kind = draw(some.sampled_from(["WordPiece", "WordPiece", "BPE", "Unigram"]))
    spaces = draw(some.sampled_from(["always", "first", "never"]))
    if kind == "WordPiece":
        letters = draw(some.lists(some.sampled_from(CHARACTERS), max_size=20))
        pieces = [f"{mark}{c}" for c in letters if not c.isspace() for mark in ("", "##")]
        tokens = dict.fromkeys([*SPECIAL_TOKENS, *WORDS, *pieces])
        longest = draw(some.sampled_from([1, 3, 100, 200, 2000]))
        ids = {token: number for number, token in enumerate(tokens)}
        made = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=longest))
        made.normalizer, made.pre_tokenizer = draw(NORMALIZERS), draw(SPLITS)
    elif kind == "BPE":
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaces == "always")
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        special = [*SPECIAL_TOKENS]
        trainer = trainers.BpeTrainer(
            vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        )
        made.train_from_iterator(["the then thé THE", "the end of the thé"], trainer)
    else:
        pieces = [*SPECIAL_TOKENS, *(f"▁{word}" for word in WORDS), "▁", *"theTHé.,1"]
        scores = [(piece, -float(number)) for number, piece in enumerate(pieces)]
        made = Tokenizer(models.Unigram(scores, unk_id=1))
        made.normalizer = draw(some.sampled_from([None, normalizers.NFKC()]))
        made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=spaces)
    made.add_special_tokens([*SPECIAL_TOKENS])
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"))
    for marker in draw(some.lists(some.sampled_from(MARKERS), unique=True, max_size=2)):
        drawn = {name: draw(some.booleans()) for name in flags}
        made.add_tokens([AddedToken(marker, **drawn)])
    return made


TEXTS = some.lists(
    some.lists(
        some.one_of(
            some.text(CHARACTERS, max_size=6), some.sampled_from([*MARKERS, *WORDS, " ", "h" * 150])
        ),
        max_size=6,
    ).map("".join),
    min_size=1,
    max_size=4,
)


def ids_of(tokenizer, texts) -> list[list[int]]:
    ids, lengths = tokenizer.tokenize_batch(texts)
    return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(tokenizers(), TEXTS)
def test_ids_are_those_of_the_library(made, texts):
    """As a folder and as a file, in the folder of a model, in embeddings and after an export."""
    data = made.to_str()
    expected = [made.encode(text, add_special_tokens=False).ids for text in texts]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "tokenizer.json").write_text(data)
        (folder / "tokenizer_config.json").write_text(json.dumps(CONFIG))
        vocabulary, do_lower_case = read_folder(name, "--init")
        assert ids_of(make_tokenizer(vocabulary, do_lower_case), texts) == expected
        of_file = read_given(None, f"{name}/tokenizer.json", None)
        assert of_file[0].files() == vocabulary.files() and of_file[1] == do_lower_case
        special = [f"{text}[SEP]{text} [MASK]" for text in texts]
        theirs = [made.encode(text, add_special_tokens=False).ids for text in special]
        assert ids_of(transformers_tokenizer(vocabulary, do_lower_case), special) == theirs
        (folder / "own").mkdir()
        for file, content in vocabulary.files().items():
            (folder / "own" / file).write_bytes(content)
        own = read_beside(f"{name}/own", "")
        assert ids_of(make_tokenizer(own, do_lower_case), texts) == expected
        training = {"kind": PRETRAINING, "trained_positions": 24, "do_lower_case": do_lower_case}
        config = BertConfig(vocab_size=len(vocabulary))
        files = exported_files(ModelFolder("model", config, vocabulary, training))
        exported = Tokenizer.from_str(files["tokenizer.json"].decode())
        found = vocabulary.special
        framed = [[found.classify, *ids, found.separate] for ids in expected]
        assert [exported.encode(text).ids for text in texts] == framed


UNREAD = {
    "architectures": ["X"],
    "directionality": "bidi",
    "torch_dtype": "float16",
    "classifier_dropout": 0.1,
    "chunk_size_feed_forward": 0,
    "use_cache": True,
    "transformers_version": "4.57.3",
    "id2label": {"0": "a"},
}
LEGAL = {
    "num_hidden_layers": some.integers(1, 6),
    "intermediate_size": some.integers(1, 99),
    "hidden_act": some.sampled_from(["gelu", "gelu_new", "relu", "tanh"]),
    "hidden_dropout_prob": some.floats(0, 0.9),
    "attention_probs_dropout_prob": some.floats(0, 0.9),
    "max_position_embeddings": some.integers(8, 600),
    "initializer_range": some.floats(1e-5, 1),
    "layer_norm_eps": some.sampled_from([1e-12, 1e-7, 1e-5]),
    "pad_token_id": some.integers(0, 5),
    "type_vocab_size": some.integers(1, 3),
}


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=8)
@given(data=some.data())
def test_a_configuration_is_read_with_its_meaning(family, data):
    """Each field by the family's name for it, whatever other keys there are."""
    kind = FAMILIES[family].config
    legal = {name: values for name, values in LEGAL.items() if name in kind.__dataclass_fields__}
    config = kind(vocab_size=99, **data.draw(some.fixed_dictionaries({}, optional=legal)))
    unread = data.draw(some.lists(some.sampled_from(sorted(UNREAD))))
    values = config.to_values() | {key: UNREAD[key] for key in unread} | {"model_type": family}
    assert read_config(json.dumps(values)) == config
    assert read_config(config.to_json()) == config
    other = {"tie_word_embeddings": False, "model_type": "gpt2"}
    for key, value in (*other.items(), *((k, "other") for k in kind.fixed)):
        with pytest.raises(ValueError, match=key):
            read_config(json.dumps(values | {key: value}))
