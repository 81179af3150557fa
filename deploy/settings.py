"""Names of the cloud project: deploy/terraform/terraform.tfvars, which is TOML as well as HCL."""

import dataclasses
import pathlib
import tomllib

from beambert.pipelines.shared.errors import InputError

FILE = pathlib.Path(__file__).parent / "terraform" / "terraform.tfvars"


@dataclasses.dataclass(frozen=True)
class Settings:
    """What differs between cloud projects; the file explains the fields."""

    project: str
    region: str
    bucket: str
    alert_email: str
    schedule: str
    trainer: str

    @classmethod
    def read(cls, path: pathlib.Path = FILE) -> "Settings":
        """Reads the file.

        Raises:
          InputError: a name is missing or unknown.
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
            raise InputError(f"{path}: must have {', '.join(sorted(names))}; look at {wrong}")
        return cls(**found)

    @property
    def parent(self) -> str:
        """Vertex AI's name of the place."""
        return f"projects/{self.project}/locations/{self.region}"

    def image(self, name: str) -> str:
        """Returns where an image of this repository lies."""
        return f"{self.region}-docker.pkg.dev/{self.project}/beambert/{name}:latest"

    def account(self, name: str) -> str:
        """Returns a service account that deploy/terraform makes."""
        return f"{name}@{self.project}.iam.gserviceaccount.com"

    @property
    def config(self) -> str:
        """Where the retraining's configuration lies."""
        return f"gs://{self.bucket}/retrain.toml"

    @property
    def pipeline(self) -> str:
        """Where the pipeline lies that deploy/terraform/arrival.yaml starts."""
        return f"gs://{self.bucket}/retraining_pipeline.json"

    def fill_in(self, text: str) -> str:
        """Puts the names in the places that deploy/retrain.toml leaves for them."""
        names = {"BUCKET": self.bucket, "PROJECT": self.project, "REGION": self.region}
        for name, value in names.items():
            text = text.replace(name, value)
        return text
