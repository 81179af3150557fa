"""The images of the trainers and of Beam, as far as they can be read without building them."""

import json
import pathlib
import re
import subprocess
import sys

import pytest
import yaml
from support.absent_packages import BEAM_PACKAGES, without

ROOT = pathlib.Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"


def test_trainer_images_have_the_versions_that_are_tested():
    dockerfile = (DEPLOY / "vertex" / "Dockerfile").read_text()
    assert "--no-deps -r requirements-tpu.lock" in dockerfile
    assert "--no-deps -r requirements.lock" in dockerfile
    locked = (ROOT / "requirements-tpu.lock").read_text()
    assert re.search(r"^libtpu==0\.0\.21$", locked, re.MULTILINE)
    # It takes leases and lists shards on gs://.
    version = re.search(
        r"^google-cloud-storage==\S+", (ROOT / "requirements.lock").read_text(), re.MULTILINE
    )[0]
    assert version in locked.splitlines()


@pytest.mark.parametrize("image", ["vertex", "dataflow"])
def test_images_install_what_is_locked_before_the_repository_is_there(image, tmp_path):
    """pip refuses the line of the lock file that names the repository where there is none."""
    dockerfile = (DEPLOY / image / "Dockerfile").read_text()
    (clean,) = re.findall(r"^RUN (sed -i .* requirements\.lock) ", dockerfile, re.MULTILINE)
    before = (ROOT / "requirements.lock").read_text()
    (tmp_path / "requirements.lock").write_text(before)
    subprocess.run(clean, shell=True, cwd=tmp_path, check=True)
    after = (tmp_path / "requirements.lock").read_text()
    assert after.splitlines() == [line for line in before.splitlines() if line != "."]


@pytest.mark.slow
def test_steps_need_no_beam_where_they_train():
    readers = ("datasketch", "mwparserfromhell", "pyarrow", "sentencex", "zstandard")
    locked = (ROOT / "requirements-tpu.lock").read_text()
    assert not [name for name in readers if re.search(rf"^{name}\b", locked, re.MULTILINE)]
    code = (
        without((*BEAM_PACKAGES, *readers, "matplotlib", "kfp"))
        + """
import beambert.deploy.retraining.command
from beambert.deploy.retraining import workspace
workspace.read_config("deploy/retrain.toml")  # with the parsers of all commands
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
    assert set(steps["digests"]["waitFor"]) == {"beam", "trainers", "serving"}
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
