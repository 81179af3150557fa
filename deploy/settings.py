"""The settings of the cloud project, and the release of BeamBERT that runs there.

The settings are those of deploy/terraform/terraform.tfvars, which is valid TOML as well as HCL. A
release is a commit and the images that deploy/cloudbuild.yaml made of it. `make cloud` joins both
to a deployment, which the pipeline's component reads from the configuration's bucket.
"""

import dataclasses
import json
import pathlib
import re
import tomllib
import typing
from collections.abc import Mapping
from typing import Any

from beambert.errors import InputError
from beambert.io import parse_object

FILE = pathlib.Path(__file__).resolve().parent / "terraform" / "terraform.tfvars"
# Flags of Dataflow, which take the place of the line `# DATAFLOW` in a configuration. Workers have
# private addresses in the network that deploy/terraform makes.
DATAFLOW = """\
runner = "DataflowRunner"
project = "PROJECT"
region = "REGION"
temp_location = "gs://BUCKET-work/tmp"
subnetwork = "regions/REGION/subnetworks/beambert"
no_use_public_ips = true
service_account_email = "beambert-worker@PROJECT.iam.gserviceaccount.com"
machine_type = "n2-standard-4"
sdk_container_image = "WORKER_IMAGE"
sdk_location = "container"
labels = ["app=beambert"]
"""
# The label of everything that the retraining makes, so that its costs can be distinguished.
LABELS = {"app": "beambert"}
# Display name of what the retraining makes on Vertex AI.
DISPLAY_NAME = "beambert"

# Values that nobody can keep.
_UNTOUCHED = {"project": "my-project", "alert_email": "ml-platform@example.com"}
_PERSON = (
    r"(user|group|domain|serviceAccount|principal|principalSet):\S+",
    'somebody as Google Cloud names people, such as "group:editors@example.com"',
)
# Name of a setting -> a pattern of its value, or of each in its list, and what that must be.
_FORMS = {
    "project": (r"[a-z][a-z\d-]{4,28}[a-z\d]", "a project's id, such as text-models-1"),
    "region": (r"[a-z]+-[a-z]+\d+", "a region, such as us-central1"),
    "alert_email": (r"\S+@\S+", "an address"),
    "engine": ("tensorflow|jax", "tensorflow or jax"),
    "schedule": (r"\S+( \S+){4}", "five fields, as cron has them"),
    **dict.fromkeys(("deliverers", "operators", "approvers"), _PERSON),
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings that differ between cloud projects; comments in the file explain the fields."""

    project: str
    region: str
    alert_email: str
    trainer: str
    deliverers: tuple[str, ...]
    operators: tuple[str, ...]
    approvers: tuple[str, ...]
    # The following have the defaults of variables.tf.
    engine: str = "tensorflow"
    schedule: str = "0 * * * *"

    @classmethod
    def read(cls, path: pathlib.Path = FILE) -> "Settings":
        """Returns the settings in a file.

        Raises:
          InputError: the file cannot be read, a setting is missing, unknown or of another form, or
            one that names a project or a person was left as it came.
        """
        try:
            found = tomllib.loads(path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(
                f"{path}: cannot be read ({error}); correct the line, or take the file from the "
                "repository again"
            ) from error
        try:
            check_keys(cls, found)
            for name, value in found.items():
                if value == _UNTOUCHED.get(name):
                    raise InputError(f'{name} = "{value}": is an example; edit the file')
                form, what = _FORMS.get(name, (".*", ""))
                for each in [value] if isinstance(value, str) else value:
                    if not re.fullmatch(form, each):
                        raise InputError(f'{name} = "{each}": must be {what}; correct it')
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
        return cls(**found)

    @property
    def bucket(self) -> str:
        """Beginning of the names of the buckets that deploy/terraform makes."""
        return f"{self.project}-beambert"

    @property
    def parent(self) -> str:
        """Name of the project and region in Vertex AI's API."""
        return f"projects/{self.project}/locations/{self.region}"

    def account(self, name: str) -> str:
        """Returns the address of a service account that deploy/terraform makes."""
        return f"{name}@{self.project}.iam.gserviceaccount.com"

    @property
    def configured(self) -> str:
        """The bucket that only approvers write."""
        return f"gs://{self.bucket}-config"

    @property
    def work(self) -> str:
        """The bucket of runs, served versions and temporary files."""
        return f"gs://{self.bucket}-work"

    @property
    def pipeline(self) -> str:
        """Path of the pipeline in use."""
        return f"{self.configured}/retraining_pipeline.json"


def accelerator(trainer: str) -> str:
    """Returns the kind of a trainer's accelerators: "tpu" or "gpu"."""
    return "tpu" if re.match(r"v\d", trainer) else "gpu"


# Type of a field -> the type of its values in TOML, and what it is called.
_OF_TOML: dict[Any, tuple[Any, str]] = {
    str: (str, "a string"),
    int: (int, "a whole number"),
    float: (int | float, "a number"),
    tuple: (list, "a list of strings"),
    Mapping: (dict, "a table"),
}


def check_keys(kind: type, found: Mapping[str, Any]) -> None:
    """Raises an error unless a table has the keys of a dataclass, with values of their types.

    Of a string instead of a list, each letter would be a value.

    Args:
      kind: the dataclass; a table may lack its fields with a default.
      found: the table.

    Raises:
      InputError: a key is unknown or missing, or a value has another type.
    """
    fields = {field.name: field for field in dataclasses.fields(kind)}
    needed = (name for name, field in fields.items() if field.default is dataclasses.MISSING)
    for name in [*found, *needed]:
        if name not in fields:
            raise InputError(f"no such key: {name}; leave it out")
        if name not in found:
            raise InputError(f"lacks {name}; add it")
        what = _fault(fields[name].type, found[name])
        if what:
            raise InputError(f"{name} = {json.dumps(found[name], default=str)}: must be {what}")


def _fault(kind: Any, value: Any) -> str:
    """Returns what a value must be; "" if it is that."""
    if type(None) in typing.get_args(kind):
        if value is None:
            return ""
        kind = typing.get_args(kind)[0]
    wanted, what = _OF_TOML[typing.get_origin(kind) or kind]
    is_other = isinstance(value, bool) or not isinstance(value, wanted)
    if is_other or (wanted is list and not all(isinstance(each, str) for each in value)):
        return what
    return ""


@dataclasses.dataclass(frozen=True)
class Release:
    """The images that were built of a commit.

    Attributes:
      tag: the commit's hash.
      digests: name of an image -> its digest; empty to name the images by the tag.
    """

    tag: str
    digests: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Deployment:
    """A release in a cloud project."""

    settings: Settings
    release: Release

    @property
    def folder(self) -> str:
        """Folder of the files that `deploy` writes."""
        return f"{self.settings.configured}/releases/{self.release.tag}"

    @property
    def trainer_image(self) -> str:
        """Name of the image of the trainer, a target of deploy/vertex/Dockerfile."""
        return f"{self.settings.engine}-{accelerator(self.settings.trainer)}"

    @property
    def build(self) -> str:
        """Path of the images' digests, which deploy/cloudbuild.yaml writes last."""
        return f"{self.settings.configured}/builds/{self.release.tag}/{self.trainer_image}.json"

    @property
    def config(self) -> str:
        """Path of the retraining's configuration."""
        return f"{self.folder}/retrain.toml"

    @property
    def file(self) -> str:
        """Path of the deployment itself, see `to_json`."""
        return f"{self.folder}/deployment.json"

    def image(self, name: str) -> str:
        """Returns the address of an image."""
        settings, digests = self.settings, self.release.digests
        path = f"{settings.region}-docker.pkg.dev/{settings.project}/beambert/{name}"
        if not digests:
            return f"{path}:{self.release.tag}"
        return f"{path}@{digests[name]}"

    def fill_in(self, text: str) -> str:
        """Returns a configuration with its placeholders replaced, see deploy/retrain.toml."""
        values = {
            "BUCKET": self.settings.bucket,
            "PROJECT": self.settings.project,
            "REGION": self.settings.region,
            "WORKER_IMAGE": self.image("worker"),
        }
        text = re.sub("^# DATAFLOW\\b.*\n", DATAFLOW, text, flags=re.MULTILINE)
        return re.sub(rf"\b({'|'.join(values)})\b", lambda found: values[found[1]], text)

    def to_json(self) -> str:
        """Returns the content of `file`."""
        return json.dumps(dataclasses.asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Deployment":
        """Returns the deployment in a file that `to_json` made.

        Raises:
          InputError: the file is damaged.
        """
        try:
            found = parse_object(text)
            return cls(Settings(**found["settings"]), Release(**found["release"]))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"deployment.json: is damaged ({error}); deploy again") from error
