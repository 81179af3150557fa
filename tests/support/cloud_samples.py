"""A cloud project, a release and the result of a run, as the tests of deploy/ use them."""

from beambert.deploy.settings import Deployment, Release, Settings

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAMES = ("beam", "trainer-tpu", "trainer-gpu", "serving")
RELEASE = Release(COMMIT, dict.fromkeys(NAMES, f"sha256:{'ab' * 32}"))
SETTINGS = Settings("my-project", "us-central1", "my-bucket", "a@b", "0 3 * * *", "v5e-8-spot")
DEPLOYMENT = Deployment(SETTINGS, RELEASE)
RESULT = {"outcome": "published", "version": 3, "accuracy": 0.9, "reasons": ["better"]}
METRICS = {
    **{"task": "sst-2", "split": "dev", "labels": ["0", "1"], "blessed": True},
    "weights_sha256": "abc",
    "overall": {"accuracy": 0.9, "cross_entropy": 0.3, "macro_f1": 0.9},
    "details": {"confusion_matrix": [[45, 5], [5, 45]]},
}
