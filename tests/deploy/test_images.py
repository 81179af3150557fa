"""Entry commands of the images, each with just the packages and the variables of its image.

The environments are made of the locks by uv, so a package index must answer. NVIDIA's libraries are
left out, which nothing loads without a GPU. BEAMBERT_IMAGES names a folder to keep them in.
"""

import functools
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from support import growing_corpus as corpus
from support import untrained_models

from beambert.deploy.retraining import command, workspace

pytestmark = pytest.mark.release
ROOT = pathlib.Path(__file__).parents[2]
UV = pathlib.Path(sys.prefix, "bin", "uv")
# Step -> the image that does it.
IMAGES = {"vocab": "worker", "records": "worker"}
LOCKS = {"tensorflow-tpu": "tpu", "tensorflow-gpu": "gpu"}


def variables(image, folder):
    """Returns the variables that an image's Dockerfile sets, with its packages in a folder."""
    text = (ROOT / "deploy/vertex/Dockerfile").read_text()
    stages = {}  # name -> what it is made from, and its instructions
    for stage in re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]:
        first, _, instructions = stage.partition("\n")
        parent, _, name = first.partition(" AS ")
        stages[name] = (parent, instructions)
    found = {}
    while image in stages:
        image, instructions = stages[image]
        blocks = re.findall(r"^ENV ((?:.*\\\n)*.*)", instructions, re.MULTILINE)
        found = dict(re.findall(r"(\w+)=(\S+)", " ".join(blocks))) | found
    packages = f"{folder}/lib/python{sys.version_info[0]}.{sys.version_info[1]}"
    return {k: v.replace("/usr/local/lib/python${PYTHON}", packages) for k, v in found.items()}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs Python as an image would, in a copy of what the image has of the repository."""
    root = tmp_path_factory.mktemp("images")
    environments = pathlib.Path(os.environ.get("BEAMBERT_IMAGES", root))
    (root / "tree").mkdir()
    call = functools.partial(subprocess.run, check=True)
    archive = call(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE)
    left_out = [f"--exclude={name}" for name in ("tests", "benchmarks", "deploy/terraform")]
    call(["tar", "-x", *left_out], cwd=root / "tree", input=archive.stdout)

    def python(image):
        folder = environments / image
        if not folder.exists():
            if image == "serving":
                build = (ROOT / "deploy/cloudbuild.yaml").read_text()
                minor, patch = re.search(r"tensorflow/serving:(\d+\.\d+)(\S+)", build).groups()
                wanted = [f"tensorflow=={minor}{patch}", f"tensorflow-text=={minor}.*"]
            else:
                lock = (ROOT / f"requirements/{LOCKS.get(image, image)}.lock").read_text()
                entries = [e for e in re.split(r"\n(?=\w)", lock) if not e.startswith("nvidia")]
                (root / "lock").write_text("\n".join(entries) + "\n")
                wanted = ["--no-deps", "--require-hashes", "-r", root / "lock"]
            call([UV, "venv", "-q", "--python", sys.executable, folder])
            call([UV, "pip", "install", "-q", "--python", folder / "bin/python", *wanted])
        return f"{folder}/bin/python"

    def run(image, *words):
        clean = {"HOME": str(root), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(root / "tree")}
        clean |= variables(image, environments / image)
        if "tpu" in image:
            clean["TPU_SKIP_MDS_QUERY"] = "1"  # of a machine outside of Google Cloud
        words = [python(image), *words]
        return subprocess.run(words, env=clean, cwd=root, capture_output=True, text=True)

    return run


def test_a_retraining_by_its_images(run, tmp_path, monkeypatch):
    """To a second version; training by TensorFlow's image for GPUs, the rest by the component's."""
    corpus.make(tmp_path)
    text = corpus.write_config(tmp_path, more="").read_text() + "min_change = -0.5\n"
    path = tmp_path / "retrain.toml"
    path.write_text(text)

    def step(name, arguments):
        trainer = {"encoder": "tensorflow-gpu", "classifier": "tensorflow-gpu"}
        done = run((IMAGES | trainer).get(name, "component"), "-m", "beambert", *arguments)
        assert done.returncode == 0, done.stderr

    monkeypatch.setattr(command, "_run", step)
    config = workspace.read_config(str(path))
    for number in (1, 2):
        corpus.deliver(tmp_path, number)
        command.retrain(config)
    assert workspace.read_history(config.workspace).newest == 2


# What only loads: it needs Google Cloud, an accelerator or an engine.
LOADED = {
    "worker": "apache_beam.runners.worker.sdk_worker_main",
    "component": "beambert.deploy.__main__, beambert.deploy.retraining.planning, "
    "google.cloud.aiplatform_v1, google.cloud.dataflow_v1beta3",
    "jax-tpu": "keras, jax, libtpu, beambert.trainer.commands.pretrain, "
    "beambert.trainer.embedding.writing",
}


@pytest.mark.parametrize("image", LOADED)
def test_what_an_image_starts_loads(run, image):
    done = run(image, "-c", f"import sys, {LOADED[image]}; print('tensorflow' in sys.modules)")
    assert done.returncode == 0, done.stderr
    # A parent that loads TensorFlow on a TPU's host takes the chips from its children.
    assert done.stdout.split()[-1] == "False"


@pytest.mark.parametrize("strategy", ["tpu", "mirrored"])
def test_a_machine_whose_accelerators_are_not_found(run, tmp_path, strategy):
    """Its price would be paid for the work of its processor."""
    corpus.make(tmp_path)
    files = {"data_dir": "task", "model": "bert_config.json", "vocab_file": "vocab.txt"}
    flags = [f"--{name}={tmp_path}/{file}" for name, file in files.items()]
    flags += ["--task=classification", "--init=random", f"--model_dir={tmp_path}/m"]
    image = "tensorflow-tpu" if strategy == "tpu" else "tensorflow-gpu"
    done = run(image, "-m", "beambert", "finetune", *flags, f"--strategy={strategy}")
    assert done.returncode == 2, done.stderr
    assert f"--strategy={strategy}: this " in done.stderr.splitlines()[-1]


def test_jax_without_its_chips(run):
    done = run("jax-tpu", "-c", "import jax; jax.devices()")
    assert "Unable to initialize backend 'tpu'" in done.stderr.splitlines()[-1]


def test_glue_leaves_the_chips_to_its_trainings(run):
    """One after another, each loads libtpu, which the process above them has not."""
    code = """
import os, subprocess, sys
from beambert import process
process.leave_chips_to_children()
import tensorflow
child = [sys.executable, "-c", "import os, tensorflow; print(os.getenv('PJRT_DEVICE'))"]
for _ in range(2):
    with process.chips_for_children():
        started = subprocess.Popen(child)
    started.wait()
"""
    done = run("tensorflow-tpu", "-c", code)
    assert done.stdout.split() == ["TPU", "TPU"], done.stderr


ANSWERS = """
import json, sys
import tensorflow as tf, tensorflow_text
texts = tf.constant(["the river of music", "", "Ünïcode tëxt; 東京", "people " * 40])
found = []
for folder in sys.argv[1:]:
    answer = tf.saved_model.load(f"{folder}/saved_model").signatures["serving_default"]
    given = dict.fromkeys(answer.structured_input_signature[1], texts)
    found += [value.numpy().tolist() for _, value in sorted(answer(**given).items())]
print(json.dumps(found, default=bytes.decode))
"""


def test_what_serves_answers_as_what_exports(run, vocabulary, tmp_path):
    """TensorFlow Serving is older than the TensorFlow of the component."""
    folders = [
        str(getattr(untrained_models, f"save_{kind}")(tmp_path / kind, vocabulary))
        for kind in ("classifier", "embedding", "sparse")
    ]
    here, there = (run(image, "-c", ANSWERS, *folders) for image in ("component", "serving"))
    assert there.returncode == 0, there.stderr
    for one, other in zip(*(json.loads(done.stdout) for done in (here, there)), strict=True):
        if isinstance(one[0], str):
            assert one == other
        else:
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
