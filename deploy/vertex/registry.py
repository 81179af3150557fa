"""Vertex AI's model registry and endpoint: registers a published model and deploys it.

A new model first gets a small share of the requests, then all of them. The model before it stays
deployed, so that one command gives it all requests again.
"""

from collections.abc import Mapping
from typing import Any

from beambert.deploy import google_cloud
from beambert.deploy.settings import DISPLAY_NAME, LABELS, Deployment, Settings
from beambert.errors import InputError

# The step of the pipeline that registers what the run before it has published.
REGISTER = "register"
SERVING_MACHINE = "n2-standard-4"
NAMED = {"filter": f'display_name="{DISPLAY_NAME}"'}


def registered_folder(run: str) -> str:
    """Returns the folder of a run that TensorFlow Serving serves: it has the run's version alone.

    Of the folder of all versions it would serve the highest, whichever run was registered.
    """
    return f"{run}/registered"


def model(deployment: Deployment, run: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a Model for the version that a run published, served by TensorFlow Serving.

    Args:
      deployment: the settings and images.
      run: folder of the run.
      result: content of the run's result.json.

    Raises:
      InputError: the run published nothing.
    """
    if result.get("version") is None:
        raise InputError(f"{run}: published nothing ({'; '.join(result['reasons'])})")
    path = f"/v1/models/{DISPLAY_NAME}"
    number = run.rpartition("/")[2]
    return {
        "display_name": DISPLAY_NAME,
        "version_description": "; ".join(result["reasons"]),
        "artifact_uri": registered_folder(run),
        "version_aliases": [f"run-{number}"],
        "labels": LABELS | {"run": number, "version": str(result["version"])},
        "container_spec": {
            "image_uri": deployment.image("serving"),
            "args": [
                f"--model_name={DISPLAY_NAME}",
                "--model_base_path=$(AIP_STORAGE_URI)",
                "--rest_api_port=8080",
            ],
            "ports": [{"container_port": 8080}],
            "predict_route": f"{path}:predict",
            "health_route": path,
        },
        **deployment.settings.encryption,
    }


def upload(deployment: Deployment, run: str) -> None:
    """Registers a published model in Vertex's model registry, unless it is registered already.

    The models of all runs are versions of one model of the registry.

    Raises:
      InputError: the run published nothing, or its files cannot be read or copied.
    """
    from beambert import storage
    from beambert.deploy.retraining import workspace

    run = run.rstrip("/")
    settings = deployment.settings
    result = workspace.read_json(f"{run}/{workspace.RESULT_FILE}")
    request = model(deployment, run, result)
    version = result["version"]
    with google_cloud.service_errors(run, "cannot be registered"):
        client = google_cloud.vertex_client("ModelService", settings.region)
        parent = _parent_model(client, settings)
        if parent and _version_of(client, parent, run):
            print(f"{run}: is registered already, as a version of {parent}")
            return
        served = f"{run.rpartition('/runs/')[0]}/serving/{version}"
        storage.copy(served, f"{registered_folder(run)}/{version}")
        sent = {"parent": settings.parent, "model": request}
        if parent:
            sent["parent_model"] = parent
        uploaded = client.upload_model(request=sent).result()
        print(f"{uploaded.model}@{uploaded.model_version_id}: uploaded")


def register_last(deployment: Deployment, workspace_folder: str) -> None:
    """Registers the model of the last run, if it has published one.

    Raises:
      InputError: the last run has no result, or see `upload`.
    """
    from beambert.deploy.retraining import workspace

    history = workspace.read_history(workspace_folder)
    run = f"{workspace_folder}/runs/{history.last:06d}"
    if run in history.published:
        upload(deployment, run)
    elif run in history.refused:
        print(f"{run}: published nothing, so there is nothing to register")
    else:
        raise InputError(f"--step={REGISTER}: no run of {workspace_folder} has ended; do one first")


def _parent_model(client: Any, settings: Settings) -> str | None:
    """Returns the name of the model whose versions the runs are; None before the first one."""
    request = {"parent": settings.parent, **NAMED}
    return next((found.name for found in client.list_models(request=request)), None)


def _version_of(client: Any, parent: str, run: str) -> str | None:
    """Returns the name of a run's version in the registry, such as projects/…/models/5@2."""
    number = run.rpartition("/")[2]
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


def serve(settings: Settings, run: str, share: int) -> None:
    """Gives a registered model a share of the requests to the endpoint.

    The endpoint is made by the first call, and the model deployed if it isn't yet. With a share of
    0 the model is taken from the endpoint, which ends its costs; the last one may be, too.

    Args:
      settings: the settings.
      run: folder of the run.
      share: share of the requests in percent.

    Raises:
      InputError: the run isn't registered, or no other model can take the rest of the requests.
    """
    run = run.rstrip("/")
    with google_cloud.service_errors(run, "cannot be served"):
        models = google_cloud.vertex_client("ModelService", settings.region)
        parent = _parent_model(models, settings)
        version = parent and _version_of(models, parent, run)
        if not version:
            raise InputError(f"{run}: isn't in the registry; register it with `upload {run}`")
        client = google_cloud.vertex_client("EndpointService", settings.region)
        endpoint = _endpoint(client, settings)
        deployed = endpoint.deployed_models
        before = {each.id: endpoint.traffic_split.get(each.id, 0) for each in deployed}
        number = version.rpartition("@")[2]
        mine = next((each.id for each in deployed if each.model_version_id == number), None)
        if mine is None and share:
            request = {
                "endpoint": endpoint.name,
                "deployed_model": {
                    "model": version,
                    "display_name": f"{DISPLAY_NAME}-{run.rpartition('/')[2]}",
                    "dedicated_resources": {
                        "machine_spec": {"machine_type": SERVING_MACHINE},
                        "min_replica_count": 1,
                        "max_replica_count": 2,
                    },
                },
                # "0" stands for the model of this request.
                "traffic_split": share_out(before, "0", share),
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


def _endpoint(client: Any, settings: Settings) -> Any:
    found = list(client.list_endpoints(request={"parent": settings.parent, **NAMED}))
    if found:
        return found[0]
    made = {"display_name": DISPLAY_NAME, "labels": LABELS, **settings.encryption}
    return client.create_endpoint(parent=settings.parent, endpoint=made).result()


def delete_endpoint(settings: Settings) -> None:
    """Takes all models from the endpoint and deletes it, which ends its costs.

    The models stay in the registry, and `serve` makes the endpoint again.

    Raises:
      InputError: Vertex AI refuses.
    """
    with google_cloud.service_errors(DISPLAY_NAME, "the endpoint cannot be deleted"):
        client = google_cloud.vertex_client("EndpointService", settings.region)
        for endpoint in client.list_endpoints(request={"parent": settings.parent, **NAMED}):
            deployed = [each.id for each in endpoint.deployed_models]
            while deployed:
                # A model goes only without requests, which one of the others takes meanwhile.
                request = {"endpoint": endpoint.name, "deployed_model_id": deployed.pop()}
                if deployed:
                    request["traffic_split"] = dict.fromkeys(deployed, 0) | {deployed[0]: 100}
                client.undeploy_model(request=request).result()
            client.delete_endpoint(name=endpoint.name).result()
            print(f"{endpoint.name}: deleted")
