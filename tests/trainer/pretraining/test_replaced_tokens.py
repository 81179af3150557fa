"""Pre-training by replaced-token detection, as of ELECTRA and as of DeBERTa-v3."""

import json

import numpy as np
import pytest
import safetensors.numpy
from support import small_finetuning, small_pretraining

from beambert.errors import InputError
from beambert.model.families.debertav2 import DebertaV2Config
from beambert.trainer.asking import fill
from beambert.trainer.commands.export import main as export_main
from beambert.trainer.commands.finetune import main as finetune_main
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.weights.initial import open_initial

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


TABLE = "deberta-v2/embeddings/word_embeddings"
DELTA = f"{TABLE}_delta"


@pytest.fixture(scope="module")
def config_file(tmp_path_factory, vocabulary):
    path = tmp_path_factory.mktemp("config") / "config.json"
    sizes = {"max_position_embeddings": 40, "position_buckets": 8}
    path.write_text(DebertaV2Config(len(vocabulary), 16, 2, 2, 24, **sizes).to_json())
    return path


def deberta_flags(records, config, model_dir, **others) -> list[str]:
    return small_pretraining.flags(records, config, model_dir, **{"objective": "rtd"} | others)


@pytest.fixture(scope="module")
def deberta_folder(records_folder, config_file, tmp_path_factory):
    """A finished encoder of replaced token detection."""
    path = tmp_path_factory.mktemp("rtd") / "encoder"
    pretrain_main(deberta_flags(records_folder, config_file, path))
    return path


def values_of(path) -> dict[str, np.ndarray]:
    return dict(open_initial(str(path), "--init").read())


@pytest.mark.slow
def test_it_learns_both_tables(deberta_folder, config_file):
    rows = [json.loads(line) for line in (deberta_folder / "metrics.jsonl").open()]
    losses = [row["loss"] for row in rows if row["split"] == "train"]
    assert losses[-1] < losses[0] - 1
    training = json.loads((deberta_folder / "training.json").read_text())
    assert (training["objective"], training["generator_size"]) == ("rtd", 0.5)
    values = values_of(deberta_folder)
    assert np.abs(values[DELTA]).max() > 1e-3
    assert "generator/encoder/layer_0/output/layer_norm/gamma" in values
    assert "generator/encoder/layer_1/output/layer_norm/gamma" not in values


@pytest.mark.slow
def test_the_exported_embeddings_are_the_sum(deberta_folder, tmp_path):
    out, values = tmp_path / "hf", values_of(deberta_folder)
    export_main([f"--model={deberta_folder}", "--to=huggingface", f"--output={out}"])
    arrays = safetensors.numpy.load_file(out / "model.safetensors")
    name = "deberta.embeddings.word_embeddings.weight"
    np.testing.assert_array_equal(arrays[name], values[TABLE] + values[DELTA])
    assert not [name for name in arrays if "delta" in name or "generator" in name]
    config = json.loads((out / "config.json").read_text())
    assert config["architectures"] == ["DebertaV2Model"] and config["model_type"] == "deberta-v2"
    again = values_of(out)
    for path in again.keys() - {TABLE}:
        np.testing.assert_array_equal(again[path], values[path], err_msg=path)


@pytest.mark.slow
def test_a_generator_of_another_depth_is_refused(deberta_folder, records_folder, tmp_path):
    message = r"size=1.0: makes a generator of 2 layers, but that of --init=.* has 1; give 0\.5$"
    given = {"init": deberta_folder, "generator_size": 1.0}
    with pytest.raises(InputError, match=message):
        pretrain_main(deberta_flags(records_folder, None, tmp_path / "m", **given))
    assert not (tmp_path / "m").exists()
