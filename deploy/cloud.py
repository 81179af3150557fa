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
from beambert.deploy.vertex import jobs, releases
from beambert.errors import InputError

ROOT = pathlib.Path(__file__).resolve().parents[1]
# What `make cloud` makes here: the demonstration's text and task.
OUTPUT = "cloud-output"
# Without these services nothing can be asked.
_FIRST_SERVICES = ["cloudresourcemanager.googleapis.com", "serviceusage.googleapis.com"]
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


def may_apply(settings: Settings) -> bool:
    """Returns whether the caller may apply, in a project where the caller may at least deploy.

    Raises:
      InputError: the trainer cannot be used, the project cannot be looked at, or the caller may
        not deploy.
    """
    jobs.find_trainer(settings)
    # Whoever may not do this relies on somebody who did.
    ask("gcloud", "services", "enable", *_FIRST_SERVICES, f"--project={settings.project}")
    lacked = missing_permissions(settings.project, APPLYING)
    if lacked and missing_permissions(settings.project, DEPLOYING):
        raise InputError(
            f"{settings.project}: you lack {', '.join(lacked)}; have an owner of the project run "
            "`make cloud`, with you in approvers of terraform.tfvars, or make you an owner"
        )
    return not lacked


def missing_permissions(project: str, permissions: Sequence[str]) -> list[str]:
    """Returns those of some permissions on a project that the caller lacks.

    Raises:
      InputError: there are no credentials, or the project cannot be looked at.
    """
    from google.api_core.exceptions import from_http_response

    url = f"https://cloudresourcemanager.googleapis.com/v1/projects/{project}:testIamPermissions"

    def send() -> dict[str, Any]:
        wanted = {"permissions": permissions}
        answer = google_cloud.session(project).request("POST", url, json=wanted)
        if answer.status_code != 200:
            raise from_http_response(answer)
        return answer.json()

    remedy = "check the id, and that `gcloud auth list` shows somebody who may look at it"
    with google_cloud.service_errors(project, "cannot be looked at", remedy):
        found = google_cloud.patiently(send)
    return sorted({*permissions} - {*found.get("permissions", ())})


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
    applies = may_apply(settings)
    print("docs/cloud.md has what machines and images cost, and the quotas that they need")
    confirm(f"Set up {settings.project}, commit {commit[:12]}?", "yes", yes)
    if applies:
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
        releases.await_dataflow(settings)
    for kind in ("text", "config", "work"):
        bucket = f"gs://{settings.bucket}-{kind}"
        if ask("gcloud", "storage", "buckets", "describe", bucket) is not None:
            call("gcloud", "storage", "rm", "--recursive", bucket)
    if ask("gcloud", "storage", "buckets", "describe", state) is not None:
        terraform(settings, "destroy")
        call("gcloud", "storage", "rm", "--recursive", state)
    print(f"{settings.project}: nothing of BeamBERT is left")
