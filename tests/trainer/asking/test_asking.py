"""Encoders that are asked: texts and batches, answers at masks, scores of texts."""

import json
import math

import numpy as np
import pytest
from support import untrained_models

from beambert.cli import run
from beambert.console import no_report
from beambert.errors import InputError
from beambert.trainer import asking
from beambert.trainer.asking import fill, open_encoder, score
from beambert.trainer.embedding import embedder


@pytest.fixture(scope="module")
def folder(untrained):
    return untrained("encoder")


@pytest.fixture(scope="module")
def encoder(folder):
    return open_encoder(str(folder))


def test_a_mask_in_a_text_is_the_mask_token(encoder, vocabulary):
    mask = vocabulary.id_of("[MASK]")
    a, b = vocabulary.id_of("a"), vocabulary.id_of("b")
    ids = encoder.tokenize(["a [MASK] b", "[MASK]", "a[MASK][MASK]b", "a"])
    assert [row.tolist() for row in ids] == [[a, mask, b], [mask], [a, mask, mask, b], [a]]
    with pytest.raises(InputError, match=r"'  ': has no tokens; give a text"):
        encoder.tokenize(["a", "  "])


def test_too_many_tokens_are_refused(encoder):
    (ids,) = encoder.tokenize(["a " * 14])
    assert len(encoder.framed("", ids)) == untrained_models.LENGTH
    with pytest.raises(InputError, match="has 17 tokens with .CLS. and .SEP., but --model has 16"):
        encoder.framed("a a", *encoder.tokenize(["a " * 15]))


def test_batches_change_no_answer(encoder, monkeypatch):
    """Each row alone, without padding, or many together."""
    random = np.random.default_rng(1)
    rows = []
    for length in (3, 9, 5, 16, 4, 9):
        ids = random.integers(5, len(encoder.vocabulary), length).astype(np.int32)
        rows.append((ids, random.choice(length, 2, replace=False)))
    together = dict(encoder.masked_lm_logits(rows, no_report))
    seen = []
    monkeypatch.setattr(embedder, "BATCH_TOKENS", 1)
    alone = dict(encoder.masked_lm_logits(rows, lambda *done: seen.append(done)))
    assert seen == [(count, 6) for count in range(1, 7)]
    for number in range(6):
        np.testing.assert_allclose(together[number], alone[number], atol=1e-5)


def test_an_encoder_without_a_head(tmp_path, folder):
    """As `BertModel` of Hugging Face is: nothing is answered with random weights."""
    safetensors = pytest.importorskip("safetensors.numpy")
    from beambert.model.checkpoint_names import hugging_face_name
    from beambert.trainer.weights.initial import open_initial

    weights = {}
    for path, value in open_initial(str(folder), "--model").read().items():
        if path.startswith("bert/"):
            name, is_transposed = hugging_face_name(path)
            weights[name] = np.ascontiguousarray(value.T if is_transposed else value)
    other = tmp_path / "theirs"
    other.mkdir()
    safetensors.save_file(weights, other / "model.safetensors")
    for name in ("bert_config.json", "vocab.txt"):
        (other / name).write_bytes((folder / name).read_bytes())
    with pytest.raises(InputError, match="theirs: lacks the head .*cls/predictions"):
        open_encoder(str(other))


@pytest.mark.slow
def test_the_bias_alone_gives_known_probabilities(folder, vocabulary):
    """Without word embeddings, the logits are the bias: ln 3 for one token, 0 for the others."""
    encoder = open_encoder(str(folder))
    encoder.model.encoder.word_embeddings.assign(
        np.zeros_like(encoder.model.encoder.word_embeddings)
    )
    bias = np.zeros(len(vocabulary), np.float32)
    bias[vocabulary.id_of("river")] = np.log(3)
    encoder.model.masked_lm_head.output_bias_V.assign(bias)
    (filled,) = fill(encoder, ["a [MASK] b [MASK]"], 2)
    assert len(filled.answers) == 2
    for answers in filled.answers:
        (best, probability), (_, other) = answers
        assert best == "river"
        assert probability == pytest.approx(3 / (len(vocabulary) + 2), rel=1e-5)
        assert other == pytest.approx(1 / (len(vocabulary) + 2), rel=1e-5)


@pytest.mark.slow
def test_fill(folder, tmp_path, capsys):
    text = "the [MASK] of [MASK]"
    assert run(["fill", f"--model={folder}", text, "--top=3"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == text and [line for line in out if "[MASK] " in line[:9]] == out[1:6:4]
    assert sum("%" in line for line in out) == 6
    questions = tmp_path / "questions.txt"
    questions.write_text(f"{text}\n\n[MASK] river\n")
    output = tmp_path / "answers.jsonl"
    assert run(["fill", f"--model={folder}", f"--input={questions}", f"--output={output}"]) == 0
    first, second = map(json.loads, output.read_text().splitlines())
    assert first["text"] == text and len(first["answers"]) == 2 and len(second["answers"]) == 1
    expected = fill(str(folder), [text])[0].answers[0]
    assert [(answer["token"], answer["probability"]) for answer in first["answers"][0]] == [
        (token, pytest.approx(probability, rel=1e-4)) for token, probability in expected
    ]
    assert capsys.readouterr().out == f"{output}: answers to 2 texts\n"


@pytest.mark.slow
def test_an_encoder_that_knows_nothing_is_as_perplexed_as_its_vocabulary_is_large(
    folder, vocabulary
):
    encoder = open_encoder(str(folder))
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
    encoder = open_encoder(str(folder))
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
def test_score(folder, tmp_path, capsys):
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
