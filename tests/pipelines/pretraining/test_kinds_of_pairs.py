"""The values of --pairs end to end: what the folders hold, and that `verify` copes with them."""

import json
import random

import numpy as np
import pytest
from support import data_command
from support.data_command import (
    SMALL,
    data,
    info,
    read_records,
    restored,
    verify,
    wikiextractor,
)
from support.sample_text import make_document

corpus, corpus_file = data_command.corpus, data_command.corpus_file
vocab_file = data_command.vocab_file
PAIRED = {"is_next", "random_next", "forced_random_next", "without_partner", "is_next_share"}


@pytest.fixture(scope="module")
def full_sentences(tmp_path_factory, corpus_file, vocab_file):
    folder = tmp_path_factory.mktemp("none") / "records"
    flags = [f"--vocab_file={vocab_file}", f"--input={corpus_file}", f"--output={folder}", *SMALL]
    data_command.main([*flags, "--pairs=none", "--num_shards=3", "--eval_fraction=0.25"])
    return folder


class TestFullSentences:
    @pytest.mark.slow
    def test_the_records(self, full_sentences, vocabulary):
        classify, separate = map(vocabulary.id_of, ("[CLS]", "[SEP]"))
        tokens = 0
        for folder in (full_sentences, full_sentences / "eval"):
            rows = read_records(folder)
            ids, filled = restored(rows), rows["input_mask"].sum(axis=1)
            assert (ids[:, 0] == classify).all() and not rows["segment_ids"].any()
            assert (ids[np.arange(len(ids)), filled - 1] == separate).all()
            assert not np.isin(rows["masked_lm_ids"], [classify, separate]).any()
            inside = (ids == separate).sum() - len(ids)
            assert inside > 0.1 * len(ids)
            about = info(folder)
            assert rows["input_mask"].sum() - 2 * len(ids) - inside == 2 * about["counts"]["tokens"]
            assert about["counts"]["instances"] == len(ids)
            assert about["counts"]["filled_share"] > 0.75
            assert not PAIRED & about["counts"].keys()
            assert (about["parameters"]["pairs"], about["parameters"]["short_seq_prob"]) == (
                "none",
                0.0,
            )
            tokens += about["counts"]["tokens"]
        assert tokens > 3000


def make_pairs(tmp_path_factory, corpus_file, vocab_file, pairs):
    folder = tmp_path_factory.mktemp(pairs) / "records"
    flags = [f"--vocab_file={vocab_file}", f"--input={corpus_file}", f"--output={folder}", *SMALL]
    data_command.main([*flags, f"--pairs={pairs}", "--num_shards=3", "--dupe_factor=20"])
    return folder


def balanced_rows(folder, pairs):
    """Returns the records and their labels, of which half are 0 and info.json counts the others."""
    rows, about = read_records(folder), info(folder)
    labels = rows["next_sentence_labels"][:, 0]
    counts, count = about["counts"], len(labels)
    assert counts["random_next"] == labels.sum() and counts["instances"] == count
    assert labels.mean() == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(count))
    assert about["parameters"]["pairs"] == pairs
    return rows, labels


@pytest.fixture(scope="module")
def sentence_order(tmp_path_factory, corpus_file, vocab_file):
    return make_pairs(tmp_path_factory, corpus_file, vocab_file, "sop")


class TestSentenceOrder:
    def test_the_records(self, sentence_order, corpus, vocabulary):
        """The text of A and of B is found in the corpus, B behind A where the label says so."""
        rows, labels = balanced_rows(sentence_order, "sop")
        separate = vocabulary.id_of("[SEP]")
        texts = [" " + " ".join(each).lower().replace(".", " .") + " " for each in corpus]
        words = np.array(vocabulary.tokens)
        found = {0: 0, 1: 0, "drawn": 0}
        for ids, label in zip(restored(rows)[:600], labels, strict=False):
            first, last = np.flatnonzero(ids == separate)
            if first < 7 or last - first < 7:
                continue  # A few words may occur anywhere.
            a, b = (f" {' '.join(words[p])} " for p in (ids[1:first], ids[first + 1 : last]))
            both = [text for text in texts if a in text and b in text]
            if both and label == 0:
                assert any(each.find(a) < each.rfind(b) for each in both)
            elif both:
                assert any(each.find(b) < each.rfind(a) for each in both)
            else:
                assert label == 1
            found[label if both else "drawn"] += 1
        assert found[0] > 100 and found[1] > 60
        forced = info(sentence_order)["counts"]["forced_random_next"]
        assert found["drawn"] < forced / len(labels) * 600


@pytest.fixture(scope="module")
def copies(tmp_path_factory, corpus_file, vocab_file):
    return make_pairs(tmp_path_factory, corpus_file, vocab_file, "copy")


class TestCopies:
    def test_the_records(self, copies, corpus, vocabulary):
        """One segment stands in the corpus; the other shares its words where the label says so."""
        rows, labels = balanced_rows(copies, "copy")
        separate = vocabulary.id_of("[SEP]")
        texts = " ".join(f" {' '.join(each).lower().replace('.', ' .')} " for each in corpus)
        words, shared = np.array(vocabulary.tokens), {0: [], 1: []}
        firsts = 0
        for ids, label in zip(restored(rows)[:600], labels, strict=False):
            first, last = np.flatnonzero(ids == separate)
            if first < 7:
                continue  # A few words may occur anywhere, also with noise.
            a, b = ids[1:first], ids[first + 1 : last]
            is_first, is_second = (f" {' '.join(words[each])} " in texts for each in (a, b))
            assert is_first or is_second
            firsts += is_first - is_second
            noisy, text = (b, a) if is_first else (a, b)
            shared[label].append(np.isin(noisy, text).mean())
        assert len(shared[0]) > 100 and len(shared[1]) > 100
        assert np.mean(shared[0]) > 0.9 and np.mean(shared[1]) < 0.6
        assert abs(firsts) < 5 * np.sqrt(600)


def test_verify(capsys, tmp_path, full_sentences, sentence_order, copies):
    """All in one run."""
    given = [str(folder) for folder in (full_sentences, sentence_order, copies)]
    status, printed, _ = verify(capsys, *given, f"--output={tmp_path}/verified")
    assert status == 0 and "documents in a record" in printed and "tokens of the text" in printed
    result = json.loads((tmp_path / "verified" / "verification.json").read_text())
    found = {folder["path"]: folder for folder in result["folders"]}
    for folder in found.values():
        assert folder["faults"] == []
        assert not [text for text in folder["warnings"] if "next" in text or "labels" in text]
    for path in (given[0], f"{given[0]}/eval"):
        figures, sample = found[path]["figures"], found[path]["sample"]
        assert figures["is_next_share"] is None and figures["documents_average"] > 1.1
        assert any(" [SEP] " in record["a"] for record in sample)
        assert all(record["b"] == "" for record in sample)
    assert found[given[1]]["figures"]["labels"] == ["in order", "swapped"]
    assert "  swapped, forced  " in printed and "random next" not in printed


@pytest.mark.slow
@pytest.mark.parametrize("pairs", ["next", "none"])
def test_the_estimate(capsys, tmp_path, vocab_file, pairs):
    generator = random.Random(4)
    documents = [make_document(generator, generator.randint(1, 40)) for _ in range(1200)]
    (tmp_path / "wiki").write_text(wikiextractor(documents))
    flags = [f"--input={tmp_path}/wiki", f"--pairs={pairs}", "--num_shards=2"]
    _, printed, _ = data(capsys, vocab_file, tmp_path / "out", *flags, "--dry_run")
    estimate = int(printed.split(" instances")[0].rsplit("\n", 1)[1].replace(",", ""))
    assert data(capsys, vocab_file, tmp_path / "out", *flags)[0] == 0
    assert estimate == pytest.approx(info(tmp_path / "out")["counts"]["instances"], rel=0.05)
