"""The settings of the cloud project, and the release of BeamBERT that runs there.

The settings are those of deploy/terraform/terraform.tfvars, which is valid TOML as well as HCL. A
release is a commit and the images that deploy/cloudbuild.yaml made of it. `python -m
beambert.deploy.vertex deploy` joins both to a deployment, which the steps of the retraining read
from the configuration's bucket.
"""

import dataclasses
import json
import pathlib
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from beambert.errors import InputError

FILE = pathlib.Path(__file__).parent / "terraform" / "terraform.tfvars"
# The label of everything that the retraining makes, so that its costs can be distinguished.
LABELS = {"app": "beambert"}
# Display name of what the retraining makes on Vertex AI.
DISPLAY_NAME = "beambert"


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

    @property
    def parent(self) -> str:
        """Name of the project and region in Vertex AI's API."""
        return f"projects/{self.project}/locations/{self.region}"

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
        """Path of the pipeline in use."""
        return f"{self.configured}/retraining_pipeline.json"


def _check_setting(path: pathlib.Path, field: dataclasses.Field, value: Any) -> None:
    """Checks the type of a setting; of a string instead of a list, each letter would be one.

    Raises:
      InputError: the type is wrong, or a number is negative.
    """
    if field.type is str:
        is_right, what = isinstance(value, str), "a string"
    elif field.type is int:
        is_right, what = type(value) is int and value >= 0, "a whole number from 0 on"
    else:
        is_right = isinstance(value, list) and all(isinstance(each, str) for each in value)
        what = "a list of strings"
    if not is_right:
        raise InputError(f"{path}: {field.name} = {json.dumps(value, default=str)}: must be {what}")


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
        """Returns a text with the placeholders of deploy/retrain.toml replaced.

        A line with a key for encryption is left out if there is none.
        """
        values = {
            "BUCKET": self.settings.bucket,
            "PROJECT": self.settings.project,
            "REGION": self.settings.region,
            "BEAM_IMAGE": self.image("beam"),
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
          InputError: the text is not a deployment.
        """
        try:
            found: dict[str, Any] = json.loads(text)
            return cls(Settings(**found["settings"]), Release(**found["release"]))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: is not a deployment ({error}); deploy it again") from error
