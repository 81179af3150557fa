"""Masks of rows and their statistics within 5 standard deviations; marks of where words begin.

Chinese BERT with whole-word masks (Cui et al. 2019, arXiv 1906.08101, section 3.1) writes "##"
before the characters that continue a word, draws the masks by the original's rule, and takes the
"##" away again. That is the reference of the marks.
"""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.pipelines.pretraining.documents import CompactDocuments, compact_documents, divide
from beambert.pipelines.pretraining.instances import (
    DocumentCounts,
    InstanceCounts,
    InstanceParameters,
    build_instances,
    order_documents,
    pair_documents,
)
from beambert.pipelines.pretraining.masks import TokenIds, assemble_rows, mask_rows
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary

WORDS = tuple(f"w{i}" for i in range(90))
# Special tokens not at the start, and unused ones in between.
VOCABULARY = Vocabulary(("[unused0]", "[unused1]", *SPECIAL_TOKENS, *WORDS, "[unused2]", "[x]"))
IDS = TokenIds.of(VOCABULARY)
FIRST_WORD = VOCABULARY.id_of("w0")


def test_ids_are_those_of_the_vocabulary():
    names = ("padding", "unknown", "classify", "separate", "mask")
    assert [getattr(IDS, name) for name in names] == [2, 3, 4, 5, 6]
    assert IDS.replacements.tolist() == [*range(7, 97), VOCABULARY.id_of("[x]")]


def rows_of(tokens, pairs, length, ids=IDS):
    return assemble_rows(tokens, pairs, length, ids)


def make_rows(count=2000, length=64, seed=0, unknown_share=0.05):
    """Rows of random words of random length, with the ids before masking."""
    generator = np.random.default_rng(seed)
    tokens = generator.integers(FIRST_WORD, FIRST_WORD + 90, 5000).astype(np.uint16)
    tokens[generator.random(5000) < unknown_share] = IDS.unknown
    a = generator.integers(1, length - 4, count)
    b = np.array([generator.integers(1, length - 3 - n + 1) for n in a])
    a_start, b_start = generator.integers(0, 4900, count), generator.integers(0, 4900, count)
    pairs = np.stack([a_start, a_start + a, b_start, b_start + b, a % 2], axis=1).astype(np.int32)
    return tokens, pairs, rows_of(tokens, pairs, length)


def mask(rows, predictions=10, share=0.15, seed=1, whole_words=False, ids=IDS):
    return mask_rows(
        rows["input_ids"],
        rows["input_mask"],
        max_predictions_per_seq=predictions,
        masked_lm_prob=share,
        do_whole_word_mask=whole_words,
        ids=ids,
        random=np.random.Generator(np.random.PCG64(seed)),
    )


class TestAssembleRows:
    def test_against_a_row_at_a_time(self):
        tokens, pairs, rows = make_rows(200)
        for i, (a_start, a_end, b_start, b_end, _) in enumerate(pairs):
            a, b = tokens[a_start:a_end].tolist(), tokens[b_start:b_end].tolist()
            row = [IDS.classify, *a, IDS.separate, *b, IDS.separate]
            padding = [0] * (64 - len(row))
            assert rows["input_ids"][i].tolist() == row + [IDS.padding] * len(padding)
            assert rows["input_mask"][i].tolist() == [1] * len(row) + padding
            segments = [0] * (len(a) + 2) + [1] * (len(b) + 1)
            assert rows["segment_ids"][i].tolist() == segments + padding


@pytest.fixture(scope="module")
def masked():
    _, _, rows = make_rows()
    return rows, mask(rows)


class TestMaskRows:
    def test_slots(self, masked):
        rows, found = masked
        is_used = found["masked_lm_weights"] == 1
        positions = found["masked_lm_positions"]
        assert (np.diff(positions, axis=1)[is_used[:, 1:]] > 0).all()  # ascending, none twice
        assert (is_used[:, :-1] >= is_used[:, 1:]).all()  # predictions first, then padding
        for name in ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"):
            assert found[name].shape == (2000, 10) and not found[name][~is_used].any()
        assert set(np.unique(found["masked_lm_weights"])) == {0.0, 1.0}

    def test_labels_are_what_stood_there(self, masked):
        rows, found = masked
        row, slot = np.nonzero(found["masked_lm_weights"])
        position = found["masked_lm_positions"][row, slot]
        assert (found["masked_lm_ids"][row, slot] == rows["input_ids"][row, position]).all()

    def test_the_rest_is_untouched(self, masked):
        rows, found = masked
        chosen = np.zeros((2000, 64), bool)
        row, slot = np.nonzero(found["masked_lm_weights"])
        chosen[row, found["masked_lm_positions"][row, slot]] = True
        assert (found["input_ids"] == rows["input_ids"])[~chosen].all()

    def test_special_and_unknown_tokens_are_never_chosen(self, masked):
        _, found = masked
        labels = found["masked_lm_ids"][found["masked_lm_weights"] == 1]
        assert not np.isin(labels, [2, 3, 4, 5, 6]).any()

    def test_eighty_ten_ten(self):
        _, _, rows = make_rows(8000, seed=3)
        found = mask(rows)
        row, slot = np.nonzero(found["masked_lm_weights"])
        labels = found["masked_lm_ids"][row, slot]
        shown = found["input_ids"][row, found["masked_lm_positions"][row, slot]]
        is_mask, is_same = shown == IDS.mask, shown == labels
        replaced = shown[~is_mask & ~is_same]
        count = len(labels)
        # A replacement is the token itself once in so many draws.
        same_by_chance = 0.1 / len(IDS.replacements)
        for share, expected in (
            (is_mask.mean(), 0.8),
            (is_same.mean(), 0.1 + same_by_chance),
            (len(replaced) / count, 0.1 - same_by_chance),
        ):
            sigma = np.sqrt(expected * (1 - expected) / count)
            assert share == pytest.approx(expected, abs=5 * sigma)
        # Any ordinary token may replace, none more often; 90 degrees of freedom, p = 1e-4.
        counts = np.bincount(replaced, minlength=len(VOCABULARY))[IDS.replacements]
        assert counts.sum() == len(replaced)
        mean = len(replaced) / len(counts)
        assert ((counts - mean) ** 2 / mean).sum() < 147

    def test_every_position_is_as_likely(self):
        rows = 20_000
        tokens = np.full(64, FIRST_WORD, np.uint16)
        pairs = np.tile(np.array([[0, 30, 0, 31, 0]], np.int32), (rows, 1))
        found = mask(rows_of(tokens, pairs, 64))
        used = found["masked_lm_positions"][found["masked_lm_weights"] == 1]
        counts = np.bincount(used, minlength=64)
        assert counts[[0, 31, 63]].sum() == 0
        counts = np.delete(counts, [0, 31, 63])
        mean = rows * 10 / 61
        assert counts.sum() == rows * 10
        # 60 degrees of freedom, p = 1e-4 (drawn without replacement, so a little less spread).
        assert ((counts - mean) ** 2 / mean).sum() < 107

    def test_each_token_rolls_its_own(self):
        """Masked neighbours of a row don't share a roll."""
        _, _, rows = make_rows(4000, unknown_share=0.0)
        found = mask(rows, 2, 0.15)
        both = found["masked_lm_weights"].sum(axis=1) == 2
        position = found["masked_lm_positions"][both]
        shown = np.take_along_axis(found["input_ids"][both], position, axis=1)
        share = (shown == IDS.mask).all(axis=1).mean()
        assert share == pytest.approx(0.64, abs=5 * np.sqrt(0.64 * 0.36 / both.sum()))

    def test_row_of_unknown_tokens_has_nothing_to_predict(self):
        tokens = np.full(9, IDS.unknown, np.uint16)
        rows = rows_of(tokens, np.array([[0, 3, 3, 6, 0]], np.int32), 16)
        found = mask(rows)
        assert not found["masked_lm_weights"].any()
        assert (found["input_ids"] == rows["input_ids"]).all()

    @settings(derandomize=True, max_examples=60, deadline=None, database=None)
    @given(st.integers(1, 30), st.integers(6, 40), st.integers(1, 50), st.floats(0, 0.99))
    def test_any_shape(self, count, length, predictions, share):
        _, _, rows = make_rows(count, length, unknown_share=0.2)
        found = mask(rows, predictions, share)
        wanted = np.clip(np.rint(rows["input_mask"].sum(axis=1) * share), 1, predictions)
        possible = (~np.isin(rows["input_ids"], [2, 3, 4, 5])).sum(axis=1)
        expected = np.minimum(wanted, possible)
        assert found["masked_lm_weights"].sum(axis=1).tolist() == expected.tolist()

    def test_seeds(self, masked):
        rows, found = masked
        again, other = mask(rows), mask(rows, seed=2)
        assert all((again[name] == found[name]).all() for name in found)
        assert (other["masked_lm_positions"] != found["masked_lm_positions"]).any()


class TestWholeWords:
    """Pieces 60 to 89 of the vocabulary continue a word here."""

    ids = dataclasses.replace(IDS, is_continuation=np.arange(len(VOCABULARY)) >= FIRST_WORD + 60)

    def words(self, row_ids, row_mask):
        """The words of a row as lists of positions, by a walk over its tokens."""
        words, may_continue = [], False
        for position, (token, real) in enumerate(zip(row_ids, row_mask, strict=True)):
            fixed = token in (IDS.classify, IDS.separate, IDS.padding, IDS.unknown)
            if fixed or not real:
                may_continue = False
            elif may_continue and self.ids.is_continuation[token]:
                words[-1].append(position)
            else:
                words.append([position])
                may_continue = True
        return words

    @pytest.fixture(scope="class")
    def masked(self):
        _, _, rows = make_rows(500)
        return rows, mask(rows, whole_words=True, ids=self.ids)

    def test_a_word_is_chosen_whole_or_not_at_all(self, masked):
        rows, result = masked
        whole = 0
        for i, row in enumerate(rows["input_ids"]):
            used = result["masked_lm_weights"][i] > 0
            chosen = set(result["masked_lm_positions"][i][used].tolist())
            for word in self.words(row, rows["input_mask"][i]):
                assert chosen.issuperset(word) or chosen.isdisjoint(word)
                whole += len(word) > 1 and chosen.issuperset(word)
                chosen -= set(word)
            assert not chosen
        assert whole > 200

    def test_reference_joins_segments(self):
        """The original gives "##…" to the word before, also if that ends A and B's front is cut."""
        ids = TokenIds.of(VOCABULARY, is_reference=True)
        ids = dataclasses.replace(ids, is_continuation=self.ids.is_continuation)
        _, _, rows = make_rows(500)
        found = mask(rows, whole_words=True, ids=ids)
        joined = 0
        for row, slots, weights in zip(
            rows["input_ids"],
            found["masked_lm_positions"],
            found["masked_lm_weights"],
            strict=True,
        ):
            words = []
            for position, token in enumerate(row.tolist()):
                if token in (IDS.classify, IDS.separate, IDS.padding):
                    continue
                if words and ids.is_continuation[token]:
                    words[-1].append(position)
                else:
                    words.append([position])
            chosen = set(slots[weights > 0].tolist())
            assert all(chosen.issuperset(word) or chosen.isdisjoint(word) for word in words)
            gaps = [word for word in words if word[-1] - word[0] >= len(word)]
            joined += sum(chosen.issuperset(word) for word in gaps)
        assert joined > 20

    def test_a_piece_after_a_special_token_is_a_word_of_its_own(self):
        """Else a row of A and a B whose front is cut off would be one word, too long to choose."""
        word, piece = FIRST_WORD, FIRST_WORD + 60
        tokens = np.array([word, piece, piece, IDS.unknown, piece], np.uint16)
        for pair in ([0, 1, 1, 2, 0], [0, 1, 3, 5, 0]):  # after [SEP], after [UNK]
            rows = rows_of(tokens, np.array([pair], np.int32), 16)
            chosen = set()
            for seed in range(20):
                found = mask(rows, share=0.01, seed=seed, whole_words=True, ids=self.ids)
                assert found["masked_lm_weights"].sum() == 1
                chosen.add(int(found["masked_lm_ids"].max()))
            assert chosen == {word, piece}

    def test_nothing_that_fits_is_left_out(self, masked):
        rows, result = masked
        for i, row in enumerate(rows["input_ids"]):
            wanted = min(10, max(1, round(int(rows["input_mask"][i].sum()) * 0.15)))
            used = result["masked_lm_weights"][i] > 0
            chosen = set(result["masked_lm_positions"][i][used].tolist())
            assert len(chosen) <= wanted
            words = self.words(row, rows["input_mask"][i])
            unchosen = [len(word) for word in words if chosen.isdisjoint(word)]
            assert all(size > wanted - len(chosen) for size in unchosen)

    def test_words_of_one_piece_are_chosen_evenly(self):
        """Every place of a row of 40 single words, 6 of them chosen: a chi-square test."""
        tokens = np.arange(FIRST_WORD, FIRST_WORD + 40, dtype=np.uint16)
        pairs = np.tile(np.array([[0, 20, 20, 40, 0]], np.int32), (4000, 1))
        result = mask(rows_of(tokens, pairs, 43), whole_words=True)
        assert (result["masked_lm_weights"].sum(axis=1) == 6).all()
        counts = np.bincount(result["masked_lm_positions"][:, :6].ravel(), minlength=43)
        counts = np.delete(counts, [0, 21, 42])
        expected = 4000 * 6 / 40
        # 39 degrees of freedom: mean 39, standard deviation 8.8.
        assert ((counts - expected) ** 2 / expected).sum() < 39 + 5 * 8.8


CHARACTERS = tuple(map(chr, range(0x4E00, 0x4E00 + 200)))
PLAIN = Vocabulary((*SPECIAL_TOKENS, *CHARACTERS))
# The same with each character once more, as one that continues a word.
WITH_HASHES = Vocabulary((*PLAIN.tokens, *(f"##{character}" for character in CHARACTERS)))
FIRST = len(SPECIAL_TOKENS)


def make(seed=0, documents=60, marked=True, vocab_size=1000) -> CompactDocuments:
    """Documents of random characters; a token begins a word unless its id is a multiple of 3."""
    random = np.random.default_rng(seed)
    lengths = [random.integers(3, 25, random.integers(1, 9)) for _ in range(documents)]
    tokens = random.integers(FIRST, len(PLAIN), sum(int(length.sum()) for length in lengths))
    sentences = [
        [f"{number} {n}" for n in range(len(length))] for number, length in enumerate(lengths)
    ]
    marks = tokens % 3 > 0 if marked else None
    flat = np.concatenate(lengths)
    return compact_documents(sentences, tokens, flat, vocab_size, None, marks)


def is_aligned(documents: CompactDocuments) -> bool:
    return np.array_equal(documents.begins_word, documents.tokens % 3 > 0)


@pytest.mark.parametrize("vocab_size", [1000, 100_000])
def test_marks_stay_with_their_tokens(vocab_size):
    documents = make(vocab_size=vocab_size)
    assert is_aligned(documents) and documents.tokens.itemsize == (2 if vocab_size < 2**16 else 4)
    found = CompactDocuments.unpack(documents.pack())
    for field in dataclasses.fields(documents):
        one, other = (getattr(each, field.name) for each in (documents, found))
        assert np.array_equal(one, other) and one.dtype == other.dtype
    order = np.random.default_rng(1).permutation(len(documents.hashes))[:40]
    assert is_aligned(documents.take(order))
    assert is_aligned(CompactDocuments.concatenate([documents, make(seed=2)]))
    pieces, _ = divide(documents, 0.5)
    by_key = pieces.pack_by_key(np.arange(len(pieces.hashes)) % 3)
    unpacked = [CompactDocuments.unpack(data) for _, data in by_key]
    assert len(unpacked) == 3 and all(map(is_aligned, unpacked))
    assert sum(len(each.tokens) for each in unpacked) == len(documents.tokens)


def instances(documents, vocabulary, **parameters):
    parameters = InstanceParameters(48, 7, dupe_factor=2, **parameters)
    ids, made = TokenIds.of(vocabulary), InstanceCounts()
    ordered = order_documents(documents, ids, DocumentCounts())
    pairs = pair_documents(ordered, parameters, 0, made)
    marks = ordered.begins_word
    batches = list(build_instances(ordered.tokens, pairs, ids, parameters, 0, made, marks))
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


@pytest.mark.parametrize("pairs", ["next", "none"])
@pytest.mark.parametrize("form", ["whole_word", "span"])
def test_masks_are_those_of_tokens_with_hashes(form, pairs):
    documents = make()
    found = instances(documents, PLAIN, masks=form, pairs=pairs)
    hashed = np.where(documents.begins_word, documents.tokens, documents.tokens + len(CHARACTERS))
    reference = dataclasses.replace(
        documents, tokens=hashed.astype(np.uint16), begins_word=np.zeros(0, bool)
    )
    expected = instances(reference, WITH_HASHES, masks=form, pairs=pairs)
    assert found["masked_lm_weights"].sum() > 500
    for name in ("masked_lm_positions", "masked_lm_weights", "input_mask", "segment_ids"):
        assert np.array_equal(found[name], expected[name])
    labels = expected["masked_lm_ids"]
    without = np.where(labels >= len(PLAIN), labels - len(CHARACTERS), labels)
    assert np.array_equal(found["masked_lm_ids"], without)
    # The marks themselves never reach a record.
    assert found["input_ids"].max() < len(PLAIN)


def test_marks_change_nothing_without_masks_of_words():
    marked, plain = (instances(make(marked=marked), PLAIN) for marked in (True, False))
    assert all(np.array_equal(marked[name], plain[name]) for name in plain)
