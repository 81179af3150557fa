"""The settings of the cloud project, read from deploy/terraform/terraform.tfvars.

That file is valid TOML as well as HCL.
"""

import dataclasses
import pathlib
import tomllib

from beambert.pipelines.shared.errors import InputError

FILE = pathlib.Path(__file__).parent / "terraform" / "terraform.tfvars"


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings that differ between cloud projects; comments in the file explain the fields."""

    project: str
    region: str
    bucket: str
    alert_email: str
    schedule: str
    trainer: str

    @classmethod
    def read(cls, path: pathlib.Path = FILE) -> "Settings":
        """Returns the settings in a file.

        Raises:
          InputError: the file cannot be read, or a setting is missing or unknown.
        """
        try:
            found = tomllib.loads(path.read_text("utf-8"))
        except (OSError, tomllib.TOMLDecodeError) as error:
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
        return cls(**found)

    @property
    def parent(self) -> str:
        """Name of the project and region in Vertex AI's API."""
        return f"projects/{self.project}/locations/{self.region}"

    def image(self, name: str) -> str:
        """Returns the address of an image in the project's registry."""
        return f"{self.region}-docker.pkg.dev/{self.project}/beambert/{name}:latest"

    def account(self, name: str) -> str:
        """Returns the address of a service account that deploy/terraform makes."""
        return f"{name}@{self.project}.iam.gserviceaccount.com"

    @property
    def config(self) -> str:
        """Path of the retraining's configuration in the bucket."""
        return f"gs://{self.bucket}/retrain.toml"

    @property
    def pipeline(self) -> str:
        """Path of the pipeline that deploy/terraform/arrival.yaml starts."""
        return f"gs://{self.bucket}/retraining_pipeline.json"

    def fill_in(self, text: str) -> str:
        """Returns a text with BUCKET, PROJECT and REGION replaced by their values."""
        names = {"BUCKET": self.bucket, "PROJECT": self.project, "REGION": self.region}
        for name, value in names.items():
            text = text.replace(name, value)
        return text
