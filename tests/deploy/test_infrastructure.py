"""Terraform's files and the workflow, as far as they can be read without their services."""

import dataclasses
import pathlib
import re
import shutil
import subprocess
import tomllib

import pytest
import yaml

from beambert.deploy.settings import Settings

FOLDER = pathlib.Path(__file__).parents[2] / "deploy" / "terraform"
SOURCES = "".join(path.read_text() for path in sorted(FOLDER.glob("*.tf")))


def test_one_file_has_all_names():
    fields = {field.name for field in dataclasses.fields(Settings)}
    assert fields == set(re.findall(r'^variable "(\w+)"', SOURCES, re.MULTILINE))
    values = tomllib.loads((FOLDER / "terraform.tfvars").read_text())
    for path in (FOLDER.parent).rglob("*"):
        if path.suffix in (".tf", ".py", ".toml", ".sh", ".json") or path.name == "arrival.yaml":
            for name in ("project", "bucket", "alert_email"):
                assert values[name] not in path.read_text(), path


def test_accounts_that_jobs_run_as_are_made():
    made = set(re.findall(r'^    (beambert-\w+) += "', SOURCES, re.MULTILINE))
    used = set()
    for path in FOLDER.parent.rglob("*.py"):
        used |= set(re.findall(r'account\("([\w-]+)"\)', path.read_text()))
    build = (FOLDER.parent / "cloudbuild.yaml").read_text()
    used |= set(re.findall(r"serviceAccounts/([\w-]+)@", build))
    assert used and used <= made


def test_nobody_may_do_everything():
    roles = set(re.findall(r'"(roles/[\w.]+)"', SOURCES))
    broad = {"owner", "editor", "viewer", "storage.admin", "aiplatform.admin", "dataflow.admin"}
    assert roles and not roles & {f"roles/{name}" for name in broad}
    assert "google_service_account_key" not in SOURCES


def test_formatted():
    if shutil.which("terraform") is None:
        pytest.skip("needs terraform")
    done = subprocess.run(
        ["terraform", "fmt", "-check", "-diff", "-no-color", str(FOLDER)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def steps_of(workflow):
    return {name: body for step in workflow["main"]["steps"] for name, body in step.items()}


def test_workflow():
    steps = steps_of(yaml.safe_load((FOLDER / "arrival.yaml").read_text()))
    condition = steps["is_a_manifest"]["switch"][0]["condition"]
    (pattern,) = re.findall(r'match_regex\(name, "(.*)"\)', condition)
    pattern = pattern.replace("\\\\", "\\")
    config = tomllib.loads((FOLDER.parent / "retrain.toml").read_text())
    (manifests,) = config["manifests"]
    name = manifests.removeprefix("gs://BUCKET/").replace("*", "2026-11-21")
    assert re.search(pattern, name)
    assert not re.search(pattern, "retraining/runs/000001/run.json")
    # The wait is over when this manifest itself is old enough.
    assert steps["settle"]["args"]["seconds"] > 60 * config["settle_minutes"]
    settings = Settings("p", "r", "b", "", "", "")
    assert settings.pipeline == f"gs://b/{steps['pipeline']['args']['object']}"
    given = set(re.findall(r"^    ([A-Z]+) += var", SOURCES, re.MULTILINE))
    assert given == set(re.findall(r'get_env\("(\w+)"\)', str(steps)))


def test_the_tpu_image_has_the_runtime_of_v5e():
    """PJRT by its three variables; a build argument is only known to a stage that declares it."""
    text = (FOLDER.parent / "vertex" / "Dockerfile").read_text()
    (stage,) = (part for part in text.split("\nFROM ") if " AS tpu\n" in part)
    assert "\nARG PYTHON\n" in stage
    variables = dict(re.findall(r"(\w+)=(\S+)", stage[stage.index("ENV ") :]))
    assert variables["PJRT_DEVICE"] == "TPU"
    assert variables["NEXT_PLUGGABLE_DEVICE_USE_C_API"] == "true"
    # Where the wheel of libtpu puts it.
    library = variables["TF_PLUGGABLE_DEVICE_LIBRARY_PATH"]
    assert library == "/usr/local/lib/python${PYTHON}/site-packages/libtpu/libtpu.so"


def test_no_state_or_data_in_images_and_commits():
    """Terraform's state has the project's secrets in it."""
    root = FOLDER.parents[1]
    ignored = (root / ".dockerignore").read_text().split()
    assert {"**/*.tfstate*", "**/.terraform", "text", "glue"} <= set(ignored)
    assert {"*.tfstate*", ".terraform/"} <= set((root / ".gitignore").read_text().split())


def test_what_terraform_asks_first_is_enabled_before_it():
    """It lists and enables services through these two, so it can't enable them itself."""
    readme = (FOLDER.parent / "README.md").read_text()
    services = "cloudresourcemanager.googleapis.com serviceusage.googleapis.com"
    enabled = readme.index(f"gcloud services enable {services}")
    assert enabled < readme.index("terraform -chdir=deploy/terraform init")
