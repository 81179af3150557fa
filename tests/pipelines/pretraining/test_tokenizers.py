"""Records of other tokenizers, and the tokens of documents."""

import json
import random
import shutil
from collections import Counter

import numpy as np
import pytest
from support import data_command
from support.data_command import body, info, read_records, restored
from support.languages import ARTICLE_1
from support.tokenizer_kinds import ALBERT, ROBERTA, train
from tokenizers import Tokenizer

from beambert.cli import run_main
from beambert.pipelines.pretraining.tokenizing import DocumentTokenizer
from beambert.pipelines.text.preparation import TextOptions
from beambert.pipelines.text.sentences import SplitText
from beambert.pipelines.tokenizers.encoding import make_tokenizer
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary
from beambert.pipelines.vocabulary_learning.learning import (
    CorpusWords,
    learn_tokenizer,
    splitter_of,
)

# A tokenizer -> another one.
MISTAKEN = {ROBERTA: ALBERT, ALBERT: ROBERTA}
SMALL = ["--max_seq_length=32", "--max_predictions_per_seq=5", "--dupe_factor=2", "--num_shards=2"]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory, corpus):
    """kind -> folder with its tokenizer.json."""
    root = tmp_path_factory.mktemp("tokenizers")
    for kind in (ROBERTA, ALBERT):
        (root / kind).mkdir()
        size = 90 if kind == ALBERT else 320  # too few for whole words
        train(kind, map(body, corpus), size).save(str(root / kind / "tokenizer.json"))
    return {kind: root / kind for kind in (ROBERTA, ALBERT)}


def data(capsys, corpus_file, output, *flags):
    flags = [f"--input={corpus_file}", f"--output={output}", *SMALL, *map(str, flags)]
    status = run_main("data", data_command.main, flags)
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def check_segments(rows, texts, reference):
    """Each segment of the records is a part of a text as the library itself spells it."""

    def spelled(ids):
        return "," + ",".join(map(str, ids)) + ","

    whole = [spelled(reference.encode(text, add_special_tokens=False).ids) for text in texts]
    for row, mask, segments in zip(
        restored(rows), rows["input_mask"], rows["segment_ids"], strict=True
    ):
        used, is_b = row[mask > 0], segments[mask > 0] > 0
        for segment in (used[~is_b][1:-1], used[is_b][:-1]):
            assert any(spelled(segment) in each for each in whole)


def verified_folders(capsys, tmp_path, *arguments):
    """Verifies folders in one run; returns path -> findings."""
    _, _, error = data_command.verify(capsys, *arguments, f"--output={tmp_path}/verified")
    assert error == ""
    result = json.loads((tmp_path / "verified" / "verification.json").read_text())
    return {folder["path"]: folder for folder in result["folders"]}


@pytest.mark.parametrize("kind", [ROBERTA, ALBERT])
@pytest.mark.slow
def test_records_are_the_text_of_the_corpus(
    capsys, tmp_path, corpus, corpus_file, tokenizers, kind
):
    output = tmp_path / "records"
    folder = tokenizers[kind]
    assert data(capsys, corpus_file, output, f"--tokenizer={folder}")[0] == 0
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    special = info(output)["vocabulary"]["special_tokens"]
    ids = {role: reference.token_to_id(token) for role, token in special.items()}
    assert (output / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()
    assert not (output / "vocab.txt").exists()
    rows = read_records(output)
    used = rows["input_mask"] > 0
    assert len(used) > 100 and set(rows["input_ids"][~used]) <= {ids["padding"]}
    for row, mask in zip(restored(rows), used, strict=True):
        assert (row[mask][0], row[mask][-1]) == (ids["classify"], ids["separate"])
    check_segments(rows, [" ".join(each) for each in corpus if each], reference)
    other = tmp_path / "other"
    shutil.copytree(output, other)
    config = json.loads((other / "tokenizer_config.json").read_text())
    config["mask_token"] = special["unknown"]
    (other / "tokenizer_config.json").write_text(json.dumps(config))
    found = verified_folders(capsys, tmp_path, output, other)
    assert found[str(output)]["faults"] == []
    assert any("has other special tokens than" in fault for fault in found[str(other)]["faults"])
    found = verified_folders(capsys, tmp_path, output, f"--tokenizer={tokenizers[MISTAKEN[kind]]}")
    assert any("is not the tokenizer that" in fault for fault in found[str(output)]["faults"])


@pytest.mark.parametrize("kind", [ROBERTA, ALBERT])
def test_text_without_spaces(capsys, tmp_path, kind):
    """Near duplicates are found, too."""
    generator = random.Random(7)
    sentences = [f"{word}{end}" for word in ARTICLE_1["zh"].split("，") for end in "。！？"]
    sentences += ["家\u200d人。", "👩\u200d👧！"]  # The joiners are tokens of the library, too.
    texts = ["".join(generator.choices(sentences, k=12)) for _ in range(40)]
    reference = train(kind, texts, 300)
    reference.save(str(tmp_path / "tokenizer.json"))
    path = tmp_path / "texts.jsonl"
    near = texts[0][:-1] + "…。"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in [*texts, near]))
    flags = [f"--tokenizer={tmp_path}/tokenizer.json", "--language=zh", "--duplicates=near"]
    assert data(capsys, path, tmp_path / "whole", *flags)[0] == 0
    assert info(tmp_path / "whole")["counts"]["documents"]["dropped"]["near_duplicates"] >= 1
    rows = read_records(tmp_path / "whole")
    assert len(rows["input_ids"]) > 20
    check_segments(rows, [*texts, near], reference)


def shown(documents, vocabulary) -> str:
    """The tokens of documents, with a bar before each that begins a word."""
    pairs = zip(documents.tokens, documents.begins_word, strict=True)
    return "".join("|" * bool(first) + vocabulary.tokens[number] for number, first in pairs)


def word_pieces(*pieces: str) -> Vocabulary:
    return Vocabulary((*SPECIAL_TOKENS, *pieces))


def test_word_pieces_of_chinese():
    """BERT makes a token of each character; Latin words keep their pieces."""
    vocabulary = word_pieces(*"我们在北京学习。", "be", "##rt", "##2", "0")
    options = TextOptions(do_lower_case=True, segmenter="icu")
    found = DocumentTokenizer(vocabulary, options).tokenize(
        [SplitText(["我们在北京学习BERT2。", "0"])]
    )
    assert shown(found, vocabulary) == "|我们|在|北京|学习|be##rt##2|。|0"


@pytest.mark.slow
def test_a_piece_that_crosses_words_joins_them():
    """WordPiece knows no words in kana: しました is one piece of 食べ|まし|た's kana."""
    vocabulary = word_pieces("リンゴ", "を", "食", "べ", "##まし", "##た", "リ", "##ンゴを")
    options = TextOptions(do_lower_case=False, segmenter="sudachi")
    tokenizer = DocumentTokenizer(vocabulary, options)
    assert (
        shown(tokenizer.tokenize([SplitText(["リンゴ を食べました"])]), vocabulary)
        == "|リンゴ|を|食べ|##まし|##た"
    )
    # Without the space the longest match is リンゴ, and "##を" is missing: a word that is unknown.
    assert shown(tokenizer.tokenize([SplitText(["リンゴを食べました"])]), vocabulary).startswith(
        "|[UNK]|食べ"
    )
    crossing = word_pieces("食", "べ", "##ました")
    tokenizer = DocumentTokenizer(crossing, options)
    assert shown(tokenizer.tokenize([SplitText(["食べました"])]), crossing) == "|食べ|##ました"
    crossing = word_pieces("食", "べまし", "##た")
    tokenizer = DocumentTokenizer(crossing, options)
    assert shown(tokenizer.tokenize([SplitText(["食べました"])]), crossing) == "|食べまし|##た"


def learned(kind: str):
    parts = " ".join([*ARTICLE_1.values()] * 3).split()
    counts = Counter(splitter_of(kind, False)(parts))
    return learn_tokenizer(CorpusWords.of(counts, 10_000), kind, 400, False)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_other_tokenizers(kind):
    """Tokens of bytes and of segments: words begin where the segmenter has them."""
    vocabulary = learned(kind)
    options = TextOptions(do_lower_case=False, segmenter="icu")
    sentences = [["我们在北京学习。", "مرحبا"], ["ฉันไปตลาด ok"]]
    found = DocumentTokenizer(vocabulary, options).tokenize(
        [SplitText(sentence) for sentence in sentences]
    )
    texts = ["我们在北京学习。", " مرحبا", "ฉันไปตลาด ok"]
    plain = make_tokenizer(vocabulary, False).tokenize_batch(
        [text if kind == "bpe" else text.strip() for text in texts]
    )
    assert np.array_equal(found.tokens, plain[0])
    cut, place = [], 0
    for length in found.sentence_lengths:
        cut.append(int(found.begins_word[place : place + length].sum()))
        place += length
    # 我们 在 北京 学习 and the full stop; one word of Arabic; ฉัน ไป ตลาด ok.
    assert cut[0] in (4, 5) and cut[1] == 1 and 3 <= cut[2] <= 5


def test_without_a_segmenter_nothing_is_marked():
    vocabulary = word_pieces(*"我们在")
    found = DocumentTokenizer(vocabulary, TextOptions()).tokenize([SplitText(["我们在"])])
    assert len(found.begins_word) == 0 and len(found.tokens) == 3
