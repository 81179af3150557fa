"""Terraform's files and the workflow, as far as they can be read without their services."""

import ast
import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
import tomllib

import pytest
import yaml

from beambert.deploy.retraining.runs import PUBLISHED, REFUSED
from beambert.deploy.settings import LABELS, Deployment, Release, Settings
from beambert.deploy.vertex import canary
from beambert.deploy.vertex.command import build_parser as vertex_parser
from beambert.deploy.vertex.requests import custom_job, model, on_demand, pipeline_job
from beambert.pipelines.files.input_list import INPUTS_FILE
from beambert.pipelines.records.contract import INFO_FILE
from beambert.pipelines.storage.claims import MARKER_FILE

FOLDER = pathlib.Path(__file__).parents[2] / "deploy" / "terraform"
SOURCES = "".join(path.read_text() for path in sorted(FOLDER.glob("*.tf")))


def test_one_file_has_all_names():
    fields = {field.name for field in dataclasses.fields(Settings)}
    assert fields == set(re.findall(r'^variable "(\w+)"', SOURCES, re.MULTILINE))
    values = tomllib.loads((FOLDER / "terraform.tfvars").read_text())
    for path in (FOLDER.parent).rglob("*"):
        if path.suffix in (".tf", ".py", ".toml", ".sh", ".json", ".yaml"):
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
    broad |= {"cloudbuild.builds.builder"}  # writes to every bucket of the project
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


@pytest.mark.slow
def test_checkov_finds_nothing():
    """Its rules are those of the industry; what does not apply is skipped beside its reason."""
    if shutil.which("checkov") is None:
        pytest.skip("needs checkov")
    done = subprocess.run(
        ["checkov", "-d", FOLDER, "--framework=terraform", "--skip-download", "--output=json"],
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)["results"]
    assert found["passed_checks"] and not found["failed_checks"], found["failed_checks"]


def table(name):
    """Returns a value of locals as Python reads it, with the names of other locals as texts."""
    start = re.search(rf"^  {name} *= *", SOURCES, re.MULTILINE).end()
    rest = SOURCES[start:]
    line = rest.partition("\n")[0]
    end = len(line) if line[-1] in "]}" else rest.index("\n  }") + 4
    text = re.sub(r"#.*", "", rest[:end])
    text = re.sub(r"([\w-]+) *= *", r'"\1": ', text)
    text = re.sub(r"(?:local|var)\.(\w+)", r'"\1"', text)
    return ast.literal_eval(re.sub(r'([\]}"\d])(\s*\n\s*")', r"\1,\2", text))


def may_write(role):
    return role in ("writes", "roles/storage.objectUser", "roles/storage.objectCreator")


def test_who_writes_which_bucket():
    """What decides a run can't be changed by what runs, nor by whoever delivers text."""
    writers = {
        bucket: {name for name, roles in accounts.items() if may_write(roles)}
        for bucket, accounts in table("bucket_roles").items()
    }
    workers = {"beambert-pipeline", "beambert-worker", "beambert-trainer"}
    assert writers == {"text": set(), "config": set(), "work": workers}
    people = table("people_bucket_roles")
    writers = {
        bucket: {who for who, roles in people.items() if any(map(may_write, roles.get(bucket, ())))}
        for bucket in ("text", "config", "work")
    }
    assert writers["config"] == {"approver"}
    assert writers["text"] == {"deliverer", "operator"}
    assert writers["work"] == {"operator", "approver"}
    # A deliverer adds objects and can't replace one.
    assert "roles/storage.objectUser" not in people["deliverer"]["text"]
    assert table("people_project_roles")["deliverer"] == []
    # The build writes to two folders of the configuration's bucket only.
    build = SOURCES[SOURCES.index('iam_member" "build"') :]
    assert 'for path in ["templates/", "builds/"]' in build
    steps = (FOLDER.parent / "cloudbuild.yaml").read_text()
    written = set(re.findall(r"gs://\$_BUCKET-config/(\w+/)", steps))
    assert written == {"templates/", "builds/"}


def test_buckets_of_the_configuration_are_made():
    made = set(table("restorable_days")) | {"state"}
    texts = [path.read_text() for path in FOLDER.parent.glob("*.toml")]
    texts += [(FOLDER.parent / "README.md").read_text()]
    named = set(re.findall(r"BUCKET-([a-z]+)", "".join(texts)))
    assert {"text", "config", "work"} <= named <= made


def test_accounts_may_look_at_buckets_that_tensorflow_opens():
    """TensorFlow goes up to the bucket to make a folder; see the test on the emulator."""
    for name in ("reads", "writes"):
        assert "roles/storage.legacyBucketReader" in table(name)


def test_alerts_match_what_is_printed():
    """An alert on words that nothing prints would never come."""
    words = re.findall(r'(?:AND |= ")\\"([\w ]+)\\"', SOURCES)
    code = "".join(
        path.read_text() for path in FOLDER.parent.rglob("*.py") if "terraform" not in path.parts
    )
    assert len(words) == 4
    for each in words:
        assert each in code, each
    outcomes = set(re.findall(r': (\w+): \\"', SOURCES))
    assert outcomes == {PUBLISHED, REFUSED} and "{run.path}: {result['outcome']}: " in code


def test_each_alert_says_what_to_do():
    """Whoever is woken by a mail needs more than its name."""
    alerts = (FOLDER / "alerts.tf").read_text()
    body = alerts.partition("advice = {")[2].partition("\n  }\n")[0]
    advice = dict(re.findall(r'^ +"([^"]+)" += "([^"]+)"$', body, re.MULTILINE))
    named = set(re.findall(r'^    "([^"]+)" +=', alerts.replace(body, ""), re.MULTILINE))
    named |= set(re.findall(r'^  display_name = "([A-Z][\w ]+)"\n  combiner', alerts, re.MULTILINE))
    assert len(named) == 8 and set(advice) == named
    policies = re.findall(r'^resource "google_monitoring_alert_policy".*?^}', SOURCES, re.M | re.S)
    assert len(policies) == 4 and all("\n  documentation {" in each for each in policies)
    told = re.findall(r"`python -m beambert.deploy.vertex (.*?)`", "".join(advice.values()))
    assert told
    for command in told:
        vertex_parser().parse_args(command.split())


def test_state_is_remote_and_labels_are_everywhere():
    main = (FOLDER / "main.tf").read_text()
    assert 'backend "gcs"' in main and "bucket" not in main[main.index('backend "gcs"') :][:60]
    assert 'default_labels = { app = "beambert" }' in main and LABELS == {"app": "beambert"}


def steps_of(workflow):
    return {name: body for step in workflow["main"]["steps"] for name, body in step.items()}


def test_workflow():
    steps = steps_of(yaml.safe_load((FOLDER / "arrival.yaml").read_text()))
    condition = steps["is_a_manifest"]["switch"][0]["condition"]
    (pattern,) = re.findall(r'match_regex\(event\.data\.message\.\w+\.objectId, "(.*)"', condition)
    pattern = pattern.replace("\\\\", "\\")
    config = tomllib.loads((FOLDER.parent / "retrain.toml").read_text())
    (manifests,) = config["manifests"]
    name = manifests.removeprefix("gs://BUCKET-text/").replace("*", "2026-11-21")
    assert re.search(pattern, name)
    assert not re.search(pattern, "manifests/2026-11-21.txt")
    # Nothing but manifests/ is told of, and the text that is delivered lies elsewhere.
    (prefix,) = re.findall(r'object_name_prefix = "(.*)"', SOURCES)
    assert name.startswith(prefix)
    assert not any(f"BUCKET-text/{prefix}" in text for text in config["input"])
    # The wait is over when this manifest itself is old enough.
    assert steps["settle"]["args"]["seconds"] > 60 * config["settle_minutes"]
    settings = Settings("p", "r", "b", "", "", "")
    got = steps["pipeline"]["try"]["args"]["object"]
    assert settings.pipeline == f"gs://b-config/{got}"
    given = set(re.findall(r"^    ([A-Z]+) += (?:var|google)", SOURCES, re.MULTILINE))
    assert given == set(re.findall(r'get_env\("(\w+)"\)', str(steps)))
    assert steps["is_by_hand"]["switch"][0]["next"] == "pipeline"
    for name in ("pipeline", "start"):
        assert steps[name]["retry"].startswith("${http.default_retry")


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


def test_no_state_in_commits():
    """Terraform's state has the project's secrets in it."""
    root = FOLDER.parents[1]
    assert {"*.tfstate*", ".terraform/"} <= set((root / ".gitignore").read_text().split())


def test_what_terraform_asks_first_is_enabled_before_it():
    """It lists and enables services through these two, so it can't enable them itself."""
    readme = (FOLDER.parent / "README.md").read_text()
    services = "cloudresourcemanager.googleapis.com serviceusage.googleapis.com"
    enabled = readme.index(f"gcloud services enable {services}")
    assert enabled < readme.index("terraform -chdir=deploy/terraform init")


def test_new_accounts_and_roles_are_awaited():
    """Google makes Eventarc's account when it is asked for it, and roles hold after minutes."""
    (trigger,) = resources("google_eventarc_trigger")
    (wait,) = resources("time_sleep")
    (role,) = (text for text in resources("google_project_iam_member") if "eventarc" in text)
    assert "time_sleep.roles_hold" in trigger and int(re.search(r'"(\d+)s"', wait)[1]) >= 60
    assert "google_project_iam_member.eventarc" in wait
    assert "google_project_service_identity.eventarc.member" in role
    # Everything else waits for its service.
    for kind in ("google_service_account", "google_storage_bucket", "google_compute_network"):
        for text in resources(kind):
            assert "google_project_service.needed" in text, kind


def test_deleted_checkpoints_are_kept_for_days():
    """A run of base deletes a terabyte of them."""
    days = table("restorable_days")
    assert days["work"] <= 3 < days["text"] < days["config"]


def test_a_served_version_is_watched():
    """For each deployed model, so that a small share of the requests is seen, too."""
    (text,) = (
        each for each in resources("google_monitoring_alert_policy") if "local.endpoint" in each
    )
    filters = re.findall(r'filter +=.*?/(\w+)\\"', text)
    assert filters == ["response_count", "response_count", "prediction_latencies"]
    assert text.count("metric.label.deployed_model_id") == 2
    share = re.search(r"failed_share += (\S+)", SOURCES)[1]
    assert float(share) == canary.FAILED
    assert "vertex serve RUN --share=0" in text


def test_machines_have_private_addresses():
    """A new project's `default` network is not assumed, and no machine is reached from outside."""
    assert "private_ip_google_access = true" in SOURCES
    made = re.search(r'"google_compute_subnetwork" "(\w+)"', SOURCES)[1]
    for name in ("retrain.toml", "smoke.toml"):
        data = tomllib.loads((FOLDER.parent / name).read_text())["data"]
        assert data["subnetwork"] == f"regions/REGION/subnetworks/{made}"
        assert data["no_use_public_ips"] is True
    sources = re.findall(r"source_(?:ranges|tags) *= *(.*)", SOURCES)
    # Identity-Aware Proxy's range, and the workers themselves.
    assert sorted(sources) == ['["35.235.240.0/20"]', '["dataflow"]']


def resources(kind):
    return re.findall(rf'^resource "{kind}" "\w+" {{\n(.*?)^}}', SOURCES, re.MULTILINE | re.DOTALL)


def test_one_variable_encrypts_all_that_keeps_data():
    """Each is made after Google's services may use the key, or its making is refused."""
    for kind, words in {
        "google_storage_bucket": "default_kms_key_name = encryption.value",
        "google_artifact_registry_repository": "kms_key_name  = local.kms_key",
        "google_pubsub_topic": "kms_key_name = local.kms_key",
        "google_workflows_workflow": "crypto_key_name     = local.kms_key",
    }.items():
        found = resources(kind)
        assert found
        for text in found:
            assert words in text and "google_kms_crypto_key_iam_member.encrypting" in text, kind


def test_old_records_go_and_what_since_reads_stays():
    (text,) = resources("google_storage_bucket")
    (suffixes,) = re.findall(r"matches_suffix = (\[.*\])", text)
    assert set(ast.literal_eval(suffixes)) == {".tfrecord", ".tfrecord.gz"}
    for name in (INFO_FILE, INPUTS_FILE, MARKER_FILE):
        assert not name.endswith(tuple(ast.literal_eval(suffixes)))
    (prefix,) = re.findall(r'matches_prefix = \["(.*)"\]\n.*suffix', text)
    workspace = tomllib.loads((FOLDER.parent / "retrain.toml").read_text())["workspace"]
    assert f"gs://BUCKET-work/{prefix}" == f"{workspace}/runs/"


def test_the_key_is_named_to_dataflow_and_vertex():
    text = (FOLDER.parent / "retrain.toml").read_text()
    settings = Settings("p", "r", "b", "", "", "v5e-1")
    release = Release("abc")
    without = Deployment(settings, release)
    assert "kms" not in without.fill_in(text).lower() and settings.encryption == {}
    key = "projects/p/locations/r/keyRings/k/cryptoKeys/c"
    settings = dataclasses.replace(settings, kms_key=key)
    deployment = Deployment(settings, release)
    assert tomllib.loads(deployment.fill_in(text))["data"]["dataflow_kms_key"] == key
    result = {"version": 1, "reasons": []}
    for request in (
        custom_job(deployment, "name", ["pretrain"]),
        on_demand(custom_job(deployment, "name", ["pretrain"])),
        pipeline_job(deployment, {}),
        model(deployment, "gs://b-work/runs/000001", result),
    ):
        assert request["encryption_spec"] == {"kms_key_name": key}
