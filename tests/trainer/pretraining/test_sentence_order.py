"""`beambert pretrain --objective=sop`: sentence-order prediction on records of --pairs=sop."""

import json
import shutil

import numpy as np
import pytest
from support.small_pretraining import flags

from beambert.pipelines.shared.errors import InputError
from beambert.trainer.asking.scoring import score_next
from beambert.trainer.commands.export import main as export_main
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.model_folders import open_model
from beambert.trainer.pretrained_models import pretrained_model
from beambert.trainer.weights.initial import open_initial


@pytest.fixture(scope="module")
def order_folder(records_folder, tmp_path_factory):
    """The same records, whose labels are said to tell the order."""
    folder = shutil.copytree(records_folder, tmp_path_factory.mktemp("order") / "records")
    for part in (folder, folder / "eval"):
        info = json.loads((part / "info.json").read_text())
        info["parameters"]["pairs"] = "sop"
        (part / "info.json").write_text(json.dumps(info))
    return folder


@pytest.mark.release
def test_a_model_of_the_order_and_its_ways_out(
    order_folder, records_folder, small_config_file, read_rows, tmp_path, capsys
):
    folder = tmp_path / "encoder"
    pretrain_main(flags(order_folder, small_config_file, folder, objective="sop"))
    rows = read_rows(order_folder / "eval")
    features = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    model = pretrained_model(open_model(str(folder), "--model"))
    scores = model(features)["sentence_order_logits"].numpy()
    labels = features["next_sentence_labels"][:, 0]
    chances = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    results = json.loads((folder / "results.json").read_text())
    loss = -np.log(chances[np.arange(len(labels)), labels]).mean()
    assert results["sentence_order_loss"] == pytest.approx(loss, rel=1e-4)
    assert results["sentence_order_accuracy"] == pytest.approx((scores.argmax(-1) == labels).mean())
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
    assert "cls/sentence_order" in capsys.readouterr().out


def test_objectives_and_pairs_must_fit(order_folder, records_folder, small_config_file, tmp_path):
    for records, objective, message in (
        (order_folder, "bert", "'in order' or 'swapped'; give --objective=sop, .* --pairs=next`"),
        (records_folder, "sop", "'is next' or .*=bert, or .* `beambert data --pairs=sop`"),
        (records_folder, "copy", "'is next' or .*=bert, or .* `beambert data --pairs=copy`"),
    ):
        with pytest.raises(InputError, match=f"^--data={records}: .*{message}"):
            pretrain_main(flags(records, small_config_file, tmp_path / "m", objective=objective))
    assert not (tmp_path / "m").exists()
