"""`--lora_rank`: what changes, what stays, and that the model has it merged."""

import json

import h5py
import numpy as np
import pytest
import safetensors.numpy
from support.small_finetuning import flags, results

import beambert
from beambert.errors import InputError
from beambert.trainer.commands.finetune import main as finetune_main
from beambert.trainer.commands.pretrain import main as pretrain_main

RANK = 2
# Its steps cost more than the compiler.
WITH_XLA = True


def weights(folder) -> dict[str, np.ndarray]:
    """The arrays of a model folder's encoder by name."""
    found = {}
    with h5py.File(folder / "model.weights.h5") as file:
        file["encoder"].visititems(
            lambda name, item: found.update({name: item[()]}) if hasattr(item, "shape") else None
        )
    return found


@pytest.fixture(scope="module")
def lora_folder(task_folder, encoder_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lora") / "model"
    given = {"num_train_epochs": 6, "lora_rank": RANK}
    finetune_main(flags(task_folder, encoder_folder, folder, **given))
    return folder


@pytest.mark.slow
def test_it_learns_changes_of_this_rank_in_dense_layers_only(lora_folder, encoder_folder):
    assert results(lora_folder)["accuracy"] > 0.95
    before, after = weights(encoder_folder), weights(lora_folder)
    assert before.keys() == after.keys()
    changed = {name for name in after if not np.array_equal(before[name], after[name])}
    assert changed == {
        name for name in after if after[name].ndim == 2 and "/embeddings/" not in f"/{name}"
    }
    for name in changed:
        singular = np.linalg.svd(after[name] - before[name], compute_uv=False)
        assert singular[RANK - 1] > 1e-4 > 10 * singular[RANK], name


@pytest.mark.slow
def test_the_merged_model_answers_as_the_trained_one(lora_folder, task_folder):
    rows = [line.split("\t") for line in (task_folder / "dev.tsv").read_text().splitlines()[1:]]
    answers = beambert.load(str(lora_folder)).predict([text for text, _ in rows])
    right = [answer["label"] == label for answer, (_, label) in zip(answers, rows, strict=True)]
    assert np.mean(right) == pytest.approx(results(lora_folder)["accuracy"])


@pytest.mark.slow
def test_the_adapter_has_what_was_learnt(lora_folder, encoder_folder):
    """As PEFT reads it: A and B by the names of `transformers`, and the head whole."""
    arrays = safetensors.numpy.load_file(lora_folder / "adapter" / "adapter_model.safetensors")
    config = json.loads((lora_folder / "adapter" / "adapter_config.json").read_text())
    assert config["r"] == RANK and config["modules_to_save"] == ["classifier"]
    name = "base_model.model.bert.encoder.layer.0.attention.self.query.lora_{}.weight"
    first, second = (arrays[name.format(letter)] for letter in "AB")
    before, after = weights(encoder_folder), weights(lora_folder)
    [kernel] = [path for path in after if "query" in path and after[path].ndim == 2 and "0" in path]
    change = (second @ first).T * config["lora_alpha"] / RANK
    np.testing.assert_allclose(after[kernel] - before[kernel], change, atol=1e-6)
    assert len(config["target_modules"]) == len(set(config["target_modules"]))
    assert len(arrays) == 2 * len(config["target_modules"]) + 2


def test_a_frozen_encoder_has_no_changes(task_folder, encoder_folder, tmp_path):
    both = ["--lora_rank=2", "--freeze_encoder"]
    with pytest.raises(InputError, match="--lora_rank=2: "):
        finetune_main([*flags(task_folder, encoder_folder, tmp_path / "model"), *both])


@pytest.mark.slow
def test_an_encoder_is_continued_by_changes_of_a_rank(encoder_folder, records_folder, tmp_path):
    given = {"init": encoder_folder, "data": records_folder, "model_dir": tmp_path / "model"}
    given |= {"num_train_steps": 20, "train_batch_size": 16, "lora_rank": RANK}
    pretrain_main([f"--{name}={value}" for name, value in given.items()])
    before, after = weights(encoder_folder), weights(tmp_path / "model")
    assert before.keys() == after.keys()
    arrays = safetensors.numpy.load_file(tmp_path / "model/adapter/adapter_model.safetensors")
    assert {name.split(".")[2] for name in arrays} == {"encoder", "pooler"}  # and no head
    for name in after:
        if after[name].ndim == 2 and "/embeddings/" not in f"/{name}" and "pooler" not in name:
            singular = np.linalg.svd(after[name] - before[name], compute_uv=False)
            assert singular[RANK - 1] > 10 * singular[RANK], name
        elif after[name].ndim == 2 and "pooler" not in name:
            np.testing.assert_array_equal(before[name], after[name])
