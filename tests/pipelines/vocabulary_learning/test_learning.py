"""Learning word pieces, and byte-level BPE and Unigram beside the library's."""

import json
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.nasty_text import GOLDEN, NASTY, basic_words
from support.sample_text import make_document
from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from beambert.cli import run_main
from beambert.errors import InputError
from beambert.pipelines.create_vocabulary import main
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary
from beambert.pipelines.tokenizers.word_pieces import is_plain
from beambert.pipelines.vocabulary_learning import graph as word_counts
from beambert.pipelines.vocabulary_learning import learning
from beambert.pipelines.vocabulary_learning.learning import (
    CorpusWords,
    check_coverage,
    choose_characters,
    common_characters,
    empty_tokenizer,
    frequent_characters,
    learn_tokenizer,
    learn_vocabulary,
    special_tokens,
    splitter_of,
    words_needed,
)

GENERATED = settings(derandomize=True, max_examples=40, deadline=None, database=None)


def learn(counts, vocab_size, do_lower_case=True):
    words = CorpusWords.of(counts, words_needed(vocab_size))
    characters = choose_characters(words, vocab_size, do_lower_case)
    return learn_vocabulary(words, characters, vocab_size, do_lower_case)


def english(seed=0, words=3000):
    """Made-up words of made-up stems and endings, by Zipf's law."""
    draw = random.Random(seed)
    syllables = ["".join(draw.choices("bcdfghklmnprstvw", k=1)) + v for v in "aeiou"] * 4
    stems = ["".join(draw.choices(syllables, k=draw.randint(1, 4))) for _ in range(words // 4)]
    made = dict.fromkeys(stem + end for stem in stems for end in ("", "s", "ing", "ed"))
    return {word: 100_000 // rank for rank, word in enumerate(made, 1)}


# Counting


@pytest.fixture(scope="module")
def counters():
    return {lower: word_counts.WordCounter(lower) for lower in (True, False)}


@pytest.mark.parametrize("lower", [True, False])
@GENERATED
@given(st.lists(st.text(st.sampled_from(NASTY + "    \n"), max_size=80), max_size=8))
def test_counts_are_the_originals_words(counters, lower, texts):
    for text in texts:
        counters[lower].add(text)
    assert counters[lower].take() == Counter(
        word for text in texts for word in basic_words(text, lower)
    )


def test_every_count_from_1_to_300(counters):
    texts = [f"w{i}!" for i in range(1, 301) for _ in range(i)]
    random.Random(0).shuffle(texts)
    counters[True].add(" ".join(texts))
    expected = {f"w{i}": i for i in range(1, 301)} | {"!": len(texts)}
    assert counters[True].take() == expected
    assert counters[True].take() == {}


def test_long_lines_are_cut_at_white_space(counters, monkeypatch):
    monkeypatch.setattr(word_counts, "MOST_STRINGS", 1000)
    words = [f"word{i % 700}" for i in range(140_000)]
    text = " ".join(words)
    assert max(map(len, word_counts.cut_text(text))) <= word_counts.PIECE_CHARACTERS < len(text)
    counters[True].add(text)
    assert counters[True].take() == Counter(words)


@GENERATED
@given(st.text("ab \n", max_size=60), st.integers(2, 10))
def test_cut_text(text, size):
    pieces = list(word_counts.cut_text(text, size))
    assert "".join(pieces) == text
    assert all(len(piece) <= size for piece in pieces)
    if all(len(stretch) < size for stretch in text.split()):
        assert [s for piece in pieces for s in piece.split()] == text.split()


@GENERATED
@given(st.dictionaries(st.text("abé中'", min_size=1), st.integers(1, 2**40)), st.integers(1, 99))
def test_packed_counts(counts, partitions):
    def unpacked(counts):
        for key, data in word_counts.pack_counts(counts, partitions):
            for count, words in word_counts.unpack_counts(data):
                yield from ((word, key, count) for word in words)

    found = list(unpacked(counts))
    assert sorted((word, count) for word, _, count in found) == sorted(counts.items())
    assert {key for _, key, _ in found} <= set(range(partitions))
    for word, key, _ in found:  # on its own it falls to the same partition
        assert list(unpacked({word: 1})) == [(word, key, 1)]


@GENERATED
@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=4), st.integers(1, 5)),
    st.integers(1, 30),
    st.randoms(use_true_random=False),
)
def test_parts_sum_up_to_the_whole(counts, most, draw):
    parts = [{} for _ in range(3)]
    for word, count in counts.items():
        draw.choice(parts)[word] = count
    summed = CorpusWords.merge((CorpusWords.of(part, most) for part in parts), most)
    assert summed.most_frequent == sorted(counts.items(), key=lambda i: (-i[1], i[0]))[:most]
    assert summed.characters == CorpusWords.of(counts, most).characters
    assert summed.distinct == len(counts)
    assert summed.occurrences == sum(counts.values())
    assert sum(summed.characters.values()) == sum(len(w) * n for w, n in counts.items())


# The layout


@pytest.mark.parametrize(
    ("lower", "name", "first_character"),
    [(True, "bert-base-uncased-vocab.txt", 999), (False, "bert-base-cased-vocab.txt", 106)],
)
def test_special_and_unused_tokens_stand_as_in_googles(shared_data, lower, name, first_character):
    google = Vocabulary.parse((shared_data / "vocab" / name).read_bytes(), name)
    assert google.tokens[first_character] == "!"
    assert tuple(special_tokens(len(google), lower)) == google.tokens[:first_character]


# Characters


def test_characters_that_the_text_lacks():
    characters = choose_characters(CorpusWords.of({"word": 9}, 9), 12_000, True)
    assert {"<", ">", "@", "€", "♯", "7", "##7", "##z", "##♯"} <= set(characters)
    assert not {"##<", "##!", "é", "A", "##A", " "} & set(characters)
    assert {"A", "##A", "é", "##é"} <= set(choose_characters(CorpusWords(), 12_000, False))
    # A smaller vocabulary has room for ASCII only, a small one for neither.
    middle = choose_characters(CorpusWords.of({"word": 9}, 9), 3000, True)
    assert {"<", "7", "##7"} <= set(middle) and "€" not in middle
    small = choose_characters(CorpusWords.of({"word": 9}, 9), 1000, True)
    assert small == ["d", "o", "r", "w", "##d", "##o", "##r"]


@pytest.mark.parametrize("lower", [True, False])
def test_common_characters_are_held_if_there_is_room_for_all(lower):
    """All of them, else ASCII, else none: never a part that depends on their order."""
    everything = common_characters(lower, 1000)
    letters = {c for c in everything if c.isascii()}
    assert len(letters) == (94 - 26 if lower else 94) and len(everything) > 200
    assert common_characters(lower, len(everything)) == everything
    assert common_characters(lower, len(everything) - 1) == letters
    assert common_characters(lower, len(letters)) == letters
    assert common_characters(lower, len(letters) - 1) == set()


@pytest.mark.parametrize(("count", "held"), [(499, 50), (500, 200)])
def test_a_character_is_held_that_is_as_frequent_as_the_last_word(count, held):
    """Rarer ones are held up to the hundredth character."""
    alphabet = [chr(0x0561 + i) for i in range(38)] + [chr(0x0430 + i) for i in range(12)]
    pairs = [a + b for a in alphabet for b in alphabet]
    counts = dict.fromkeys(pairs[:994], 2000) | {pairs[994]: 500}
    counts |= {chr(0x4E00 + i): count for i in range(200)}
    characters = choose_characters(CorpusWords.of(counts, 5000), 1000, True)
    assert sum(c >= "\u4e00" for c in characters) == held


# Learning


@pytest.mark.parametrize(("length", "is_learned"), [(50, True), (51, False)])
def test_no_piece_has_more_than_fifty_characters(length, is_learned):
    """What is longer is no word, and would fill the vocabulary with its parts."""
    word = ("abcdefghij" * 6)[:length]
    tokens = learn({word: 9}, 2000).tokens
    assert (word in tokens) is is_learned
    assert any("abc" in token for token in tokens) is is_learned


def test_a_number_of_pieces_that_no_threshold_gives(monkeypatch):
    """Below a threshold of 777 there are 500 pieces, and 3 above it: the search must end."""
    tried = []

    def pieces_from(words, threshold):
        tried.append(threshold)
        return [f"p{i}" for i in range(500 if threshold < 777 else 3)]

    monkeypatch.setattr(learning, "_pieces_from", pieces_from)
    words = [(f"w{i}", 100_000 - i) for i in range(1000)]
    assert learning._learn_pieces(words, 20) == [f"p{i}" for i in range(20)]
    assert len(tried) < 30 and len(set(tried)) == len(tried)


def test_order_of_words_does_not_matter():
    counts = english()
    shuffled = list(counts.items())
    random.Random(1).shuffle(shuffled)
    assert learn(dict(shuffled), 600).tokens == learn(counts, 600).tokens


words = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=5), st.integers(1, 50), min_size=1)


@settings(derandomize=True, max_examples=200, deadline=None, database=None)
@given(st.dictionaries(st.text("abé中", min_size=1), st.integers(1, 50), min_size=1), st.data())
def test_pieces_are_those_of_tensorflow_texts_learner(counts, data):
    threshold = data.draw(st.integers(1, max(counts.values())))
    expected = wordpiece_tokenizer_learner_lib.learn(
        list(counts.items()),
        vocab_size=len(counts),
        reserved_tokens=[],
        lower_thresh=threshold,
        upper_thresh=threshold,  # Equal bounds switch off its own search for a threshold.
        num_iterations=learning.ITERATIONS,
        max_token_length=max(map(len, counts)),
    )
    expected = [piece for piece in expected if len(piece.removeprefix("##")) > 1]
    assert learning._pieces_from(list(counts.items()), threshold) == expected


@settings(derandomize=True, max_examples=60, deadline=None, database=None)
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
    with pytest.raises(InputError, match="^--character_coverage=1: --vocab_size=150 has room for"):
        check_coverage(counts, choose_characters(counts, 150, True, 1.0), 150, 1.0)
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
    about = json.loads((tmp_path / "vocab.txt.json").read_text())
    assert about["parameters"]["character_coverage"] == pytest.approx(0.98)
    assert (
        about["counts"]["characters"] == 30_000 and 200 < about["counts"]["rare_characters"] < 600
    )
    assert "too rare for a token" in capsys.readouterr().out
    # Another share is another job.
    with pytest.raises(InputError, match="parameters.character_coverage there 0.98"):
        main([*flags, f"--output={output}", "--character_coverage=0.99"])


def test_unigram_leaves_rare_characters_out(corpus):
    counts = Counter("".join(corpus.read_text("utf-8").split()))
    vocabulary = learn_tokenizer(CorpusWords.of(counts, 400), "unigram", 400, False, 0.98)
    tokens = vocabulary.tokens
    letters = set("".join(tokens))
    assert sum("\u4e00" <= c < "\u4f00" for c in letters) >= 140
    assert sum("\u6000" <= c < "\u6100" for c in letters) < 5


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
    draw = random.Random(0)
    texts = [case["text"] for case in GOLDEN["cases"]]
    texts += ["".join(draw.choices("'sdmtrelvAZ09._^\t\x1c ", k=40)) for _ in range(500)]
    for lower in (False, True):
        empty, split = empty_tokenizer(kind, lower), splitter_of(kind, lower)
        stretches = {stretch for text in texts for stretch in text.split(" ")}
        plain = sorted(filter(is_plain, stretches))
        assert split(plain) == [word for stretch in plain for word in split([stretch])]
        for stretch in stretches:
            found = split([stretch])
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
