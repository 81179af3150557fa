"""Vertex AI's model registry and endpoint for tests, as the requests change them."""

import grpc
from google.cloud import aiplatform_v1 as aiplatform
from google.protobuf import json_format

from support.google_services import done, done_with_nothing

MODEL = "projects/p/locations/r/models/1"
ENDPOINT = "projects/p/locations/r/endpoints/1"


class Vertex:
    """The registry and the endpoint as Vertex keeps them, so far as the requests change them."""

    def __init__(self, services):
        self.services = services
        self.versions = []
        # Name of a version -> its evaluations.
        self.evaluations = {}
        self.endpoint = None
        services.answers = {
            "ListModels": self._models,
            "ListModelVersions": lambda _: aiplatform.ListModelVersionsResponse(
                models=self.versions
            ),
            "UploadModel": self._upload,
            "ImportModelEvaluation": self._evaluate,
            "ListModelEvaluations": lambda request: aiplatform.ListModelEvaluationsResponse(
                model_evaluations=self.evaluations.get(request.parent, [])
            ),
            "ListEndpoints": lambda _: aiplatform.ListEndpointsResponse(
                endpoints=[self.endpoint] if self.endpoint else []
            ),
            "CreateEndpoint": self._create,
            "DeployModel": self._deploy,
            "UpdateEndpoint": self._update,
            "UndeployModel": self._undeploy,
            "DeleteEndpoint": self._delete,
            "Predict": self._predict,
        }
        # How the version of a run answers: a function of the text.
        self.answers = {}

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

    def _evaluate(self, request):
        self.evaluations.setdefault(request.parent, []).append(request.model_evaluation)
        return request.model_evaluation

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

    def _split(self, split, left_out=frozenset()):
        """https://cloud.google.com/vertex-ai/docs: the values must add up to 100."""
        assert sum(split.values()) == 100
        assert set(split) == {each.id for each in self.endpoint.deployed_models} - left_out
        self.endpoint.traffic_split = split

    def _undeploy(self, request):
        """A model goes if it has no requests, if they are given to others, or if it is the last."""
        if request.traffic_split:
            self._split(dict(request.traffic_split), {request.deployed_model_id})
        left = [d for d in self.endpoint.deployed_models if d.id != request.deployed_model_id]
        assert not left or not self.endpoint.traffic_split.get(request.deployed_model_id)
        self.endpoint.deployed_models = left
        if not left:
            self.endpoint.traffic_split = {}
        return done(aiplatform.UndeployModelResponse())

    def _delete(self, request):
        assert request.name == ENDPOINT and not self.endpoint.deployed_models
        self.endpoint = None
        return done_with_nothing()

    def _predict(self, request):
        """Every model answers as often as its share says, in a fixed order."""
        asked = len(self.services.sent("Predict"))
        split = self.endpoint.traffic_split
        models = [d for d in self.endpoint.deployed_models for _ in range(split.get(d.id, 0))]
        deployed = models[asked * 37 % 100]
        answer = self.answers[deployed.display_name[-1]]
        (instance,) = request.instances
        found = answer(instance["text"])
        if isinstance(found, grpc.StatusCode):
            return found
        answered = {"predictions": [found], "deployedModelId": deployed.id}
        return json_format.ParseDict(answered, aiplatform.PredictResponse.pb()())

    def shares(self):
        """Returns the percentage of each run that is deployed."""
        split = self.endpoint.traffic_split
        return {d.display_name[-1]: split.get(d.id, 0) for d in self.endpoint.deployed_models}
