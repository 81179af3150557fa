"""Models are registered once, and get their share of an endpoint's requests."""

import json

import grpc
import pytest
from google.auth.exceptions import DefaultCredentialsError
from google.cloud import aiplatform_v1
from support import google_services
from support.cloud_samples import DEPLOYMENT, METRICS, RESULT, SETTINGS
from support.vertex_endpoint import MODEL, Vertex

from beambert.deploy import google_cloud
from beambert.deploy.settings import Settings
from beambert.deploy.vertex import command, registry
from beambert.errors import InputError


@pytest.fixture
def vertex(services):
    return Vertex(services)


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """Three runs that published, in a folder on this machine."""
    for number in (1, 2, 3):
        run = tmp_path / "runs" / f"00000{number}"
        result = RESULT | {"version": number}
        for name, found in (("result.json", result), ("evaluation/metrics.json", METRICS)):
            (run / name).parent.mkdir(parents=True, exist_ok=True)
            (run / name).write_text(json.dumps(found))
        (tmp_path / "serving" / str(number)).mkdir(parents=True)
        (tmp_path / "serving" / str(number) / "saved_model.pb").write_text(str(number))
    monkeypatch.setitem(google_services.PATTERNS, "artifact_uri", r"/\S+")
    return tmp_path


def upload(workspace, number):
    registry.upload(DEPLOYMENT, str(workspace / "runs" / f"00000{number}"), show=False)


def serve(workspace, number, share):
    registry.serve(SETTINGS, str(workspace / "runs" / f"00000{number}"), share)


def test_upload_registers_a_version_of_one_model(vertex, workspace, capsys):
    """With the files of this run's version alone; a second time changes nothing."""
    upload(workspace, 2)
    upload(workspace, 3)
    upload(workspace, 3)
    assert [model.labels["run"] for model in vertex.versions] == ["000002", "000003"]
    assert "is registered already" in capsys.readouterr().out
    assert {name: len(found) for name, found in vertex.evaluations.items()} == {
        f"{MODEL}@1": 1,
        f"{MODEL}@2": 1,
    }
    run = workspace / "runs" / "000003"
    there = [str(path.relative_to(run)) for path in (run / "registered").rglob("*.pb")]
    assert there == ["registered/3/saved_model.pb"]


def test_a_try_that_is_lost_before_the_evaluation(vertex, workspace):
    """The version is there; the next try adds what it lacks."""
    evaluate = vertex.services.answers["ImportModelEvaluation"]
    vertex.services.answers["ImportModelEvaluation"] = grpc.StatusCode.INTERNAL
    with pytest.raises(InputError, match="000002: cannot be registered"):
        upload(workspace, 2)
    assert len(vertex.versions) == 1 and not vertex.evaluations
    vertex.services.answers["ImportModelEvaluation"] = evaluate
    for _ in range(2):
        upload(workspace, 2)
    assert len(vertex.versions) == 1 and len(vertex.evaluations[f"{MODEL}@1"]) == 1


def test_a_canary_its_promotion_and_the_way_back(vertex, workspace):
    for number in (1, 2, 3):
        upload(workspace, number)
    with pytest.raises(InputError, match="--share=10: no other model is deployed"):
        serve(workspace, 1, 10)
    serve(workspace, 1, 100)
    serve(workspace, 2, 10)
    assert vertex.shares() == {"1": 90, "2": 10}
    serve(workspace, 2, 100)  # promoted; the one before stays for the way back
    assert vertex.shares() == {"1": 0, "2": 100}
    serve(workspace, 1, 100)  # the way back
    assert vertex.shares() == {"1": 100, "2": 0}
    serve(workspace, 2, 0)
    assert vertex.shares() == {"1": 100}
    serve(workspace, 3, 25)
    assert vertex.shares() == {"1": 75, "3": 25}
    assert len(vertex.services.sent("CreateEndpoint")) == 1
    assert len(vertex.services.sent("DeployModel")) == 3


def test_the_last_model_may_go_and_come_back(vertex, workspace):
    upload(workspace, 1)
    serve(workspace, 1, 100)
    serve(workspace, 1, 0)
    assert vertex.shares() == {}
    serve(workspace, 1, 100)
    assert vertex.shares() == {"1": 100}


@pytest.mark.parametrize("shares", [{}, {1: 100}, {1: 100, 2: 10, 3: 25}, {1: 100, 2: 100}])
def test_nothing_is_left_that_costs(vertex, workspace, monkeypatch, shares):
    """Whatever has the requests; without an endpoint there is nothing to do."""
    for number, share in shares.items():
        upload(workspace, number)
        serve(workspace, number, share)
    monkeypatch.setattr(Settings, "read", classmethod(lambda cls: SETTINGS))
    vertex.services.answers["ListSchedules"] = aiplatform_v1.ListSchedulesResponse()
    for _ in range(2):
        command.main(["stop", "--endpoint"])
        assert vertex.endpoint is None
    assert len(vertex.versions) == len(shares)


def test_show_changes_no_share(vertex, workspace, monkeypatch, capsys):
    """What `serve --show` prints is what `serve` then makes."""
    monkeypatch.setattr(Settings, "read", classmethod(lambda cls: SETTINGS))
    for number in (1, 2):
        upload(workspace, number)
    for number, share in ((1, 100), (2, 10), (2, 100), (1, 0), (2, 0)):
        arguments = ["serve", str(workspace / "runs" / f"00000{number}"), f"--share={share}"]
        before, endpoint = vertex.endpoint and vertex.shares(), vertex.endpoint
        capsys.readouterr()
        command.main(["--show", *arguments])
        shown = json.loads(capsys.readouterr().out)["traffic_split"]
        assert vertex.endpoint is endpoint and (endpoint and vertex.shares()) == before
        command.main(arguments)
        after = {f"{MODEL}@{version}": part for version, part in vertex.shares().items()}
        assert after == {name: part for name, part in shown.items() if name in after}
        assert not any(part for name, part in shown.items() if name not in after)
    vertex.services.answers["ListSchedules"] = aiplatform_v1.ListSchedulesResponse()
    command.main(["--show", "stop", "--endpoint"])
    assert capsys.readouterr().out.endswith("would be deleted\n") and vertex.endpoint


def test_the_pipeline_registers_what_its_run_published(vertex, workspace, capsys):
    """Its component may be done again after its machine was lost; a refused run adds nothing."""
    for _ in range(2):
        registry.register_last(DEPLOYMENT, str(workspace), show=False)
    assert [model.labels["run"] for model in vertex.versions] == ["000003"]
    run = workspace / "runs" / "000004"
    run.mkdir()
    result = {"outcome": "refused", "version": None, "reasons": ["worse"]}
    (run / "result.json").write_text(json.dumps(result))
    registry.register_last(DEPLOYMENT, str(workspace), show=False)
    assert len(vertex.versions) == 1 and "000004: published nothing" in capsys.readouterr().out
    with pytest.raises(InputError, match="--step=register: no run of .* has ended; do one first"):
        registry.register_last(DEPLOYMENT, str(workspace / "empty"), show=False)


def test_a_run_that_is_not_registered(vertex, workspace):
    with pytest.raises(InputError, match="000001: isn't in the registry; register it with `upload"):
        serve(workspace, 1, 100)


@pytest.mark.parametrize("share", [0, 1, 10, 33, 99, 100])
def test_shares_add_up(share):
    split = registry.share_out({"a": 34, "b": 33, "c": 33, "d": 0}, "c", share)
    assert sum(split.values()) == 100 and split["c"] == share and split["d"] == 0
    assert all(value >= 0 for value in split.values()) and split["a"] >= split["b"]


@pytest.mark.parametrize("arguments", [["stop"], ["serve", "gs://b/runs/000001", "--share=10"]])
def test_without_credentials(vertex, monkeypatch, arguments):
    """Also what only shows: it says what there is to delete or to share, which Vertex AI knows."""
    monkeypatch.setattr(Settings, "read", classmethod(lambda cls: SETTINGS))

    def client(service, region):
        raise DefaultCredentialsError("none were found")

    monkeypatch.setattr(google_cloud, "vertex_client", client)
    with pytest.raises(InputError, match="has no credentials for Google Cloud; run `gcloud auth a"):
        command.main(["--show", *arguments])
