"""A new version keeps its share of the requests only if it does as well as in its evaluation."""

import dataclasses
import json
import time

import grpc
import pytest
import tensorflow as tf
from support import google_services
from support import growing_corpus as corpus
from support.cloud_samples import DEPLOYMENT, METRICS, RESULT, SETTINGS
from support.vertex_endpoint import Vertex

from beambert.deploy.retraining import workspace as workspaces
from beambert.deploy.settings import Deployment, Settings
from beambert.deploy.vertex import canary, command, registry
from beambert.errors import InputError
from beambert.pipelines.files import beam_files

LABELS = ["music", "town"]


def write_predictions(folder, count):
    """As `evaluate` writes them: here the model says "town" of every second example."""
    folder.mkdir(parents=True)
    with tf.io.TFRecordWriter(str(folder / "part-00000-of-00001.tfrecord")) as file:
        for row in reversed(range(count)):
            features = {
                name: tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
                for name, value in (("row", row), ("prediction_index", row % 2))
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            file.write(example.SerializeToString())


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A workspace whose runs have published two models, and the task of both."""
    corpus.write_task(tmp_path, "train", 4)
    corpus.write_task(tmp_path, "dev", 40)
    for number in (1, 2):
        run = tmp_path / "workspace" / "runs" / f"00000{number}"
        write_predictions(run / "evaluation" / "predictions", 40)
        found = {"result.json": RESULT | {"version": number}}
        found["evaluation/metrics.json"] = METRICS | {"labels": LABELS}
        for name, content in found.items():
            (run / name).write_text(json.dumps(content))
        served = tmp_path / "workspace" / "serving" / str(number)
        served.mkdir(parents=True)
        (served / "saved_model.pb").write_text("")
    monkeypatch.setitem(google_services.PATTERNS, "artifact_uri", r"/\S+")
    return workspaces.read_config(str(corpus.write_config(tmp_path)))


def run_of(config, number):
    return f"{config.workspace}/runs/00000{number}"


def as_evaluated(config):
    """Returns the answers that the evaluation had for the held-out examples."""
    texts = [texts["text"] for texts, _ in canary._questions(config, run_of(config, 2))]
    said = {text: LABELS[row % 2] for row, text in enumerate(texts)}
    return lambda text: {"label": said[text], "probabilities": [0.5, 0.5]}


@pytest.fixture
def vertex(services, config):
    """An endpoint that serves the first version; both are registered."""
    vertex = Vertex(services)
    for number in (1, 2):
        registry.upload(DEPLOYMENT, run_of(config, number), show=False)
    registry.serve(SETTINGS, run_of(config, 1), 100)
    vertex.answers = dict.fromkeys("12", as_evaluated(config))
    return vertex


def try_out(config, share=50):
    canary.try_out(SETTINGS, config, run_of(config, 2), share)


def test_a_version_that_answers_as_evaluated_keeps_its_share(vertex, config, capsys):
    try_out(config, share=10)
    assert vertex.shares() == {"1": 90, "2": 10}
    asked = len(vertex.services.sent("Predict"))
    # A tenth of those that are asked after the version has come.
    assert 8 * canary.ANSWERS < asked - canary.ANSWERS < 12 * canary.ANSWERS
    try_out(config)  # as after the component was lost
    assert len(vertex.services.sent("Predict")) == asked
    assert capsys.readouterr().out.count("keeps its share") == 2


def fails(text):
    return grpc.StatusCode.INTERNAL


def slow(answer):
    def slowly(text):
        time.sleep(0.05)
        return answer(text)

    return slowly


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("fails", r"2 requests failed \(500 .*"),
        ("differs", r"\d+ of its 50 answers are not those of its evaluation"),
        ("is of another kind", "50 of its 50 answers are not those of its evaluation"),
        ("is slow", r"it takes 0\.\d+ s where the others take 0\.\d+ s"),
    ],
)
def test_a_version_that_does_worse_is_taken_back(vertex, config, kind, fault):
    good = as_evaluated(config)
    vertex.answers["2"] = {
        "fails": fails,
        "differs": lambda text: {"label": "music"},
        "is of another kind": lambda text: [0.5, 0.5],
        "is slow": slow(good),
    }[kind]
    with pytest.raises(InputError, match=f"000002: was taken from the endpoint: {fault}; mend"):
        try_out(config)
    assert vertex.shares() == {"1": 100}
    deployed = len(vertex.services.sent("DeployModel"))
    with pytest.raises(InputError, match=f"{fault}; mend that"):  # the component's next try
        try_out(config)
    assert len(vertex.services.sent("DeployModel")) == deployed


@pytest.mark.parametrize(
    ("mine", "others", "is_slow"),
    [(0.004, 0.001, False), (0.05, 0.02, True), (0.039, 0.02, False), (0.9, 0.5, False)],
)
def test_how_slow_is_slow(mine, others, is_slow):
    """Twice the time of the others counts, unless it is a matter of milliseconds."""
    tally = canary.Tally(seconds={"new": [mine] * canary.ANSWERS, "old": [others] * 50})
    assert bool(tally.faults("new")) == is_slow


def test_one_lost_request_is_none_of_the_versions_doing(vertex, config):
    good, failing = as_evaluated(config), iter([grpc.StatusCode.UNAVAILABLE])
    vertex.answers["2"] = lambda text: next(failing, good(text))
    try_out(config)
    assert vertex.shares() == {"1": 50, "2": 50}


def test_an_endpoint_that_fails_by_itself(vertex, config):
    """The new version gets no request, and is blamed for nothing."""
    vertex.answers["1"] = fails
    with pytest.raises(InputError, match="fails before the new version has any request .500"):
        try_out(config)
    assert vertex.shares() == {"1": 100}
    vertex.answers["1"] = as_evaluated(config)
    try_out(config)
    assert vertex.shares() == {"1": 50, "2": 50}


def test_a_version_without_requests(vertex, config, monkeypatch):
    """As when Vertex sends it none."""
    monkeypatch.setattr(vertex, "_split", lambda split: None)
    monkeypatch.setattr(canary, "ANSWERS", 4)
    with pytest.raises(InputError, match="it gave 0 of 4 answers"):
        try_out(config)


def test_the_first_version_is_served_by_hand(services, config, capsys):
    vertex = Vertex(services)
    registry.upload(DEPLOYMENT, run_of(config, 2), show=False)
    try_out(config)
    assert vertex.endpoint is None and "serve" in capsys.readouterr().out


def test_a_task_without_classes_or_with_changed_files(config, tmp_path):
    """Only failures and times can be compared."""
    corpus.write_task(tmp_path, "dev", 30)
    questions = canary._questions(config, run_of(config, 2))
    assert len(questions) == 30 and {label for _, label in questions} == {None}


def test_examples_in_a_bucket_that_this_machine_does_not_mount(gs, config, tmp_path, monkeypatch):
    """An operator's machine has no /gcs."""
    expected = canary._questions(config, run_of(config, 2))
    for path in (tmp_path / "task").iterdir():
        beam_files.write_bytes(f"{gs}/{tmp_path.name}/task/{path.name}", path.read_bytes())
    there = f"/gcs/bucket/{tmp_path.name}/task"
    config = dataclasses.replace(config, finetune=config.finetune | {"data_dir": there})
    assert canary._questions(config, run_of(config, 2)) == expected
    monkeypatch.setattr(canary, "MOUNTS", str(tmp_path))  # as Vertex mounts it
    here = config.finetune | {"data_dir": f"{tmp_path}/task"}
    config = dataclasses.replace(config, finetune=here)
    assert canary._questions(config, run_of(config, 2)) == expected


@pytest.mark.parametrize("share", [0, 50])
def test_the_pipeline_tries_what_it_registers(vertex, config, tmp_path, monkeypatch, share):
    settings = Settings(**vars(SETTINGS) | {"canary_share": share})
    path = tmp_path / "deployment.json"
    path.write_text(Deployment(settings, DEPLOYMENT.release).to_json())
    monkeypatch.setattr(workspaces, "read_config", lambda _: config)
    command.main([f"--deployment={path}", "step", "--step=register"])
    assert vertex.shares() == ({"1": 50, "2": 50} if share else {"1": 100})
    command.main([f"--deployment={path}", "canary", run_of(config, 2), "--share=50"])
    assert vertex.shares() == {"1": 50, "2": 50}
