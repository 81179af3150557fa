"""Checkpoints of a pre-training, exported while it is running."""

import shutil

import pytest
import safetensors.numpy

from beambert.errors import InputError
from beambert.trainer.commands.export import main as export_main
from beambert.trainer.weights.initial import open_initial


@pytest.fixture
def running(encoder_folder, tmp_path):
    """The folder of a pre-training that has not ended."""
    folder = shutil.copytree(encoder_folder, tmp_path / "encoder")
    (folder / "_SUCCESS").rename(folder / "_UNFINISHED")
    (folder / "model.weights.h5").unlink()
    return folder


def test_a_checkpoint_of_a_running_training_is_exported(running, encoder_folder, tmp_path):
    """The last checkpoint has the weights of the finished model."""
    out = tmp_path / "out"
    flags = [f"--model={running}", "--to=huggingface", f"--output={out}"]
    export_main([*flags, "--checkpoint=150"])
    finished = tmp_path / "finished"
    export_main([f"--model={encoder_folder}", "--to=huggingface", f"--output={finished}"])
    mine, theirs = (
        safetensors.numpy.load_file(folder / "model.safetensors") for folder in (out, finished)
    )
    assert mine.keys() == theirs.keys()
    for name, value in theirs.items():
        assert (mine[name] == value).all()
    assert open_initial(str(out), "--init").config.hidden_size == 32


def test_a_checkpoint_in_a_folder_of_its_own_is_exported(running, tmp_path):
    (running / "checkpoints").rename(tmp_path / "elsewhere")
    flags = [f"--model={running}", "--to=tf1", f"--output={tmp_path / 'out'}", "--checkpoint=150"]
    export_main([*flags, f"--checkpoint_dir={tmp_path / 'elsewhere'}"])
    assert list((tmp_path / "out").glob("*.ckpt.index"))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--checkpoint=7", "--to=tf1"], r"--checkpoint=7: .* choose one of its steps"),
        (["--checkpoint=150"], "--checkpoint=150: needs --to=huggingface"),
        (["--checkpoint=150", "--checkpoint_dir=/no/such", "--to=tf1"], "has no such checkpoint"),
    ],
)
def test_what_cannot_be_exported_is_refused(running, tmp_path, flags, message):
    with pytest.raises(InputError, match=message):
        export_main([f"--model={running}", f"--output={tmp_path / 'out'}", *flags])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("google/bert_x.y", "`hf download google/bert_x.y --local-dir bert_x.y`"),
        ("/no/such/folder", None),
    ],
)
def test_a_name_of_the_hub_is_not_downloaded(path, advice, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tensorflow.io.gfile.exists", lambda _: False)
    with pytest.raises(InputError, match=f"^--init={path}: no such folder or checkpoint") as caught:
        open_initial(path, "--init")
    assert ("nothing is downloaded" in str(caught.value)) is (advice is not None)
    assert (advice or "check the path") in str(caught.value)
