"""The kind of task in CONTRIBUTING.md, added from outside, goes through all commands."""

import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from support.untrained_models import save_encoder

PAGE = pathlib.Path(__file__).parents[1] / "CONTRIBUTING.md"
LABELS = ["bad", "fair", "good"]


@pytest.fixture
def run(tmp_path):
    """Writes the page's modules as an installed package has them; returns what runs a command."""
    blocks = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    package = tmp_path / "package"
    (package / "ordinal-1.dist-info").mkdir(parents=True)
    for name, code in blocks:
        (package / name).write_text(code)
    (package / "ordinal-1.dist-info" / "METADATA").write_text("Name: ordinal\nVersion: 1\n")
    (package / "ordinal-1.dist-info" / "entry_points.txt").write_text(
        "[beambert.kinds]\nordinal = ordinal\n"
    )
    path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])

    def command(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "beambert", *map(str, arguments)],
            env=os.environ | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return command


@pytest.mark.slow
def test_a_kind_from_outside(tmp_path, vocabulary, run):
    (tmp_path / "encoder").mkdir()
    save_encoder(tmp_path / "encoder", vocabulary)
    data = tmp_path / "data"
    data.mkdir()
    for split in ("train", "dev"):
        rows = "".join(f"the river {'is ' * (n % 3)}old\t{LABELS[n % 3]}\n" for n in range(24))
        (data / f"{split}.tsv").write_text(f"text\tlabel\n{rows}")
    task = ["--task=ordinal", f"--data_dir={data}", f"--labels={','.join(LABELS)}"]
    trust = "--trust_model"  # Its graph has operations that no other kind has.
    steps = ["--num_train_epochs=2", "--train_batch_size=8", "--max_seq_length=16"]
    assert "label distance" in run("finetune", *task, "--init=encoder", "--model_dir=model", *steps)
    run("evaluate", *task, "--model=model", "--output=evaluation", "--slices=label", trust)
    metrics = json.loads((tmp_path / "evaluation" / "metrics.json").read_text())
    matrix = np.array(metrics["details"]["confusion_matrix"])
    distance = np.abs(np.subtract.outer(range(3), range(3)))
    assert metrics["overall"]["label_distance"] == pytest.approx((matrix * distance).sum() / 24)
    assert metrics["thresholds"][0]["required"] == "less than"
    assert set(metrics["slices"]["label"]) == set(LABELS)
    run("predict", "--model=model", f"--input={data / 'dev.tsv'}", "--output=answers", trust)
    (answers,) = (tmp_path / "answers").glob("part-*")
    first = json.loads(answers.read_text().splitlines()[0])
    assert sum(first["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    assert first["label"] == max(first["probabilities"], key=first["probabilities"].get)
    run("export", "--model=model", "--output=serving", trust)
    assert (tmp_path / "serving" / "1" / "saved_model.pb").exists()
