"""What each account may do, against the permissions of the calls that are made under it."""

import pathlib

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
ROLES = yaml.safe_load((ROOT / "deploy/terraform/roles.yaml").read_text())

# Permissions of predefined roles, so far as calls need them or nobody but some may have them:
# https://docs.cloud.google.com/iam/docs/roles-permissions of 2026-08.
OF_ROLES = {
    "aiplatform.user": "aiplatform: customJobs.create customJobs.get customJobs.list "
    "customJobs.cancel pipelineJobs.create pipelineJobs.get pipelineJobs.list pipelineJobs.cancel "
    "schedules.create schedules.get schedules.list schedules.delete models.upload models.get "
    "models.list models.update models.delete endpoints.create endpoints.get endpoints.list "
    "endpoints.update endpoints.deploy endpoints.undeploy endpoints.delete",
    "artifactregistry.reader": "artifactregistry: repositories.downloadArtifacts",
    "artifactregistry.writer": "artifactregistry: repositories.downloadArtifacts "
    "repositories.uploadArtifacts",
    "cloudbuild.builds.editor": "cloudbuild: builds.create builds.get",
    "compute.viewer": "compute: machineTypes.get",
    "dataflow.developer": "dataflow: jobs.create jobs.get jobs.list jobs.cancel "
    "jobs.updateContents messages.list metrics.get",
    "dataflow.worker": "dataflow: workItems.lease workItems.update shuffle.read shuffle.write",
    "logging.logWriter": "logging: logEntries.create",
    "logging.viewer": "logging: logEntries.list",
    "monitoring.viewer": "monitoring: alertPolicies.get",
    "serviceusage.serviceUsageConsumer": "serviceusage: services.use",
    "storage.legacyBucketReader": "storage: buckets.get objects.list",
    "storage.objectCreator": "storage: objects.create",
    "storage.objectUser": "storage: objects.create objects.delete objects.get objects.list",
    "storage.objectViewer": "storage: objects.get objects.list",
}
# (account, what it does) -> permissions, after where they are needed and the service; one with ! is
# by a condition.
CALLS = {
    ("beambert-build", "gcloud storage cp of the images' digests looks and lists, then writes"): (
        "config storage objects.get objects.list buckets.get objects.create!"
    ),
    ("beambert-build", "fetches the source, pushes and logs"): (
        "work storage objects.get; images artifactregistry repositories.uploadArtifacts; "
        "project logging logEntries.create"
    ),
    ("beambert-pipeline", "starts, awaits and cancels trainings"): (
        "project aiplatform customJobs.create customJobs.get customJobs.list customJobs.cancel; "
        "acts_as beambert-trainer"
    ),
    ("beambert-pipeline", "starts and awaits Dataflow jobs"): (
        "project dataflow jobs.create jobs.get jobs.list messages.list metrics.get; "
        "project compute machineTypes.get; acts_as beambert-worker"
    ),
    ("beambert-pipeline", "reads text and configuration, writes the workspace and its lock"): (
        "text storage objects.get objects.list buckets.get; "
        "config storage objects.get objects.list buckets.get; "
        "work storage objects.get objects.list objects.create objects.delete buckets.get; "
        "images artifactregistry repositories.downloadArtifacts; project logging logEntries.create"
    ),
    ("beambert-worker", "reads text and vocabulary, writes records"): (
        "text storage objects.get objects.list; config storage objects.get objects.list; "
        "work storage objects.get objects.list objects.create objects.delete; "
        "project dataflow workItems.lease shuffle.write; "
        "images artifactregistry repositories.downloadArtifacts; project logging logEntries.create"
    ),
    ("beambert-trainer", "reads records and tasks, writes checkpoints and models"): (
        "config storage objects.get objects.list buckets.get; "
        "work storage objects.get objects.list objects.create objects.delete buckets.get; "
        "images artifactregistry repositories.downloadArtifacts; project logging logEntries.create"
    ),
    ("deliverers", "gcloud looks and lists, then writes"): (
        "text storage objects.get objects.list objects.create"
    ),
    ("operators", "watch and cancel, look at runs"): (
        "project aiplatform pipelineJobs.list pipelineJobs.cancel; "
        "project aiplatform customJobs.list customJobs.cancel; "
        "project dataflow jobs.list jobs.cancel; project logging logEntries.list; "
        "text storage objects.delete; config storage objects.get; "
        "work storage objects.get objects.list"
    ),
    ("approvers", "make cloud: checks, copies the task, gcloud builds submit"): (
        "project serviceusage services.use; "
        "config storage objects.create; work storage buckets.get objects.create; "
        "project cloudbuild builds.create builds.get; project logging logEntries.list; "
        "acts_as beambert-build"
    ),
    ("approvers", "deploy, start, stop, status"): (
        "config storage buckets.get objects.get objects.list objects.create objects.delete; "
        "project aiplatform schedules.create schedules.list schedules.delete pipelineJobs.create "
        "pipelineJobs.list pipelineJobs.cancel customJobs.list customJobs.cancel; "
        "project dataflow jobs.list jobs.cancel; "
        "acts_as beambert-pipeline; acts_as beambert-trainer"
    ),
    ("approvers", "job"): "project aiplatform customJobs.create; acts_as beambert-trainer",
    ("approvers", "beambert data on Dataflow"): (
        "project dataflow jobs.create messages.list metrics.get; project compute machineTypes.get; "
        "acts_as beambert-worker; work storage objects.create; text storage objects.list"
    ),
    ("approvers", "put a version behind an endpoint by gcloud"): (
        "project aiplatform models.upload models.get models.update endpoints.list endpoints.create "
        "endpoints.update endpoints.deploy endpoints.undeploy; "
        "work storage objects.get objects.list objects.create objects.delete"
    ),
}
# What must stay with those who decide.
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


def granted(account: str) -> set[str]:
    """Returns the permissions of an account, each with where it holds."""
    permissions = set()
    for place, roles in (ROLES["accounts"] | ROLES["people"])[account].items():
        for role in roles:
            if place == "acts_as":
                permissions.add(f"acts_as {role}")
            elif role == "beambertOperator":
                permissions |= {f"project {each}" for each in ROLES["operator"]}
            else:
                service, _, names = OF_ROLES[role.removeprefix("roles/")].partition(": ")
                permissions |= {f"{place} {service}.{name}" for name in names.split()}
    return permissions


def needed(calls: str) -> set[str]:
    """Returns the permissions of a line of `CALLS`, each with where it is needed."""
    found = set()
    for clause in calls.split("; "):
        place, service, *names = clause.split()
        found |= {f"{place} {service}.{name}" for name in names} or {clause}
    return found


@pytest.mark.parametrize(("account", "does"), CALLS)
def test_an_account_may_make_its_calls(account, does):
    wanted = {call for call in needed(CALLS[account, does]) if "!" not in call}
    assert not wanted - granted(account)


@pytest.mark.parametrize("account", FORBIDDEN)
def test_an_account_may_not_do_the_work_of_others(account):
    assert not granted(account) & set(FORBIDDEN[account])
