"""The settings of the cloud project, and the release of BeamBERT that runs there.

The settings are those of deploy/terraform/terraform.tfvars, which is valid TOML as well as HCL. A
release is a commit and the images that deploy/cloudbuild.yaml made of it. `python -m
beambert.deploy.vertex deploy` joins both to a deployment, which the steps of the retraining read
from the configuration's bucket.
"""

import dataclasses
import json
import math
import pathlib
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from beambert.errors import InputError

FILE = pathlib.Path(__file__).parent / "terraform" / "terraform.tfvars"
# The label of everything that the retraining makes, so that its costs can be told from others.
LABELS = {"app": "beambert"}
# Name of a setting that is a number -> its least and its greatest value. A canary leaves requests
# to the version before it.
_RANGES = {"canary_share": (0, 99), "records_days": (1, math.inf)}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings that differ between cloud projects; comments in the file explain the fields."""

    project: str
    region: str
    bucket: str
    alert_email: str
    schedule: str
    trainer: str
    deliverers: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    approvers: tuple[str, ...] = ()
    training_regions: tuple[str, ...] = ()
    tensorboard: str = ""
    canary_share: int = 0
    kms_key: str = ""
    records_days: int = 180
    billing_account: str = ""
    monthly_budget: int = 0

    @classmethod
    def read(cls, path: pathlib.Path = FILE) -> "Settings":
        """Returns the settings in a file.

        Raises:
          InputError: the file cannot be read, or a setting is missing or unknown.
        """
        try:
            found = tomllib.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(
                f"{path}: cannot be read ({error}); deploy from a checkout of the "
                "repository, which `pip install -e .` installs in place"
            ) from error
        names = {field.name for field in dataclasses.fields(cls)}
        if found.keys() != names:
            wrong = ", ".join(sorted(found.keys() ^ names))
            raise InputError(
                f"{path}: must set exactly {', '.join(sorted(names))}; correct {wrong}"
            )
        for field in dataclasses.fields(cls):
            _check_setting(path, field, found[field.name])
        return cls(**found)

    def __post_init__(self):
        """Refuses settings that don't go together.

        Raises:
          InputError: a key or a TensorBoard is of another region than what uses it.
        """
        if self.tensorboard and f"/locations/{self.region}/" not in self.tensorboard:
            raise InputError(
                f"{FILE}: tensorboard: is not in {self.region}, whose jobs it must show; name "
                f"projects/…/locations/{self.region}/tensorboards/…"
            )
        if self.kms_key and self.training_regions:
            raise InputError(
                f"{FILE}: training_regions: kms_key is a key of {self.region}, which jobs in other "
                "regions cannot use; leave one of the two empty"
            )

    @property
    def regions(self) -> tuple[str, ...]:
        """The regions in which a training job looks for a machine, in their order."""
        return (self.region, *self.training_regions)

    @property
    def parent(self) -> str:
        """Name of the project and region in Vertex AI's API."""
        return self.parent_in(self.region)

    def parent_in(self, region: str) -> str:
        """Returns the name of the project and of any region in Vertex AI's API."""
        return f"projects/{self.project}/locations/{region}"

    def account(self, name: str) -> str:
        """Returns the address of a service account that deploy/terraform makes."""
        return f"{name}@{self.project}.iam.gserviceaccount.com"

    @property
    def encryption(self) -> dict[str, dict[str, str]]:
        """What a request to Vertex AI says of the key for its data; empty for Google's keys."""
        return {"encryption_spec": {"kms_key_name": self.kms_key}} if self.kms_key else {}

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
        """Path of the pipeline that deploy/terraform/arrival.yaml starts."""
        return f"{self.configured}/retraining_pipeline.json"


def _check_setting(path: pathlib.Path, field: dataclasses.Field, value: Any) -> None:
    """Refuses a value of the wrong type, or a number out of its range.

    Raises:
      InputError: the setting is wrong.
    """
    name = field.name
    if field.type is str:
        is_right, what = isinstance(value, str), "a text in quotes"
    elif field.type is int:
        least, most = _RANGES.get(name, (0, math.inf))
        is_right = type(value) is int and least <= value <= most
        what = f"a whole number from {least}" + (f" to {most}" if most < math.inf else " on")
    else:
        is_right = isinstance(value, list) and all(isinstance(each, str) for each in value)
        what = "a list of texts in quotes"
    if not is_right:
        raise InputError(f"{path}: {name} = {json.dumps(value, default=str)}: must be {what}")


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
    def build(self) -> str:
        """Path of the images' digests, which deploy/cloudbuild.yaml writes last."""
        return f"{self.settings.configured}/builds/{self.release.tag}.json"

    @property
    def config(self) -> str:
        """Path of the retraining's configuration."""
        return f"{self.folder}/retrain.toml"

    @property
    def file(self) -> str:
        """Path of the deployment itself, see `to_json`."""
        return f"{self.folder}/deployment.json"

    @property
    def pipeline(self) -> str:
        """Path of the release's pipeline."""
        return f"{self.folder}/pipeline.json"

    def image(self, name: str) -> str:
        """Returns the address of an image.

        Raises:
          InputError: the release lacks the image.
        """
        settings, digests = self.settings, self.release.digests
        path = f"{settings.region}-docker.pkg.dev/{settings.project}/beambert/{name}"
        if not digests:
            return f"{path}:{self.release.tag}"
        if name not in digests:
            raise InputError(
                f"{self.build}: has no image {name}; build the release again with "
                "deploy/cloudbuild.yaml"
            )
        return f"{path}@{digests[name]}"

    def fill_in(self, text: str) -> str:
        """Returns a text with the placeholders of deploy/retrain.toml and the pipeline replaced.

        A line with a key for encryption is left out if there is none.
        """
        values = {
            "BUCKET": self.settings.bucket,
            "PROJECT": self.settings.project,
            "REGION": self.settings.region,
            "BEAM_IMAGE": self.image("beam"),
            "CONFIG_FILE": self.config,
            "DEPLOYMENT_FILE": self.file,
            "KMS_KEY": self.settings.kms_key,
        }
        if not self.settings.kms_key:
            text = re.sub(r"^.*\bKMS_KEY\b.*\n", "", text, flags=re.MULTILINE)
        return re.sub(rf"\b({'|'.join(values)})\b", lambda found: values[found[1]], text)

    def to_json(self) -> str:
        """Returns the content of `file`."""
        return json.dumps(dataclasses.asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str, path: str) -> "Deployment":
        """Returns the deployment in a file that `to_json` made.

        Raises:
          InputError: the text is no deployment.
        """
        try:
            found: dict[str, Any] = json.loads(text)
            return cls(Settings(**found["settings"]), Release(**found["release"]))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: is no deployment ({error}); deploy it again") from error
