"""A version behind an endpoint and the way back: requests against the protocol, killed anywhere."""

import pathlib
import types

import pytest
from google.api_core.exceptions import NotFound, PermissionDenied
from google.cloud import aiplatform_v1 as aiplatform
from support import growing_corpus as corpus
from support.cloud_samples import DEPLOYMENT
from support.stand_in_commands import KilledError, served

from beambert.deploy.retraining import command as retrain
from beambert.deploy.retraining import workspace
from beambert.deploy.settings import Settings
from beambert.deploy.vertex import serving
from beambert.errors import InputError

MODEL = f"{DEPLOYMENT.settings.parent}/models/beambert"
ENDPOINT = f"{DEPLOYMENT.settings.parent}/endpoints/1"


def done(value=None):
    """Returns an operation that has ended."""
    return types.SimpleNamespace(result=lambda _: value)


class Vertex:
    """The registry and the endpoint: they change as the service's would.

    Attributes:
      aliases: alias -> number of the version in the registry.
      endpoint: the endpoint; None if there is none.
      killed_in: name of the method in which the caller is killed, after it took effect; None for
        none.
    """

    def __init__(self, services):
        self.aliases, self.endpoint, self.killed_in = {}, None, None
        for name in dir(self):
            if name.startswith("on_"):
                services.answers[name[3:]] = self._answer(name[3:])

    def _answer(self, method):
        def answer(request):
            found = getattr(self, f"on_{method}")(request)
            if method == self.killed_in:
                self.killed_in = None
                raise KilledError
            return found

        return answer

    def on_get_model(self, request):
        alias = request.name.removeprefix(MODEL).removeprefix("@")
        if not self.aliases or (alias and alias not in self.aliases):
            raise NotFound(request.name)
        return aiplatform.Model(name=request.name)

    def on_upload_model(self, request):
        assert bool(request.parent_model) == bool(self.aliases)
        assert request.parent_model or request.model_id == "beambert"
        (alias,) = request.model.version_aliases
        assert alias not in self.aliases
        number = len(set(self.aliases.values())) + 1
        self.aliases |= {alias: number} | ({} if self.aliases else {"default": number})
        return done()

    def on_merge_version_aliases(self, request):
        version = self.aliases[request.name.partition("@")[2]]
        self.aliases |= dict.fromkeys(request.version_aliases, version)
        return aiplatform.Model()

    def on_list_endpoints(self, _):
        return [self.endpoint] if self.endpoint else []

    def on_create_endpoint(self, request):
        assert not self.endpoint
        self.endpoint = aiplatform.Endpoint(request.endpoint)
        self.endpoint.name = ENDPOINT
        return done(self.endpoint)

    def _split(self, split):
        assert sum(split.values()) == 100
        assert set(split) <= {each.id for each in self.endpoint.deployed_models}
        self.endpoint.traffic_split = split

    def on_deploy_model(self, request):
        new = aiplatform.DeployedModel(request.deployed_model)
        new.id = f"id-{new.display_name}"
        assert new.model.partition("@")[2] in self.aliases
        self.endpoint.deployed_models.append(new)
        split = dict(request.traffic_split)
        self._split({new.id if each == "0" else each: part for each, part in split.items()})
        return done()

    def on_update_endpoint(self, request):
        assert list(request.update_mask.paths) == ["traffic_split"]
        self._split(dict(request.endpoint.traffic_split))
        return self.endpoint

    def on_undeploy_model(self, request):
        if request.traffic_split:
            self._split(dict(request.traffic_split))
        elif len(self.endpoint.deployed_models) == 1:
            self.endpoint.traffic_split = {}
        assert not self.endpoint.traffic_split.get(request.deployed_model_id)
        left = [e for e in self.endpoint.deployed_models if e.id != request.deployed_model_id]
        self.endpoint.deployed_models = left
        return done()

    def on_delete_endpoint(self, _):
        assert not self.endpoint.deployed_models
        self.endpoint = None
        return done()

    def on_delete_model(self, request):
        if not self.aliases:
            raise NotFound(request.name)
        self.aliases = {}
        return done()

    @property
    def state(self):
        """The shares of versions, and the version that is `default`."""
        split = dict(self.endpoint.traffic_split)
        numbers = {number: alias for alias, number in self.aliases.items() if alias != "default"}
        return split, numbers[self.aliases["default"]]


@pytest.fixture
def vertex(services):
    return Vertex(services)


@pytest.fixture
def config(tmp_path, monkeypatch, commands):
    """A workspace with two served versions; its bucket is a folder."""
    monkeypatch.setattr(Settings, "work", f"{tmp_path}/bucket")
    config = workspace.read_config(str(corpus.write_config(tmp_path)))
    for number in (1, 2):
        corpus.deliver(tmp_path, number)
        retrain.retrain(config)
    assert sorted(served(config)) == ["1", "2"]
    return config


def test_a_version_gets_a_share_and_then_all(vertex, config):
    serving.serve(DEPLOYMENT, config, 1, 100)
    assert vertex.state == ({"id-1": 100}, "v1")
    serving.serve(DEPLOYMENT, config, None, 10)
    assert vertex.state == ({"id-1": 90, "id-2": 10}, "v1")
    serving.serve(DEPLOYMENT, config, 2, 30)
    assert vertex.state == ({"id-1": 70, "id-2": 30}, "v1")
    serving.serve(DEPLOYMENT, config, 2, 100)
    assert vertex.state == ({"id-2": 100}, "v2")
    # TensorFlow Serving takes the highest version of its folder, which must be the only one.
    folder = pathlib.Path(DEPLOYMENT.settings.work, "registered", "2")
    assert [each.name for each in folder.iterdir()] == ["2"]
    original = pathlib.Path(config.workspace, "serving", "2", "saved_model.pb")
    assert (folder / "2" / "saved_model.pb").read_bytes() == original.read_bytes()


def test_one_command_takes_a_version_back_everywhere(vertex, config):
    serving.serve(DEPLOYMENT, config, 2, 100)
    serving.withdraw(DEPLOYMENT, config)
    assert vertex.state == ({"id-1": 100}, "v1") and sorted(served(config)) == ["1"]
    with pytest.raises(InputError, match="has 1 version"):
        serving.withdraw(DEPLOYMENT, config)
    assert vertex.state == ({"id-1": 100}, "v1")


@pytest.mark.parametrize(
    "method",
    ["list_endpoints", "upload_model", "deploy_model", "merge_version_aliases", "undeploy_model"],
)
def test_a_killed_withdrawal_is_completed(vertex, config, method):
    serving.serve(DEPLOYMENT, config, 2, 100)
    vertex.killed_in = method
    with pytest.raises(KilledError):
        serving.withdraw(DEPLOYMENT, config)
    assert sorted(served(config)) == ["1", "2"]
    serving.withdraw(DEPLOYMENT, config)
    assert vertex.state == ({"id-1": 100}, "v1") and sorted(served(config)) == ["1"]


def test_a_folder_without_an_endpoint_is_taken_back(vertex, config):
    serving.withdraw(DEPLOYMENT, config)
    assert sorted(served(config)) == ["1"] and not vertex.aliases


def test_what_cannot_be_served(vertex, config, services):
    with pytest.raises(InputError, match="--share=10: no other version"):
        serving.serve(DEPLOYMENT, config, 1, 10)
    with pytest.raises(InputError, match="--version=7: .* no such version"):
        serving.serve(DEPLOYMENT, config, 7, 100)
    services.answers["upload_model"] = PermissionDenied("no")
    with pytest.raises(InputError, match="version 2 cannot be served"):
        serving.serve(DEPLOYMENT, config, 2, 100)
    assert not vertex.endpoint


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_nothing_is_left_whatever_was_there(vertex, config, steps):
    if steps > 0:
        serving.serve(DEPLOYMENT, config, 1, 100)
    if steps > 1:
        serving.serve(DEPLOYMENT, config, 2, 50)
    serving.remove(DEPLOYMENT.settings)
    assert vertex.endpoint is None and not vertex.aliases
    serving.remove(DEPLOYMENT.settings)
