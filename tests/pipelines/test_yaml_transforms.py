"""The transforms in Beam YAML."""

import json
import pathlib

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from support import stand_in_models
from support.sample_text import WORDS

from beambert.errors import InputError
from beambert.pipelines import transforms, yaml_transforms
from beambert.pipelines.create_pretraining_data import main as data_main

ROOT = pathlib.Path(__file__).parents[2]
PIPELINE, PROVIDERS = ROOT / "demo" / "data.yaml", ROOT / "pipelines" / "yaml_providers.yaml"


@pytest.fixture
def run_yaml():
    """The function that runs a file; its variables by keyword."""
    pytest.importorskip("jinja2", reason="needs the extra yaml")
    from apache_beam.yaml import main

    def run(path, **variables):
        given = f"--jinja_variables={json.dumps(variables)}"
        main.run([f"--yaml_pipeline_file={path}", "--runner=FnApiRunner", given])

    return run


@pytest.fixture
def vocab_file(tmp_path, vocabulary):
    path = tmp_path / "words.txt"
    path.write_bytes(vocabulary.serialize())
    return path


def texts():
    return [". ".join(" ".join(WORDS[i + j : i + j + 8]) for j in range(6)) for i in range(30)]


@pytest.mark.slow
def test_the_pipeline_does_what_the_command_does(run_yaml, vocab_file, tmp_path):
    (tmp_path / "text.txt").write_text("\n\n".join(texts()))
    inputs = {"input": str(tmp_path / "text.txt"), "vocab_file": str(vocab_file)}
    run_yaml(PIPELINE, **inputs, output=str(tmp_path / "by_yaml"))
    data_main(
        [f"--{name}={value}" for name, value in inputs.items()]
        + [f"--output={tmp_path / 'by_command'}", "--max_seq_length=32,128"]
        + ["--eval_fraction=0.01"]
    )
    for length in ("32", "128"):
        by_yaml, by_command = (
            json.loads((tmp_path / name / length / "info.json").read_text())
            for name in ("by_yaml", "by_command")
        )
        assert by_yaml["files"] == by_command["files"]  # names, sizes and SHA-256
        assert by_yaml["counts"] == by_command["counts"]


@pytest.mark.slow
def test_texts_come_from_rows(run_yaml, tmp_path):
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text(
        f"""
pipeline:
  type: chain
  transforms:
  - type: Create
    config: {{elements: {json.dumps([{"body": text} for text in texts()])}}}
  - type: LearnVocabulary
    config: {{column: body, output: {tmp_path}/vocab.txt, vocab_size: 150}}
  - type: WriteToJson
    config: {{path: {tmp_path}/learnt.json, num_shards: 1}}
providers:
- include: {PROVIDERS}
"""
    )
    run_yaml(pipeline)
    (learnt,) = tmp_path.glob("learnt.json*")
    tokens = len((tmp_path / "vocab.txt").read_text().splitlines())
    assert json.loads(learnt.read_text()) == {"path": f"{tmp_path}/vocab.txt", "tokens": tokens}


@pytest.mark.slow
def test_the_parts_of_the_job_with_a_step_between_them(run_yaml, vocab_file, tmp_path):
    rows = [{"text": "."}, {"body": "no text"}, *({"text": text} for text in texts())]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[2:]))
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text(
        f"""
pipeline:
  transforms:
  - type: ReadDocuments
    config: {{input: "{tmp_path}/a.jsonl", error_handling: {{output: rejects}}}}
  - type: WriteToJson
    input: ReadDocuments.rejects
    config: {{path: {tmp_path}/rejects.json, num_shards: 1}}
  - type: chain
    input: ReadDocuments
    transforms:
    - type: MapToFields
      config: {{language: python, fields: {{text: text, length: len(text)}}}}
    - type: Filter
      config: {{language: python, keep: length > 1}}
    - type: SplitSentences
    - type: Deduplicate
    - type: Tokenize
      config: {{vocab_file: {vocab_file}}}
    - type: MakeBertInstances
      config: &job
        {{vocab_file: {vocab_file}, output: {tmp_path}/records, num_shards: 2}}
    - type: WriteRecords
      config: *job
providers:
- include: {PROVIDERS}
"""
    )
    run_yaml(pipeline)
    (rejects,) = tmp_path.glob("rejects.json*")
    assert json.loads(rejects.read_text())["line"] == 2
    flags = ["--num_shards=2", "--duplicates=exact", f"--input={tmp_path}/b.jsonl"]
    flags += [f"--vocab_file={vocab_file}"]
    data_main([*flags, f"--output={tmp_path}/by_command"])
    parts, command = (
        json.loads((tmp_path / name / "info.json").read_text())
        for name in ("records", "by_command")
    )
    assert parts["files"] == command["files"]


def test_answers_of_a_model_whose_texts_are_in_another_column(tmp_path):
    """SST-2's are in "sentence"; the rows have theirs in "body"."""
    model = tmp_path / "model"
    stand_in_models.save(model)
    training = {"kind": "classification", "is_pair": False}
    training["columns"] = {"text_columns": ["sentence"]}
    (model / "training.json").write_text(json.dumps(training))
    (model / "_SUCCESS").write_text("")
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        answered = (
            pipeline
            | beam.Create([beam.Row(body="bad"), beam.Row(body=" ")])
            | yaml_transforms.predict(column="body", model=str(model))
            | beam.Map(lambda row: (row.text, *json.loads(row.answer)))
        )
        answers = [("bad", "sentence", "label", "probabilities"), (" ", "sentence", "reason")]
        assert_that(answered, equal_to(answers))


def test_rows_without_a_column_are_refused_before_anything_runs(vocab_file, tmp_path):
    rows = beam.Pipeline() | beam.Create([beam.Row(title="A river", body="A city.")])
    learn = yaml_transforms.learn_vocabulary(output=str(tmp_path / "learnt.txt"))
    for transform in (learn, yaml_transforms.split_sentences()):
        with pytest.raises(InputError, match="text: the rows have no .* theirs are title, body;"):
            rows | transform
    # Or with a number in the place of a text, or a text in the place of a list.
    rows = beam.Pipeline() | beam.Create([beam.Row(text=5, sentences="A river", body="A city.")])
    for label, transform in (("1", learn), ("2", yaml_transforms.split_sentences())):
        with pytest.raises(InputError, match="^text: .* type int64, where a text is needed; make"):
            rows | label >> transform
    with pytest.raises(InputError, match="^sentences: .* type str, where a list is needed; make"):
        rows | "3" >> yaml_transforms.deduplicate()
    # Columns with a default may be missing.
    learn = yaml_transforms.learn_vocabulary("body", output=str(tmp_path / "learnt.txt"))
    _ = rows | "again" >> learn
    texts = beam.Pipeline() | beam.Create([beam.Row(text="A city.")])
    _ = texts | yaml_transforms.split_sentences()


def test_every_transform_has_a_provider():
    import yaml

    (python,) = yaml.safe_load(PROVIDERS.read_text())
    names = [name for name in transforms.__all__ if not name.endswith(("Job", "Row"))]
    assert sorted(python["transforms"]) == names
