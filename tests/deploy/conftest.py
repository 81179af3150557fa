"""Google Cloud's services for the tests of deploy/."""

from typing import Any

import pytest
from support.stand_in_commands import Commands

from beambert.deploy import google_cloud
from beambert.deploy.retraining import command as retrain


class Services:
    """Clients of Vertex AI and Dataflow that keep requests and answer from a table.

    A request is made of its real message, which refuses fields and enumerators that the protocol
    lacks.

    Attributes:
      requests: (name of the method, request) in the order in which they came.
      answers: name of a method -> its answer, an exception, or a function of the request.
    """

    def __init__(self):
        self.requests: list[tuple[str, Any]] = []
        self.answers: dict[str, Any] = {}

    def client(self, *_: str) -> "Services":
        return self

    def sent(self, method: str) -> list[Any]:
        return [request for name, request in self.requests if name == method]

    def __getattr__(self, method: str) -> Any:
        from google.cloud import aiplatform_v1, dataflow_v1beta3

        name = f"{method.title().replace('_', '')}Request"
        package = dataflow_v1beta3 if hasattr(dataflow_v1beta3, name) else aiplatform_v1

        def call(request: Any = None, **fields: Any) -> Any:
            made = getattr(package, name)(fields if request is None else request)
            self.requests.append((method, made))
            answer = self.answers[method]
            answer = answer(made) if callable(answer) else answer
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


@pytest.fixture
def services(monkeypatch):
    services = Services()
    monkeypatch.setattr(google_cloud, "vertex_client", services.client)
    monkeypatch.setattr(google_cloud, "dataflow_client", services.client)
    return services


@pytest.fixture
def commands(monkeypatch):
    """Stands in for the commands of a retraining; each model is better than the one before it."""
    commands = Commands()
    commands.accuracies = {f"{number:06d}": 0.7 + number / 100 for number in range(1, 9)}
    monkeypatch.setattr(retrain, "_run", commands)
    return commands
