"""Objectives of pre-training with other labels of pairs than next sentence prediction."""

import functools
import json
import shutil

import numpy as np
import pytest
from support.small_pretraining import flags

from beambert.errors import InputError
from beambert.trainer.asking import score_next
from beambert.trainer.commands.export import main as export_main
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.model_folders import open_model
from beambert.trainer.models import pretrained_model
from beambert.trainer.weights.initial import open_initial


@pytest.fixture(scope="module")
def folder_of(records_folder, tmp_path_factory):
    """Returns the same records, whose labels are said to be those of a value of --pairs."""

    @functools.cache
    def make(pairs):
        folder = shutil.copytree(records_folder, tmp_path_factory.mktemp(pairs) / "records")
        for part in (folder, folder / "eval"):
            info = json.loads((part / "info.json").read_text())
            info["parameters"]["pairs"] = pairs
            (part / "info.json").write_text(json.dumps(info))
        return folder

    return make


@pytest.mark.release
@pytest.mark.parametrize(("objective", "task"), [("sop", "sentence_order"), ("copy", "copy")])
def test_a_model_and_its_ways_out(
    folder_of, records_folder, small_config_file, read_rows, tmp_path, capsys, objective, task
):
    folder, records = tmp_path / "encoder", folder_of(objective)
    pretrain_main(flags(records, small_config_file, folder, objective=objective))
    rows = read_rows(records / "eval")
    features = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    model = pretrained_model(open_model(str(folder), "--model"))
    scores = model(features)[f"{task}_logits"].numpy()
    labels = features["next_sentence_labels"][:, 0]
    chances = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    results = json.loads((folder / "results.json").read_text())
    loss = -np.log(chances[np.arange(len(labels)), labels]).mean()
    assert results[f"{task}_loss"] == pytest.approx(loss, rel=1e-4)
    assert results[f"{task}_accuracy"] == pytest.approx((scores.argmax(-1) == labels).mean())
    assert results["loss"] == pytest.approx(loss + results["masked_lm_loss"], rel=1e-4)
    assert not [name for name in results if "next" in name]

    export_main([f"--model={folder}", f"--output={tmp_path / 'hf'}", "--to=huggingface"])
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["architectures"] == ["BertForPreTraining"]
    exported = open_initial(str(tmp_path / "hf"), "--init").read()
    kernel = model.pair_head.kernel.numpy()
    np.testing.assert_array_equal(exported["cls/seq_relationship/kernel"], kernel)

    with pytest.raises(InputError, match="lacks the head that this needs .*seq_relationship"):
        score_next(str(folder), [("a b", "c d")])
    capsys.readouterr()
    pretrain_main(flags(records_folder, None, tmp_path / "next", init=folder))
    assert f"cls/{task}" in capsys.readouterr().out


def test_objectives_and_pairs_must_fit(folder_of, records_folder, small_config_file, tmp_path):
    for records, objective, message in (
        (
            folder_of("sop"),
            "bert",
            "'in order' or 'swapped'; give --objective=sop, .* --pairs=next`",
        ),
        (records_folder, "sop", "'is next' or .*=bert, or .* `beambert data --pairs=sop`"),
        (folder_of("copy"), "sop", "'copy' or 'other text'; give --objective=copy, or "),
        (records_folder, "copy", "'is next' or .*=bert, or .* `beambert data --pairs=copy`"),
    ):
        with pytest.raises(InputError, match=f"^--data={records}: .*{message}"):
            pretrain_main(flags(records, small_config_file, tmp_path / "m", objective=objective))
    assert not (tmp_path / "m").exists()
