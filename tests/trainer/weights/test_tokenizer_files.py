"""Vocabularies beside others' weights: whether text is lower-cased, and what is refused."""

import json
import random

import numpy as np
import pytest
from support.nasty_text import NASTY
from support.tokenizer_kinds import MODERNBERT, XLMR, train
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from beambert.errors import InputError
from beambert.model.config import BertConfig
from beambert.model.families.table import FAMILIES
from beambert.model_files import PRETRAINING
from beambert.pipelines.tasks.task import RERANK
from beambert.pipelines.tokenizers.encoding import make_tokenizer
from beambert.pipelines.tokenizers.folders import read_beside, read_folder, word_piece_file
from beambert.pipelines.tokenizers.vocabulary import (
    SPECIAL_TOKENS,
    TokenizerVocabulary,
    Vocabulary,
)
from beambert.trainer.model_folders import ModelFolder
from beambert.trainer.weights.initial import open_initial
from beambert.trainer.weights.tokenizer_files import (
    exported_files,
    transformers_tokenizer,
)

WORDS = ("the", "##s", "Paris")
# Of training.json.
LENGTHS = {"max_seq_length": 24, "trained_positions": 64}
BERTS_TOKENS = dict(
    zip(
        ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"),
        SPECIAL_TOKENS,
        strict=True,
    )
)


@pytest.fixture
def write(tmp_path):
    """Changes the tokenizer.json of word pieces, and writes a configuration; returns the folder."""

    def write_(normalizer=None, config=None, added=(), vocab_txt=False, **model) -> str:
        tokens = (*SPECIAL_TOKENS, *WORDS)
        content = json.loads(word_piece_file(tokens, True))
        content["normalizer"] = (content["normalizer"] | normalizer) if normalizer else None
        content["model"] |= model
        content["added_tokens"] += added
        if vocab_txt:
            (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
        else:
            (tmp_path / "tokenizer.json").write_text(json.dumps(content))
        if config is not None:
            (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        return str(tmp_path)

    return write_


@pytest.mark.parametrize(
    ("normalizer", "config", "expected"),
    [
        ({"lowercase": True}, None, True),
        ({"lowercase": False, "strip_accents": False}, None, False),
        # BertTokenizer alone reads the settings of the configuration.
        ({"lowercase": True}, {"do_lower_case": None, "strip_accents": None}, True),
        *(
            ({"lowercase": True}, {"do_lower_case": False, "tokenizer_class": name}, True)
            for name in ("PreTrainedTokenizerFast", "TokenizersBackend", None)
        ),
    ],
)
def test_whether_text_is_lower_cased(write, normalizer, config, expected):
    vocabulary, do_lower_case = read_folder(write(normalizer, config), "--init")
    assert type(vocabulary) is Vocabulary and do_lower_case is expected
    assert vocabulary.tokens == (*SPECIAL_TOKENS, *WORDS)


@pytest.mark.parametrize("config", [None, {"do_lower_case": False, "strip_accents": False}])
def test_a_vocab_txt_alone(write, config):
    """A vocabulary with capitals is one of text with capitals, where nothing says."""
    vocabulary, do_lower_case = read_folder(write(config=config, vocab_txt=True), "--init")
    assert vocabulary.tokens == (*SPECIAL_TOKENS, *WORDS) and not do_lower_case


STRIP = {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}]}
NEW_TOKEN = {"id": 8, "content": "covid", "special": False, "single_word": False} | dict.fromkeys(
    ("lstrip", "rstrip", "normalized"), False
)


@pytest.mark.parametrize(
    ("changes", "text", "tokens"),
    [
        # dbmdz/bert-base-german-uncased keeps its umlauts.
        ({"normalizer": {"strip_accents": False}}, "Thé", ["[UNK]"]),
        ({"normalizer": STRIP}, "thé Paris", ["the", "Paris"]),
        ({"normalizer": {"handle_chinese_chars": False}}, "the北", ["[UNK]"]),
        ({"normalizer": {"lowercase": True}, "added": [NEW_TOKEN]}, "the covid", ["the", "covid"]),
    ],
)
def test_rules_that_bert_has_not_are_those_of_the_file(write, changes, text, tokens):
    vocabulary, do_lower_case = read_folder(write(**changes), "--init")
    assert type(vocabulary) is TokenizerVocabulary
    ids, _ = make_tokenizer(vocabulary, do_lower_case).tokenize_batch([text])
    assert [vocabulary.tokens[number] for number in ids] == tokens


LOWER = {"lowercase": True}
JAPANESE, MPNET = "BertJapaneseTokenizer", {"tokenizer_class": "MPNetTokenizer"}
NORMALIZED = {"content": "[MASK]", "normalized": True}
DECODER = {"4": {"content": "[MASK]"}, "8": {"content": "covid"}}
TWICE = {token: i for i, token in enumerate((*SPECIAL_TOKENS, *WORDS))} | {"cat": 5}


@pytest.mark.parametrize(
    ("normalizer", "config", "message"),
    [
        (None, {"do_lower_case": True, "tokenizer_class": JAPANESE}, "BertJapanese"),
        (None, {"do_lower_case": 1}, "do_lower_case '1'"),
        (None, {"do_lower_case": True, "split_special_tokens": True}, "split_special_tokens"),
        (None, {"do_lower_case": True, "sep_token": "the"}, "sep_token 'the'"),
        (None, {"do_lower_case": True, "mask_token": None}, "mask_token None"),
        (None, {"do_lower_case": True, "tokenizer_class": "XLNetTokenizer"}, "'XLNetTokenizer'"),
        # transformers lower-cases, and the vocabulary has capitals.
        (None, {"tokenizer_class": "BertTokenizer"}, "do_lower_case"),
        # It adds the tokens of these classes, and those that tokenizer.json lacks, at the end.
        (LOWER, MPNET, "'<mask>' was added"),
        (LOWER, MPNET | BERTS_TOKENS, "has lstrip False"),
        (LOWER, MPNET | BERTS_TOKENS | {"mask_token": {"content": "[MASK]"}}, "'<s>' was added"),
        (LOWER, {"additional_special_tokens": ["covid"]}, "'covid' was added"),
        (None, {"do_lower_case": True, "mask_token": NORMALIZED}, "has normalized False"),
        (LOWER, {"mask_token": NORMALIZED}, "has normalized False"),
        (LOWER, {"do_lower_case": False, "tokenizer_class": "BertTokenizer"}, "lowercase is False"),
        (LOWER, {"tokenizer_class": "RobertaTokenizer"}, "its tokenizer_class 'RobertaTokenizer'"),
        (LOWER, {"tokenizer_class": "LlamaTokenizerFast"}, "its tokenizer_class 'LlamaTokenizer'"),
        (LOWER, {"added_tokens_decoder": DECODER}, "'covid' was added"),
        (LOWER, {"additional_special_tokens": True}, "'True', which is no list"),
        # Two tokens have the id 5.
        (STRIP, None, "same id"),
    ],
)
def test_what_cannot_be_read_as_transformers_does_is_refused(write, normalizer, config, message):
    """Settings of a vocab.txt, or of a tokenizer.json with this normalizer."""
    model = {"vocab": TWICE} if normalizer is STRIP else {}
    folder = write(normalizer, config, vocab_txt=normalizer is None, **model)
    with pytest.raises(InputError, match=f"--init=.*{message}"):
        read_folder(folder, "--init")


@pytest.mark.parametrize(
    ("config", "text", "tokens"),
    [
        ({"do_lower_case": False, "strip_accents": True}, "thé", ["the"]),
        ({"do_lower_case": True, "tokenize_chinese_chars": False}, "the 北s", ["the", "[UNK]"]),
        ({"do_lower_case": False, "extra_special_tokens": ["the"]}, "thes", ["the", "[UNK]"]),
    ],
)
def test_a_vocab_txt_has_the_rules_of_its_settings(write, config, text, tokens):
    vocabulary, do_lower_case = read_folder(write(config=config, vocab_txt=True), "--init")
    ids, _ = make_tokenizer(vocabulary, do_lower_case).tokenize_batch([text])
    assert [vocabulary.tokens[number] for number in ids] == tokens


def test_special_tokens_are_those_that_the_settings_name(write):
    """transformers reads a special token in text also if tokenizer.json does not list it."""
    folder = write({"lowercase": True}, {"additional_special_tokens": ["the"]}, added=[])
    vocabulary, _ = read_folder(folder, "--init")
    ids, _ = transformers_tokenizer(vocabulary, True).tokenize_batch(["sthes[MASK]"])
    assert ids.tolist() == [1, 5, 1, 4]
    assert set(np.flatnonzero(vocabulary.is_reserved)) == {*range(6)}


def test_tokens_that_were_added_to_a_vocab_txt_are_not_lost(write, tmp_path):
    folder = write(vocab_txt=True, config={"do_lower_case": False})
    (tmp_path / "added_tokens.json").write_text('{"[MASK]": 4}')
    assert len(read_folder(folder, "--init")[0]) == 8
    (tmp_path / "added_tokens.json").write_text('{"covid": 8}')
    with pytest.raises(InputError, match=r"--init=.*: 'covid' was added .* vocab\.txt lacks it"):
        read_folder(folder, "--init")


@pytest.mark.parametrize(
    ("content", "decoder"),
    [
        ({"[MASK]": 3}, None),
        ({"covid": 9}, None),
        (None, {"9": {"content": "covid"}}),
    ],
)
def test_a_token_with_two_ids_is_refused(write, tmp_path, content, decoder):
    config = {"added_tokens_decoder": decoder} if decoder else {}
    folder = write({"lowercase": True}, config, added=[NEW_TOKEN])
    (tmp_path / "added_tokens.json").write_text(json.dumps(content or {}))
    with pytest.raises(InputError, match=r"--init=.* has id \d in tokenizer\.json"):
        read_folder(folder, "--init")


@pytest.mark.parametrize(("before", "behind"), [("", "mat \n"), ("\ufeff", "")])
def test_spaces_around_tokens_are_refused(write, tmp_path, before, behind):
    """The original's reader removes them, and that of transformers does not."""
    folder = write(vocab_txt=True, config={"do_lower_case": False})
    path = tmp_path / "vocab.txt"
    path.write_text(before + path.read_text() + behind)
    with pytest.raises(InputError, match=r"--init=.*spaces"):
        read_folder(folder, "--init")


SPECIAL = [{"id": i, "content": token, "special": True} for i, token in enumerate(SPECIAL_TOKENS)]
SPECIAL = [
    dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False) | s for s in SPECIAL
]
NOTHING = {"type": "Replace", "pattern": {"Regex": "."}, "content": ""}
OF_TEXT = NEW_TOKEN | {"normalized": True}


@pytest.mark.parametrize(
    ("changes", "config", "family", "message"),
    [
        # transformers finds no text of a token that is only in the vocabulary.
        ({"added_tokens": SPECIAL[1:]}, {}, "", r"'\[PAD\]' is no special token"),
        # The library finds either, by chance.
        (
            {"added_tokens": [*SPECIAL, OF_TEXT, OF_TEXT | {"id": 9, "content": "Covid"}]},
            {},
            "",
            "'covid' and 'Covid' are the same text",
        ),
        ({}, {}, "longformer", "'longformer'"),
        (
            {"model": {"type": "WordLevel", "unk_token": "?", "vocab": {}}, "normalizer": NOTHING},
            {},
            "",
            "unknown words",
        ),
    ],
)
def test_what_the_versions_of_transformers_read_differently_is_refused(
    write, tmp_path, changes, config, family, message
):
    folder = write({"lowercase": True}, config)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family}))
    with pytest.raises(InputError, match=f"--init=.*{message}"):
        read_folder(folder, "--init")


def test_the_mask_of_some_classes_takes_the_space_before_it(tmp_path):
    pieces = ["<pad>", "<unk>", *SPECIAL_TOKENS[2:], "\u2581", "a"]
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0) for piece in pieces], 1, False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    tokenizer.add_special_tokens([*pieces[:4], AddedToken("[MASK]", lstrip=True)])
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_str())
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "AlbertTokenizer"}')
    vocabulary, do_lower_case = read_folder(str(tmp_path), "--init")
    ids, _ = transformers_tokenizer(vocabulary, do_lower_case).tokenize_batch(["a [MASK]"])
    assert ids.tolist() == [5, 6, 4]
    text = tokenizer.to_str().replace('"lstrip":true', '"lstrip":false')
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(InputError, match="has lstrip False"):
        read_folder(str(tmp_path), "--init")


def test_a_tokenizer_that_frames_no_text_frames_none(write, tmp_path):
    folder = write({"lowercase": True})
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"post_processor": None}))
    assert not read_folder(folder, "--init")[0].has_frame


def test_the_padding_of_a_tokenizer_json_names_a_token(write, tmp_path):
    """transformers adds the token that the section names."""
    folder = write({"lowercase": True}, {"tokenizer_class": "PreTrainedTokenizerFast"})
    path = tmp_path / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.enable_padding(pad_token="<pad>")
    tokenizer.save(str(path))
    with pytest.raises(InputError, match="'<pad>' was added"):
        read_folder(folder, "--init")


@pytest.mark.parametrize(
    "model",
    [
        {"type": "BPE"},
        {"vocab": [["a", -1.0]]},
        {"vocab": {"[PAD]": 0, "a": None}},
        {"vocab": dict.fromkeys(SPECIAL_TOKENS, 7)},
    ],
)
def test_damaged_tokenizers_are_refused(write, model):
    refusal = r"tokenizer\.json: (has no WordPiece vocabulary|cannot be read as a tokenizer)"
    with pytest.raises(InputError, match=refusal):
        read_folder(write({"lowercase": True}, **model), "--init")


@pytest.mark.parametrize(("kind", "most"), [(PRETRAINING, 64), (RERANK, 24)])
def test_others_read_as_many_tokens_as_the_model_was_trained_on(vocabulary, kind, most):
    """An encoder was trained on more tokens than its last task has, and has more positions."""
    config = BertConfig(vocab_size=len(vocabulary.tokens), max_position_embeddings=512)
    training = {"kind": kind, "do_lower_case": True, **LENGTHS}
    files = exported_files(ModelFolder("model", config, vocabulary, training))
    assert json.loads(files["tokenizer_config.json"])["model_max_length"] == most


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_without_a_second_segment_is_given_none(vocabulary, family):
    """transformers would look a second one up behind the end of RoBERTa's table."""
    config = FAMILIES[family].config(vocab_size=len(vocabulary.tokens))
    training = {"kind": PRETRAINING, "trained_positions": 24, "do_lower_case": True}
    files = exported_files(ModelFolder("model", config, vocabulary, training))
    names = json.loads(files["tokenizer_config.json"]).get("model_input_names", ["token_type_ids"])
    assert ("token_type_ids" in names) == (family in ("bert", "albert", "electra"))


@pytest.mark.parametrize("pieces", ["word pieces", MODERNBERT, XLMR])
def test_servers_get_no_second_segment_for_a_model_without_one(vocabulary, pieces):
    """text-embeddings-inference takes the segments of a pair from tokenizer.json alone."""
    if pieces == "word pieces":
        data = word_piece_file(vocabulary.tokens, True)
    else:
        data = train(pieces, NASTY.split(), 400).to_str().encode()
        vocabulary = TokenizerVocabulary.read(data, "tokenizer.json")
    expected = Tokenizer.from_str(data.decode()).encode("the river", "the")
    for family, kind in (("roberta", RERANK), ("bert", RERANK), ("roberta", PRETRAINING)):
        config = FAMILIES[family].config(vocab_size=len(vocabulary.tokens))
        training = {"kind": kind, "do_lower_case": True, **LENGTHS}
        files = exported_files(ModelFolder("model", config, vocabulary, training))
        found = Tokenizer.from_str(files["tokenizer.json"].decode()).encode("the river", "the")
        assert found.ids == expected.ids
        if (family, kind) == ("roberta", RERANK):
            assert not any(found.type_ids)
        else:
            assert found.type_ids == expected.type_ids
            assert any(found.type_ids) == (pieces != XLMR)


def export(vocabulary, do_lower_case, folder=None) -> dict[str, bytes]:
    """Returns the exported files of a tokenizer, and writes them."""
    config = BertConfig(vocab_size=len(vocabulary.tokens))
    training = {"kind": PRETRAINING, "trained_positions": 24, "do_lower_case": do_lower_case}
    files = exported_files(ModelFolder("model", config, vocabulary, training))
    for name, data in files.items() if folder else ():
        (folder / name).write_bytes(data)
    return files


def test_word_pieces_have_a_tokenizer_json(vocabulary):
    """AutoTokenizer of transformers 5.23 makes none of a vocab.txt for a ModernBERT."""
    files = export(vocabulary, False)
    assert files["vocab.txt"] == vocabulary.serialize()
    found = Tokenizer.from_str(files["tokenizer.json"].decode())
    assert found.encode("The river").tokens[0] == "[CLS]"
    assert found.get_vocab() == {token: i for i, token in enumerate(vocabulary.tokens)}


@pytest.mark.parametrize(
    ("files", "longest"),
    [
        ({"max_input_chars_per_word": 7}, 7),
        ({"max_input_chars_per_word": 999}, 999),
        # Regular expressions of TensorFlow do not count so far, and the library reads it.
        ({"max_input_chars_per_word": 1500}, 1500),
        # BertTokenizer of transformers has another value than the original's vocab.txt.
        ({"vocab_txt": True, "config": {"do_lower_case": False}}, 100),
        ({"vocab_txt": True}, 200),
    ],
)
def test_the_longest_word_is_that_of_the_files(write, tmp_path, files, longest):
    normalizer = None if "vocab_txt" in files else {"lowercase": False}
    found = read_folder(write(normalizer, **files), "--init")
    texts = ["the" + "s" * (longest - 3), "the" + "s" * (longest - 2)]

    def lengths(vocabulary, do_lower_case) -> list[int]:
        return make_tokenizer(vocabulary, do_lower_case).tokenize_batch(texts)[1].tolist()

    assert lengths(*found) == [longest - 2, 1]
    for name, data in found[0].files().items():
        (tmp_path / "own").mkdir(exist_ok=True)
        (tmp_path / "own" / name).write_bytes(data)
    own = read_beside(str(tmp_path / "own"), "")
    assert lengths(own, found[1]) == [longest - 2, 1]
    (tmp_path / "export").mkdir()
    export(*found, tmp_path / "export")
    assert lengths(*read_folder(str(tmp_path / "export"), "--init")) == [longest - 2, 1]


def test_a_token_that_is_there_twice_has_its_last_id(tmp_path):
    """As in the original; the ids of the other tokens stay."""
    tokens = [*SPECIAL_TOKENS, "the", "a", "the", ""]
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    vocabulary, do_lower_case = read_folder(str(tmp_path), "--init")
    ids, _ = make_tokenizer(vocabulary, do_lower_case).tokenize_batch(["the a the"])
    assert ids.tolist() == [7, 6, 7] and len(vocabulary) == len(tokens)
    # transformers writes a gap in the place of the first.
    content = json.loads(word_piece_file(vocabulary.tokens, True))
    content["model"]["vocab"] = {token: number for number, token in enumerate(tokens)}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    assert read_folder(str(tmp_path), "--init")[0].tokens == vocabulary.tokens


def test_markers_that_were_added_are_read_in_text(write):
    marker = NEW_TOKEN | {"content": "[E1]", "special": True}
    folder = write(normalizer={"lowercase": True}, added=[marker])
    vocabulary, do_lower_case = read_folder(folder, "--init")
    ids, _ = make_tokenizer(vocabulary, do_lower_case).tokenize_batch(["the [E1] the [SEP]"])
    assert ids.tolist() == [5, 8, 5, *[vocabulary.special.unknown] * 3]


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


def test_fewer_tokens_than_rows_are_reported(golden):
    """A line of vocab.txt that is missing shifts all later ids."""
    assert open_initial(str(golden), "--init").notes == ()
    lines = (golden / "vocab.txt").read_text("utf-8").splitlines()
    (golden / "vocab.txt").write_text("".join(f"{line}\n" for line in lines[:-1]), "utf-8")
    (note,) = open_initial(str(golden), "--init").notes
    assert f"has {len(lines) - 1} tokens for {len(lines)} rows" in note
