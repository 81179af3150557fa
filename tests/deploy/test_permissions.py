"""No account may do what must stay with those who decide."""

import pathlib

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
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
