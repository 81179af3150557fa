"""Sets up a project on Google Cloud, and takes it down again.

    make cloud PROJECT=my-project         check, then apply, build, deploy
    make cloud-down PROJECT=my-project    stop and delete everything

Each step looks at what is there, so the same command continues after a failure. Nothing that costs
starts before the checks have passed and were confirmed.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from beambert.deploy import google_cloud
from beambert.deploy.retraining.planning import MOUNTED
from beambert.deploy.settings import FILE, Deployment, Release, Settings
from beambert.deploy.vertex import jobs, releases, serving
from beambert.errors import InputError

ROOT = pathlib.Path(__file__).resolve().parents[1]
# What `make cloud` makes here: the demonstration's text and task.
OUTPUT = "cloud-output"
# Without these services nothing can be asked.
_FIRST_SERVICES = [
    f"{name}.googleapis.com"
    for name in ("aiplatform", "cloudbilling", "cloudresourcemanager", "compute", "serviceusage")
]
# Permissions of whoever applies, and of whoever only builds and deploys.
APPLYING = (
    "artifactregistry.repositories.create",
    "compute.networks.create",
    "iam.roles.create",
    "iam.serviceAccounts.create",
    "iam.serviceAccounts.setIamPolicy",
    "monitoring.alertPolicies.create",
    "resourcemanager.projects.setIamPolicy",
    "serviceusage.services.enable",
    "storage.buckets.create",
)
DEPLOYING = ("aiplatform.schedules.create", "cloudbuild.builds.create", "dataflow.jobs.create")
# A worker of Dataflow has four processors.
_LEAST_CPUS = 4
QUOTAS_PAGE = "https://console.cloud.google.com/iam-admin/quotas"


def call(*words: str) -> None:
    """Runs a program to its end, and prints the command.

    Raises:
      InputError: it failed, after printing its own message.
    """
    print(f"\n$ {' '.join(words)}", flush=True)
    status = subprocess.run(words, cwd=ROOT, check=False).returncode
    if status:
        raise InputError(
            f"{words[0]}: failed (status {status}); correct what it printed above, and give the "
            "same command again, which continues"
        )


def ask(*words: str) -> str | None:
    """Returns what a program prints; None if it fails."""
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    return None if done.returncode else done.stdout.strip()


def check_programs() -> None:
    """Raises an error unless this machine has the programs that are called."""
    for program in ("gcloud", "terraform", "git"):
        if not shutil.which(program):
            raise InputError(f"{program}: is not installed; install it and start again")


def check_machine(release: str) -> str:
    """Returns the hash of the commit to deploy, after checking this machine.

    Raises:
      InputError: a program or the commit is missing, or Python is not the images'.
    """
    dockerfile = (ROOT / "deploy/dataflow/Dockerfile").read_text()
    wanted = dockerfile.partition("ARG PYTHON=")[2].split()[0]
    found = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if found != wanted:
        raise InputError(
            f"Python {found}: the images have {wanted}, and jobs are sent by the same; make .venv "
            f"anew with `make PYTHON=python{wanted} cloud`"
        )
    check_programs()
    commit = ask("git", "rev-parse", "--verify", f"{release}^{{commit}}")
    if commit is None:
        raise InputError(
            f"--release={release}: {ROOT} has no such commit; fetch it, or clone the repository"
        )
    if ask("git", "status", "--porcelain", "--", ".", ":!deploy/terraform", ":!deploy/*.toml"):
        print(f"warning: the images are those of commit {commit[:12]}; later changes are left out")
    return commit


class Project:
    """What Google Cloud says of the project, in requests in its name."""

    def __init__(self, settings: Settings):
        """Looks for credentials.

        Raises:
          InputError: there are none.
        """
        self.settings = settings
        with google_cloud.service_errors(settings.project, "cannot be looked at"):
            self._session = google_cloud.session(settings.project)

    def request(self, url: str, body: Any = None) -> dict[str, Any] | None:
        """Returns the answer to a GET, or a POST with a body; None if there is no such thing.

        Raises:
          InputError: the service refuses.
        """
        from google.api_core.exceptions import from_http_response

        def send() -> Any:
            method = "GET" if body is None else "POST"
            answer = self._session.request(method, f"https://{url}", json=body)
            if answer.status_code in (200, 404):
                return answer
            raise from_http_response(answer)

        remedy = "check the id, and that `gcloud auth list` shows somebody who may look at it"
        with google_cloud.service_errors(self.settings.project, "cannot be looked at", remedy):
            answer = google_cloud.patiently(send)
        return None if answer.status_code == 404 else answer.json()

    def missing(self, permissions: Sequence[str]) -> list[str]:
        """Returns those of some permissions that the caller lacks."""
        url = f"cloudresourcemanager.googleapis.com/v1/projects/{self.settings.project}"
        found = self.request(f"{url}:testIamPermissions", {"permissions": [*permissions]}) or {}
        return sorted({*permissions} - {*found.get("permissions", ())})

    def has_billing(self) -> bool:
        """Whether the project has an account to pay with."""
        url = f"cloudbilling.googleapis.com/v1/projects/{self.settings.project}/billingInfo"
        return bool((self.request(url) or {}).get("billingEnabled"))

    def compute_quota(self, metric: str) -> float | None:
        """Returns a quota of Compute Engine in the region; None if there is none of the name.

        Raises:
          InputError: there is no such region.
        """
        project, region = self.settings.project, self.settings.region
        url = f"compute.googleapis.com/compute/v1/projects/{project}/regions/{region}"
        found = self.request(url)
        if found is None:
            raise InputError(f'{FILE}: region = "{region}": no such region; correct it')
        limits = {each["metric"]: each["limit"] for each in found["quotas"]}
        return limits.get(metric)

    def vertex_quota(self, metric: str) -> float | None:
        """Returns a quota of Vertex AI in the region; None if there is none of the name."""
        url = f"serviceusage.googleapis.com/v1beta1/projects/{self.settings.project}/services/"
        service = "aiplatform.googleapis.com"
        found = self.request(f"{url}{service}/consumerQuotaMetrics/{service}%2F{metric}")
        if found is None:
            return None
        # One limit has a value for each region, and one without a region for all others.
        values = {}
        for limit in found.get("consumerQuotaLimits", ()):
            for bucket in limit.get("quotaBuckets", ()):
                region = bucket.get("dimensions", {}).get("region", "")
                values[region] = float(bucket.get("effectiveLimit", 0))
        value = values.get(self.settings.region, values.get("", 0.0))
        return float("inf") if value < 0 else value


def check_project(settings: Settings) -> bool:
    """Checks the project before anything is made, and returns whether the caller may apply.

    Raises:
      InputError: the project has no billing or too little quota, or the caller may not deploy.
    """
    trainer = jobs.find_trainer(settings)
    # Whoever may not do this relies on somebody who did.
    ask("gcloud", "services", "enable", *_FIRST_SERVICES, f"--project={settings.project}")
    project = Project(settings)
    lacked = project.missing(APPLYING)
    if lacked and project.missing(DEPLOYING):
        raise InputError(
            f"{settings.project}: you lack {', '.join(lacked)}; have an owner of the project run "
            "`make cloud`, with you in approvers of terraform.tfvars, or make you an owner"
        )
    if not project.has_billing():
        raise InputError(
            f"{settings.project}: has no billing account; link one on "
            f"https://console.cloud.google.com/billing/linkedaccount?project={settings.project}"
        )
    wanted = {
        ("compute.googleapis.com", "N2_CPUS"): (_LEAST_CPUS, project.compute_quota),
        ("aiplatform.googleapis.com", trainer.metric): (trainer.count, project.vertex_quota),
    }
    for (service, metric), (least, find) in wanted.items():
        limit = find(metric)
        print(f"quota {metric} in {settings.region}: {limit or 0:g}, {least} needed")
        if limit is None:
            print(f"  {service} names no such quota here; look at {QUOTAS_PAGE}")
        elif limit < least:
            raise InputError(
                f"{settings.project}: the quota {metric} of {service} in {settings.region} is "
                f"{limit:g}, and {least} is needed; ask for it on {QUOTAS_PAGE}, or take another "
                f"trainer or region in {FILE}"
            )
    return not lacked


def confirm(question: str, word: str, yes: bool) -> None:
    """Goes on if the user types a word.

    Raises:
      InputError: the user types another one, or nobody is there.
    """
    if yes:
        return
    try:
        answer = input(f"{question} Type {word} to go on: ")
    except EOFError:
        answer = ""
    if answer.strip() != word:
        raise InputError("nothing was changed; add YES=1 where nobody can answer")


def up(settings: Settings, config_file: str, release: str, yes: bool) -> None:
    """Checks, applies, builds and deploys.

    Raises:
      InputError: a check or a step failed.
    """
    from beambert import io

    commit = check_machine(release)
    deployment = Deployment(settings, Release(commit))
    _, config = releases.read_config(deployment, config_file)
    may_apply = check_project(settings)
    print("docs/cloud.md has what machines and images cost")
    confirm(f"Set up {settings.project}, commit {commit[:12]}?", "yes", yes)
    if may_apply:
        apply(settings)
    else:
        print("you may not apply; what an owner has applied is used")
    _copy_task(str(config.finetune["data_dir"]), config_file)
    if not io.exists(deployment.build):
        build(deployment)
    releases.deploy(releases.find(settings, commit), config_file)
    print(
        f"\n{settings.project} is set up. Deliver text, here or elsewhere:\n"
        f"  gcloud storage cp --no-clobber {OUTPUT}/corpus/*.jsonl gs://{settings.bucket}-text/\n"
        "and look at the runs and the served version:\n"
        "  make cloud-status"
    )


def apply(settings: Settings) -> None:
    """Makes the bucket of Terraform's state and all resources; changes what has changed."""
    state = f"gs://{settings.bucket}-state"
    where = [f"--project={settings.project}", f"--location={settings.region}"]
    if ask("gcloud", "storage", "buckets", "describe", state) is None:
        safe = ["--uniform-bucket-level-access", "--public-access-prevention"]
        call("gcloud", "storage", "buckets", "create", state, *where, *safe)
    terraform(settings, "apply")


def terraform(settings: Settings, command: str) -> None:
    """Runs a command of Terraform on the project's state."""
    words = ["terraform", f"-chdir={FILE.parent}"]
    state = f"-backend-config=bucket={settings.bucket}-state"
    call(*words, "init", "-input=false", "-reconfigure", state)
    call(*words, command, "-input=false", "-auto-approve", "-lock-timeout=60s")


def _copy_task(task: str, config_file: str) -> None:
    """Copies the demonstration's task to where the trial's configuration wants one.

    Raises:
      InputError: another configuration's task is missing.
    """
    from beambert import io

    there = task.replace(MOUNTED, "gs://", 1)
    if io.list_folder(there):
        return
    if pathlib.Path(config_file).name != "trial.toml":
        raise InputError(
            f"--config={config_file}: finetune.data_dir: {there} is empty; copy the task's files: "
            f"gcloud storage cp -r FOLDER/* {there}/"
        )
    if not (ROOT / OUTPUT / "task").is_dir():
        call(sys.executable, "-m", "beambert.demo.corpus", f"--output={OUTPUT}")
    io.copy(str(ROOT / OUTPUT / "task"), there)


def build(deployment: Deployment) -> None:
    """Builds the images of a release from its commit, whatever else is in the folder."""
    settings, commit = deployment.settings, deployment.release.tag
    values = {
        "_REGISTRY": f"{settings.region}-docker.pkg.dev/{settings.project}/beambert",
        "_BUCKET": settings.bucket,
        "_COMMIT": commit,
        "_TRAINER": deployment.trainer_image,
    }
    with tempfile.TemporaryDirectory() as folder:
        source = f"{folder}/source.tar.gz"
        call("git", "archive", f"--output={source}", commit)
        call(
            *("gcloud", "builds", "submit", source, f"--project={settings.project}"),
            "--config=deploy/cloudbuild.yaml",
            f"--gcs-source-staging-dir={settings.work}/tmp/source",
            "--substitutions=" + ",".join(f"{name}={value}" for name, value in values.items()),
        )


def down(settings: Settings, yes: bool) -> None:
    """Stops and deletes everything, from whatever state setting up has reached.

    Raises:
      InputError: a step failed; the same command continues.
    """
    check_programs()
    state = f"gs://{settings.bucket}-state"
    confirm(
        f"Delete all text, models and runs in {settings.project}, which cannot be taken back?",
        settings.project,
        yes,
    )
    enabled = ask(
        *("gcloud", "services", "list", "--enabled", f"--project={settings.project}"),
        "--format=value(config.name)",
    )
    if enabled is None:
        raise InputError(
            f"{settings.project}: cannot be looked at; log in with `gcloud auth login`, and check "
            "the id"
        )
    if {"aiplatform.googleapis.com", "dataflow.googleapis.com"} <= {*enabled.split()}:
        releases.stop(settings)
        serving.remove(settings)
        releases.await_dataflow(settings)
    for kind in ("text", "config", "work"):
        bucket = f"gs://{settings.bucket}-{kind}"
        if ask("gcloud", "storage", "buckets", "describe", bucket) is not None:
            call("gcloud", "storage", "rm", "--recursive", bucket)
    if ask("gcloud", "storage", "buckets", "describe", state) is not None:
        terraform(settings, "destroy")
        call("gcloud", "storage", "rm", "--recursive", state)
    print(f"{settings.project}: nothing of BeamBERT is left")
