"""Entry commands of the images, each with just the packages and the variables of its image.

The environments are made of the locks by uv, so a package index must answer. NVIDIA's libraries are
left out, which nothing loads without a GPU. BEAMBERT_IMAGES names a folder to keep them in.
"""

import functools
import os
import pathlib
import re
import subprocess
import sys

import pytest
from support import growing_corpus as corpus

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
            lock = (ROOT / f"requirements/{LOCKS.get(image, image)}.lock").read_text()
            entries = re.split(r"\n(?=\w)", lock)
            wanted = [each for each in entries if not each.startswith("nvidia")]
            (root / "lock").write_text("\n".join(wanted) + "\n")
            call([UV, "venv", "-q", "--python", sys.executable, folder])
            exact = ["--no-deps", "--require-hashes", "-r", root / "lock"]
            call([UV, "pip", "install", "-q", "--python", folder / "bin/python", *exact])
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
    "jax-tpu": "keras, jax, libtpu, beambert.trainer.commands.pretrain",
}


@pytest.mark.parametrize("image", LOADED)
def test_what_an_image_starts_loads(run, image):
    done = run(image, "-c", f"import sys, {LOADED[image]}; print('tensorflow' in sys.modules)")
    assert done.returncode == 0, done.stderr
    # A parent that loads TensorFlow on a TPU's host takes the chips from its children.
    assert done.stdout.split()[-1] == "False"


def test_chips_are_for_the_process_that_trains(run, tmp_path):
    """A machine without them says so, and a sweep's children can load libtpu."""
    corpus.make(tmp_path)
    flags = ["--recipe=tiny", "--data=x", f"--model_dir={tmp_path}/m", "--strategy=tpu"]
    done = run("tensorflow-tpu", "-m", "beambert", "pretrain", *flags)
    assert done.returncode == 2 and "Segmentation" not in done.stderr
    code = """
import multiprocessing, os
from concurrent.futures import ProcessPoolExecutor
from beambert import process
if __name__ == "__main__":
    process.leave_chips_to_children()
    import tensorflow
    from beambert.trainer.finetuning import sweep
    for _ in range(2):
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, context, initializer=sweep._begin) as pool:
            with process.chips_for_children():
                child = pool.submit(os.getenv, "PJRT_DEVICE")
            print(child.result())
"""
    (tmp_path / "sweep.py").write_text(code)
    done = run("tensorflow-tpu", str(tmp_path / "sweep.py"))
    assert done.stdout.split() == ["TPU", "TPU"], done.stderr
