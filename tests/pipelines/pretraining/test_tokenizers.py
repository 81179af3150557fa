"""`data --tokenizer`: records whose ids, masks and words are those of another tokenizer."""

import json
import random
import shutil

import pytest
from support import data_command
from support.data_command import body, info, read_records, restored
from support.languages import ARTICLE_1
from support.tokenizer_kinds import ALBERT, MODERNBERT, ROBERTA, train
from tokenizers import Tokenizer

from beambert import (
    storage,
)
from beambert.cli import run_main

corpus, corpus_file = data_command.corpus, data_command.corpus_file
SMALL = ["--max_seq_length=32", "--max_predictions_per_seq=5", "--dupe_factor=2", "--num_shards=2"]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory, corpus):
    """kind -> folder with its tokenizer.json."""
    root = tmp_path_factory.mktemp("tokenizers")
    for kind in (ROBERTA, MODERNBERT, ALBERT):
        (root / kind).mkdir()
        size = 90 if kind == ALBERT else 320  # too few for whole words
        train(kind, map(body, corpus), size).save(str(root / kind / "tokenizer.json"))
    return {kind: root / kind for kind in (ROBERTA, MODERNBERT, ALBERT)}


def data(capsys, corpus_file, output, *flags):
    flags = [f"--input={corpus_file}", f"--output={output}", *SMALL, *map(str, flags)]
    status = run_main("data", data_command.main, flags)
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def verify(capsys, folder, *flags):
    status, out, error = data_command.verify(capsys, folder, f"--output={folder}-v", *flags)
    return status, out + error


@pytest.mark.parametrize("kind", [ROBERTA, MODERNBERT, ALBERT])
def test_records_are_the_text_of_the_corpus(
    capsys, tmp_path, corpus, corpus_file, tokenizers, kind
):
    """Each segment is a part of a document as the library itself spells it."""
    output = tmp_path / "records"
    folder = tokenizers[kind]
    assert data(capsys, corpus_file, output, f"--tokenizer={folder}")[0] == 0
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    special = info(output)["vocabulary"]["special_tokens"]
    ids = {role: reference.token_to_id(token) for role, token in special.items()}
    assert info(output)["vocabulary"]["token_bytes"] == 2
    assert (output / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()
    assert not (output / "vocab.txt").exists()
    documents = [
        reference.encode(" ".join(each), add_special_tokens=False).ids for each in corpus if each
    ]
    spelled = ["," + ",".join(map(str, document)) + "," for document in documents]
    rows = read_records(output)
    text = restored(rows)
    assert len(text) > 100
    for row, (mask, segments) in zip(
        text, zip(rows["input_mask"], rows["segment_ids"], strict=True), strict=True
    ):
        used = row[mask > 0]
        assert used[0] == ids["classify"] and used[-1] == ids["separate"]
        assert set(row[mask == 0]) <= {ids["padding"]}
        first, second = used[segments[mask > 0] == 0][1:-1], used[segments[mask > 0] == 1][:-1]
        for segment in (first, second):
            wanted = "," + ",".join(map(str, segment)) + ","
            assert any(wanted in each for each in spelled)
    status, printed = verify(capsys, output)
    assert (status, "0 faults" in printed) == (0, True)


@pytest.mark.parametrize("kind", [ROBERTA, ALBERT])
def test_whole_words_are_masked(capsys, tmp_path, corpus_file, tokenizers, kind):
    """A predicted token that continues a word is behind another one, or where text was cut."""
    output = tmp_path / "records"
    flags = f"--tokenizer={tokenizers[kind]}", "--do_whole_word_mask=True", "--pairs=none"
    assert data(capsys, corpus_file, output, *flags)[0] == 0
    reference = Tokenizer.from_file(str(tokenizers[kind] / "tokenizer.json"))
    special = {
        reference.token_to_id(token)
        for token in info(output)["vocabulary"]["special_tokens"].values()
    }
    parts = 0
    rows = read_records(output)
    for row, positions, weights in zip(
        restored(rows), rows["masked_lm_positions"], rows["masked_lm_weights"], strict=True
    ):
        chosen = set(positions[weights > 0].tolist())
        tokens = [reference.id_to_token(int(one)) for one in row]
        for place in range(1, 32):
            is_word = any(character.isalnum() for character in tokens[place])
            if row[place] in special or tokens[place][0] in "Ġ▁" or not is_word:
                continue
            if row[place - 1] in special:  # The text was cut inside a word, or begins.
                continue
            parts += 1
            assert (place in chosen) == (place - 1 in chosen), tokens
    assert parts > 100


def test_a_tokenizer_on_object_storage(capsys, tmp_path, gs, corpus_file, tokenizers):
    data_of = (tokenizers[ROBERTA] / "tokenizer.json").read_bytes()
    storage.write_bytes(f"{gs}/tokenizers/roberta/tokenizer.json", data_of)
    path = f"{gs}/tokenizers/roberta"
    assert data(capsys, corpus_file, tmp_path / "records", f"--tokenizer={path}")[0] == 0
    assert (tmp_path / "records" / "tokenizer.json").read_bytes() == data_of


def test_replacements_are_no_special_tokens(capsys, tmp_path, corpus_file, tokenizers):
    """RoBERTa's special tokens have other ids than BERT's."""
    output = tmp_path / "records"
    flags = f"--tokenizer={tokenizers[ROBERTA]}", "--masked_lm_prob=0.9", "--dupe_factor=10"
    assert data(capsys, corpus_file, output, *flags, "--max_predictions_per_seq=28")[0] == 0
    figures = json.loads((output / "statistics.json").read_text())["counts"]
    assert figures["hidden_as_other"] > 1000
    assert figures["reserved_replacements"] == 0


def test_records_of_another_tokenizer_are_a_fault(capsys, tmp_path, corpus_file, tokenizers):
    output = tmp_path / "records"
    assert data(capsys, corpus_file, output, f"--tokenizer={tokenizers[ROBERTA]}")[0] == 0
    status, printed = verify(capsys, output, f"--tokenizer={tokenizers[MODERNBERT]}")
    assert status == 1
    assert "is not the tokenizer that the records were made with" in printed
    config = json.loads((output / "tokenizer_config.json").read_text())
    config["mask_token"] = "<unk>"
    (output / "tokenizer_config.json").write_text(json.dumps(config))
    shutil.rmtree(f"{output}-v")
    status, printed = verify(capsys, output)
    assert status == 1
    assert "has other special tokens than info.json says" in printed


@pytest.mark.parametrize("kind", [ROBERTA, ALBERT])
def test_text_without_spaces(capsys, tmp_path, kind):
    """Each segment is a part of its document as the library spells it, also in the parts' records.

    Near duplicates are found among the documents.
    """
    generator = random.Random(7)
    sentences = [f"{word}{end}" for word in ARTICLE_1["zh"].split("，") for end in "。！？"]
    texts = ["".join(generator.choices(sentences, k=12)) for _ in range(40)]
    reference = train(kind, texts, 300)
    reference.save(str(tmp_path / "tokenizer.json"))
    path = tmp_path / "texts.jsonl"
    near = texts[0][:-1] + "…。"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in [*texts, near]))
    flags = [f"--tokenizer={tmp_path}/tokenizer.json", "--language=zh"]
    assert data(capsys, path, tmp_path / "near", *flags, "--duplicates=near")[0] == 0
    assert info(tmp_path / "near")["counts"]["documents"]["dropped"]["near_duplicates"] >= 1
    assert data(capsys, path, tmp_path / "whole", *flags)[0] == 0
    spelled = [
        "," + ",".join(map(str, reference.encode(text, add_special_tokens=False).ids)) + ","
        for text in [*texts, near]
    ]
    rows = read_records(tmp_path / "whole")
    assert len(rows["input_ids"]) > 100
    for ids, mask, segments in zip(
        restored(rows), rows["input_mask"], rows["segment_ids"], strict=True
    ):
        used, of_b = ids[mask > 0], segments[mask > 0] > 0
        for segment in (used[~of_b][1:-1], used[of_b][:-1]):
            wanted = "," + ",".join(map(str, segment)) + ","
            assert any(wanted in each for each in spelled)
