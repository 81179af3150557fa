"""Tokenizers as vocabularies, and ids, offsets and framed inputs beside the library's own."""

import contextlib
import gzip
import json
import pathlib

import numpy as np
import pytest
from support.tokenizer_kinds import ALBERT, BERT, KINDS, MODERNBERT, ROBERTA, XLMR
from tokenizers import Tokenizer

from beambert.errors import InputError
from beambert.pipelines.tasks.squad import Answer, Question
from beambert.pipelines.tasks.texts import TextFeatures
from beambert.pipelines.tasks.windows import make_windows
from beambert.pipelines.text.filters import read_blocklist
from beambert.pipelines.tokenizers.encoding import (
    make_offset_tokenizer,
    make_tokenizer,
)
from beambert.pipelines.tokenizers.folders import read_given
from beambert.pipelines.tokenizers.pieces import BYTES, METASPACE, as_piece, join_pieces
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, TokenizerVocabulary, Vocabulary


def given(tokenizer, vocab_file=None, do_lower_case=None):
    return read_given(vocab_file, str(tokenizer), do_lower_case)


def test_special_tokens_of_each_kind(folders):
    """As the models are published: RoBERTa and XLM-R have two separators and one segment."""
    for kind in KINDS:
        vocabulary, do_lower_case = given(folders[kind])
        tokens = [
            vocabulary.tokens[getattr(vocabulary.special, role)]
            for role in ("padding", "unknown", "classify", "separate", "mask")
        ]
        is_fairseq = kind in (ROBERTA, XLMR)
        if is_fairseq:
            assert tokens == ["<pad>", "<unk>", "<s>", "</s>", "<mask>"], kind
        else:
            assert tokens == list(SPECIAL_TOKENS), kind
        assert vocabulary.separators == (2 if is_fairseq else 1), kind
        assert vocabulary.second_segment == (0 if is_fairseq else 1), kind
        assert do_lower_case == (kind in (ALBERT, BERT)), kind
        assert vocabulary.space_before == (" " if kind in (ROBERTA, MODERNBERT) else ""), kind


def test_word_pieces_of_bert_keep_their_exact_tokenizer(folders):
    assert type(given(folders[BERT])[0]) is Vocabulary
    assert type(given(folders[BERT] / "tokenizer.json")[0]) is Vocabulary
    assert type(given(folders[ALBERT])[0]) is TokenizerVocabulary


@pytest.mark.parametrize("kind", [ROBERTA, MODERNBERT, ALBERT, XLMR])
def test_words_begin_where_the_library_cut_them(folders, kind):
    """The library's own cuts at white space and punctuation tell where words begin."""
    vocabulary, _ = given(folders[kind])
    reference = Tokenizer.from_file(str(folders[kind] / "tokenizer.json"))
    text = "the river ended in another village, wonderfully made"
    found = reference.encode(text, add_special_tokens=False)
    words = [None, *found.word_ids]
    begins = [
        words[place] != words[place + 1] or text[start:end] == ","
        for place, (start, end) in enumerate(found.offsets)
    ]
    continues = vocabulary.is_continuation[found.ids]
    # The first word of a text has no space before it in a byte-level BPE.
    skipped = 1 if vocabulary.space_before else 0
    assert continues[skipped:].tolist() == [not begin for begin in begins[skipped:]]
    assert continues.any()


@pytest.mark.parametrize("kind", KINDS)
def test_the_tokens_of_a_text_have_its_characters(folders, texts, kind):
    """Whatever the kind: those of the text as the tokenizer changes it, without white space."""
    vocabulary, _ = given(folders[kind])
    reference = Tokenizer.from_file(str(folders[kind] / "tokenizer.json"))
    for text in texts[:20]:
        ids = reference.encode(text, add_special_tokens=False).ids
        assert vocabulary.special.unknown not in ids
        assert vocabulary.characters[ids].sum() == len("".join(text.split())), text
    assert not vocabulary.characters[vocabulary.is_reserved].any()


@pytest.mark.parametrize("kind", [ROBERTA, MODERNBERT, ALBERT, XLMR])
def test_tokens_that_stand_for_no_text(folders, kind):
    vocabulary, _ = given(folders[kind])
    reserved = {vocabulary.tokens[number] for number in np.flatnonzero(vocabulary.is_reserved)}
    reference = Tokenizer.from_file(str(folders[kind] / "tokenizer.json"))
    added = reference.get_added_tokens_decoder().values()
    assert reserved == {token.content for token in added}
    assert not vocabulary.is_continuation[vocabulary.is_reserved].any()


def test_ids_beyond_16_bits(folders):
    vocabulary, _ = given(folders[ROBERTA])
    content = json.loads(vocabulary.data)
    content["added_tokens"].append(
        content["added_tokens"][0] | {"id": 70_000, "content": "<far>", "special": True}
    )
    content["model"]["vocab"]["<far>"] = 70_000
    far = TokenizerVocabulary.read(json.dumps(content).encode(), "far")
    assert len(far) == 70_001
    assert far.is_reserved[60_000]


@pytest.fixture
def changed(folders, tmp_path):
    """Writes RoBERTa's tokenizer.json with changes, and a config; returns its folder."""

    def write(change=None, config=None, kind=ROBERTA):
        content = json.loads((folders[kind] / "tokenizer.json").read_text())
        if change:
            change(content)
        (tmp_path / "tokenizer.json").write_text(json.dumps(content))
        if config is not None:
            (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        return tmp_path

    return write


def without_mask(content):
    content["added_tokens"] = [t for t in content["added_tokens"] if t["content"] != "<mask>"]
    del content["model"]["vocab"]["<mask>"]


def without_unknown(content):
    tokens = [[token, -1.0] for token in (*content["model"]["vocab"], "▁a")]
    content["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}
    content["model"] = {"type": "Unigram", "vocab": tokens, "unk_id": None}


def with_absent_frame(content):
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<absent>", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {},
    }


def test_two_ids_of_unknown_words_are_refused(changed):
    """The class in transformers 5 takes unk_token for them, and version 4 the file's unk_id."""

    def change(content):
        content["model"]["unk_id"] += 1

    with pytest.raises(InputError, match="name the token of 4 as unk_token"):
        given(changed(change, {"tokenizer_class": "XLMRobertaTokenizer"}, XLMR))


def test_roles_are_named_in_the_config(changed):
    def rename(content):
        text = json.dumps(content).replace("<mask>", "<gap>").replace("<pad>", "<fill>")
        content.clear()
        content.update(json.loads(text))

    config = {"mask_token": {"content": "<gap>", "lstrip": True}, "pad_token": "<fill>"}
    vocabulary, _ = given(changed(rename, config))
    assert vocabulary.tokens[vocabulary.special.mask] == "<gap>"
    assert vocabulary.tokens[vocabulary.special.padding] == "<fill>"
    assert vocabulary.pieces[vocabulary.special.mask] == "[MASK]"


def test_without_a_frame_the_names_give_the_roles(changed):
    vocabulary, _ = given(changed(lambda content: content.update(post_processor=None)))
    assert (vocabulary.separators, vocabulary.second_segment) == (1, 1)
    assert vocabulary.tokens[vocabulary.special.classify] == "<s>"
    assert not vocabulary.has_frame


@pytest.mark.parametrize(
    ("change", "config", "message"),
    [
        (without_mask, None, r"has no token for the role mask; add one such as \[MASK\]"),
        (None, {"mask_token": "<absent>"}, "'<absent>' was added"),
        (None, {"auto_map": {"AutoTokenizer": ["t.Mine", None]}}, "is a program .* never run"),
        # The library's own errors: an unknown word without a token for it, and a panic.
        (without_unknown, None, r"cannot be read as a tokenizer \(.*unk"),
        (with_absent_frame, None, "cannot be read as a tokenizer"),
    ],
)
def test_tokenizers_that_cannot_be_used(changed, change, config, message):
    folder = changed(change, config)
    with pytest.raises(InputError, match=f"^--tokenizer=.*: (its tokenizer )?{message}"):
        given(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"{}"])
def test_files_that_are_no_tokenizer(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(InputError, match=r"tokenizer\.json: .*; copy it again"):
        given(tmp_path / "tokenizer.json")


def test_flags_that_do_not_go_together(folders, tmp_path):
    folder = folders[ROBERTA]
    with pytest.raises(InputError, match="--tokenizer=.*: cannot be given with --vocab_file"):
        given(folder, vocab_file="vocab.txt")
    with pytest.raises(InputError, match="--do_lower_case=True: cannot be given with --tokeni"):
        given(folder, do_lower_case=True)
    with pytest.raises(InputError, match="--vocab_file: missing"):
        read_given(None, None, None)
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(InputError, match=r"--tokenizer=.*: has no tokenizer\.json; name that"):
            given(path)


@pytest.mark.parametrize(
    ("token", "mark", "piece"),
    [
        ("Ġriver", BYTES, "river"),
        ("bank", BYTES, "##bank"),
        ("ĠÎ", BYTES, "<206>"),  # a space and the first byte of a Greek letter
        ("ĠðŁ", BYTES, "<240><159>"),  # a space and half of an emoji
        ("Î", BYTES, "##<206>"),
        ("Ġ", BYTES, "␣"),
        (",", BYTES, ","),
        ("▁ह", METASPACE, "ह"),
        ("्", METASPACE, "##्"),  # marks that stand alone belong to the letter before
        ("ี", METASPACE, "##ี"),
        ("!", METASPACE, "!"),
    ],
)
def test_where_a_word_begins(token, mark, piece):
    assert as_piece(token, mark) == piece


@pytest.mark.parametrize("kind", [ROBERTA, ALBERT])
def test_a_tokenizer_that_was_saved_again_is_the_same(folders, kind, tmp_path):
    before, _ = given(folders[kind])
    content = json.loads((folders[kind] / "tokenizer.json").read_bytes())
    padding = {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None}
    padding |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    again = tmp_path / "tokenizer.json"
    again.write_text(json.dumps(content | {"padding": padding}, indent=3, ensure_ascii=True))
    assert given(again)[0].sha256 == before.sha256
    content["added_tokens"] = content["added_tokens"][:-1]
    again.write_text(json.dumps(content))
    with contextlib.suppress(InputError):
        assert given(again)[0].sha256 != before.sha256


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ("un ##want ##ed , he said .", "unwanted, he said."),
        ("( it isn ' t theirs )", "(it isn't theirs)"),
        ("the dogs ' house", "the dogs ' house"),
        ("his [MASK→friend] ' s", "his [MASK→friend]'s"),
        ("tom & amp ; jerry", "tom & amp; jerry"),
        ("##ing at the start", "ing at the start"),
        ("a ## b", "a ## b"),
        ("we ’ ll see : 5 % !", "we’ll see: 5%!"),
        ("", ""),
    ],
)
def test_join(pieces, text):
    assert join_pieces(pieces.split()) == text


def test_a_compressed_vocabulary_and_blocklist():
    plain = Vocabulary(SPECIAL_TOKENS).serialize()
    packed = gzip.compress(plain)
    assert Vocabulary.parse(packed, "v.txt.gz").tokens == SPECIAL_TOKENS
    with pytest.raises(InputError, match=r"v\.txt\.gz: .*cut off"):
        Vocabulary.parse(packed[:-9], "v.txt.gz")
    assert read_blocklist(gzip.compress(b"a word\n"), "b.gz") == ("a word",)


OTHERS = [kind for kind in KINDS if kind != BERT]


def reference_of(folder: pathlib.Path, of_special: bool = True) -> Tokenizer:
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    reference.encode_special_tokens = of_special
    return reference


def in_turn(ids: np.ndarray, lengths: np.ndarray) -> list[list[int]]:
    return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]


@pytest.mark.parametrize("kind", OTHERS)
def test_ids_are_those_of_the_library(folders, golden_texts, kind):
    vocabulary, lower = given(folders[kind])
    tokenizer, reference = make_tokenizer(vocabulary, lower), reference_of(folders[kind])
    found = in_turn(*tokenizer.tokenize_batch(golden_texts))
    special = vocabulary.special
    roles = {special.padding, special.classify, special.separate, special.mask}
    for text, ids in zip(golden_texts, found, strict=True):
        expected = reference.encode(text, add_special_tokens=False).ids
        # What Unigram takes for a special token in a text is unknown to us.
        assert ids == [special.unknown if one in roles else one for one in expected], text
        assert not roles.intersection(ids)


def test_half_a_character_is_a_question_mark(folders):
    tokenizer = make_tokenizer(*given(folders[ROBERTA]))
    assert (
        in_turn(*tokenizer.tokenize_batch(["a\ud83d b", "a? b"]))
        == [in_turn(*tokenizer.tokenize_batch(["a? b"]))[0]] * 2
    )


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_are_framed_as_the_library_frames_them(folders, texts, kind):
    vocabulary, lower = given(folders[kind])
    features = TextFeatures(vocabulary, lower, 128)
    firsts, seconds = texts[:20], texts[20:40]
    for columns in ((firsts,), (firsts, seconds)):
        found = features(*columns)
        for row, pair in enumerate(zip(*columns, strict=True)):
            expected = reference_of(folders[kind]).encode(*pair)
            length = len(expected.ids)
            assert length < 128
            assert found["input_ids"][row, :length].tolist() == expected.ids
            assert found["segment_ids"][row, :length].tolist() == expected.type_ids
            padding = found["input_ids"][row, length:]
            assert set(padding.tolist()) == {vocabulary.special.padding}
            assert found["input_mask"][row].sum() == length


@pytest.mark.parametrize("kind", [ROBERTA, MODERNBERT])
def test_long_pairs_are_cut_to_fit_with_all_separators(folders, texts, kind):
    vocabulary, lower = given(folders[kind])
    features = TextFeatures(vocabulary, lower, 16)
    found = features([" ".join(texts[:5])], [" ".join(texts[5:9])])
    ids = found["input_ids"][0]
    assert found["input_mask"].sum() == 16
    assert ids[-1] == vocabulary.special.separate
    assert (ids == vocabulary.special.separate).sum() == 1 + vocabulary.separators


@pytest.mark.parametrize("kind", OTHERS)
def test_words_have_the_tokens_that_they_have_in_their_sentence(folders, texts, kind):
    vocabulary, lower = given(folders[kind])
    features, first_pieces = TextFeatures(vocabulary, lower, 128).of_words(texts[:9])
    for row, text in enumerate(texts[:9]):
        expected = reference_of(folders[kind]).encode(text)
        starts = [0, *(place + 1 for place, character in enumerate(text) if character == " ")]
        # The space before a word may be a token of its own, with which the word begins.
        places = [expected.word_ids.index(expected.char_to_word(start)) for start in starts]
        ids = features["input_ids"][row]
        assert ids[: len(expected.ids)].tolist() == expected.ids
        found = first_pieces[row]
        assert found[found >= 0].tolist() == places


@pytest.mark.parametrize("kind", KINDS)
def test_windows_of_questions(folders, kind):
    """A window is the library's pair; the answer's tokens have the answer's characters."""
    vocabulary, lower = given(folders[kind])
    context = "The river began in the north. It ended in the old city, where music was played."
    answer = "the old city"
    asked = Question(
        "1",
        "Where did the river end?",
        context,
        (Answer(answer, context.index(answer)),),
        False,
    )
    tokenizer = make_offset_tokenizer(vocabulary, lower)
    windows = make_windows([asked], tokenizer, 256, 64, 64)
    expected = reference_of(folders[kind]).encode(asked.question, context)
    assert windows.input_ids.tolist() == expected.ids
    assert windows.segment_ids.tolist() == expected.type_ids
    start, end = windows.start_positions, windows.end_positions
    places = windows.characters(np.array([0]), start, end)
    assert context[places[0][0] : places[1][0]] == answer
    assert expected.sequence_ids[windows.context_positions[0]] == 1
    assert expected.sequence_ids[windows.context_positions[0] - 1] is None


@pytest.mark.parametrize("kind", OTHERS)
def test_masks_in_a_text_are_the_library_s(folders, kind):
    vocabulary, lower = given(folders[kind])
    tokenizer = make_tokenizer(vocabulary, lower)
    mask = vocabulary.tokens[vocabulary.special.mask]
    text = f"The river ended in {mask} city{mask}."
    reference = reference_of(folders[kind], of_special=False)
    expected = reference.encode(text, add_special_tokens=False).ids
    found = tokenizer.tokenize_with_masks(text).tolist()
    assert found == expected
    assert found.count(vocabulary.special.mask) == 2
    # Afterwards a mask in a text is text again.
    ids, _ = tokenizer.tokenize_batch([text])
    assert vocabulary.special.mask not in ids
