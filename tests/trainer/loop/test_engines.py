"""JAX beside TensorFlow: losses, checkpoints of the other, several devices, no TensorFlow."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
from support.small_finetuning import flags as finetuning_flags
from support.small_finetuning import write_task
from support.small_pretraining import flags

from beambert.errors import InputError
from beambert.trainer.asking import fill, score
from beambert.trainer.commands.finetune import main as finetune_main
from beambert.trainer.commands.pretrain import main as pretrain_main
from beambert.trainer.embedding.embedder import embed
from beambert.trainer.loop.config import Devices
from beambert.trainer.loop.engine import choose_engine, translate_out_of_memory

STEPS = 6
ROOT = pathlib.Path(__file__).parents[3]
WITHOUT_TENSORFLOW = """
import sys
for name in ("tensorflow", "tensorflow_text", "apache_beam", "tfx_bsl"):
    sys.modules[name] = None
from beambert.cli import run
import json
sys.exit(max(map(run, json.loads(sys.argv[1]))))
"""


def train_on_jax(arguments: list[str], devices: int = 1) -> str:
    return run_on_jax(["pretrain", "--engine=jax", *arguments], devices=devices)


def run_on_jax(*commands: list[str], devices: int = 1) -> str:
    """Runs commands in a process, where TensorFlow cannot be imported; returns their output."""
    pytest.importorskip("jax")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
    }
    environment.pop("KERAS_BACKEND", None)
    command = [sys.executable, "-c", WITHOUT_TENSORFLOW, json.dumps(commands)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def arguments_of(records, config, folder, start=None, **others) -> list[str]:
    """Returns the command line of a training; `start` is a checkpoint that it begins from."""
    if start:
        begin_from(start, folder)
    given = {"keep_checkpoints": "all", "eval_steps": 1}
    return flags(records, config, folder, **given, **others)


def begin_from(start: pathlib.Path, folder: pathlib.Path) -> None:
    """Makes the folder of a training that was interrupted after a checkpoint of the same job."""
    shutil.copytree(start, folder / "checkpoints" / start.name)
    shutil.copy(start.parents[1] / "_SUCCESS", folder / "_UNFINISHED")


def losses(folder: pathlib.Path) -> dict[int, float]:
    """Returns the held-out loss of every step."""
    rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return {row["step"]: row["loss"] for row in rows if row["split"] == "eval"}


def checkpoint(folder: pathlib.Path, step: int) -> pathlib.Path:
    return folder / "checkpoints" / f"ckpt-{step:06d}"


def weights(folder: pathlib.Path, step: int = STEPS) -> dict[str, np.ndarray]:
    return safetensors.numpy.load_file(checkpoint(folder, step) / "model.safetensors")


def assert_close(mine: pathlib.Path, theirs: pathlib.Path, difference: float) -> None:
    found, expected = weights(mine), weights(theirs)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=difference, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"objective": "rtd", "optimizer": "adamw_corrected"},
        {"objective": "mlm", "optimizer": "muon", "masking": "dynamic"},
        {"optimizer": "lamb", "gradient_accumulation_steps": 2, "schedule": "cosine"},
    ],
    ids=["bert", "rtd", "muon", "lamb"],
)
def test_jax_trains_as_tensorflow(given, records_folder, small_config_file, tmp_path):
    """From the same weights, with dropout; and from a checkpoint of TensorFlow's in the middle."""
    pytest.importorskip("jax")
    one, two, half = (tmp_path / name for name in ("tensorflow", "jax", "half"))
    pretrain_main(arguments_of(records_folder, small_config_file, one, **given))
    for folder, step in ((two, 0), (half, 3)):
        start = checkpoint(one, step)
        arguments = arguments_of(records_folder, small_config_file, folder, start, **given)
        printed = train_on_jax([*arguments, "--gradient_checkpointing"] if step else arguments)
        assert f"continuing from step {step} " in printed
        assert losses(folder)[STEPS] == pytest.approx(losses(one)[STEPS], rel=1e-4)
    assert losses(two) == pytest.approx(losses(one), rel=1e-4)
    # An update of AdamW is a multiple of the sign where a gradient is almost 0.
    assert_close(half, one, 2e-4)


@pytest.mark.slow
def test_jax_on_several_devices_and_resumed(records_folder, small_config_file, tmp_path):
    pytest.importorskip("jax")
    config = json.loads(small_config_file.read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    plain = tmp_path / "config.json"
    plain.write_text(json.dumps(config))
    for devices in (1, 2, 4):
        folder = tmp_path / str(devices)
        train_on_jax(arguments_of(records_folder, plain, folder), devices)
        assert losses(folder) == pytest.approx(losses(tmp_path / "1"), rel=1e-5)
    again = tmp_path / "again"
    train_on_jax(arguments_of(records_folder, plain, again, checkpoint(tmp_path / "2", 3)), 2)
    for name, value in weights(tmp_path / "2").items():
        np.testing.assert_array_equal(weights(again)[name], value)


@pytest.mark.slow
def test_jax_fine_tunes_as_tensorflow(untrained, tmp_path):
    """From the same weights, with dropout; and exports the model."""
    pytest.importorskip("jax")
    encoder = untrained("encoder")
    task = write_task(tmp_path / "task", pairs=True)

    def arguments(name):
        given = {"max_seq_length": 16, "num_train_epochs": 1, "save_checkpoints_steps": 1}
        return finetuning_flags(task, encoder, tmp_path / name, **given, keep_checkpoints="all")

    finetune_main(arguments("tensorflow"))
    begin_from(checkpoint(tmp_path / "tensorflow", 0), tmp_path / "jax")
    out = tmp_path / "out"
    export = ["export", f"--model={tmp_path / 'jax'}", "--to=huggingface", f"--output={out}"]
    printed = run_on_jax(["finetune", "--engine=auto", *arguments("jax")], export)
    assert "continuing from step 0 " in printed and "no SavedModel" in printed
    found = []
    for name in ("jax", "tensorflow"):
        rows = map(json.loads, (tmp_path / name / "metrics.jsonl").read_text().splitlines())
        found.append({(row["split"], row["step"]): row["loss"] for row in rows})
    assert len(found[0]) == 16
    assert found[0] == pytest.approx(found[1], rel=1e-4)
    assert (out / "model.safetensors").exists()


@pytest.mark.slow
def test_jax_answers_as_tensorflow(untrained, tmp_path):
    pytest.importorskip("jax")
    encoder = str(untrained("encoder"))
    texts = ["the river", "people of the city", "a house in the year of the music", "Ünïcode 語"]
    commands = []
    for command in ("embed", "score", "fill"):
        mask = " [MASK]" if command == "fill" else ""
        source = tmp_path / f"{command}.txt"
        source.write_text("".join(f"{text}{mask}\n" for text in texts))
        files = [f"--input={source}", f"--output={tmp_path / command}"]
        commands.append([command, "--engine=jax", f"--model={encoder}", *files])
    run_on_jax(*commands)
    table = pq.read_table(tmp_path / "embed" / "part-00000.parquet")
    vectors = np.array(table["embedding"].to_pylist())
    np.testing.assert_allclose(vectors, embed(encoder, texts), atol=1e-5)
    scores = [json.loads(line) for line in (tmp_path / "score").read_text().splitlines()]
    expected = [each.pseudo_log_likelihood for each in score(encoder, texts)]
    assert [row["pseudo_log_likelihood"] for row in scores] == pytest.approx(expected, rel=1e-5)
    rows = [json.loads(line) for line in (tmp_path / "fill").read_text().splitlines()]
    for row, filled in zip(rows, fill(encoder, [f"{text} [MASK]" for text in texts]), strict=True):
        found = [answer["probability"] for answer in row["answers"][0]]
        assert found == pytest.approx([share for _, share in filled.answers[0]], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fused", "computed_again"])
def test_attention_of_jax_is_the_plain_one(name):
    """By JAX on processors, and with layers computed again; the tests are those of the model."""
    pytest.importorskip("jax")
    tests = ["tests/model/test_attention.py", "-k", name]
    environment = os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (Devices(engine="jax", strategy="mirrored"), "--strategy=mirrored: is of --engine=tensor"),
        (Devices(gradient_checkpointing=True), "--gradient_checkpointing: is of --engine=jax"),
        (Devices(engine="jax"), "--engine=jax: Keras is imported with tensorflow already"),
    ],
)
def test_engines_that_cannot_be_used(devices, message, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", sys)
    with pytest.raises(InputError, match=message):
        choose_engine(devices)


def test_a_step_that_does_not_fit_into_memory():
    jax = pytest.importorskip("jax")
    from beambert.trainer.loop.engines.jax import check_memory

    gradient = jax.grad(lambda x: (jax.numpy.tanh(x @ x) @ jax.numpy.sin(x @ x)).sum())
    program = jax.jit(gradient).lower(np.ones((1000, 1000), np.float32)).compile()
    needed = program.memory_analysis()  # several arrays of 4 MB
    check_memory(needed, 100_000_000)
    with (
        pytest.raises(InputError, match="takes .* MB more, .* 3.0 MB.*_accumulation_steps=16,"),
        translate_out_of_memory(batch_size=16, parts=2),
    ):
        check_memory(needed, 3_000_000)


def test_an_engine_that_is_not_installed(monkeypatch):
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"--engine=jax: .*pip install -e '\.\[jax\]'"):
        choose_engine(Devices(engine="jax"))


def test_no_thread_makes_batches_at_the_end_of_python():
    """It would end within JAX, which aborts the process."""
    pytest.importorskip("jax")
    script = """
import atexit, itertools, threading
atexit.register(lambda: print(threading.active_count()))
from beambert.trainer.loop.engines.jax import _ahead
batches = _ahead(itertools.count(), 4)
next(batches)
"""
    environment = os.environ | {"KERAS_BACKEND": "jax", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_devices_of_jax_that_are_not_there(records_folder, small_config_file, tmp_path):
    """JAX would go on with the processor, at the price of what was asked for."""
    pytest.importorskip("jax")
    command = [sys.executable, "-m", "beambert", "pretrain", "--engine=jax"]
    for platforms in ("cuda", "tpu,cpu"):
        environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": platforms}
        environment.pop("KERAS_BACKEND", None)
        given = [*command, *flags(records_folder, small_config_file, tmp_path / "model")]
        done = subprocess.run(given, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 2, done.stderr
        assert f"--engine=jax: the devices of JAX_PLATFORMS={platforms}" in done.stderr
        assert "Traceback" not in done.stderr
