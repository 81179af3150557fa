"""The images of the trainers and of Beam, as far as they can be read without building them."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import yaml
from support import growing_corpus as corpus
from support.absent_packages import BEAM_PACKAGES, without
from support.cloud_samples import DEPLOYMENT

from beambert.deploy.retraining import command as retrain
from beambert.deploy.retraining import workspace
from beambert.deploy.vertex import requests

ROOT = pathlib.Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"


LOCKS = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("requirements/*.lock"))


def test_trainer_images_have_the_versions_that_are_tested():
    dockerfile = (DEPLOY / "vertex" / "Dockerfile").read_text()
    of_others = {f"requirements/{name}.lock" for name in ("serving", "storage", "uv")}
    for name in set(LOCKS) - of_others:
        assert f"--no-deps --require-hashes -r {name}" in dockerfile
    locked = _locked("requirements/tpu.lock")
    assert locked["libtpu"] == "0.0.21"
    # It takes leases and lists shards on gs://.
    client = "google-cloud-storage"
    assert locked[client] == _locked("requirements/requirements.lock")[client]


def _locked(name: str) -> dict[str, str]:
    """Returns the packages of a lock and their versions."""
    lines = (ROOT / name).read_text().splitlines()
    pins = [line.removesuffix("\\").split(";")[0].strip() for line in lines if line[:1].isalnum()]
    return {package: version for package, _, version in (pin.partition("==") for pin in pins)}


@pytest.mark.parametrize("name", LOCKS)
def test_all_that_is_locked_has_a_hash(name):
    """pip installs nothing of such a file unless all of it has hashes; a folder can't have one."""
    text = re.sub(r"^ *#.*\n", "", (ROOT / name).read_text(), flags=re.MULTILINE)
    for requirement in filter(None, text.replace("\\\n", " ").splitlines()):
        words, *hashes = requirement.split("--hash=")
        assert re.fullmatch(r"[a-z0-9-]+==\S+( ; .*)? *", words), requirement
        assert hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64} *", each) for each in hashes)


def test_nothing_is_installed_from_a_lock_without_hashes():
    for path in (
        ROOT / "Makefile",
        DEPLOY / "vertex" / "Dockerfile",
        DEPLOY / "dataflow" / "Dockerfile",
        DEPLOY / "serving" / "Dockerfile",
    ):
        for line in path.read_text().splitlines():
            assert "pip install" not in line or " -r " not in line or "--require-hashes" in line


def test_the_locks_of_one_image_agree():
    tested, more = _locked("requirements/requirements.lock"), _locked("requirements/gpu.lock")
    shared = tested.keys() & more.keys()
    assert "tensorflow" in shared
    assert {name: tested[name] for name in shared} == {name: more[name] for name in shared}


def test_models_are_served_by_the_versions_that_are_tested():
    served, tested = _locked("requirements/serving.lock"), _locked("requirements/requirements.lock")
    for name in served.keys() & tested.keys():
        assert served[name] == tested[name], name
    assert {"mlserver", "tensorflow", "tensorflow-text"} <= served.keys()


# Packages that the image for TPUs lacks, besides Beam's.
READERS = ("datasketch", "mwparserfromhell", "pyarrow", "sentencex", "zstandard")
# What may lie in a checkout and must not get into an image.
PLANTED = (
    *(".git/config", ".venv/bin/python", ".venv-tpu/lib/x.py", ".flink/x.jar", ".spark/x.jar"),
    *(".prism/prism", "text/1.jsonl.gz", "glue/SST-2/train.tsv", "demo-output/vocab.txt"),
    *("smoke-output/vocab.txt", "attack-output/x", "tests/x.py", "benchmarks/x.py"),
    *("deploy/terraform/terraform.tfvars", "deploy/terraform/x.tfstate.backup", "x.tfstate"),
    *("deploy/terraform/.terraform/x", "pipelines/__pycache__/x.pyc"),
)


def in_the_images(paths):
    """Returns the paths that Docker takes: https://docs.docker.com/build/concepts/context."""
    patterns = (ROOT / ".dockerignore").read_text().split()
    assert not any(pattern.startswith(("#", "!")) for pattern in patterns)
    parts = {"**/": "(?:.*/)?", "*": "[^/]*"}
    ignored = "|".join(
        "".join(parts.get(part, re.escape(part)) for part in re.split(r"(\*\*/|\*)", pattern))
        for pattern in patterns
    )
    return {path for path in paths if not re.fullmatch(f"(?:{ignored})(?:/.*)?", path)}


def tracked():
    return set(
        subprocess.run(
            ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    )


def test_what_lies_in_the_images():
    """All that is imported or installed, and neither data nor what names a project."""
    assert in_the_images(PLANTED) == set()
    kept = in_the_images(tracked())
    for top in ("beambert", "pipelines", "model", "trainer", "deploy", "explore"):
        there = {path for path in tracked() if path.startswith(f"{top}/")}
        assert {path for path in there - kept if "/terraform/" not in path} == set()
    assert {"setup.py", *LOCKS} <= kept
    names = (ROOT / "deploy" / "terraform" / "terraform.tfvars").read_text()
    project = re.search(r'^project = "(.*)"', names, re.MULTILINE)[1]
    assert not [path for path in kept if project.encode() in (ROOT / path).read_bytes()]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcloud") is None, reason="needs gcloud")
def test_what_is_sent_to_be_built(tmp_path):
    """Text that lies here to be copied to a bucket would be sent, too, gigabytes of it."""
    names = (".gitignore", ".gcloudignore", "setup.py", "pipelines/text/filters.py")
    planted = [path for path in PLANTED if not path.endswith("terraform.tfvars")]
    for path in (*names, *planted):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    for name in names[:2]:
        shutil.copy(ROOT / name, tmp_path)
    done = subprocess.run(
        ["gcloud", "meta", "list-files-for-upload"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) == set(names)


@pytest.mark.release
def test_training_steps_run_with_the_packages_of_their_image(tmp_path):
    """The commands that the jobs on accelerators run, and those that they start."""
    corpus.make(tmp_path)
    config = str(corpus.write_config(tmp_path, epochs=1))
    for step in ("plan", "records"):
        retrain.main([f"--config={config}", f"--step={step}"])
    # Python runs this file at each start.
    file = tmp_path / "absent" / "sitecustomize.py"
    file.parent.mkdir()
    file.write_text(without((*BEAM_PACKAGES, *READERS, "matplotlib", "kfp")))
    environment = os.environ | {"PYTHONPATH": str(file.parent), "CUDA_VISIBLE_DEVICES": "-1"}

    def run(*words):
        return subprocess.run(
            [sys.executable, *words],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    assert "No module named 'apache_beam'" in run("-P", "-c", "import apache_beam").stderr
    for step in requests.ON_ACCELERATORS:
        done = run("-m", "beambert", *requests.step_arguments(config, step))
        assert done.returncode == 0, done.stdout + done.stderr
    open_run = workspace.read_history(str(tmp_path / "workspace")).open
    assert all(workspace.is_done(step, open_run) for step in requests.ON_ACCELERATORS)


@pytest.mark.slow
def test_steps_need_no_beam_where_they_train(tmp_path):
    locked = (ROOT / "requirements/tpu.lock").read_text()
    assert not [name for name in READERS if re.search(rf"^{name}\b", locked, re.MULTILINE)]
    config = tmp_path / "retrain.toml"
    config.write_text(DEPLOYMENT.fill_in((DEPLOY / "retrain.toml").read_text()))
    code = (
        without((*BEAM_PACKAGES, *READERS, "matplotlib", "kfp"))
        + f"""
import beambert.deploy.retraining.command
from beambert.deploy.retraining import workspace
workspace.read_config("{config}")  # with the parsers of all commands
print("read")
"""
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "read", done.stderr


def test_a_release_names_all_images_by_its_commit():
    """`latest` would change what a pipeline runs without anybody having deployed it."""
    for path in DEPLOY.rglob("*"):
        if path.suffix in (".yaml", ".toml", ".sh", ".py", ".tf", ".md"):
            assert ":latest" not in path.read_text(), path
    text = (DEPLOY / "cloudbuild.yaml").read_text()
    steps = {step["id"]: step for step in yaml.safe_load(text)["steps"]}
    # What says that the release is complete comes after all else.
    assert steps["release"]["waitFor"] == ["digests", "templates"]
    images = {"beam", "trainer-tpu", "trainer-gpu", "serving"}
    assert set(steps["digests"]["waitFor"]) == images
    for name in images:
        assert f'docker push "$_REGISTRY/{name}:$_COMMIT"' in steps[name]["script"]
    assert '"gs://$_BUCKET-config/builds/$_COMMIT.json"' in steps["release"]["script"]


def test_the_build_writes_the_digests_that_deploying_reads(tmp_path):
    """Those of this registry, also of an image that is known under another name, too."""
    text = (DEPLOY / "cloudbuild.yaml").read_text()
    (script,) = (
        step["script"] for step in yaml.safe_load(text)["steps"] if step["id"] == "digests"
    )
    docker = tmp_path / "docker"
    docker.write_text(
        """#!/bin/sh
name=$(echo "$3" | sed 's|.*/||; s|:.*||')
echo "tensorflow/$name@sha256:other"
echo "r-docker.pkg.dev/p/beambert/$name@sha256:of-$name"
"""
    )
    docker.chmod(0o755)
    environment = {"_REGISTRY": "r-docker.pkg.dev/p/beambert", "_COMMIT": "abc"}
    path = f"{tmp_path}:/usr/bin:/bin"
    subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment | {"PATH": path}, check=True
    )
    digests = json.loads((tmp_path / "images.json").read_text())
    assert set(digests) == {"beam", "trainer-tpu", "trainer-gpu", "serving"}
    assert all(value == f"sha256:of-{name}" for name, value in digests.items())
