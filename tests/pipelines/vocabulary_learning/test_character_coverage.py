"""The share of a text's characters that a vocabulary spells."""

import json
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.errors import InputError
from beambert.pipelines.create_vocabulary import main
from beambert.pipelines.vocabulary_learning.learning import (
    CorpusWords,
    check_coverage,
    choose_characters,
    common_characters,
    frequent_characters,
)

words = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=5), st.integers(1, 50), min_size=1)


@settings(derandomize=True, max_examples=200, deadline=None, database=None)
@given(words, st.floats(0.01, 1.0))
def test_the_fewest_characters_that_cover_the_share(counts, coverage):
    found = frequent_characters(CorpusWords.of(counts, 100), coverage)
    text = Counter("".join(word * count for word, count in counts.items()))
    wanted = coverage * text.total()
    assert sum(text[c] for c in found) >= wanted - 1e-6
    rarest = min(text[c] for c in found)
    assert all(text[c] <= rarest for c in text.keys() - found)
    assert sum(text[c] for c in found) - rarest < wanted + 1e-6


def chinese(size=3000, seed=0) -> dict[str, int]:
    """Characters with counts by Zipf's law; the tokenizer makes a word of each."""
    return {chr(0x4E00 + n): max(1, 200_000 // (n + 1)) for n in range(size)}


def test_characters_of_chinese():
    counts = CorpusWords.of(chinese(), 10_000)
    common = common_characters(True, 3500 // 30)
    for coverage in (0.9, 0.98, 1.0):
        chosen = set(choose_characters(counts, 3500, True, coverage))
        wanted = frequent_characters(counts, coverage)
        assert wanted <= chosen
        # ASCII is there in any case, and nothing else is.
        assert {piece[-1] for piece in chosen} - wanted <= common
        check_coverage(counts, sorted(chosen), 3500, coverage)
    assert len(frequent_characters(counts, 1.0)) == 3000


@pytest.fixture
def corpus(tmp_path):
    """A text in which 99 % of the characters are common ones."""
    draw = random.Random(1)
    common, rare = [chr(0x4E00 + n) for n in range(150)], [chr(0x6000 + n) for n in range(80)]
    lines = ["".join(draw.choices(common, k=99)) + draw.choice(rare) for _ in range(300)]
    path = tmp_path / "zh.txt"
    path.write_text("\n".join(lines), "utf-8")
    return path


def test_the_command_covers_the_share(corpus, tmp_path, capsys):
    flags = [f"--input={corpus}", "--vocab_size=400", "--do_lower_case=False"]
    output = tmp_path / "vocab.txt"
    main([*flags, f"--output={output}", "--character_coverage=0.98"])
    tokens = output.read_text("utf-8").split("\n")
    held = sum("\u6000" <= token < "\u6100" for token in tokens)
    assert sum("\u4e00" <= token < "\u4f00" for token in tokens) >= 147 and held < 5
    assert json.loads((tmp_path / "vocab.txt.json").read_text())["parameters"][
        "character_coverage"
    ] == pytest.approx(0.98)
    assert "become [UNK], because a character in them is too rare" in capsys.readouterr().out
    # Another share is another job.
    with pytest.raises(InputError, match="--character_coverage"):
        main([*flags, f"--output={output}", "--character_coverage=0.99"])


def test_the_command_refuses_what_has_no_room_and_writes_nothing(corpus, tmp_path):
    output = tmp_path / "small" / "vocab.txt"
    output.parent.mkdir()
    flags = [f"--input={corpus}", "--vocab_size=150", f"--output={output}"]
    with pytest.raises(InputError, match="^--character_coverage=1: --vocab_size=150 has room for"):
        main([*flags, "--character_coverage=1"])
    assert not output.exists()


def test_unigram_leaves_rare_characters_out(corpus, tmp_path):
    output = tmp_path / "tokenizer" / "tokenizer.json"
    output.parent.mkdir()
    flags = [f"--input={corpus}", "--kind=unigram", "--vocab_size=400", f"--output={output}"]
    main([*flags, "--character_coverage=0.98"])
    tokens = [token for token, _ in json.loads(output.read_text("utf-8"))["model"]["vocab"]]
    letters = set("".join(tokens))
    assert sum("\u4e00" <= c < "\u4f00" for c in letters) >= 140
    assert sum("\u6000" <= c < "\u6100" for c in letters) < 5
