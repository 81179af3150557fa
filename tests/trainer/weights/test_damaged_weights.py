"""Damaged and unfit weights of other systems are refused, and run nothing."""

import json
import pathlib
import shutil
import sys

import pytest
from support.golden_checkpoint import GOLDEN, load

from beambert.errors import InputError
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.weights.initial import open_initial


def change_config(folder, **values) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))


def test_a_variable_of_another_shape_is_named(golden):
    change_config(golden, intermediate_size=13)
    with pytest.raises(InputError, match=r"intermediate/dense/kernel has shape \(8, 12\)"):
        load(golden)


def test_missing_layers_are_named(golden):
    change_config(golden, num_hidden_layers=3)
    with pytest.raises(InputError, match=r"lacks bert/encoder/layer_2/attention.* and 11 more"):
        load(golden)


def test_a_longer_vocabulary_than_the_table_is_refused(golden):
    with open(golden / "vocab.txt", "a") as file:
        file.write("more\n")
    with pytest.raises(InputError, match="vocabulary has 59 tokens, but its configuration says 58"):
        open_initial(str(golden), "--init")


def test_truncated_weights_are_refused(golden):
    data = (GOLDEN / "model.safetensors").read_bytes()
    (golden / "model.safetensors").write_bytes(data[: len(data) // 2])
    with pytest.raises(
        InputError, match=r"model.safetensors: cannot be read \(.+\); copy it again"
    ):
        load(golden)


def test_a_torch_file_without_torch_names_both_ways_out(golden, monkeypatch):
    (golden / "model.safetensors").unlink()
    shutil.copy(GOLDEN / "pytorch_model.bin", golden)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"pytorch_model\.bin: .*pip install torch.*safetensors"):
        load(golden)


def test_a_pickle_that_asks_for_more_than_tensors_runs_nothing(golden, tmp_path):
    torch = pytest.importorskip("torch")

    class Evil:
        def __reduce__(self):
            return (pathlib.Path.touch, (tmp_path / "ran",))

    (golden / "model.safetensors").unlink()
    torch.save({"a": Evil()}, golden / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"pytorch_model\.bin: cannot be read"):
        load(golden)
    assert not (tmp_path / "ran").exists()


def test_a_bad_start_makes_no_folder(golden, make_records, tmp_path):
    initial = open_initial(str(golden), "--init")
    records = make_records(tmp_path / "records", vocabulary=initial.vocabulary, length=12)
    change_config(golden, intermediate_size=13)
    with pytest.raises(InputError, match="has shape"):
        pretrain_main([f"--data={records}", f"--init={golden}", f"--model_dir={tmp_path / 'm'}"])
    assert not (tmp_path / "m").exists()


def test_another_kind_of_model_is_refused(golden):
    change_config(golden, model_type="xlnet")
    with pytest.raises(InputError, match="config.json: .*model_type 'xlnet'"):
        open_initial(str(golden), "--init")


@pytest.mark.parametrize(
    ("remove", "message"),
    [
        ("config.json", "has no bert_config.json or config.json; copy it next to"),
        ("vocab.txt", "has no vocab.txt or tokenizer.json; copy one next to"),
        ("model.safetensors", "holds no weights"),
    ],
)
def test_what_is_missing_is_said(golden, remove, message):
    (golden / remove).unlink()
    with pytest.raises(InputError, match=message):
        open_initial(str(golden), "--init")


def test_records_are_no_weights(records_folder):
    with pytest.raises(InputError, match="is a records folder; name that of an encoder"):
        open_initial(str(records_folder), "--init")


@pytest.mark.parametrize("name", ["spm.model", "spiece.model", "vocab.json"])
def test_a_tokenizer_in_another_form_is_named(golden, name):
    """As DeBERTa-v3 is published: its folder has spm.model and no tokenizer.json."""
    (golden / "vocab.txt").unlink()
    (golden / name).write_bytes(b"")
    with pytest.raises(InputError) as caught:
        open_initial(str(golden), "--init")
    assert f"--init={golden}: its tokenizer is {name} and not a tokenizer.json" in str(caught.value)
    assert f"AutoTokenizer.from_pretrained('{golden}')" in str(caught.value)


def test_a_file_is_not_its_folder(golden):
    with pytest.raises(InputError, match=r"^--init=.*vocab\.txt: is a file; name the folder"):
        open_initial(str(golden / "vocab.txt"), "--init")


def test_nothing_there(tmp_path):
    with pytest.raises(InputError, match="no such folder or checkpoint"):
        open_initial(str(tmp_path / "none"), "--init")
