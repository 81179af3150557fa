"""The images, their locks, and the build."""

import json
import pathlib
import subprocess

import yaml

ROOT = pathlib.Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
LOCKS = ROOT / "requirements"


def locked(name: str) -> dict[str, str]:
    """Returns the packages of a lock and their versions."""
    lines = (LOCKS / name).read_text().splitlines()
    pins = [line.removesuffix("\\").split(";")[0].strip() for line in lines if line[:1].isalnum()]
    return {package: version for package, _, version in (pin.partition("==") for pin in pins)}


def test_the_locks_agree():
    """Images are built of them, and a trainer's models are read by the others."""
    tested, tpu = locked("requirements.lock"), locked("tpu.lock")
    for name in ("worker", "component", "gpu", "jax-tpu", "jax-gpu"):
        image = locked(f"{name}.lock")
        shared = tested.keys() & image.keys()
        assert {each: image[each] for each in shared} == {each: tested[each] for each in shared}
        assert not image.keys() & {"pytest", "ruff", "kfp", "gcp-storage-emulator"}
        assert ("apache-beam" in image) == (name in ("worker", "component"))
        assert ("tensorflow-model-analysis" in image) == (name == "component")
        assert not name.startswith("jax") or not any("tensorflow" in each for each in image)
        assert ("tensorflow-cpu" in image) == ("apache-beam" in image)
    assert locked("worker.lock")["tensorflow-cpu"] == tested["tensorflow"]
    # 0.0.51, which tensorflow-tpu asks for, aborts at its start.
    assert tpu["libtpu"] == "0.0.21"
    assert tpu["google-cloud-storage"] == tested["google-cloud-storage"]
    dockerfile = (DEPLOY / "dataflow" / "Dockerfile").read_text()
    assert f"ARG BEAM={tested['apache-beam']}\n" in dockerfile


def test_the_build_writes_the_digests_that_deploying_reads(tmp_path):
    """Those of this registry, also of an image that is known under another name, too."""
    steps = yaml.safe_load((DEPLOY / "cloudbuild.yaml").read_text())["steps"]
    (script,) = (step["script"] for step in steps if step["id"] == "digests")
    docker = tmp_path / "docker"
    docker.write_text(
        """#!/bin/sh
name=$(echo "$3" | sed 's|.*/||; s|:.*||')
echo "tensorflow/$name@sha256:other"
echo "r-docker.pkg.dev/p/beambert/$name@sha256:of-$name"
"""
    )
    docker.chmod(0o755)
    environment = {"_REGISTRY": "r-docker.pkg.dev/p/beambert", "_COMMIT": "abc", "_TRAINER": "t"}
    environment["PATH"] = f"{tmp_path}:/usr/bin:/bin"
    subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, check=True)
    digests = json.loads((tmp_path / "images.json").read_text())
    assert set(digests) == {"worker", "component", "t", "serving"}
    assert all(value == f"sha256:of-{name}" for name, value in digests.items())
