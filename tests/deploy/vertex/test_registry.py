"""Models are registered once, and get their share of an endpoint's requests."""

import json

import pytest
from google.cloud import aiplatform_v1 as aiplatform
from support import google_services
from support.cloud_samples import DEPLOYMENT, METRICS, RESULT, SETTINGS
from support.google_services import done

from beambert.deploy.vertex import registry
from beambert.pipelines.shared.errors import InputError

MODEL = "projects/p/locations/r/models/1"
ENDPOINT = "projects/p/locations/r/endpoints/1"


class Vertex:
    """The registry and the endpoint as Vertex keeps them, so far as the requests change them."""

    def __init__(self, services):
        self.services = services
        self.versions = []
        self.endpoint = None
        services.answers = {
            "ListModels": self._models,
            "ListModelVersions": lambda _: aiplatform.ListModelVersionsResponse(
                models=self.versions
            ),
            "UploadModel": self._upload,
            "ImportModelEvaluation": aiplatform.ModelEvaluation(),
            "ListEndpoints": lambda _: aiplatform.ListEndpointsResponse(
                endpoints=[self.endpoint] if self.endpoint else []
            ),
            "CreateEndpoint": self._create,
            "DeployModel": self._deploy,
            "UpdateEndpoint": self._update,
            "UndeployModel": self._undeploy,
        }

    def _models(self, request):
        assert request.filter == 'display_name="beambert"'
        models = [aiplatform.Model(name=MODEL)] if self.versions else []
        return aiplatform.ListModelsResponse(models=models)

    def _upload(self, request):
        assert request.parent_model == (MODEL if self.versions else "")
        version = str(len(self.versions) + 1)
        kept = aiplatform.Model(request.model)
        kept.name, kept.version_id = MODEL, version
        self.versions.append(kept)
        return done(aiplatform.UploadModelResponse(model=MODEL, model_version_id=version))

    def _create(self, request):
        self.endpoint = aiplatform.Endpoint(request.endpoint)
        self.endpoint.name = ENDPOINT
        return done(self.endpoint)

    def _deploy(self, request):
        deployed = aiplatform.DeployedModel(request.deployed_model)
        deployed.id = f"d{len(self.services.sent('DeployModel'))}"
        deployed.model, _, deployed.model_version_id = deployed.model.partition("@")
        self.endpoint.deployed_models.append(deployed)
        self._split(
            {deployed.id if name == "0" else name: v for name, v in request.traffic_split.items()}
        )
        return done(aiplatform.DeployModelResponse(deployed_model=deployed))

    def _update(self, request):
        assert request.update_mask.paths == ["traffic_split"]
        self._split(dict(request.endpoint.traffic_split))
        return self.endpoint

    def _split(self, split):
        """https://cloud.google.com/vertex-ai/docs: the values must add up to 100."""
        assert sum(split.values()) == 100
        assert set(split) == {each.id for each in self.endpoint.deployed_models}
        self.endpoint.traffic_split = split

    def _undeploy(self, request):
        assert not self.endpoint.traffic_split[request.deployed_model_id]
        left = [d for d in self.endpoint.deployed_models if d.id != request.deployed_model_id]
        self.endpoint.deployed_models = left
        return done(aiplatform.UndeployModelResponse())

    def shares(self):
        """Returns the percentage of each run that is deployed."""
        split = self.endpoint.traffic_split
        return {d.display_name[-1]: split.get(d.id, 0) for d in self.endpoint.deployed_models}


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
    evaluated = vertex.services.sent("ImportModelEvaluation")
    assert [request.parent for request in evaluated] == [f"{MODEL}@1", f"{MODEL}@2"]
    run = workspace / "runs" / "000003"
    there = [str(path.relative_to(run)) for path in (run / "registered").rglob("*.pb")]
    assert there == ["registered/3/saved_model.pb"]


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


def test_the_pipeline_registers_what_its_run_published(vertex, workspace, capsys):
    """Its component may be done again after its machine was lost; a refused run adds nothing."""
    for _ in range(2):
        registry.register_last(DEPLOYMENT, str(workspace))
    assert [model.labels["run"] for model in vertex.versions] == ["000003"]
    run = workspace / "runs" / "000004"
    run.mkdir()
    result = {"outcome": "refused", "version": None, "reasons": ["worse"]}
    (run / "result.json").write_text(json.dumps(result))
    registry.register_last(DEPLOYMENT, str(workspace))
    assert len(vertex.versions) == 1 and "000004: published nothing" in capsys.readouterr().out
    with pytest.raises(InputError, match="--step=register: no run of .* has ended; do one first"):
        registry.register_last(DEPLOYMENT, str(workspace / "empty"))


def test_a_run_that_is_not_registered(vertex, workspace):
    with pytest.raises(InputError, match="000001: isn't in the registry; register it with `upload"):
        serve(workspace, 1, 100)


@pytest.mark.parametrize("share", [0, 1, 10, 33, 99, 100])
def test_shares_add_up(share):
    split = registry.share_out({"a": 34, "b": 33, "c": 33, "d": 0}, "c", share)
    assert sum(split.values()) == 100 and split["c"] == share and split["d"] == 0
    assert all(value >= 0 for value in split.values()) and split["a"] >= split["b"]
