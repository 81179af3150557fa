"""The cloud from nothing and back, its images and their locks; what no account may do."""

import dataclasses
import json
import pathlib
import subprocess
import threading
import tomllib
import types

import pytest
import yaml
from google.auth import identity_pool
from support.cloud_samples import COMMIT, SETTINGS

from beambert import io
from beambert.deploy import __main__ as command
from beambert.deploy import cloud, google_cloud
from beambert.deploy.settings import FILE, Settings
from beambert.deploy.vertex import releases
from beambert.errors import InputError

ROOT = pathlib.Path(__file__).parents[2]
HERE = "gs://my-project-beambert"
STATE, CONFIG = f"{HERE}-state", f"{HERE}-config"


class Google:
    """A project: its roles, its buckets, and the programs that change them.

    Attributes:
      lacked: permissions that the caller lacks.
      buckets: those that exist.
      calls: the programs that were run, as words.
      fails: a word of the call that fails.
    """

    def __init__(self, monkeypatch):
        self.lacked = set()
        self.buckets, self.calls, self.fails, self.files = set(), [], None, {}
        self.applied = False
        monkeypatch.setattr(google_cloud, "session", lambda _: self)
        monkeypatch.setattr(cloud, "check_machine", lambda _: COMMIT)
        monkeypatch.setattr(cloud, "check_programs", lambda: None)
        monkeypatch.setattr(cloud, "call", self.call)
        monkeypatch.setattr(cloud, "ask", self.ask)
        monkeypatch.setattr(Settings, "read", lambda: SETTINGS)
        monkeypatch.setattr(io, "exists", self.files.__contains__)
        monkeypatch.setattr(io, "copy", lambda _, path: self.files.update({f"{path}/f": b""}))
        monkeypatch.setattr(io, "list_folder", self.list_folder)
        monkeypatch.setattr(releases, "find", lambda *_: "built")
        monkeypatch.setattr(releases, "deploy", lambda *_, **__: self.calls.append(["deploy"]))
        for name in ("stop", "await_dataflow"):
            monkeypatch.setattr(releases, name, lambda _, n=name: self.calls.append([n]))

    def list_folder(self, path):
        return [name for name in self.files if name.startswith(f"{path}/")]

    def request(self, method, url, json):
        assert url.endswith("/my-project:testIamPermissions") and method == "POST"
        answer = {"permissions": [*({*json["permissions"]} - self.lacked)]}
        return types.SimpleNamespace(status_code=200, headers={}, json=lambda: answer)

    def call(self, *words):
        self.calls.append([*words])
        if self.fails in words:
            raise InputError(f"{words[0]}: failed")
        if words[:4] == ("gcloud", "storage", "buckets", "create"):
            self.buckets.add(words[4])
        elif "apply" in words:
            assert STATE in self.buckets
            self.applied = True
            self.buckets |= {f"{HERE}-{kind}" for kind in ("text", "config", "work")}
        elif words[:3] == ("gcloud", "builds", "submit"):
            self.files[f"{CONFIG}/builds/{COMMIT}/tensorflow-tpu.json"] = b"{}"
        elif "destroy" in words:
            assert STATE in self.buckets and not self.buckets - {STATE}
            self.applied = False
        elif words[:3] == ("gcloud", "storage", "rm"):
            self.buckets.remove(words[-1])

    def ask(self, *words):
        if words[:4] == ("gcloud", "storage", "buckets", "describe"):
            return "there" if words[4] in self.buckets else None
        if "list" in words:
            return "aiplatform.googleapis.com\ndataflow.googleapis.com"
        return ""

    def did(self, *wanted):
        """The calls that have one of these words, by that word."""
        return [word for words in self.calls for word in words if word in wanted]


@pytest.fixture
def google(monkeypatch):
    return Google(monkeypatch)


def up(*flags):
    command.main(["up", "--project=my-project", "--yes", *flags])


def down():
    command.main(["down", "--project=my-project", "--yes"])


def test_from_nothing(google):
    up()
    steps = ["apply", "submit", "deploy"]
    assert google.did(*steps) == steps
    assert google.list_folder(f"{CONFIG}/trial")
    up()
    assert google.did("submit", "deploy") == ["submit", "deploy", "deploy"]


@pytest.mark.parametrize("step", ["create", "init", "apply", "archive", "submit"])
def test_it_goes_on_after_a_failure_and_goes_away_from_there(google, step):
    google.fails = step
    with pytest.raises(InputError, match="failed"):
        up()
    assert not google.did("deploy")
    google.fails = None
    down()
    assert not google.buckets and not google.applied
    google.fails = step
    with pytest.raises(InputError):
        up()
    google.fails = None
    up()
    assert google.did("deploy") == ["deploy"]


@pytest.mark.parametrize("step", ["rm", "destroy"])
def test_a_teardown_goes_on(google, step):
    up()
    google.fails = step
    with pytest.raises(InputError):
        down()
    google.fails = None
    down()
    assert not google.buckets and not google.applied
    assert google.did("stop", "await_dataflow")[:2] == ["stop", "await_dataflow"]
    down()


def change(**values):
    def apply(google, monkeypatch):
        changed = dataclasses.replace(SETTINGS, **values)
        monkeypatch.setattr(Settings, "read", lambda: changed)

    return apply


def lack(*names):
    return lambda google, _: google.lacked.update(names)


BAD = {
    'trainer = "v6e-8": Vertex AI has no TensorFlow': change(trainer="v6e-8"),
    'trainer = "v9": no such machine': change(trainer="v9"),
    "you lack storage.buckets.create; have an owner": lack(
        "storage.buckets.create", "cloudbuild.builds.create"
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_what_is_refused_before_anything_is_made(google, monkeypatch, message):
    BAD[message](google, monkeypatch)
    with pytest.raises(InputError, match=message):
        up()
    assert not google.calls


def test_an_approver_builds_and_deploys_what_an_owner_has_applied(google):
    google.lacked = {"storage.buckets.create", "resourcemanager.projects.setIamPolicy"}
    up()
    assert google.did("apply", "deploy") == ["deploy"]


def test_a_workload_identity_federation_makes_requests_in_the_projects_name(tmp_path, monkeypatch):
    """As CI has one: a file, no key, and a token of another issuer."""
    found = {
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/x/y",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": "https://sts.googleapis.com/v1/token",
        "credential_source": {"file": str(tmp_path / "token")},
    }
    path = tmp_path / "credentials.json"
    path.write_text(json.dumps(found))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    monkeypatch.setattr(identity_pool.Credentials, "get_project_id", lambda *_, **__: None)
    credentials = google_cloud.session("my-project").credentials
    assert isinstance(credentials, identity_pool.Credentials)
    assert credentials.quota_project_id == "my-project"
    monkeypatch.setattr(io._GOOGLE_STORAGE, "_of_thread", threading.local())
    bucket, _ = io._GOOGLE_STORAGE._bucket("gs://b/o")
    assert isinstance(bucket.client._credentials, identity_pool.Credentials)


def test_another_task_must_be_there(google):
    with pytest.raises(InputError, match=f"data_dir: {CONFIG}/glue/SST-2 is empty"):
        up(f"--config={ROOT}/deploy/retrain.toml")


@pytest.mark.parametrize("kind", ["up", "down"])
def test_another_project_or_no_answer(google, monkeypatch, kind):
    with pytest.raises(InputError, match='--project=other: .* project = "my-project"'):
        command.main([kind, "--project=other"])

    def nobody(_):
        raise EOFError

    monkeypatch.setattr("builtins.input", nobody)
    with pytest.raises(InputError, match="nothing was changed"):
        command.main([kind, "--project=my-project"])
    assert not google.calls


def settings_with(folder, **values):
    """Reads the file as it came but for some values."""
    found = tomllib.loads(FILE.read_text()) | values
    (folder / "my.tfvars").write_text("".join(f"{n} = {json.dumps(v)}\n" for n, v in found.items()))
    return Settings.read(folder / "my.tfvars")


GIVEN = {"project": "text-1", "alert_email": "a@b.org", "approvers": ["group:a@b.org"]}


def test_settings_as_they_came_are_refused(tmp_path):
    """The file has seven."""
    assert len(tomllib.loads(FILE.read_text())) == 7
    for missing in ("project", "alert_email"):
        with pytest.raises(InputError, match=f"{missing} = .*: is an example; edit"):
            settings_with(tmp_path, **{n: v for n, v in GIVEN.items() if n != missing})
    assert settings_with(tmp_path, **GIVEN).bucket == "text-1-beambert"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("project", "My_Project"), ("project", "example.com:text"), ("project", "")),
        *(("region", "us-central1-a"), ("alert_email", "me"), ("approvers", ["a@b.org"])),
        *(("engine", "torch"), ("schedule", "hourly"), ("region", 5)),
    ],
)
def test_a_setting_of_another_form(tmp_path, name, value):
    with pytest.raises(InputError, match=rf"my\.tfvars: {name} = .*: must be "):
        settings_with(tmp_path, **GIVEN | {name: value})


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


ROLES = yaml.safe_load((ROOT / "deploy/terraform/roles.yaml").read_text())

# Permission -> the predefined roles with it, of those that roles.yaml may name:
# https://docs.cloud.google.com/iam/docs/roles-permissions of 2026-08.
HAVE = {
    "storage.objects.get": {"storage.objectUser", "storage.objectViewer"},
    "storage.objects.create": {"storage.objectCreator", "storage.objectUser"},
    "storage.objects.delete": {"storage.objectUser"},
    "aiplatform.customJobs.create": {"aiplatform.user"},
    "aiplatform.endpoints.deploy": {"aiplatform.user"},
    "aiplatform.models.upload": {"aiplatform.user"},
}
KNOWN = set.union(*HAVE.values()) | {
    *("artifactregistry.reader", "artifactregistry.writer", "cloudbuild.builds.editor"),
    *("compute.viewer", "dataflow.developer", "dataflow.worker", "logging.logWriter"),
    *("logging.viewer", "monitoring.viewer", "serviceusage.serviceUsageConsumer"),
    "storage.legacyBucketReader",
}
# Account -> what it must not do, each with where.
FORBIDDEN = {
    "deliverers": ["text storage.objects.delete", "config storage.objects.create"],
    "operators": [
        *("config storage.objects.create", "project aiplatform.customJobs.create"),
        *("project aiplatform.endpoints.deploy", "project aiplatform.models.upload"),
    ],
    "approvers": ["text storage.objects.create", "text storage.objects.delete"],
    "beambert-pipeline": ["config storage.objects.create", "text storage.objects.delete"],
    "beambert-build": ["config storage.objects.create", "work storage.objects.create"],
    "beambert-trainer": ["text storage.objects.get", "config storage.objects.create"],
}


@pytest.mark.parametrize("account", ROLES["accounts"] | ROLES["people"])
def test_an_account_may_not_do_the_work_of_others(account):
    granted = set()
    for place, roles in (ROLES["accounts"] | ROLES["people"])[account].items():
        for role in roles if place != "acts_as" else ():
            if role == "beambertOperator":
                granted |= {f"project {each}" for each in ROLES["operator"]}
                continue
            name = role.removeprefix("roles/")
            assert name in KNOWN  # A role that is new here needs a look at what it may do.
            granted |= {f"{place} {permission}" for permission in HAVE if name in HAVE[permission]}
    assert not granted & set(FORBIDDEN.get(account, ()))
