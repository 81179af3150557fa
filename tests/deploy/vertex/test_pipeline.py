"""The compiled pipeline: its steps, their order, their commands and their lineage."""

import hashlib
import json

import pytest
import yaml
from kfp import components
from support import growing_corpus as corpus
from support.cloud_samples import DEPLOYMENT

from beambert.deploy.retraining import workspace
from beambert.deploy.retraining.runs import STEPS, next_run
from beambert.deploy.vertex import command, lineage, pipeline
from beambert.deploy.vertex.registry import REGISTER
from beambert.errors import InputError
from beambert.pipelines.records.contract import RecordsInfo
from beambert.pipelines.storage import tensorflow_files

SPEC = yaml.safe_load(pipeline.FILE.read_text())
TASKS = SPEC["components"]["comp-condition-2"]["dag"]["tasks"]


@pytest.mark.slow
def test_committed_pipeline_is_the_compiled_one(tmp_path):
    """After a change: python -m beambert.deploy.vertex.pipeline."""
    pipeline.compile_to(tmp_path / "pipeline.yaml")
    assert pipeline.FILE.read_text() == (tmp_path / "pipeline.yaml").read_text()


def test_pipeline_is_one_that_kfp_loads():
    for text in (pipeline.FILE.read_text(), DEPLOYMENT.fill_in(pipeline.FILE.read_text())):
        assert components.load_component_from_text(text).name == pipeline.NAME


def test_components_are_commands():
    found = {
        name.removeprefix("exec-"): value["container"]
        for name, value in SPEC["deploymentSpec"]["executors"].items()
    }
    assert set(found) == {"plan", *STEPS, REGISTER, "release"}
    for step, container in found.items():
        words = [*container["command"], *container["args"]]
        assert words[:3] == ["python", "-m", "beambert.deploy.vertex"]
        flags = command.build_parser().parse_args(words[3:])
        assert flags.step == step and flags.deployment == "DEPLOYMENT_FILE"
        assert flags.holder == "{{$.inputs.parameters['holder']}}"
        assert (flags.executor_input == "{{$}}") == (step in STEPS)
        assert bool(flags.outcome_file) == (step == "plan")


def test_steps_follow_one_another():
    for before, step in zip(STEPS, (*STEPS[1:], REGISTER), strict=True):
        assert before in TASKS[step]["dependentTasks"]
    assert "== 'new'" in json.dumps(SPEC)
    handler = SPEC["root"]["dag"]["tasks"]["release"]
    assert handler["triggerPolicy"]["strategy"] == "ALL_UPSTREAM_TASKS_COMPLETED"


def test_lineage_says_what_is_made_of_what():
    for step, uses in pipeline.USES.items():
        given = TASKS[step].get("inputs", {}).get("artifacts", {})
        producers = {a["taskOutputArtifact"]["producerTask"] for a in given.values()}
        assert producers == set(uses)
    made = {
        step: SPEC["components"][f"comp-{step}"]["outputDefinitions"]["artifacts"]["made"]
        for step in STEPS
    }
    kinds = {step: each["artifactType"]["schemaTitle"] for step, each in made.items()}
    assert kinds["records"] == "system.Dataset" and kinds["evaluation"] == "system.Metrics"
    shown = SPEC["components"]["comp-evaluation"]["outputDefinitions"]["artifacts"]
    assert shown["report"]["artifactType"]["schemaTitle"] == "system.HTML"
    assert shown["classes"]["artifactType"]["schemaTitle"] == "system.ClassificationMetrics"
    assert kinds["encoder"] == kinds["classifier"] == kinds["serving"] == "system.Model"


def executor_input(folder):
    """As https://github.com/kubeflow/pipelines has it in pipeline_spec.proto, ExecutorInput."""
    artifact = {"name": "made", "type": {"schemaTitle": "system.Model"}, "uri": "gs://p/made"}
    outputs = {"artifacts": {"made": {"artifacts": [artifact]}}}
    return json.dumps({"outputs": {**outputs, "outputFile": f"{folder}/deep/output.json"}})


def test_a_step_says_where_its_result_lies(tmp_path):
    from google.protobuf import json_format
    from kfp.pipeline_spec import pipeline_spec_pb2

    json_format.Parse(executor_input(tmp_path), pipeline_spec_pb2.ExecutorInput())
    run = next_run(workspace.read_config(str(corpus.write_config(tmp_path))), (), 1, 1)
    workspace.begin(run)
    inputs = [{"path": f"{n}.jsonl", "bytes": 1, "modified": 1.0} for n in (1, 2)]
    info = RecordsInfo({}, {"size": 9, "sha256": "v"}, inputs, [], {}, {}).to_json()
    judged = {"weights_sha256": "w", "model_sha256": "m", "overall": {"accuracy": 0.75, "n": 3}}
    files = {
        "records/info.json": info,
        "records/_SUCCESS": "",
        "encoder/model.weights.h5": "of the encoder",
        "encoder/_SUCCESS": "",
        "classifier/model.weights.h5": "of the classifier",
        "classifier/_SUCCESS": "",
        "evaluation/metrics.json": json.dumps(judged),
        "evaluation/BLESSED": "",
        "result.json": '{"outcome": "published", "version": 4}',
    }
    for name, text in files.items():
        tensorflow_files.write_bytes(f"{run.path}/{name}", text.encode())
    sha256 = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    weights = sha256["classifier/model.weights.h5"]
    text = {
        "info": f"{run.path}/records/info.json",
        "info_sha256": sha256["records/info.json"],
        "vocabulary_sha256": "v",
        "text_files": 2,
    }
    made = {
        "records": text,
        "encoder": {"weights_sha256": sha256["encoder/model.weights.h5"]},
        "classifier": {"weights_sha256": weights},
        "evaluation": {"accuracy": 0.75, "weights_sha256": "w", "model_sha256": "m"},
        "baseline": {},  # the first run has none
    }
    expected = {s: (run.folder(s), {"run": "000001"} | known) for s, known in made.items()}
    served = {"run": "000001", "outcome": "published", "version": "4", "weights_sha256": weights}
    expected["serving"] = (f"{tmp_path}/workspace/serving/4", served)
    for step, (uri, known) in expected.items():
        lineage.write(step, run, executor_input(tmp_path))
        text = (tmp_path / "deep" / "output.json").read_text()
        found = json_format.Parse(text, pipeline_spec_pb2.ExecutorOutput())
        (made,) = found.artifacts["made"].artifacts
        assert made.uri == uri and json_format.MessageToDict(made.metadata) == known


def test_an_evaluation_shows_its_page_and_its_classes(tmp_path):
    """The classes as kfp itself writes a confusion matrix."""
    from kfp import dsl

    run = next_run(workspace.read_config(str(corpus.write_config(tmp_path))), (), 1, 1)
    metrics = {"overall": {"accuracy": 0.75}, "labels": ["no", "yes"]}
    metrics["details"] = {"confusion_matrix": [[45, 5], [0, 50]]}
    workspace.write_json(f"{run.path}/evaluation/metrics.json", metrics)
    workspace.write_json(f"{run.path}/evaluation/BLESSED", "")
    given = json.loads(executor_input(tmp_path))
    for name in ("report", "classes"):
        given["outputs"]["artifacts"][name] = {"artifacts": [{"name": name, "uri": "gs://p/x"}]}
    lineage.write("evaluation", run, json.dumps(given))
    found = json.loads((tmp_path / "deep" / "output.json").read_text())["artifacts"]
    assert found["report"]["artifacts"][0]["uri"] == f"{run.path}/evaluation/report.html"
    expected = dsl.ClassificationMetrics()
    expected.log_confusion_matrix(["no", "yes"], [[45, 5], [0, 50]])
    (classes,) = found["classes"]["artifacts"]
    assert classes["metadata"] == expected.metadata
    # Of a step that isn't done nothing is known.
    lineage.write("baseline", run, json.dumps(given))
    found = json.loads((tmp_path / "deep" / "output.json").read_text())["artifacts"]
    assert found["classes"]["artifacts"][0]["metadata"] == {}


@pytest.mark.parametrize("text", ["", "{}", '{"outputs": {"artifacts": {}}}', "[]"])
def test_a_description_that_is_none(tmp_path, text):
    run = next_run(workspace.read_config(str(corpus.write_config(tmp_path))), (), 1, 1)
    with pytest.raises(InputError, match="--executor_input: isn't what Vertex gives"):
        lineage.write("records", run, text)


def test_a_component_does_its_step(tmp_path, monkeypatch):
    """On this machine, or as a job, and tells Vertex of its result."""
    from beambert.deploy.retraining import command as retrain
    from beambert.deploy.vertex import jobs

    corpus.deliver(tmp_path, 1)
    path = tmp_path / "deployment.json"
    path.write_text(DEPLOYMENT.to_json())
    config = workspace.read_config(str(corpus.write_config(tmp_path)))
    monkeypatch.setattr(workspace, "read_config", lambda path: config)
    ran = []
    monkeypatch.setattr(retrain, "_run", lambda step, *_: ran.append(step))
    monkeypatch.setattr(jobs, "run_to_end", lambda settings, job: ran.append(job["display_name"]))
    start = [f"--deployment={path}", "step"]
    with pytest.raises(InputError, match="--step=encoder: there is no open run in .*; plan one"):
        command.main([*start, "--step=encoder"])
    command.main([*start, "--step=plan", f"--outcome_file={tmp_path}/outcome", "--holder=me"])
    assert (tmp_path / "outcome").read_text() == "new"
    given = [*start, f"--executor_input={executor_input(tmp_path)}"]
    command.main([*given, "--step=records"])
    command.main([*given, "--step=encoder"])
    assert ran[0] == "records" and ran[1].startswith("beambert-encoder-000001-")
    text = (tmp_path / "deep" / "output.json").read_text()
    assert json.loads(text)["artifacts"]["made"]["artifacts"][0]["uri"].endswith("/encoder")


@pytest.mark.parametrize("holder", ["me", "another"])
def test_the_end_of_a_pipeline_stops_its_accelerators(tmp_path, monkeypatch, holder):
    """Also those of a component that was lost; but not those of the pipeline that has the lock."""
    from beambert.deploy.retraining import command as retrain
    from beambert.deploy.vertex import jobs

    path = tmp_path / "deployment.json"
    path.write_text(DEPLOYMENT.to_json())
    config = workspace.read_config(str(corpus.write_config(tmp_path)))
    workspace.begin(next_run(config, (), 1, 1))
    monkeypatch.setattr(workspace, "read_config", lambda path: config)
    monkeypatch.setattr(retrain, "is_held", lambda config, who: who == holder)
    cancelled = []
    monkeypatch.setattr(jobs, "cancel", lambda settings, name: cancelled.append(name))
    command.main([f"--deployment={path}", "step", "--step=release", "--holder=me"])
    names = [name.rpartition("-")[0] for name in cancelled]
    assert names == ["beambert-encoder-000001", "beambert-classifier-000001"] * (holder == "me")
