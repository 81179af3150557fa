"""A cloud project and a release, as the tests of deploy/ use them."""

from beambert.deploy.settings import Deployment, Release, Settings

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAMES = ("worker", "component", "tensorflow-tpu", "tensorflow-gpu", "jax-tpu", "serving")
RELEASE = Release(COMMIT, dict.fromkeys(NAMES, f"sha256:{'ab' * 32}"))
SETTINGS = Settings("my-project", "us-central1", "a@b", "v5e-8-spot", (), (), ())
DEPLOYMENT = Deployment(SETTINGS, RELEASE)
