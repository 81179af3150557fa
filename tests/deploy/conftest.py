"""Google Cloud's services for the tests of deploy/."""

import pytest


@pytest.fixture
def services(monkeypatch):
    """Vertex AI and Dataflow on this machine, for the real clients; see `Services`."""
    from google.cloud import aiplatform_v1, dataflow_v1beta3
    from support.google_services import Services

    from beambert.deploy import google_cloud
    from beambert.deploy.vertex import jobs

    services = Services()
    monkeypatch.setattr(
        google_cloud,
        "vertex_client",
        lambda name, region: services.client(getattr(aiplatform_v1, f"{name}Client")),
    )
    monkeypatch.setattr(
        google_cloud,
        "dataflow_client",
        lambda: services.client(dataflow_v1beta3.JobsV1Beta3Client),
    )
    monkeypatch.setattr(jobs, "SECONDS_BETWEEN_LOOKS", 0)
    yield services
    services.stop()
