"""`vocab --kind=bpe` and `unigram`, beside the library's own trainers on the same text."""

import json
import random

import pytest
from support.nasty_text import GOLDEN
from support.sample_text import make_document
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from beambert.cli import run_main
from beambert.pipelines.create_vocabulary import main
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS
from beambert.pipelines.vocabulary_learning.learning import empty_tokenizer, subword_splitter


@pytest.fixture(scope="module")
def lines() -> list[str]:
    generator = random.Random(5)
    lines = [text for _ in range(150) for text in make_document(generator, 6)]
    return [f"{line} Füße №{number} 漢字" for number, line in enumerate(lines)]


@pytest.fixture(scope="module")
def corpus_file(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("corpus") / "text.jsonl"
    path.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    return path


def vocab(capsys, corpus_file, output, *flags):
    status = run_main("vocab", main, [f"--input={corpus_file}", f"--output={output}", *flags])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_a_learned_bpe_is_the_library_s(capsys, tmp_path, corpus_file, lines):
    """The trainer of the library, on the lines themselves, learns the same tokens and merges."""
    output = tmp_path / "tokenizer" / "tokenizer.json"
    output.parent.mkdir()
    status, printed, _ = vocab(capsys, corpus_file, output, "--kind=bpe", "--vocab_size=600")
    assert (status, "600 tokens" in printed) == (0, True)
    reference = Tokenizer(models.BPE())
    reference.normalizer = empty_tokenizer("bpe", False).normalizer
    # All words are counted with the space before them.
    reference.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    settings = {"special_tokens": list(SPECIAL_TOKENS), "show_progress": False}
    trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, **settings)
    reference.train_from_iterator(lines, trainer)
    expected = json.loads(reference.to_str())["model"]
    found = json.loads(output.read_text())["model"]
    assert found["vocab"] == expected["vocab"]
    assert found["merges"] == expected["merges"]
    masked = Tokenizer.from_file(str(output)).encode("the river [MASK]", add_special_tokens=False)
    assert masked.tokens[-1].strip() == "[MASK]" and masked.tokens[-2] != "Ġ"
    again = vocab(capsys, corpus_file, output, "--kind=bpe", "--vocab_size=600")
    assert "already finished by the same command" in again[1]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_words_are_those_that_the_tokenizer_cuts(kind):
    texts = [case["text"] for case in GOLDEN["cases"]]
    for lower in (False, True):
        empty, split = empty_tokenizer(kind, lower), subword_splitter(kind, lower)
        for stretch in {stretch for text in texts for stretch in text.split(" ")}:
            found = split(stretch)
            whole = empty.normalizer.normalize_str(f" {stretch.strip()}")
            expected = empty.pre_tokenizer.pre_tokenize_str(whole)
            assert found == ([word for word, _ in expected] if stretch.strip() else [])


def test_a_learned_unigram_frames_and_spells(capsys, tmp_path, corpus_file, lines):
    output = tmp_path / "tokenizer.json"
    flags = "--kind=unigram", "--vocab_size=220", "--do_lower_case=True"
    assert vocab(capsys, corpus_file, output, *flags)[0] == 0
    tokenizer = Tokenizer.from_file(str(output))
    found = tokenizer.encode("A RIVER", "the city")
    assert [tokenizer.id_to_token(number) for number in range(5)] == list(SPECIAL_TOKENS)
    assert (found.tokens[0], found.tokens[-1]) == ("[CLS]", "[SEP]")
    assert tokenizer.decode(found.ids) == "a river the city"
    spelled = tokenizer.encode_batch([line.lower() for line in lines[:50]])
    assert all(3 < len(each.ids) < 40 for each in spelled)
    unknown = sum(each.ids.count(1) for each in spelled)
    assert unknown == 0
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert config["mask_token"] == "[MASK]"
