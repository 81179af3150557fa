"""Losses of vectors beside sentence-transformers, and what cannot be learnt."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from beambert.errors import InputError
from beambert.model.config import BertConfig
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.reading import read_file
from beambert.trainer.commands.finetune import main as finetune_main
from beambert.trainer.tasks import vectors as vector_objectives
from beambert.trainer.tasks.sparse import SparseObjective

GOLDEN = json.loads((pathlib.Path(__file__).parent / "golden_losses.json").read_text())


def loss_of(case, vectors, ids, weights):
    """The mean loss of a batch, with the settings of a golden case."""
    if case["loss"] == "sparse":
        task = dataclasses.replace(find_task("sparse"), flops_weight=case["flops_weight"])
        features = {"text_ids": ids, "example_weights": weights}
        sums = SparseObjective([8], task, 8).sums_of(vectors, features)
        return (sums["cross_entropy"] + sums["flops"]) / tf.reduce_sum(weights)

    def loss(some):
        if case["loss"] == "in_batch":
            given = some, ids, weights, case["temperature"]
            return tf.reduce_mean(vector_objectives.in_batch(*given)[0])
        found, scores = vector_objectives.cosines(some), tf.constant(case["scores"])
        if case["loss"] == "cosent":
            return vector_objectives.cosent(found, scores, weights, case["temperature"])
        return tf.reduce_mean(tf.math.squared_difference(found, scores))

    return vector_objectives.at_dims(loss, vectors, case.get("matryoshka_dims", ()))


def different_ids(vectors):
    return tf.reshape(tf.range(np.prod(vectors.shape[:2]), dtype=tf.int64), vectors.shape[:2])


@pytest.mark.parametrize("name", GOLDEN)
def test_losses_and_gradients_are_sentence_transformers(name):
    case = GOLDEN[name]
    vectors = tf.Variable(case["vectors"])
    with tf.GradientTape() as tape:
        value = loss_of(case, vectors, different_ids(vectors), tf.ones(vectors.shape[0]))
    assert float(value) == pytest.approx(case["value"], abs=1e-5, rel=1e-5)
    np.testing.assert_allclose(tape.gradient(value, vectors), case["gradient"], atol=1e-5)


@pytest.mark.parametrize("name", ["two negatives", "cosent", "sparse"])
def test_rows_that_fill_up_a_batch_do_not_count(name):
    case = GOLDEN[name]
    real = tf.constant(case["vectors"])
    filled = tf.concat([real, real[:2] + 1.0], 0)
    weights = tf.concat([tf.ones(6), tf.zeros(2)], 0)
    if name == "cosent":
        scores = tf.constant([*case["scores"], 9.0, -9.0])
        found = vector_objectives.cosent(
            vector_objectives.cosines(filled), scores, weights, case["temperature"]
        )
        assert float(found) == pytest.approx(case["value"], abs=1e-5)
        return
    if name == "sparse":
        found = loss_of(case, filled, different_ids(filled), weights)
        assert float(found) == pytest.approx(case["value"], abs=1e-5)
        return
    losses, _ = vector_objectives.in_batch(
        filled, different_ids(filled), weights, case["temperature"]
    )
    assert float(tf.reduce_mean(losses[:6])) == pytest.approx(case["value"], abs=1e-5)


def in_batch_by_hand(vectors, ids, temperature):
    """The same with loops over rows, and a set of the texts that are no negatives."""
    units = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    losses = []
    for row in range(len(units)):
        right = {ids[other][1] for other in range(len(ids)) if ids[other][0] == ids[row][0]}
        logits = [units[row, 0] @ units[row, 1] / temperature]
        for other in range(len(units)):
            for place in range(1, units.shape[1]):
                is_own = (other, place) == (row, 1)
                if not is_own and ids[other][place] not in {*right, ids[row][0]}:
                    logits.append(units[row, 0] @ units[other, place] / temperature)
        losses.append(np.log(np.sum(np.exp(logits))) - logits[0])
    return losses


def test_equal_texts_are_no_negatives():
    vectors = np.random.default_rng(3).normal(size=(5, 3, 4))
    # Rows 0 and 1 ask for the same text, rows 2 and 3 are the same question, and the text of row 4
    # is the question of row 0; the negative of row 1 is the right text of row 2, and so right for
    # the question of row 3 too.
    ids = [[1, 2, 11], [3, 2, 5], [4, 5, 13], [4, 6, 14], [7, 1, 15]]
    arguments = tf.constant(vectors, tf.float32), tf.constant(ids, tf.int64), tf.ones(5), 0.1
    losses, _ = vector_objectives.in_batch(*arguments)
    np.testing.assert_allclose(losses, in_batch_by_hand(vectors, ids, 0.1), rtol=1e-5)
    # It makes a difference: with other ids the same vectors have greater losses.
    others, _ = vector_objectives.in_batch(arguments[0], different_ids(vectors), *arguments[2:])
    assert (np.array(losses) < np.array(others) - 1e-3).sum() >= 4


def test_whole_vectors_are_learnt_beside_their_parts():
    """Each width once, whether the whole one is listed or not."""
    vectors = tf.constant(np.random.default_rng(4).normal(size=(3, 2, 6)), tf.float32)

    def loss(some):
        return tf.reduce_sum(some**2)

    expected = sum(np.sum(vectors.numpy()[..., :width] ** 2) for width in (6, 4, 2))
    for dims in ((4, 2), (6, 4, 2), (2, 6, 4)):
        found = vector_objectives.at_dims(loss, vectors, dims)
        assert float(found) == pytest.approx(expected, rel=1e-5)


PAIR = {"text": "the river", "text_b": "a city"}
ROWS = {"embedding": PAIR, "single": {"text": "the river"}, "similarity": PAIR | {"label": 5}}


def written(folder, split, *rows):
    folder.mkdir(exist_ok=True)
    (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(folder)


def refused(task, rows, config, vocabulary, folder, *flags) -> str:
    """What `finetune` says, from random weights."""
    for split, row in (("train", ROWS[rows]), ("dev", PAIR | ROWS[rows])):
        written(folder / "data", split, *[row] * 32)
    (folder / "vocab.txt").write_bytes(vocabulary.serialize())
    given = [f"--task={task}", f"--data_dir={folder}/data", "--init=random", f"--model={config}"]
    given += [f"--vocab_file={folder}/vocab.txt", f"--model_dir={folder}/model", *flags]
    with pytest.raises(InputError) as caught:
        finetune_main(given)
    return str(caught.value)


@pytest.mark.parametrize(
    ("task", "rows", "said"),
    [
        ("similarity", [PAIR | {"label": "NaN"}], "'NaN' for a score"),
        ("similarity", [{"text": "a", "label": "1"}], "no column 'text_b'"),
        ("embedding", [PAIR, {"text": "a"}], "has 'text_b' in some rows only"),
        ("embedding", [PAIR | {"label": "0"}], "--task=similarity"),
        ("embedding", [PAIR | {"negative": "a"}, PAIR], "different numbers of negatives"),
        ("embedding", [{"text": "a", "negative": "b"}], "has negatives but no column 'text_b'"),
    ],
)
def test_rows_that_cannot_be_learnt(tmp_path, task, rows, said):
    with pytest.raises(InputError, match=said.replace("'", ".")):
        read_file(find_task(task), written(tmp_path / "data", "train", *rows), "train")


@pytest.mark.parametrize(
    ("task", "flags", "said"),
    [
        ("embedding", ["--matryoshka_dims=64,999"], "--matryoshka_dims=64,999: "),
        ("embedding", ["--train_batch_size=1"], "--train_batch_size=1: leaves one example"),
        ("embedding", ["--freeze_encoder"], "--freeze_encoder=True: "),
        ("similarity", ["--loss=cosine"], "has the score 5, which no cosine can be"),
    ],
)
def test_settings_that_cannot_be_used(small_config_file, vocabulary, tmp_path, task, flags, said):
    assert said in refused(task, task, small_config_file, vocabulary, tmp_path, *flags)


def test_single_texts_need_dropout(vocabulary, tmp_path):
    """As ModernBERT's encoders have none by default."""
    config = BertConfig(
        vocab_size=len(vocabulary.tokens),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
    ).with_dropout(0.0)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config.to_values()))
    said = refused("embedding", "single", path, vocabulary, tmp_path)
    assert "has no dropout, under which " in said and "; add a column 'text_b' to train" in said
