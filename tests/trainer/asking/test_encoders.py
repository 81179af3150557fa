"""Encoders that are asked: their texts, their batches, and what they lack."""

import numpy as np
import pytest
from support import untrained_models

from beambert.errors import InputError
from beambert.trainer import asking
from beambert.trainer.asking import MASKED_LM_HEAD, NEXT_SENTENCE_HEAD, open_encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory, vocabulary):
    folder = untrained_models.save_encoder(tmp_path_factory.mktemp("asked") / "e", vocabulary)
    return open_encoder(str(folder), MASKED_LM_HEAD)


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


@pytest.mark.parametrize("limit", ["BATCH_TOKENS", "BATCH_PLACES"])
def test_batches_change_no_answer(encoder, monkeypatch, limit):
    """Each row alone, without padding, or many together."""
    random = np.random.default_rng(1)
    rows = []
    for length in (3, 9, 5, 16, 4, 9):
        ids = random.integers(5, len(encoder.vocabulary), length).astype(np.int32)
        rows.append((ids, random.choice(length, 2, replace=False)))
    together = dict(encoder.masked_lm_logits(rows, asking.no_report))
    seen = []
    monkeypatch.setattr(asking, limit, 1)
    alone = dict(encoder.masked_lm_logits(rows, lambda *done: seen.append(done)))
    assert seen == [(count, 6) for count in range(1, 7)]
    for number in range(6):
        np.testing.assert_allclose(together[number], alone[number], atol=1e-5)


def test_an_encoder_without_a_head(tmp_path, vocabulary):
    """As `BertModel` of Hugging Face is: nothing is answered with random weights."""
    safetensors = pytest.importorskip("safetensors.numpy")
    folder = untrained_models.save_encoder(tmp_path / "own", vocabulary)
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
    for head in (MASKED_LM_HEAD, NEXT_SENTENCE_HEAD):
        with pytest.raises(InputError, match=f"theirs: lacks the head .*{head[0][:-1]}"):
            open_encoder(str(other), head)
