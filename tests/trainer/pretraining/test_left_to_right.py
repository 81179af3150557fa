"""`beambert pretrain --objective=ltr` against transformers, and from end to end."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
from support import small_finetuning, small_pretraining

from beambert.errors import InputError
from beambert.model.classifier import BertClassifier
from beambert.model.config import preset
from beambert.model.objectives import LTR
from beambert.model.pretrainer import BertPretrainer
from beambert.model.unpadding import Capacity
from beambert.pipelines.evaluate import main as evaluate_main
from beambert.trainer.asking import fill
from beambert.trainer.commands.export import main as export_main
from beambert.trainer.commands.finetune import main as finetune_main
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.pretraining.objective import LeftToRightObjective, next_tokens
from beambert.trainer.weights.initial import open_initial

GOLDEN = pathlib.Path(__file__).parents[1] / "golden_left_to_right"
NAMES = ("input_ids", "input_mask", "segment_ids")


def flags(records, config, model_dir, **others) -> list[str]:
    return small_pretraining.flags(records, config, model_dir, **{"objective": "ltr"} | others)


@pytest.fixture(scope="module")
def golden():
    return dict(np.load(GOLDEN / "outputs.npz").items())


@pytest.fixture(scope="module")
def of_transformers():
    """The model that transformers has written, as BertLMHeadModel."""
    initial = open_initial(str(GOLDEN), "--init")
    model = BertPretrainer(initial.config, objective=LTR)
    assert initial.load_into(model, "--init") == []
    return model


def masked(golden, number=3) -> dict[str, tf.Tensor]:
    """The golden texts as a masked batch; a slot of each row is not used."""
    ids = golden["input_ids"].astype(np.int32).copy()
    rows = len(ids)
    positions = np.zeros((rows, number + 1), np.int32)
    chosen = np.zeros_like(positions)
    for row in range(rows):
        tokens = int(golden["input_mask"][row].sum())
        places = np.random.default_rng(row).choice(np.arange(1, tokens), number, replace=False)
        positions[row, :number] = np.sort(places)
        chosen[row, :number] = ids[row, positions[row, :number]]
        ids[row, positions[row, :number]] = 4
    weights = np.tile(np.arange(number + 1) < number, (rows, 1)).astype(np.float32)
    features = {name: golden[name].astype(np.int32) for name in NAMES} | {"input_ids": ids}
    features |= {"masked_lm_positions": positions, "masked_lm_ids": chosen}
    return {n: tf.constant(v) for n, v in (features | {"masked_lm_weights": weights}).items()}


def test_the_text_is_read_without_its_masks(golden):
    found = next_tokens(masked(golden))
    np.testing.assert_array_equal(found["input_ids"], golden["input_ids"])
    np.testing.assert_array_equal(found["masked_lm_ids"], golden["input_ids"][:, 1:])
    np.testing.assert_array_equal(found["masked_lm_weights"], golden["input_mask"][:, 1:])


def test_logits_and_loss_are_those_of_transformers(of_transformers, golden):
    features = masked(golden)
    logits = of_transformers(next_tokens(features))["masked_lm_logits"]
    is_token = golden["input_mask"][:, :-1] > 0
    expected = golden["masked_lm_logits"][:, :-1]
    np.testing.assert_allclose(logits.numpy()[is_token], expected[is_token], atol=1e-5)
    objective = LeftToRightObjective()
    sums, weights = objective.sums(of_transformers, features, None), objective.weights(features)
    loss = sums["language_model_loss"] / weights["predictions"]
    assert float(loss) == pytest.approx(float(golden["loss"]), abs=1e-5)


def test_without_padding_it_computes_the_same(of_transformers, golden):
    features = masked(golden)
    shape = tuple(features["input_ids"].shape)
    tokens = int(golden["input_mask"].sum())
    objective = LeftToRightObjective({shape: Capacity(tokens + 2, tokens + 2)})
    assert objective.way(features) == 1
    padded, packed = (way(of_transformers, features, None) for way in objective.ways())
    assert padded.keys() == packed.keys()
    for name in padded:
        np.testing.assert_allclose(padded[name], packed[name], rtol=1e-5)


def test_a_classifier_reads_the_last_token():
    """The one token that has seen all others; so no other token's place changes the answer."""
    config = preset("tiny", 50)
    decoder = dataclasses.replace(config, is_decoder=True)
    classifier = BertClassifier(decoder, 2, seed=3)
    random = np.random.default_rng(0)
    ids = random.integers(5, 50, (2, 8)).astype(np.int32)
    mask = (np.arange(8) < np.array([8, 5])[:, None]).astype(np.int32)
    features = {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}
    logits = classifier(features).numpy()
    for row, last in ((0, 7), (1, 4)):
        cut = {name: value[row : row + 1, : last + 1] for name, value in features.items()}
        hidden = classifier.encoder.encode(*(cut[name] for name in NAMES))[-1:]
        alone = classifier.classifier(classifier.encoder.pooler(hidden))
        np.testing.assert_allclose(logits[row : row + 1], alone, atol=1e-5)
    changed = ids.copy()
    changed[:, 0] = 5  # [CLS] itself is seen by the last token
    assert np.abs(classifier(features | {"input_ids": changed}).numpy() - logits).max() > 1e-4


@pytest.fixture(scope="module")
def left_to_right_folder(records_folder, small_config_file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ltr") / "encoder"
    pretrain_main(flags(records_folder, small_config_file, folder, num_train_steps=40))
    return folder


@pytest.mark.release
def test_it_learns_and_says_so(left_to_right_folder):
    rows = [json.loads(line) for line in (left_to_right_folder / "metrics.jsonl").open()]
    losses = [row["language_model_loss"] for row in rows if row["split"] == "eval"]
    assert losses[-1] < losses[0] - 0.3
    results = json.loads((left_to_right_folder / "results.json").read_text())
    assert set(results) == {
        *("loss", "language_model_loss", "language_model_accuracy", "language_model_perplexity")
    }
    training = json.loads((left_to_right_folder / "training.json").read_text())
    assert training["objective"] == "ltr"
    config = json.loads((left_to_right_folder / "bert_config.json").read_text())
    assert config["is_decoder"] is True


@pytest.mark.release
def test_it_is_fine_tuned_but_not_asked(left_to_right_folder, task_folder, tmp_path):
    with pytest.raises(InputError, match="reads text from left to right, so it cannot fill"):
        fill(str(left_to_right_folder), ["the [MASK] of a"])
    finetune_main(small_finetuning.flags(task_folder, left_to_right_folder, tmp_path / "model"))
    assert small_finetuning.results(tmp_path / "model")["accuracy"] > 0.5
    config = json.loads((tmp_path / "model" / "bert_config.json").read_text())
    assert config["is_decoder"] is True
    with pytest.raises(InputError, match="classifies the last token, which no class of transf"):
        export_main(
            [f"--model={tmp_path / 'model'}", "--to=huggingface", f"--output={tmp_path / 'hf'}"]
        )


@pytest.mark.release
def test_a_bilstm_on_top(left_to_right_folder, task_folder, tmp_path):
    """Trained, judged as a SavedModel, and refused where no other system knows it."""
    model = tmp_path / "model"
    arguments = small_finetuning.flags(
        task_folder, left_to_right_folder, model, num_bilstm_layers=1
    )
    finetune_main(arguments)
    accuracy = small_finetuning.results(model)["accuracy"]
    assert accuracy > 0.8
    task = [f"--data_dir={task_folder}", "--task=classification"]
    evaluate_main([*task, f"--model={model}", f"--output={tmp_path / 'evaluation'}"])
    metrics = json.loads((tmp_path / "evaluation" / "metrics.json").read_text())
    assert metrics["overall"]["accuracy"] == pytest.approx(accuracy)
    with pytest.raises(InputError, match="a BiLSTM on top of the encoder, which no class of"):
        export_main([f"--model={model}", "--to=huggingface", f"--output={tmp_path / 'hf'}"])
    with pytest.raises(InputError, match="--num_bilstm_layers there 1, here null"):
        finetune_main(arguments[:-1])


@pytest.mark.slow
def test_exports(left_to_right_folder, tmp_path):
    export = [f"--model={left_to_right_folder}", f"--output={tmp_path / 'out'}"]
    with pytest.raises(InputError, match="which the original release does not know"):
        export_main([*export, "--to=tf1"])
    export_main([*export, "--to=huggingface"])
    mine, theirs = (
        safetensors.numpy.load_file(folder / "model.safetensors")
        for folder in (tmp_path / "out", GOLDEN)
    )
    assert {n.split(".layer.")[0] for n in mine} == {n.split(".layer.")[0] for n in theirs}
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["architectures"] == ["BertLMHeadModel"] and config["is_decoder"] is True


@pytest.mark.slow
def test_masks_of_records_change_nothing(make_records, small_config_file, tmp_path):
    """Records of the same text with masks and without teach the same, to the bit."""
    for masks in ("static", "none"):
        make_records(tmp_path / masks, masks=masks)
        arguments = flags(tmp_path / masks, small_config_file, tmp_path / f"of {masks}")
        pretrain_main(arguments)
    small_pretraining.assert_same_weights(tmp_path / "of static", tmp_path / "of none")
