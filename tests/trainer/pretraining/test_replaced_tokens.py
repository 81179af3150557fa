"""`beambert pretrain --objective=rtd` from end to end, and the use of its models."""

import json

import pytest
from support import small_finetuning, small_pretraining

from beambert.errors import InputError
from beambert.trainer.asking import fill
from beambert.trainer.commands.export import main as export_main
from beambert.trainer.commands.finetune import main as finetune_main
from beambert.trainer.commands.pretrain import main as pretrain_main

SIZE = 0.5


def flags(records, config, model_dir, **others) -> list[str]:
    given = {"objective": "rtd", "generator_size": SIZE} | others
    return small_pretraining.flags(records, config, model_dir, **given)


@pytest.fixture(scope="module")
def electra_folder(records_folder, small_config_file, tmp_path_factory):
    """A finished encoder of replaced token detection."""
    folder = tmp_path_factory.mktemp("rtd") / "encoder"
    pretrain_main(flags(records_folder, small_config_file, folder))
    return folder


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"generator_size": 0.0}, "=0.0: must be more than 0 and at most 1"),
        ({"generator_size": 1.5}, "=1.5: must be more than 0 and at most 1"),
        ({"generator_size": 0.001}, "=0.001: no generator can be made so .hidden_size must be a"),
        ({"objective": "mlm"}, "=0.5: needs --objective=rtd; leave it out"),
    ],
)
def test_impossible_generators_are_refused(
    others, message, records_folder, small_config_file, tmp_path
):
    with pytest.raises(InputError, match=f"^--generator_size{message}"):
        pretrain_main(flags(records_folder, small_config_file, tmp_path / "m", **others))
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_it_fills_no_masks(electra_folder):
    with pytest.raises(InputError, match="lacks the head cls/predictions"):
        fill(str(electra_folder), ["the [MASK] of a"])


@pytest.mark.release
def test_it_is_fine_tuned_and_exported_as_a_bert(electra_folder, task_folder, tmp_path, capsys):
    folder, out = tmp_path / "classifier", tmp_path / "out"
    finetune_main(small_finetuning.flags(task_folder, electra_folder, folder))
    assert f"{electra_folder}: has no pooler" in capsys.readouterr().out
    assert small_finetuning.results(folder)["accuracy"] > 0.5
    export_main([f"--model={folder}", "--to=huggingface", f"--output={out}"])
    config = json.loads((out / "config.json").read_text())
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["model_type"] == "bert" and "embedding_size" not in config
