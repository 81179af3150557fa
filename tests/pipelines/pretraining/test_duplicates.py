"""Near duplicates against the library used plainly, exact similarities and the known odds."""

import collections
import hashlib
import random
import re
import zlib

import numpy as np
import pytest
from datasketch import MinHash
from hypothesis import given
from hypothesis import strategies as st

from beambert.pipelines.pretraining.documents import document_hash
from beambert.pipelines.pretraining.duplicates import (
    ROW,
    band_rows,
    estimate_similarity,
    minhash,
    near_duplicates,
    shingles,
)
from beambert.pipelines.text.cleaning import UNSPACED


def make_words(random, count: int) -> list[str]:
    return [f"w{random.randrange(3000)}" for _ in range(count)]


def rows_of(*documents: list[str]) -> np.ndarray:
    return np.concatenate([band_rows(document_hash(d), d) for d in documents])


def as_number(document_hash: bytes) -> int:
    """What hashes are ordered by."""
    return int.from_bytes(document_hash, "little")


def dropped(rows: np.ndarray) -> set[bytes]:
    return {bytes(one) for one in near_duplicates(rows)}


def similar_sets(similarity: float, random, size: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Two sets of `size` numbers of that Jaccard similarity, to 1 in `size`."""
    common = round(2 * size * similarity / (1 + similarity))
    numbers = np.array(random.sample(range(2**32), 2 * size - common), np.uint32)
    return numbers[:size], numbers[size - common :]


def test_signature_is_the_librarys():
    hashes = shingles([" ".join(make_words(random.Random(1), 9000))], 5)  # more than one batch
    plain = MinHash(112, 1, hashfunc=int, scheme="affine32")
    for value in hashes.tolist():
        plain.update(value)
    assert minhash(hashes).tolist() == plain.hashvalues.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("similarity", [0.0, 0.5, 0.8, 0.95])
def test_odds_of_meeting_and_estimate(similarity):
    draw, trials = random.Random(2), 400
    met, estimates = 0, []
    for _ in range(trials):
        first, second = (minhash(one_set) for one_set in similar_sets(similarity, draw))
        met += (first.reshape(14, 8) == second.reshape(14, 8)).all(1).any()
        low = [
            ((each & 15)[::2] << 4 | (each & 15)[1::2]).astype(np.uint8)[None]
            for each in (first, second)
        ]
        estimates.append(float(estimate_similarity(*low)[0]))
    odds = 1 - (1 - similarity**8) ** 14
    assert abs(met / trials - odds) <= 4 * (odds * (1 - odds) / trials) ** 0.5 + 1e-9
    # Binomial: 112 hashes, each equal with p.
    p = similarity + (1 - similarity) / 16
    deviation = (p * (1 - p) / 112) ** 0.5 * 16 / 15
    assert abs(np.mean(estimates) - similarity) <= 4 * deviation / trials**0.5 + 0.002
    assert np.std(estimates) == pytest.approx(deviation, rel=0.2)


def test_shingles_see_words_not_how_they_are_written():
    plain = shingles(["one two three four five", "six seven"], 5)
    assert len(plain) == 3
    assert shingles(['"One, two: THREE\n four"—five six', "seven!"], 5).tolist() == plain.tolist()
    assert shingles(["one two three four five seven six"], 5)[0] == plain[0]
    assert len(set(shingles(["这是一个中文文档的例子"], 5).tolist())) == 7
    assert len(shingles(["one two three four"], 5)) == 0


@given(st.text(st.one_of(st.characters(), st.sampled_from("aß_9 .\n一丁ไทİΣ\u0301\ud800"))))
def test_words_are_those_of_an_expression(text):
    words = re.findall(rf"[{UNSPACED}]|[^\W{UNSPACED}]+", text.lower())
    ids = [zlib.crc32(word.encode("utf-8", "surrogatepass")) for word in words]
    # A shingle of one word is its checksum, mixed.
    numbers = np.array(ids, np.uint64)
    mixed = (numbers ^ (numbers >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    assert shingles([text], 1).tolist() == ((mixed ^ (mixed >> np.uint64(32))) >> 32).tolist()


def test_edited_documents_go_and_others_stay():
    draw = random.Random(3)
    originals = [[" ".join(make_words(draw, 12)) for _ in range(20)] for _ in range(60)]
    edited = [
        [*original[:7], "quite another sentence here", *original[8:]] for original in originals[:30]
    ]
    other = [
        [*original[:8], *(" ".join(make_words(draw, 12)) for _ in range(12))]
        for original in originals[30:]
    ]
    gone = dropped(rows_of(*originals, *edited, *other))
    pairs = [
        {document_hash(a), document_hash(b)} for a, b in zip(originals[:30], edited, strict=True)
    ]
    # Similarity 0.87 for these: met and judged alike but for one in a hundred.
    assert sum(len(pair & gone) == 1 for pair in pairs) >= 28
    assert all(max(pair, key=as_number) in gone for pair in pairs if pair & gone)
    assert not gone - set().union(*pairs)


def fake_rows(draw, documents: int, bands: int, kinds: int) -> np.ndarray:
    """Rows of documents of few kinds; those of a kind are alike, some just enough or not quite."""
    signatures = np.random.default_rng(draw.randrange(99)).integers(0, 256, (kinds, 56), np.uint8)
    rows = np.zeros(documents, ROW)
    for row in rows:
        signature = signatures[draw.randrange(kinds)].copy()
        signature[: draw.choice([0, 3, 10, 11, 20])] ^= 0xFF
        row["band"] = draw.randrange(bands)
        row["hash"] = np.void(hashlib.md5(bytes([draw.randrange(200)])).digest())
        row["signature"] = signature
    return rows


def reference(rows: np.ndarray) -> set[bytes]:
    """The rule as the module's docstring states it, one document at a time."""
    groups = collections.defaultdict(dict)
    for row in rows:
        groups[int(row["band"])][as_number(bytes(row["hash"]))] = row
    gone = set()
    for group in groups.values():
        left = [group[number] for number in sorted(group)]
        for _ in range(8):
            if not left:
                break
            kept, others, left = left[0], left[1:], []
            for other in others:
                nibbles = [bytes(each["signature"]).hex() for each in (kept, other)]
                equal = sum(a == b for a, b in zip(*nibbles, strict=True)) / 112
                if (equal - 1 / 16) / (15 / 16) >= 0.8:
                    gone.add(bytes(other["hash"]))
                else:
                    left.append(other)
    return gone


def test_rule_against_a_plain_reference_in_any_order_and_partition():
    for seed in range(20):
        draw = random.Random(seed)
        rows = fake_rows(draw, documents=150, bands=6, kinds=4)
        # One signature a document and band, or which row of a copy counts would matter.
        _, first = np.unique([f"{r['band']} {bytes(r['hash'])}" for r in rows], return_index=True)
        rows = rows[first]
        gone = reference(rows)
        assert gone
        assert dropped(rows[np.random.default_rng(seed).permutation(len(rows))]) == gone
        parts = [dropped(rows[rows["band"] % 3 == part]) for part in range(3)]
        assert set().union(*parts) == gone


def test_exact_copies_are_not_near_duplicates():
    rows = rows_of(["one two three four five six"])
    assert dropped(np.concatenate([rows] * 5)) == set()


def test_a_huge_group_needs_no_more_than_sorting():
    rows = np.repeat(rows_of(["one two three four five six seven"])[:1], 300_000)
    rows["hash"] = np.frombuffer(np.random.default_rng(0).bytes(16 * len(rows)), "V16")
    assert len(near_duplicates(rows)) == len(rows) - 1


def test_none():
    assert len(band_rows(b"0" * 16, ["too short", "for it"])) == 0
    assert len(band_rows(b"0" * 16, [])) == 0
    assert len(near_duplicates(np.zeros(0, ROW))) == 0
