"""The steps of the smoke test on Google Cloud: their calls, what they prove, cost and take.

Nothing was ever measured: the minutes are what the services' documents and other projects lead one
to expect, for a corpus of some megabytes.
"""

import dataclasses
import graphlib
import sys
from collections.abc import Sequence

from beambert.deploy.settings import Settings

# List prices in dollars an hour, us-central1, as of 2025.
PRICES = {
    "e2-highcpu-8 of Cloud Build": 0.96,
    "two n2-standard-4 of Dataflow": 0.56,
    "v5e-1": 1.20,
    "small component": 0.12,
    "n2-standard-4 of an endpoint": 0.22,
}
# The folder of the corpus and of what the calls write here.
FOLDER = "smoke-output"
TEARDOWN = "teardown"


@dataclasses.dataclass(frozen=True)
class SmokeStep:
    """A step of the smoke test.

    Attributes:
      name: name of the step.
      proves: what is proven if it works, as docs/limits.md names it.
      calls: lines for the shell.
      minutes: expected time.
      hours: expected time in hours of each machine, by its name in `PRICES`.
      after: names of the steps that it needs. Those that don't need each other run side by side.
    """

    name: str
    proves: str
    calls: tuple[str, ...]
    minutes: float
    hours: dict[str, float] = dataclasses.field(default_factory=dict)
    after: tuple[str, ...] = ()

    @property
    def dollars(self) -> float:
        """What the step is expected to cost."""
        return sum(PRICES[machine] * hours for machine, hours in self.hours.items())


def order(every: Sequence[SmokeStep]) -> graphlib.TopologicalSorter:
    """Returns the order of some steps. Others that they need count as done."""
    names = {step.name for step in every}
    return graphlib.TopologicalSorter({step.name: names & set(step.after) for step in every})


def expected_minutes(every: Sequence[SmokeStep]) -> float:
    """Returns the expected time in minutes of steps that run side by side where they can."""
    steps, ends = {step.name: step for step in every}, {}
    for name in order(every).static_order():
        begins = max((ends[before] for before in steps[name].after if before in ends), default=0.0)
        ends[name] = begins + steps[name].minutes
    return max(ends.values(), default=0.0)


def steps(settings: Settings, commit: str) -> list[SmokeStep]:
    """Returns the steps, each after those that it needs.

    Args:
      settings: settings of the project.
      commit: release to build and deploy.
    """
    work = [
        *_project(settings, commit),
        *_beam_jobs(settings, commit),
        *_trainings(settings, commit),
        *_versions(settings, commit),
    ]
    return [*work, _teardown(settings, tuple(step.name for step in work))]


def _project(settings: Settings, commit: str) -> list[SmokeStep]:
    """What every other step needs: resources, a corpus, the release."""
    project, region, bucket = settings.project, settings.region, settings.bucket
    state = f"gs://{bucket}-state"
    registry = f"{region}-docker.pkg.dev/{project}/beambert"
    services = "cloudresourcemanager.googleapis.com serviceusage.googleapis.com"
    terraform = "terraform -chdir=deploy/terraform"
    return [
        SmokeStep(
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
            minutes=5,
        ),
        SmokeStep(
            "corpus",
            "people's rights to deliver and to configure",
            (
                f"{sys.executable} -m beambert.demo.corpus --output={FOLDER}",
                # The last file is the second delivery.
                f"gcloud storage cp {FOLDER}/corpus/documents-0000[0-2]*.jsonl "
                f"gs://{bucket}-text/ --no-clobber",
                f"gcloud storage cp -r {FOLDER}/task gs://{bucket}-config/smoke/",
                f"beambert vocab --input='{FOLDER}/corpus/documents-0000[0-2]*.jsonl' "
                f"--vocab_size=8000 --output={FOLDER}/vocab.txt",
                f"gcloud storage cp {FOLDER}/vocab.txt gs://{bucket}-config/smoke/",
            ),
            minutes=3,
            after=("resources",),
        ),
        SmokeStep(
            "build",
            "images and templates are built",
            (
                f"gcloud builds submit --project={project} --config=deploy/cloudbuild.yaml "
                f"--gcs-source-staging-dir=gs://{bucket}-work/tmp/source "
                f"--substitutions=_REGISTRY={registry},_BUCKET={bucket},_COMMIT={commit}",
            ),
            minutes=15,
            hours={"e2-highcpu-8 of Cloud Build": 0.25},
            after=("resources",),
        ),
        SmokeStep(
            "deployment",
            "the release, its schedule",
            (f"{_vertex()} --release={commit} deploy --config=deploy/smoke.toml",),
            minutes=1,
            after=("build", "corpus"),
        ),
    ]


def _beam_jobs(settings: Settings, commit: str) -> list[SmokeStep]:
    project, region, bucket = settings.project, settings.region, settings.bucket
    worker = settings.account("beambert-worker")
    subnetwork = f"regions/{region}/subnetworks/beambert"
    temporary = f"gs://{bucket}-work/tmp"
    return [
        SmokeStep(
            "vocabulary",
            "a Dataflow job, workers from the sdist",
            (
                f"beambert vocab --input='gs://{bucket}-text/documents-0000[0-2]*.jsonl' "
                f"--vocab_size=8000 --output=gs://{bucket}-work/smoke/vocab.txt "
                f"--setup_file=./setup.py --runner=DataflowRunner --project={project} "
                f"--region={region} --max_num_workers=2 --temp_location={temporary} "
                f"--labels=app=beambert --subnetwork={subnetwork} --service_account_email={worker}",
                # It has the bytes of the one that was made here.
                f"gcloud storage cat gs://{bucket}-work/smoke/vocab.txt | cmp - {FOLDER}/vocab.txt",
            ),
            minutes=10,
            hours={"two n2-standard-4 of Dataflow": 0.2},
            after=("corpus",),
        ),
        SmokeStep(
            "template",
            "a template starts",
            (
                f"gcloud dataflow flex-template run beambert-smoke --project={project} "
                f"--region={region} --max-workers=2 --disable-public-ips "
                f"--subnetwork={subnetwork} "
                f"--template-file-gcs-location=gs://{bucket}-config/templates/{commit}/data.json "
                f"--staging-location={temporary}/staging "
                f"--temp-location={temporary} --additional-user-labels=app=beambert "
                f"--service-account-email={worker} "
                f"--parameters='input=gs://{bucket}-text/*.jsonl,"
                f"vocab_file=gs://{bucket}-config/smoke/vocab.txt,"
                f"output=gs://{bucket}-work/smoke/records,max_seq_length=32'",
                _until(f"gcloud storage ls gs://{bucket}-work/smoke/records/_SUCCESS", 60),
            ),
            minutes=9,
            hours={"two n2-standard-4 of Dataflow": 0.2},
            after=("build", "corpus"),
        ),
    ]


def _trainings(settings: Settings, commit: str) -> list[SmokeStep]:
    data = f"pretrain --recipe=tiny --data=gs://{settings.bucket}-work/smoke/records"
    flags = "--num_train_steps=20 --tpu=local --dtype=bfloat16"
    return [
        SmokeStep(
            "tpu",
            "training on a TPU, spot restarts",
            (
                f"{_vertex()} --release={commit} job --hours=2 -- {data} "
                f"--model_dir=gs://{settings.bucket}-work/smoke/tiny {flags}",
            ),
            minutes=10,
            hours={"v5e-1": 0.25},
            after=("template",),
        ),
        SmokeStep(
            "vm",
            "a TPU VM",
            (
                f"COMMIT={commit} deploy/vertex/tpu_vm.sh {data} "
                f"--model_dir=gs://{settings.bucket}-work/smoke/vm {flags}",
            ),
            minutes=10,
            hours={"v5e-1": 0.25},
            after=("template",),
        ),
    ]


def _versions(settings: Settings, commit: str) -> list[SmokeStep]:
    """From a first served version to a second one, which the pipeline makes and tries out."""
    project, region, bucket = settings.project, settings.region, settings.bucket
    first, second = (f"gs://{bucket}-work/smoke/runs/00000{number}" for number in (1, 2))
    delivered = f"gs://{bucket}-text"
    place = f"--project={project} --location={region}"
    ask = (
        f"ENDPOINT=$(gcloud ai endpoints list --project={project} --region={region} "
        "--filter=displayName=beambert --format='value(name)') && "
        f"gcloud ai endpoints predict $ENDPOINT --project={project} --region={region} "
        "--json-request=deploy/smoke_request.json"
    )
    return [
        SmokeStep(
            "first",
            "a run on any machine with its workspace in a bucket",
            (
                f"sed 's/BUCKET/{bucket}/' deploy/smoke_first.toml > {FOLDER}/first.toml",
                f"beambert retrain --config={FOLDER}/first.toml",
            ),
            minutes=8,
            after=("corpus",),
        ),
        SmokeStep(
            "serving",
            "TensorFlow Serving on Vertex with the model's text operations",
            (
                f"{_vertex()} --release={commit} upload {first}",
                f"{_vertex()} serve {first} --share=100",
                ask,
            ),
            minutes=12,
            hours={"n2-standard-4 of an endpoint": 0.9},
            after=("deployment", "first"),
        ),
        SmokeStep(
            "arrival",
            "an arrival; the whole pipeline, its lock and its end; permissions are enough",
            (
                f"gcloud storage cp {FOLDER}/corpus/documents-00003*.jsonl {delivered}/ "
                "--no-clobber",
                f"{sys.executable} -m beambert.deploy.manifest --folder={delivered} "
                f"{FOLDER}/corpus/documents-00003*.jsonl > {FOLDER}/second.manifest.json",
                # One manifest names a file that nobody delivers, beside the good one.
                f"""echo '{{"files": [{{"path": "{delivered}/no.jsonl", "bytes": 1}}]}}' """
                f"> {FOLDER}/wrong.manifest.json",
                f"gcloud storage cp {FOLDER}/wrong.manifest.json {FOLDER}/second.manifest.json "
                f"{delivered}/manifests/",
                # The arrivals wait for eleven minutes and then find the lock of this start.
                f"""gcloud workflows run beambert-arrival {place} --data='{{"by_hand": true}}'""",
                _until(f"gcloud storage cat {second}/result.json", 120),
                _until(
                    "STARTED=$(gcloud workflows executions list beambert-arrival "
                    f"{place} --filter=state=SUCCEEDED --format='value(name)') && "
                    'test $(echo "$STARTED" | wc -l) -ge 3',
                    20,
                ),
            ),
            minutes=27,
            hours={
                **{"two n2-standard-4 of Dataflow": 0.2, "v5e-1": 0.5},
                **{"small component": 1.5},
            },
            after=("deployment", "first"),
        ),
        SmokeStep(
            "alert",
            "an alert",
            (
                _until(
                    f"FOUND=$(gcloud logging read '\"was left out\"' --project={project} --limit=1 "
                    """--freshness=1h) && test -n "$FOUND\"""",
                    30,
                ),
                "echo 'the address of alert_email has mail now'",
            ),
            minutes=1,
            after=("arrival",),
        ),
        SmokeStep(
            "canary",
            "a version that is tried out",
            # With `canary_share` the pipeline has tried it, and this says what came of it.
            (
                f"{_vertex()} --release={commit} canary {second} --share=50",
                ask,
            ),
            minutes=7,
            hours={"n2-standard-4 of an endpoint": 0.4},
            after=("arrival", "serving"),
        ),
    ]


def _teardown(settings: Settings, after: tuple[str, ...]) -> SmokeStep:
    bucket = settings.bucket
    return SmokeStep(
        TEARDOWN,
        "that nothing is left which costs",
        (
            f"{_vertex()} stop --endpoint",
            f"gcloud storage rm gs://{bucket}-text/** gs://{bucket}-config/** "
            f"gs://{bucket}-work/** --all-versions --recursive",
            "terraform -chdir=deploy/terraform destroy -auto-approve",
        ),
        minutes=4,
        after=after,
    )


def _vertex() -> str:
    return f"{sys.executable} -m beambert.deploy.vertex"


def _until(call: str, minutes: int) -> str:
    """Returns the lines that repeat a call each minute until it works, and fail in the end."""
    return f"for minute in $(seq {minutes}); do {call} && break; sleep 60; done; {call}"
