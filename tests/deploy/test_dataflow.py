"""What can be known of jobs on Dataflow without one."""

import json
import pathlib

import pytest
from apache_beam.options import pipeline_options
from apache_beam.options.pipeline_options import GoogleCloudOptions, WorkerOptions
from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner
from support import growing_corpus as corpus

from beambert import io
from beambert.cli import run as run_command
from beambert.pipelines.tasks import saved_models

ROOT = pathlib.Path(__file__).parents[2]
BEAM_FLAGS = [
    *("--runner=DataflowRunner", "--project=project", "--region=europe-west4"),
    *("--temp_location=gs://bucket/tmp", "--machine_type=n2-highmem-4"),
    *("--max_num_workers=50", "--flexrs_goal=COST_OPTIMIZED", "--resource_hint=min_ram=8GB"),
]


class Translated(BaseException):
    """Ends a command as soon as its job is known."""


@pytest.fixture
def jobs(monkeypatch, gs):
    """Of each pipeline that would be submitted, the job and the options; it ends there."""
    jobs = []
    original = DataflowRunner.run_pipeline

    def run_pipeline(self, pipeline, options, *rest, **named):
        options.view_as(pipeline_options.TestOptions).dry_run = True
        result = original(self, pipeline, options, *rest, **named)
        jobs.append((result.job, options))
        raise Translated

    monkeypatch.setattr(DataflowRunner, "run_pipeline", run_pipeline)
    return jobs


@pytest.fixture
def translated(jobs):
    """Runs a command up to where its job would be submitted; returns the job and the options."""

    def run(*arguments):
        with pytest.raises(Translated):
            run_command([*arguments, *BEAM_FLAGS])
        return jobs.pop()

    return run


def commands(root, classifier, name="job"):
    """Commands on what `corpus` made in a local folder and in the bucket."""
    gs, output = "gs://bucket/corpus", f"gs://bucket/{name}"
    return {
        "vocab": ["vocab", f"--input={gs}/text/*", f"--output={output}/v.txt"],
        "data": [
            *("data", f"--input={gs}/text/*", f"--vocab_file={root}/vocab.txt"),
            *(f"--output={output}/records", "--duplicates=near", "--max_seq_length=32,64"),
        ],
        "verify": [
            *("verify", f"{gs}/golden/*", f"--vocab_file={root}/vocab.txt"),
            f"--output={output}/verification",
        ],
        "predict": [
            *("predict", f"--model={classifier}", f"--input={gs}/text/*"),
            f"--output={output}/answers",
        ],
        "evaluate": [
            *("evaluate", "--task=classification", f"--data_dir={root}/task"),
            *(f"--model={classifier}", f"--output={root}/evaluation"),
        ],
    }


@pytest.fixture
def root(gs, tmp_path):
    """A corpus and a task, here and in the bucket."""
    corpus.make(tmp_path)
    golden = ROOT / "tests" / "golden" / "original.tfrecord"
    for name, path in (("text/1.jsonl", tmp_path / "text" / "1.jsonl"), ("golden/a", golden)):
        io.write_bytes(f"{gs}/corpus/{name}", path.read_bytes())
    return tmp_path


# The stages that hold the work; Beam's own names for the others may change.
STAGES = {
    "vocab": {"Files", "Split", "Spread", "CountWords", "Partition", "SumPartition", "Sum"},
    "data": {"Files", "Split", "Spread", "Tokenize", "Bands", "FindNearDuplicates", "WriteShards"}
    | {"Finish"},
    "verify": {"Files", "Spread", "Examine", "Finish"},
    "predict": {"Files", "Spread", "Read", "Answer", "Write", "Finish"},
    # The first of its two; the second reads what that has written.
    "evaluate": {"Batches", "Spread", "Predict", "Write"},
}


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A SavedModel that takes text, as `evaluate` wants one."""
    import tensorflow as tf

    folder = tmp_path_factory.mktemp("classifier")
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def classify(text):
        count = tf.shape(text)[0]
        return {"label": tf.repeat("town", count), "probabilities": tf.ones([count, 2]) / 2}

    tf.saved_model.save(
        module, str(folder / "saved_model"), signatures={"serving_default": classify}
    )
    (folder / "labels.txt").write_text("music\ntown\n")
    training = {"kind": "classification", "is_pair": False, "columns": {"text_columns": ["text"]}}
    (folder / "training.json").write_text(json.dumps(training))
    (folder / "_SUCCESS").write_text("{}")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("command", STAGES)
def test_every_pipeline_translates(translated, root, request, command):
    has_model = command in ("predict", "evaluate")
    classifier = request.getfixturevalue("classifier") if has_model else ""
    job, options = translated(*commands(root, classifier)[command])
    components = job.proto_pipeline.components
    # Each below the transform of its command.
    names = {transform.unique_name for transform in components.transforms.values()}
    assert STAGES[command] <= names | {name.partition("/")[2] for name in names}
    urns = {coder.spec.urn for coder in components.coders.values()}
    assert urns and all(urn.startswith("beam:coder:") for urn in urns)
    hints = [dict(environment.resource_hints) for environment in components.environments.values()]
    assert {"beam:resources:min_ram_bytes:v1": b"8000000000"} in hints
    assert options.view_as(WorkerOptions).machine_type == "n2-highmem-4"
    assert options.view_as(WorkerOptions).max_num_workers == 50
    assert options.view_as(GoogleCloudOptions).flexrs_goal == "COST_OPTIMIZED"
    # Whatever a DoFn holds travels in the job: no corpus, model or vocabulary may blow it up.
    assert job.proto_pipeline.ByteSize() < 2_000_000
    # What workers were sent for the job goes with it.
    assert not [name for name in io.list_folder("gs://bucket/tmp") if "beambert" in name]


@pytest.mark.slow
def test_workers_on_other_machines(gs, root, classifier, monkeypatch, tmp_path):
    """They find the model in the bucket, and what they make comes from there."""
    import tensorflow as tf

    load = tf.saved_model.load
    prediction = ["predict", f"--model={classifier}", f"--input={gs}/corpus/text/*"]
    evaluation = commands(root, classifier)["evaluate"]
    results = {}
    for place in ("here", "there"):
        loaded = []
        monkeypatch.setattr(
            saved_models, "has_local_workers", lambda _, place=place: place == "here"
        )
        with monkeypatch.context() as patch:
            patch.setattr(
                tf.saved_model, "load", lambda path, of=loaded: of.append(path) or load(path)
            )
            for arguments in (
                [*prediction, f"--output={tmp_path}/{place}/answers"],
                [*evaluation[:-1], f"--output={tmp_path}/{place}/evaluation"],
            ):
                assert run_command([*arguments, f"--temp_location={gs}/tmp"]) == 0
        assert (
            all(each.startswith(f"{gs}/tmp/") == (place == "there") for each in loaded) and loaded
        )
        answers = sorted((tmp_path / place / "answers").glob("part-*"))
        metrics = json.loads((tmp_path / place / "evaluation" / "metrics.json").read_text())
        results[place] = [[answer.read_text() for answer in answers], metrics["overall"]]
    assert results["here"] == results["there"]
    assert not [name for name in io.list_folder(f"{gs}/tmp") if "beambert" in name]


@pytest.mark.parametrize(
    ("command", "flag"),
    [("vocab", "output"), ("data", "input")],
)
def test_workers_do_not_see_this_machine(root, capsys, command, flag):
    arguments = [*commands(root, "")[command], *BEAM_FLAGS]
    arguments = [argument for argument in arguments if not argument.startswith(f"--{flag}=")]
    local = f"--{flag}={root}/text/1.jsonl"
    assert run_command([*arguments, local]) == 2
    assert f"{local}: Dataflow's workers don't see this machine's" in capsys.readouterr().err
