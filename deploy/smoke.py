"""A first live run of everything on Google Cloud, with a tiny corpus, and its teardown.

    make smoke-cloud PROJECT=my-trial ARGUMENTS=--dry_run     prints every call and what it costs
    make smoke-cloud PROJECT=my-trial                         makes the calls

The project must be one for trials: `teardown` deletes its buckets.
deploy/terraform/terraform.tfvars must name it, and trainer = "v5e-1" is enough.
"""

import dataclasses
import subprocess
import sys
import time
from collections.abc import Sequence

from beambert.deploy.settings import FILE, Settings
from beambert.pipelines.shared.console import duration, run_main
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.flags import FlagParser

# List prices in dollars an hour, us-central1, as of 2025.
PRICES = {
    "nothing": 0.0,
    "e2-highcpu-8 of Cloud Build": 0.96,
    "two n2-standard-4 of Dataflow": 0.56,
    "v5e-1": 1.20,
    "small component": 0.12,
    "n2-standard-4 of an endpoint": 0.22,
}


@dataclasses.dataclass(frozen=True)
class Step:
    """A step of the smoke test.

    Attributes:
      name: name of the step.
      proves: what is proven if it works, as docs/limits.md names it.
      calls: lines for the shell.
      hours: expected time in hours of each machine, by its name in `PRICES`.
    """

    name: str
    proves: str
    calls: tuple[str, ...]
    hours: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def dollars(self) -> float:
        """What the step is expected to cost."""
        return sum(PRICES[machine] * hours for machine, hours in self.hours.items())


def steps(settings: Settings, commit: str) -> list[Step]:
    """Returns the steps in their order.

    Args:
      settings: settings of the project.
      commit: release to build and deploy.
    """
    project, region, bucket = settings.project, settings.region, settings.bucket
    registry = f"{region}-docker.pkg.dev/{project}/beambert"
    vertex = f"{sys.executable} -m beambert.deploy.vertex"
    run = f"gs://{bucket}-work/smoke/runs/000001"
    state = f"gs://{bucket}-state"
    substitutions = f"_REGISTRY={registry},_BUCKET={bucket},_COMMIT={commit}"
    beam = (
        f"--runner=DataflowRunner --project={project} --region={region} --max_num_workers=2 "
        f"--temp_location=gs://{bucket}-work/tmp --labels=app=beambert "
        f"--subnetwork=regions/{region}/subnetworks/beambert "
        f"--service_account_email=beambert-worker@{project}.iam.gserviceaccount.com"
    )
    services = "cloudresourcemanager.googleapis.com serviceusage.googleapis.com"
    terraform = "terraform -chdir=deploy/terraform"
    return [
        Step(
            "resources",
            "Terraform's resources, its accounts' rights",
            (
                f"gcloud services enable {services} --project={project}",
                f"gcloud storage buckets describe {state} --project={project} || gcloud storage "
                f"buckets create {state} --project={project} --location={region} "
                "--uniform-bucket-level-access --public-access-prevention",
                f"{terraform} init -reconfigure -backend-config=bucket={bucket}-state",
                f"{terraform} apply -auto-approve",
                f"ARRIVALS=$({terraform} output -raw arrivals) && "
                "gcloud pubsub subscriptions update $ARRIVALS "
                "--dead-letter-topic=beambert-dead-letters --max-delivery-attempts=10 "
                f"--project={project}",
            ),
        ),
        Step(
            "build",
            "images and templates are built",
            (
                f"gcloud builds submit --project={project} --config=deploy/cloudbuild.yaml "
                f"--gcs-source-staging-dir=gs://{bucket}-work/tmp/source "
                f"--substitutions={substitutions}",
            ),
            {"e2-highcpu-8 of Cloud Build": 0.75},
        ),
        Step(
            "corpus",
            "people's rights to deliver and to configure",
            (
                f"{sys.executable} -m beambert.demo.corpus --output=smoke-output",
                f"{sys.executable} -m beambert.deploy.manifest --folder=gs://{bucket}-text "
                "smoke-output/corpus/*.jsonl "
                "> smoke-output/smoke.manifest.json",
                f"gcloud storage cp smoke-output/corpus/*.jsonl gs://{bucket}-text/",
                f"gcloud storage cp -r smoke-output/task gs://{bucket}-config/smoke/",
            ),
        ),
        Step(
            "vocabulary",
            "a Dataflow job, workers from the sdist",
            (
                f"beambert vocab --input=gs://{bucket}-text/*.jsonl --vocab_size=8000 "
                f"--output=gs://{bucket}-work/smoke/vocab.txt --setup_file=./setup.py {beam}",
                f"gcloud storage cp gs://{bucket}-work/smoke/vocab.txt gs://{bucket}-config/smoke/",
            ),
            {"two n2-standard-4 of Dataflow": 0.4},
        ),
        Step(
            "template",
            "a template starts",
            (
                f"gcloud dataflow flex-template run beambert-smoke --project={project} "
                f"--region={region} --max-workers=2 --disable-public-ips "
                f"--subnetwork=regions/{region}/subnetworks/beambert "
                f"--template-file-gcs-location=gs://{bucket}-config/templates/{commit}/data.json "
                f"--staging-location=gs://{bucket}-work/tmp/staging "
                f"--temp-location=gs://{bucket}-work/tmp --additional-user-labels=app=beambert "
                f"--service-account-email=beambert-worker@{project}.iam.gserviceaccount.com "
                f"--parameters='input=gs://{bucket}-text/*.jsonl,"
                f"vocab_file=gs://{bucket}-config/smoke/vocab.txt,"
                f"output=gs://{bucket}-work/smoke/records,max_seq_length=32'",
                _until(f"gcloud storage ls gs://{bucket}-work/smoke/records/_SUCCESS", 60),
            ),
            {"two n2-standard-4 of Dataflow": 0.4},
        ),
        Step(
            "deployment",
            "the release, its schedule",
            (f"{vertex} --release={commit} deploy --config=deploy/smoke.toml",),
        ),
        Step(
            "tpu",
            "training on a TPU, spot restarts",
            (
                f"{vertex} job --hours=2 -- pretrain --recipe=tiny "
                f"--data=gs://{bucket}-work/smoke/records --num_train_steps=2000 "
                f"--model_dir=gs://{bucket}-work/smoke/tiny --tpu=local --dtype=bfloat16",
            ),
            {"v5e-1": 0.7},
        ),
        Step(
            "arrival",
            "an arrival; the whole pipeline, its lock and its end; permissions are enough",
            (
                f"gcloud storage cp smoke-output/smoke.manifest.json gs://{bucket}-text/manifests/",
                _until(f"gcloud storage cat {run}/result.json", 240),
            ),
            {"two n2-standard-4 of Dataflow": 0.4, "v5e-1": 1.4, "small component": 2.5},
        ),
        Step(
            "alert",
            "an alert",
            (
                # The manifest names a file that nobody delivers, beside the good one.
                f"""echo '{{"files": [{{"path": "gs://{bucket}-text/no.jsonl", "bytes": 1}}]}}' """
                "> smoke-output/wrong.manifest.json",
                f"gcloud storage cp smoke-output/wrong.manifest.json gs://{bucket}-text/manifests/",
                f"gcloud workflows run beambert-arrival --project={project} --location={region} "
                """--data='{"by_hand": true}'""",
                _until(
                    f"FOUND=$(gcloud logging read '\"was left out\"' --project={project} --limit=1 "
                    """--freshness=1h) && test -n "$FOUND\"""",
                    30,
                ),
                "echo 'the address of alert_email has mail now'",
            ),
            {"small component": 0.1},
        ),
        Step(
            "serving",
            "TensorFlow Serving on Vertex with the model's text operations",
            (
                f"{vertex} upload {run}",
                f"{vertex} serve {run} --share=100",
                f"ENDPOINT=$(gcloud ai endpoints list --project={project} --region={region} "
                "--filter=displayName=beambert --format='value(name)') && "
                f"gcloud ai endpoints predict $ENDPOINT --project={project} --region={region} "
                "--json-request=deploy/smoke_request.json",
                f"{vertex} serve {run} --share=0",
            ),
            {"n2-standard-4 of an endpoint": 0.7},
        ),
        Step(
            "vm",
            "a TPU VM",
            (
                f"COMMIT={commit} deploy/vertex/tpu_vm.sh pretrain --recipe=tiny "
                f"--data=gs://{bucket}-work/smoke/records --num_train_steps=200 "
                f"--model_dir=gs://{bucket}-work/smoke/vm --tpu=local --dtype=bfloat16",
            ),
            {"v5e-1": 0.5},
        ),
        Step(
            "teardown",
            "that nothing is left which costs",
            (
                f"{vertex} stop",
                f"gcloud storage rm gs://{bucket}-text/** gs://{bucket}-config/** "
                f"gs://{bucket}-work/** --all-versions --recursive",
                f"{terraform} destroy -auto-approve",
            ),
        ),
    ]


def _until(call: str, minutes: int) -> str:
    """Returns the lines that repeat a call each minute until it works, and fail in the end."""
    return f"for minute in $(seq {minutes}); do {call} && break; sleep 60; done; {call}"


def describe(every: Sequence[Step]) -> str:
    """Returns all calls, with what each step proves and costs."""
    lines = []
    for step in every:
        machines = ", ".join(f"{hours:g} h of {name}" for name, hours in step.hours.items())
        cost = f"${step.dollars:.2f}: {machines}" if machines else "$0"
        lines += [f"[{step.name}] proves: {step.proves} ({cost})", *step.calls, ""]
    total = sum(step.dollars for step in every)
    return "\n".join([*lines, f"about ${total:.2f} in all, list prices of us-central1 as of 2025"])


def run(every: Sequence[Step]) -> None:
    """Makes the calls.

    Raises:
      InputError: a call failed; what was made stays.
    """
    for step in every:
        print(f"[{step.name}] proves: {step.proves}", flush=True)
        started = time.monotonic()
        for call in step.calls:
            print(f"$ {call}", flush=True)
            status = subprocess.run(["bash", "-c", call], check=False).returncode
            if status:
                raise InputError(
                    f"{step.name}: a call failed (status {status}); mend it and go on with "
                    f"--start={step.name}, or end with --start=teardown"
                )
        print(f"[{step.name}] works, {duration(time.monotonic() - started)}", flush=True)


def build_parser() -> FlagParser:
    """Returns the parser of the command's flags."""
    parser = FlagParser(prog="python -m beambert.deploy.smoke", description=__doc__)
    add = parser.add_argument
    add("--project", required=True, help="project for trials, that of terraform.tfvars")
    add("--commit", help="commit to build (default: the one that is checked out)")
    add("--start", metavar="STEP", help="step to start with (default: the first one)")
    add("--dry_run", action="store_true", help="print the calls and their costs, and make none")
    return parser


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a flag cannot be used, or a call failed.
    """
    flags = build_parser().parse_args(list(argv))
    settings = Settings.read()
    if flags.project != settings.project:
        raise InputError(
            f"--project={flags.project}: {FILE} names {settings.project}; write the names of the "
            "project for trials there"
        )
    commit = flags.commit or _checked_out()
    every = steps(settings, commit)
    names = [step.name for step in every]
    if flags.start and flags.start not in names:
        raise InputError(f"--start={flags.start}: is no step; choose one of {', '.join(names)}")
    every = every[names.index(flags.start) if flags.start else 0 :]
    if flags.dry_run:
        print(describe(every))
    else:
        run(every)


def _checked_out() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False, cwd=FILE.parent
    )
    if done.returncode:
        raise InputError("--commit: is needed outside of a checkout; name the commit to build")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(run_main("smoke", main, sys.argv[1:]))
