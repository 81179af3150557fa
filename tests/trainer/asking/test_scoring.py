"""Scores of texts and pairs, beside encoders whose answers are known."""

import json
import math

import numpy as np
import pytest
from support import untrained_models

from beambert.cli import run
from beambert.trainer import asking
from beambert.trainer.asking import (
    MASKED_LM_HEAD,
    NEXT_SENTENCE_HEAD,
    open_encoder,
    score,
    score_next,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, vocabulary):
    return untrained_models.save_encoder(tmp_path_factory.mktemp("asked") / "e", vocabulary)


def test_an_encoder_that_knows_nothing_is_as_perplexed_as_its_vocabulary_is_large(
    folder, vocabulary
):
    encoder = open_encoder(str(folder), MASKED_LM_HEAD)
    table = encoder.model.encoder.word_embeddings
    table.assign(np.zeros_like(table))
    found = score(encoder, ["the river", "a b c d §"])
    assert [(each.tokens, each.unknown) for each in found] == [(2, 0), (5, 1)]
    assert [each.characters for each in found] == [8, 4]
    of_character = math.log(len(vocabulary)) * 2 / 8
    assert found[0].loss_per_character == pytest.approx(of_character, rel=1e-5)
    for each in found:
        assert each.pseudo_perplexity == pytest.approx(len(vocabulary), rel=1e-5)
        expected = -each.tokens * math.log(len(vocabulary))
        assert each.pseudo_log_likelihood == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_what_follows_in_a_word_is_masked_with_it(folder, vocabulary):
    """As the paper of PLL-word-l2r writes it, for "the zebu" of which zebu has four pieces."""
    encoder = open_encoder(str(folder), MASKED_LM_HEAD)
    ids = [vocabulary.id_of(each) for each in ("[CLS]", "the", "z", "##e", "##b", "##u", "[SEP]")]
    mask, total = vocabulary.id_of("[MASK]"), 0.0
    for place, hidden in ((1, [1]), (2, [2, 3, 4, 5]), (3, [3, 4, 5]), (4, [4, 5]), (5, [5])):
        masked = [mask if at in hidden else token for at, token in enumerate(ids)]
        features = {
            "input_ids": np.array([masked]),
            "input_mask": np.ones((1, len(ids)), int),
            "segment_ids": np.zeros((1, len(ids)), int),
            "masked_lm_positions": np.array([[place]]),
        }
        logits = np.array(encoder.model(features)["masked_lm_logits"], float)[0, 0]
        total += logits[ids[place]] - np.log(np.exp(logits).sum())
    (found,) = score(str(folder), ["the zebu"], whole_words=True)
    assert (found.tokens, found.characters) == (5, 7)
    assert found.pseudo_log_likelihood == pytest.approx(total, rel=1e-5)
    assert found.loss_per_character == pytest.approx(-total / 7, rel=1e-5)
    (others,) = score(str(folder), ["the zebu"])
    assert others.pseudo_log_likelihood != pytest.approx(total, rel=1e-7)


@pytest.mark.slow
def test_many_texts_are_scored_lot_by_lot(folder, monkeypatch):
    texts = ["the river", "a", "a b c d", "b a", "the river of a b"]
    expected, seen = score(str(folder), texts), []
    monkeypatch.setattr(asking, "COPIES_AT_ONCE", 3)
    found = score(str(folder), texts, lambda *numbers: seen.append(numbers))
    assert [each.text for each in found] == texts
    likelihoods = [each.pseudo_log_likelihood for each in expected]
    assert [each.pseudo_log_likelihood for each in found] == pytest.approx(likelihoods)
    assert len(seen) > 2 and seen[-1] == (14, 14) and seen == sorted(seen)


@pytest.mark.slow
def test_the_second_text_is_the_second_segment(folder, vocabulary):
    encoder = open_encoder(str(folder), NEXT_SENTENCE_HEAD)
    ids = [vocabulary.id_of(w) for w in ("[CLS]", "a", "[SEP]", "the", "river", "[SEP]")]
    features = {
        "input_ids": np.array([ids]),
        "input_mask": np.ones((1, 6), int),
        "segment_ids": np.array([[0, 0, 0, 1, 1, 1]]),
        "masked_lm_positions": np.zeros((1, 1), int),
    }
    logits = np.array(encoder.model(features)["next_sentence_logits"], float)[0]
    expected = np.exp(logits[0]) / np.exp(logits).sum()
    pairs = [("a", "the river"), ("the river of a", "b"), ("a", "the river")]
    found = score_next(encoder, pairs)
    assert found[0] == pytest.approx(expected, rel=1e-5) and found[2] == pytest.approx(found[0])
    assert found == pytest.approx(score_next(str(folder), pairs))


@pytest.mark.slow
def test_the_command(folder, tmp_path, capsys):
    assert run(["score", f"--model={folder}", "the river", "a b"]) == 0
    header, first, _ = capsys.readouterr().out.splitlines()
    assert header.split() == ["likelihood", "perplexity", "text"] and first.endswith("  the river")
    texts, output = tmp_path / "texts.txt", tmp_path / "scores.jsonl"
    texts.write_text("the river\na b\n")
    assert run(["score", f"--model={folder}", f"--input={texts}", f"--output={output}"]) == 0
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["text"] for row in rows] == ["the river", "a b"]
    assert rows[0]["pseudo_log_likelihood"] == pytest.approx(float(first.split()[0]), abs=0.01)
    loss = -sum(row["pseudo_log_likelihood"] for row in rows) / (8 + 2)
    told = f"{output}: scores of 2 texts, {loss:.4f} nats a character\n"
    assert capsys.readouterr().out == told
    assert rows[1]["loss_per_character"] == pytest.approx(-rows[1]["pseudo_log_likelihood"] / 2)
    assert run(["score", f"--model={folder}", "--next", "the river", "a b"]) == 0
    assert "%  the river | a b" in capsys.readouterr().out
    texts.write_text("the river\ta b\n")
    assert run(["score", f"--model={folder}", "--next", f"--input={texts}"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["a [MASK]"], "has a [MASK]; `beambert fill` answers it"),
        (["--next", "a"], "--next: needs two texts, got 1"),
        (["a " * 20], "has 22 tokens with [CLS] and [SEP]"),
        ([""], "'': is blank"),
    ],
)
def test_refusals(folder, capsys, flags, told):
    assert run(["score", f"--model={folder}", *flags]) == 2
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1


def test_a_file_without_pairs(folder, tmp_path, capsys):
    texts = tmp_path / "texts.txt"
    texts.write_text("a\tb\nno tab\n")
    assert run(["score", f"--model={folder}", "--next", f"--input={texts}"]) == 2
    assert f"--input={texts}, text 2: has 1 parts" in capsys.readouterr().err
