"""A version of the serving folder behind an endpoint of Vertex AI, and the way back.

The registry has a model with a version for each one that was behind the endpoint, with the aliases
v1, v2 and so on. `default` names the one that answers all requests.
"""

from collections.abc import Mapping
from typing import Any

from beambert import io
from beambert.deploy import google_cloud
from beambert.deploy.retraining import command, workspace
from beambert.deploy.retraining.runs import SERVING, Retraining
from beambert.deploy.settings import DISPLAY_NAME, LABELS, Deployment, Settings
from beambert.errors import InputError
from beambert.model_files import GRAPH_FILE

# The machine behind the endpoint.
MACHINE = "n2-standard-4"
# Vertex copies the model to the machine and starts the server; that takes minutes.
_SECONDS = 3600.0


def registered_model(deployment: Deployment, artifacts: str, version: int) -> dict[str, Any]:
    """Returns the model of a version as Vertex AI's registry takes it."""
    container = {
        "image_uri": deployment.image("serving"),
        "args": [
            f"--model_name={DISPLAY_NAME}",
            "--model_base_path=$(AIP_STORAGE_URI)",
            "--rest_api_port=8080",
        ],
        "ports": [{"container_port": 8080}],
        "predict_route": f"/v1/models/{DISPLAY_NAME}:predict",
        "health_route": f"/v1/models/{DISPLAY_NAME}",
    }
    return {
        "display_name": DISPLAY_NAME,
        "artifact_uri": artifacts,
        "container_spec": container,
        "version_aliases": [f"v{version}"],
        "labels": LABELS,
    }


def serve(deployment: Deployment, config: Retraining, version: int | None, share: int) -> None:
    """Puts a version behind the endpoint; the same call again continues one that was interrupted.

    Args:
      deployment: the settings and images.
      config: configuration of the retraining.
      version: number of the version; None for the newest.
      share: share of the requests in percent. At 100 the version becomes the default one, and the
        others are taken from the endpoint.

    Raises:
      InputError: there is no such version, there is nothing to share with, or Vertex AI refuses.
    """
    settings, serving = deployment.settings, f"{config.workspace}/{SERVING}"
    version = version or workspace.read_history(config.workspace).newest
    if not io.exists(f"{serving}/{version}/{GRAPH_FILE}"):
        raise InputError(f"--version={version}: {serving} has no such version; see its folders")
    with google_cloud.service_errors(DISPLAY_NAME, f"version {version} cannot be served"):
        endpoints = google_cloud.vertex_client("EndpointService", settings.region)
        endpoint = _find_endpoint(endpoints, settings)
        if share < 100 and not (endpoint and endpoint.deployed_models):
            raise InputError(f"--share={share}: no other version is served; leave the flag out")
        model = _register(deployment, f"{serving}/{version}", version)
        endpoint = endpoint or _create_endpoint(endpoints, settings)
        deployed = {each.display_name: each.id for each in endpoint.deployed_models}
        name = str(version)
        before = {i: n for i, n in endpoint.traffic_split.items() if i != deployed.get(name)}
        traffic = _divide(before, deployed.get(name, "0"), share)
        if name in deployed:
            endpoints.update_endpoint(
                endpoint={"name": endpoint.name, "traffic_split": traffic},
                update_mask={"paths": ["traffic_split"]},
            )
        else:
            new = {
                "model": model,
                "display_name": name,
                "dedicated_resources": {
                    "machine_spec": {"machine_type": MACHINE},
                    "min_replica_count": 1,
                },
            }
            endpoints.deploy_model(
                endpoint=endpoint.name, deployed_model=new, traffic_split=traffic
            ).result(_SECONDS)
        if share == 100:
            models = google_cloud.vertex_client("ModelService", settings.region)
            models.merge_version_aliases(name=model, version_aliases=["default"])
            for other in (i for n, i in deployed.items() if n != name):
                request = {"endpoint": endpoint.name, "deployed_model_id": other}
                endpoints.undeploy_model(request).result(_SECONDS)
    print(f"{endpoint.name}: version {version} answers {share} % of the requests")


def _divide(before: Mapping[str, int], new: str, share: int) -> dict[str, int]:
    """Returns the percentages of deployed models: a share for one, the rest as it was divided."""
    total = sum(before.values())
    rest = {each: (100 - share) * part // total for each, part in before.items() if part}
    rest = {each: part for each, part in rest.items() if part}
    return rest | {new: 100 - sum(rest.values())}


def _find_endpoint(client: Any, settings: Settings) -> Any:
    wanted = {"parent": settings.parent, "filter": f'display_name="{DISPLAY_NAME}"'}
    return next(iter(client.list_endpoints(wanted)), None)


def _create_endpoint(client: Any, settings: Settings) -> Any:
    print("an endpoint costs what its machine does as long as a version is behind it")
    made = {"display_name": DISPLAY_NAME, "labels": LABELS}
    return client.create_endpoint(parent=settings.parent, endpoint=made).result(_SECONDS)


def _register(deployment: Deployment, folder: str, version: int) -> str:
    """Returns the name of a version in the registry, which is added unless it is there."""
    from google.api_core.exceptions import NotFound

    settings = deployment.settings
    models = google_cloud.vertex_client("ModelService", settings.region)
    parent = f"{settings.parent}/models/{DISPLAY_NAME}"
    known = {}
    for name in (parent, f"{parent}@v{version}"):
        try:
            known[name] = models.get_model(name=name)
        except NotFound:
            break
    if len(known) < 2:
        # TensorFlow Serving takes the highest version of its folder, so each has its own.
        artifacts = f"{settings.work}/registered/{version}"
        io.copy(folder, f"{artifacts}/{version}")
        request = {
            "parent": settings.parent,
            "model": registered_model(deployment, artifacts, version),
            **({"parent_model": parent} if known else {"model_id": DISPLAY_NAME}),
        }
        models.upload_model(request).result(_SECONDS)
    return f"{parent}@v{version}"


def withdraw(deployment: Deployment, config: Retraining) -> None:
    """Takes the newest version back: from the endpoint, as the default of the registry, as served.

    The folder comes last: an interrupted call is completed by the next one.

    Raises:
      InputError: no other version could be served instead, another run is at work, or Vertex AI
        refuses.
    """

    def serve_before(version: int) -> None:
        with google_cloud.service_errors(DISPLAY_NAME, "the endpoint cannot be looked for"):
            client = google_cloud.vertex_client("EndpointService", deployment.settings.region)
            is_there = _find_endpoint(client, deployment.settings)
        if is_there:
            serve(deployment, config, version, 100)

    command.rollback(config, serve_before)


def remove(settings: Settings) -> None:
    """Deletes the endpoint and the model of the registry, if they are there.

    Raises:
      InputError: Vertex AI refuses.
    """
    from google.api_core.exceptions import NotFound

    with google_cloud.service_errors(DISPLAY_NAME, "the endpoint cannot be deleted"):
        client = google_cloud.vertex_client("EndpointService", settings.region)
        while endpoint := _find_endpoint(client, settings):
            left = [each.id for each in endpoint.deployed_models]
            while left:
                request = {"endpoint": endpoint.name, "deployed_model_id": left.pop()}
                if left:  # only what answers no requests can go, but for the last one
                    request["traffic_split"] = {left[0]: 100}
                client.undeploy_model(request).result(_SECONDS)
            client.delete_endpoint(name=endpoint.name).result(_SECONDS)
            print(f"{endpoint.name}: deleted")
        models = google_cloud.vertex_client("ModelService", settings.region)
        try:
            models.delete_model(name=f"{settings.parent}/models/{DISPLAY_NAME}").result(_SECONDS)
        except NotFound:
            return
        print(f"the model {DISPLAY_NAME} of the registry: deleted")
