"""Tries a new version out: it gets a share of the requests, and loses it if it does worse.

The endpoint is asked held-out examples of the task, first without the new version and then with it.
Each answer names the model that gave it. The new version is taken from the endpoint if its requests
fail, if it answers otherwise than in its evaluation, or if it is much slower than the others.
"""

import dataclasses
import itertools
import math
import os
import re
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beambert.deploy import google_cloud
from beambert.deploy.retraining.runs import Retraining
from beambert.deploy.settings import Settings
from beambert.deploy.vertex import registry
from beambert.errors import InputError
from beambert.pipelines.evaluation.measures import PREDICTIONS_FOLDER
from beambert.pipelines.storage.claims import METRICS_FILE

# The file in the run's folder with the outcome.
FILE = "canary.json"
# The number of answers of the new version that decide. The others give as many before.
ANSWERS = 50
# The greatest shares of its requests that may fail, and of its answers that may differ from those
# of its evaluation. One of `ANSWERS` is allowed: a request may be lost, and the last bits of two
# processors differ.
FAILED = DIFFERENT = 0.02
# Its median time may be so many times that of the others, or longer by so many seconds: answers of
# some milliseconds differ by that much on their way.
SLOWER, SLOWER_BY = 2.0, 0.02
# Vertex AI mounts the buckets of a project here, on its own machines:
# https://cloud.google.com/vertex-ai/docs/training/cloud-storage-file-system
MOUNTS = "/gcs"
# A request without an answer for so many seconds has failed.
PATIENCE = 30.0


@dataclasses.dataclass
class Tally:
    """What became of requests to an endpoint.

    Attributes:
      seconds: identifier of a deployed model -> the time of each of its answers in seconds.
      different: identifier of a deployed model -> the number of its answers that were not expected.
      failures: errors of the requests that failed, of which nobody says which model failed.
    """

    seconds: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    different: dict[str, int] = dataclasses.field(default_factory=dict)
    failures: list[str] = dataclasses.field(default_factory=list)

    def answers(self, model: str) -> int:
        """Returns the number of answers of a deployed model."""
        return len(self.seconds.get(model, ()))

    @property
    def has_failed(self) -> bool:
        """Whether too many requests have failed, however many are answered yet."""
        return len(self.failures) > FAILED * (len(self.failures) + ANSWERS)

    def faults(self, mine: str) -> list[str]:
        """Returns what is wrong with a deployed model beside the others; nothing if it is sound."""
        found, answers = [], self.answers(mine)
        if self.has_failed:
            found.append(f"{len(self.failures)} requests failed ({self.failures[0]})")
        elif answers < ANSWERS:
            found.append(f"it gave {answers} of {ANSWERS} answers")
        different = self.different.get(mine, 0)
        if different > DIFFERENT * answers:
            found.append(f"{different} of its {answers} answers are not those of its evaluation")
        others = [s for name, each in self.seconds.items() if name != mine for s in each]
        if answers and others:
            median, before = statistics.median(self.seconds[mine]), statistics.median(others)
            if median > max(SLOWER * before, before + SLOWER_BY):
                found.append(f"it takes {median:.3f} s where the others take {before:.3f} s")
        return found


def try_out(settings: Settings, config: Retraining, run: str, share: int) -> None:
    """Gives the registered version of a run a share of the requests, unless it does worse.

    A second call does nothing, or says again why the version was taken back.

    Args:
      settings: settings of the project.
      config: configuration of the retraining, which names the task.
      run: folder of the run.
      share: percentage of the requests.

    Raises:
      InputError: the version was taken back, or the endpoint fails without it.
    """
    from beambert.deploy.retraining import workspace
    from beambert.pipelines.storage import tensorflow_files

    run = run.rstrip("/")
    file = f"{run}/{FILE}"
    if not tensorflow_files.exists(file):
        served = registry.find_served(settings, run)
        if not served.others:
            print(
                f"{run}: no other version has requests, which could have them again; give this one "
                f"all by hand: serve {run} --share=100"
            )
            return
        faults = _faults(settings, config, run, share, served)
        if faults:
            registry.serve(settings, run, 0)
        workspace.write_json(file, {"share": 0 if faults else share, "faults": faults})
    if faults := workspace.read_json(file)["faults"]:
        raise InputError(
            f"{run}: was taken from the endpoint: {'; '.join(faults)}; mend that and try it again "
            f"after you have deleted {file}, or give the next delivery"
        )
    print(f"{run}: keeps its share of the requests; give it all with: serve {run} --share=100")


def _faults(
    settings: Settings, config: Retraining, run: str, share: int, served: registry.Served
) -> list[str]:
    """Asks the endpoint without and with a run's version, and returns what is wrong with that."""
    questions = itertools.cycle(_questions(config, run))
    with google_cloud.service_errors(run, "cannot be tried out"):
        client = google_cloud.vertex_client("PredictionService", settings.region)
        tally = Tally()
        if served.mine is None:  # otherwise an interrupted try has begun
            _ask(client, served.endpoint, itertools.islice(questions, ANSWERS), tally, None)
            if tally.failures:
                raise InputError(
                    f"{served.endpoint}: fails before the new version has any request "
                    f"({tally.failures[0]}); mend that and try {run} out again"
                )
        registry.serve(settings, run, share)
        mine = registry.find_served(settings, run).mine
        # The new version gets about three times the needed share of so many requests.
        most = math.ceil(3 * ANSWERS * 100 / share)
        _ask(client, served.endpoint, itertools.islice(questions, most), tally, mine)
    return tally.faults(mine)


def _questions(config: Retraining, run: str) -> Sequence[tuple[Mapping[str, Any], str | None]]:
    """Returns the texts of the held-out examples, and the label that the evaluation had for each.

    Labels are None for tasks without classes, and if the task's files were changed since.
    """
    from beambert.pipelines.storage.tensorflow_files import local_folder
    from beambert.pipelines.tasks.declarations import find_task
    from beambert.pipelines.tasks.examples import read_file
    from beambert.pipelines.tasks.task import DEV

    task, split = find_task(config.finetune["task"]), config.evaluate.get("split", DEV)
    skips = bool(config.evaluate.get("skip_bad_rows", False))
    with local_folder(_as_seen_here(config.finetune["data_dir"])) as folder:
        examples = read_file(task, folder, split, None, skips).examples
    labels = _evaluated(run)
    if len(labels) != len(examples):
        labels = [None] * len(examples)
    return [(example.texts(), label) for example, label in zip(examples, labels, strict=True)]


def _as_seen_here(folder: str) -> str:
    """Returns the path of a folder in a bucket that Vertex AI mounts and this machine doesn't."""
    return folder if os.path.isdir(MOUNTS) else re.sub(f"^{MOUNTS}/", "gs://", folder)


def _evaluated(run: str) -> list[str | None]:
    """Returns the labels that a run's evaluation has predicted, in the order of the examples."""
    import tensorflow as tf

    from beambert.deploy.retraining import workspace
    from beambert.pipelines.storage import tensorflow_files

    folder = f"{run}/evaluation"
    names = workspace.read_json(f"{folder}/{METRICS_FILE}").get("labels", [])
    found = {}
    for path in tensorflow_files.match(f"{folder}/{PREDICTIONS_FOLDER}/*.tfrecord"):
        for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            if "prediction_index" in features:
                index = features["prediction_index"].int64_list.value[0]
                found[features["row"].int64_list.value[0]] = names[index]
    return [found.get(row) for row in range(len(found))]


def _ask(
    client: Any,
    endpoint: str,
    questions: Iterator[tuple[Mapping[str, Any], str | None]],
    tally: Tally,
    mine: str | None,
) -> None:
    """Sends questions one by one until a deployed model has answered or failed often enough."""
    from google.api_core.exceptions import GoogleAPIError
    from google.protobuf import json_format, struct_pb2

    for texts, label in questions:
        instance = json_format.ParseDict(dict(texts), struct_pb2.Value())
        began = time.monotonic()
        try:
            answer = client.predict(endpoint=endpoint, instances=[instance], timeout=PATIENCE)
        except GoogleAPIError as error:
            tally.failures.append(str(error).splitlines()[0])
        else:
            model = answer.deployed_model_id
            tally.seconds.setdefault(model, []).append(time.monotonic() - began)
            labels = [
                p.get("label") if isinstance(p, Mapping) else None for p in answer.predictions
            ]
            if label is not None and labels != [label]:
                tally.different[model] = tally.different.get(model, 0) + 1
        if tally.has_failed or (mine is not None and tally.answers(mine) >= ANSWERS):
            return
