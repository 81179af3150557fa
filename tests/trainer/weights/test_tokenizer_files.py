"""Vocabularies beside others' weights: whether text is lower-cased, and what is refused."""

import json
import random

import numpy as np
import pytest
from support.nasty_text import NASTY
from tokenizers import Tokenizer

from beambert.errors import InputError
from beambert.model.config import BertConfig
from beambert.model.families.table import FAMILIES
from beambert.model_files import PRETRAINING
from beambert.pipelines.tasks.task import RERANK
from beambert.pipelines.tokenizers.encoding import make_tokenizer
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary
from beambert.trainer.model_folders import ModelFolder
from beambert.trainer.weights.tokenizer_files import (
    exported_files,
    read_vocabulary,
    word_piece_file,
)

WORDS = ("the", "##s", "Paris")


@pytest.fixture
def write(tmp_path):
    """Writes tokenizer.json with a normalizer, and tokenizer_config.json; returns the folder."""

    def write_(normalizer=None, config=None, words=WORDS, **model) -> str:
        vocab = {token: i for i, token in enumerate((*SPECIAL_TOKENS, *words))}
        tokenizer = {
            "normalizer": normalizer,
            "model": {"type": "WordPiece", "vocab": vocab} | model,
        }
        (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
        if config is not None:
            (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        return str(tmp_path)

    return write_


def bert(lowercase, **others):
    return {"type": "BertNormalizer", "lowercase": lowercase} | others


def sequence(*steps):
    return {"type": "Sequence", "normalizers": list(steps)}


# The normalizers of the `tokenizers` library, as its files hold them.
NFD, LOWERCASE, STRIP = ({"type": kind} for kind in ("NFD", "Lowercase", "StripAccents"))


@pytest.mark.parametrize(
    ("normalizer", "config", "expected"),
    [
        (bert(True, strip_accents=None, handle_chinese_chars=True), None, True),
        (bert(False, strip_accents=False), None, False),
        (sequence(NFD, STRIP, sequence(LOWERCASE)), None, True),
        (bert(True), {"do_lower_case": False}, False),
        (bert(True), {"do_lower_case": None, "strip_accents": None}, True),
        # Nothing says: a vocabulary with capitals is one of text with capitals.
        (None, {}, False),
    ],
)
def test_whether_text_is_lower_cased(write, normalizer, config, expected):
    vocabulary, do_lower_case = read_vocabulary(write(normalizer, config), "--init")
    assert do_lower_case is expected
    assert vocabulary.tokens == (*SPECIAL_TOKENS, *WORDS)


@pytest.mark.parametrize(
    ("normalizer", "config", "message"),
    [
        # dbmdz/bert-base-german-uncased keeps its umlauts.
        (None, {"do_lower_case": True, "strip_accents": False}, "strip_accents False"),
        (bert(False, strip_accents=True), None, "strip_accents True"),
        (sequence(NFD, LOWERCASE), None, "strip_accents False"),
        (bert(True, handle_chinese_chars=False), None, "tokenize_chinese_chars False"),
        (None, {"word_tokenizer_type": "mecab"}, "word_tokenizer_type 'mecab'"),
    ],
)
def test_text_that_is_normalized_otherwise_is_refused(write, normalizer, config, message):
    with pytest.raises(InputError, match=f"--init=.*: its tokenizer has {message}, but with"):
        read_vocabulary(write(normalizer, config), "--init")


@pytest.mark.parametrize(
    "model",
    [
        {"type": "BPE"},
        {"vocab": [["a", -1.0]]},
        {"vocab": {"[PAD]": 0, "a": 7}},
        {"vocab": {"[PAD]": 0, "a": None}},
    ],
)
def test_damaged_tokenizers_are_refused(write, model):
    refusal = r"tokenizer\.json: (has no WordPiece vocabulary|cannot be read as a tokenizer)"
    with pytest.raises(InputError, match=refusal):
        read_vocabulary(write(**model), "--init")


@pytest.mark.parametrize(("kind", "most"), [(PRETRAINING, 64), (RERANK, 24)])
def test_others_read_as_many_tokens_as_the_model_was_trained_on(vocabulary, kind, most):
    """A fine-tuned model has more positions than it was fine-tuned on."""
    config = BertConfig(vocab_size=len(vocabulary.tokens), max_position_embeddings=64)
    training = {"kind": kind, "max_seq_length": 24, "do_lower_case": True}
    files = exported_files(ModelFolder("model", config, vocabulary, training))
    assert json.loads(files["tokenizer_config.json"])["model_max_length"] == most


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_without_a_second_segment_is_given_none(vocabulary, family):
    """transformers would look a second one up behind the end of RoBERTa's table."""
    config = FAMILIES[family].config(vocab_size=len(vocabulary.tokens))
    training = {"kind": PRETRAINING, "max_seq_length": 24, "do_lower_case": True}
    files = exported_files(ModelFolder("model", config, vocabulary, training))
    names = json.loads(files["tokenizer_config.json"]).get("model_input_names", ["token_type_ids"])
    assert ("token_type_ids" in names) == (family in ("bert", "albert", "electra"))


@pytest.mark.parametrize("family", FAMILIES)
def test_word_pieces_of_a_modernbert_have_a_tokenizer_json(vocabulary, family):
    """AutoTokenizer of transformers 5.23 makes none of a vocab.txt for this family alone."""
    config = FAMILIES[family].config(vocab_size=len(vocabulary.tokens))
    training = {"kind": PRETRAINING, "max_seq_length": 24, "do_lower_case": False}
    files = exported_files(ModelFolder("model", config, vocabulary, training))
    assert files["vocab.txt"] == vocabulary.serialize()
    assert ("tokenizer.json" in files) == (family == "modernbert")
    if "tokenizer.json" in files:
        found = Tokenizer.from_str(files["tokenizer.json"].decode())
        assert found.encode("The river").tokens[0] == "[CLS]"
        assert found.get_vocab() == {token: i for i, token in enumerate(vocabulary.tokens)}


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_word_pieces_in_tokenizer_json_cut_text_as_the_training_did(do_lower_case):
    """Also words of more than the 100 characters at which transformers gives up."""

    # Rust lower-cases character by character: a Σ at the end of a word is no ς to it.
    characters = NASTY.replace("Σ", "")
    letters = [character for character in characters if character.isalnum() or character in ".,'$«"]
    pieces = (*SPECIAL_TOKENS, *dict.fromkeys(f"{mark}{c}" for c in letters for mark in ("", "##")))
    vocabulary = Vocabulary(pieces, "vocab.txt")
    generator = random.Random(0)
    texts = [
        "".join(generator.choices(characters, k=generator.randint(1, 40))) for _ in range(2000)
    ]
    texts += ["a" * 150, "a" * 200, "a" * 201, "a.b" * 90]
    ids, lengths = make_tokenizer(vocabulary, do_lower_case).tokenize_batch(texts)
    ours = np.split(ids, np.cumsum(lengths)[:-1])
    theirs = Tokenizer.from_str(word_piece_file(pieces, do_lower_case).decode())
    found = theirs.encode_batch(texts, add_special_tokens=False)
    differing = [text for text, a, b in zip(texts, ours, found, strict=True) if a.tolist() != b.ids]
    assert differing == []
