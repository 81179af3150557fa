"""Vertex AI's model registry and endpoint: registers a published model, and gives it its share.

A new model first gets a small share of the requests (a canary), then all of them. The model before
it stays deployed, so that one command gives it all requests again.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from beambert.deploy import google_cloud
from beambert.deploy.settings import LABELS, Deployment, Settings
from beambert.deploy.vertex.requests import (
    DISPLAY_NAME,
    model,
    model_evaluation,
    registered_folder,
)
from beambert.errors import InputError
from beambert.pipelines.storage.claims import METRICS_FILE

# The step of the pipeline that registers what the run before it has published.
REGISTER = "register"
SERVING_MACHINE = "n2-standard-4"
NAMED = {"filter": f'display_name="{DISPLAY_NAME}"'}


def upload(deployment: Deployment, run: str, show: bool) -> None:
    """Registers a published model and its evaluation in Vertex's model registry.

    The models of all runs are versions of one model of the registry.

    Raises:
      InputError: the run published nothing, or its files cannot be read or copied.
    """
    from beambert.deploy.retraining import workspace
    from beambert.pipelines.storage import tensorflow_files

    run = run.rstrip("/")
    settings = deployment.settings
    result = workspace.read_json(f"{run}/{workspace.RESULT_FILE}")
    request = model(deployment, run, result)
    evaluation = model_evaluation(workspace.read_json(f"{run}/evaluation/{METRICS_FILE}"))
    if show:
        print(json.dumps([request, evaluation], indent=1))
        return
    version = result["version"]
    served = f"{run.rpartition('/runs/')[0]}/serving/{version}"
    with google_cloud.service_errors(run, "cannot be registered"):
        client = google_cloud.vertex_client("ModelService", settings.region)
        parent = _parent_model(client, settings)
        name = _version_of(client, parent, run) if parent else None
        if name:
            print(f"{run}: is registered already, as a version of {parent}")
        else:
            tensorflow_files.copy(served, f"{registered_folder(run)}/{version}")
            upload = {"parent": settings.parent, "model": request}
            if parent:
                upload["parent_model"] = parent
            uploaded = client.upload_model(request=upload).result()
            name = f"{uploaded.model}@{uploaded.model_version_id}"
            print(f"{name}: uploaded")
        # An earlier try may have been lost between the two.
        if evaluation and not list(client.list_model_evaluations(parent=name)):
            client.import_model_evaluation(parent=name, model_evaluation=evaluation)


def register_last(deployment: Deployment, workspace_folder: str, show: bool) -> str | None:
    """Registers the model of the last run, if it has published one.

    Args:
      deployment: the settings and images.
      workspace_folder: folder of all runs.
      show: True to print the request and do nothing.

    Returns:
      the folder of the run; None if it has published nothing.

    Raises:
      InputError: the last run has no result, or see `upload`.
    """
    from beambert.deploy.retraining import workspace

    history = workspace.read_history(workspace_folder)
    run = f"{workspace_folder}/runs/{history.last:06d}"
    if run in history.published:
        upload(deployment, run, show)
        return run
    if run in history.refused:
        print(f"{run}: published nothing, so there is nothing to register")
        return None
    raise InputError(f"--step={REGISTER}: no run of {workspace_folder} has ended; do one first")


def _parent_model(client: Any, settings: Settings) -> str | None:
    """Returns the name of the model whose versions the runs are; None before the first one."""
    request = {"parent": settings.parent, **NAMED}
    return next((found.name for found in client.list_models(request=request)), None)


def _version_of(client: Any, parent: str, run: str) -> str | None:
    """Returns the name of a run's version in the registry, such as projects/…/models/5@2."""
    number = run.rstrip("/").rpartition("/")[2]
    for found in client.list_model_versions(request={"name": parent}):
        if found.labels.get("run") == number and found.artifact_uri == registered_folder(run):
            return f"{parent}@{found.version_id}"
    return None


def share_out(before: Mapping[str, int], mine: str, share: int) -> dict[str, int]:
    """Returns the percentages of the requests by deployed model, with one model's share changed.

    The others keep their proportions; what rounding leaves over goes to the one with most.

    Args:
      before: identifier of a deployed model -> its percentage.
      mine: identifier of the model to give its share.
      share: its percentage.

    Raises:
      InputError: no other model can take the rest.
    """
    others = {name: value for name, value in before.items() if name != mine and value}
    if not others and share < 100:
        raise InputError(
            f"--share={share}: no other model is deployed that could take the rest; give 100, or "
            "first give an earlier run its share"
        )
    total = sum(others.values())
    split = {name: value * (100 - share) // total for name, value in others.items()}
    if split:
        split[max(split, key=split.__getitem__)] += 100 - share - sum(split.values())
    return dict.fromkeys(before, 0) | split | {mine: share}


@dataclasses.dataclass(frozen=True)
class Served:
    """The endpoint as a run's version finds it.

    Attributes:
      endpoint: name of the endpoint; None before the first version is served.
      mine: identifier of the run's version there; None if it isn't deployed.
      others: identifiers of the other models that get requests.
    """

    endpoint: str | None
    mine: str | None
    others: tuple[str, ...]


def find_served(settings: Settings, run: str) -> Served:
    """Returns what the endpoint serves, for the registered version of a run.

    Raises:
      InputError: the run isn't registered, or Vertex AI refuses.
    """
    with google_cloud.service_errors(run, "cannot be served"):
        version = _registered(settings, run.rstrip("/"))
        client = google_cloud.vertex_client("EndpointService", settings.region)
        found = list(client.list_endpoints(request={"parent": settings.parent, **NAMED}))
    if not found:
        return Served(None, None, ())
    mine, split = _deployed_id(found[0], version), found[0].traffic_split
    return Served(found[0].name, mine, tuple(n for n, part in split.items() if part and n != mine))


def _registered(settings: Settings, run: str) -> str:
    """Returns the name of a run's version in the registry.

    Raises:
      InputError: it isn't there.
    """
    client = google_cloud.vertex_client("ModelService", settings.region)
    parent = _parent_model(client, settings)
    version = parent and _version_of(client, parent, run)
    if not version:
        raise InputError(f"{run}: isn't in the registry; register it with `upload {run}`")
    return version


def _deployed_id(endpoint: Any, version: str) -> str | None:
    """Returns the identifier of a version on an endpoint; None if it isn't deployed there."""
    number = version.rpartition("@")[2]
    deployed = (d.id for d in endpoint.deployed_models if d.model_version_id == number)
    return next(deployed, None)


def serve(settings: Settings, run: str, share: int, show: bool = False) -> None:
    """Gives a registered model a share of the requests to the endpoint.

    The endpoint is made by the first call, and the model deployed if it isn't yet. With a share of
    0 the model is taken from the endpoint, which ends its costs; the last one may be, too.

    Args:
      settings: the settings.
      run: folder of the run.
      share: share of the requests in percent.
      show: True to print the shares that there would be and change nothing.

    Raises:
      InputError: the run isn't registered, or no other model can take the rest of the requests.
    """
    run = run.rstrip("/")
    with google_cloud.service_errors(run, "cannot be served"):
        version = _registered(settings, run)
        client = google_cloud.vertex_client("EndpointService", settings.region)
        if show:
            _show_shares(client, settings, version, share)
            return
        endpoint = _endpoint(client, settings)
        before = {
            each.id: endpoint.traffic_split.get(each.id, 0) for each in endpoint.deployed_models
        }
        mine = _deployed_id(endpoint, version)
        if mine is None and share:
            split = share_out(before, "0", share)  # "0" stands for the model of this request
            deployed = _deployed_model(version, run)
            request = {
                "endpoint": endpoint.name,
                "deployed_model": deployed,
                "traffic_split": split,
            }
            client.deploy_model(request=request).result()
        elif mine is not None:
            if share or len(before) > 1:
                changed = {"name": endpoint.name, "display_name": DISPLAY_NAME}
                changed["traffic_split"] = share_out(before, mine, share)
                client.update_endpoint(endpoint=changed, update_mask={"paths": ["traffic_split"]})
            if not share:
                client.undeploy_model(endpoint=endpoint.name, deployed_model_id=mine).result()
    print(f"{endpoint.name}: {version} has {share} % of the requests")


def _show_shares(client: Any, settings: Settings, version: str, share: int) -> None:
    """Prints the endpoint and the shares of the requests that `serve` would leave."""
    found = list(client.list_endpoints(request={"parent": settings.parent, **NAMED}))
    deployed = found[0].deployed_models if found else []
    names = {each.id: f"{each.model}@{each.model_version_id}" for each in deployed}
    before = {each.id: found[0].traffic_split.get(each.id, 0) for each in deployed}
    mine = next((number for number, name in names.items() if name == version), version)
    is_last = mine in before and len(before) == 1 and not share
    split = {mine: 0} if is_last else share_out(before, mine, share)
    shares = {names.get(number, version): part for number, part in split.items()}
    where = found[0].name if found else f"a new endpoint {DISPLAY_NAME}"
    print(json.dumps({"endpoint": where, "traffic_split": shares}, indent=1))


def delete_endpoint(settings: Settings, show: bool) -> None:
    """Takes all models from the endpoint and deletes it, which ends its costs.

    The models stay in the registry, and `serve` makes the endpoint again.

    Args:
      settings: the settings.
      show: True to print what would be deleted and delete nothing.

    Raises:
      InputError: Vertex AI refuses.
    """
    with google_cloud.service_errors(DISPLAY_NAME, "the endpoint cannot be deleted"):
        client = google_cloud.vertex_client("EndpointService", settings.region)
        for endpoint in client.list_endpoints(request={"parent": settings.parent, **NAMED}):
            if show:
                print(f"{endpoint.name}: would be deleted")
                continue
            deployed = [each.id for each in endpoint.deployed_models]
            while deployed:
                # A model goes only without requests, which one of the others takes meanwhile.
                request = {"endpoint": endpoint.name, "deployed_model_id": deployed.pop()}
                if deployed:
                    request["traffic_split"] = dict.fromkeys(deployed, 0) | {deployed[0]: 100}
                client.undeploy_model(request=request).result()
            client.delete_endpoint(name=endpoint.name).result()
            print(f"{endpoint.name}: deleted")


def _endpoint(client: Any, settings: Settings) -> Any:
    found = list(client.list_endpoints(request={"parent": settings.parent, **NAMED}))
    if found:
        return found[0]
    made = {"display_name": DISPLAY_NAME, "labels": LABELS, **settings.encryption}
    return client.create_endpoint(parent=settings.parent, endpoint=made).result()


def _deployed_model(version: str, run: str) -> dict[str, Any]:
    """Returns the DeployedModel of a version in the registry."""
    return {
        "model": version,
        "display_name": f"{DISPLAY_NAME}-{run.rpartition('/')[2]}",
        "dedicated_resources": {
            "machine_spec": {"machine_type": SERVING_MACHINE},
            "min_replica_count": 1,
            "max_replica_count": 2,
        },
    }
