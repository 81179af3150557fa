"""The answers of a fine-tuned model to the texts of files: the Beam pipeline of `predict`."""

import dataclasses
import json
import logging
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.ml.inference.base import ModelHandler, RunInference

from beambert.pipelines.jobs import files, input_files, running
from beambert.pipelines.jobs.compression import DECOMPRESSORS, CorruptFileError, decompress
from beambert.pipelines.prediction import saved_models, worker_folder
from beambert.pipelines.prediction.saved_models import call, load
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage import claims
from beambert.pipelines.storage.tensorflow_files import local_folder
from beambert.pipelines.storage.weights import NOT_TO_USE, weights_sha256
from beambert.pipelines.tasks import tables
from beambert.pipelines.tasks.declarations import CHOICE, REGRESSION, SPAN, TAGGING
from beambert.pipelines.tasks.examples import ChoiceExample, TaggedExample, TextExample
from beambert.pipelines.tasks.squad import Question

# Answers that are made together, at most.
BATCH_SIZE = 64
PART, REJECTS = "part", "rejects"
INFO_FILE = "info.json"
# What is told of an answer to a question, with null odds where it may be "".
SPAN_ANSWER = ("start", "end", "score", "null_odds")


@dataclasses.dataclass(frozen=True)
class InputRow:
    """A text to answer, and where it stands."""

    file: str
    line: int
    example: TextExample | ChoiceExample | TaggedExample | Question


def read_rows(
    file: str, kind: str, text_columns: Sequence[str], choice_columns: Sequence[str]
) -> Iterator[InputRow | dict[str, Any]]:
    """Yields the rows of a file, or for one that can't be read where it is and why.

    Line 0 stands for all of a file, or all that follows what stops its reader.

    Args:
      file: .csv, .tsv or .jsonl with named columns; all others have a text on each line.
      kind: of the model.
      text_columns: one, or two of a pair.
      choice_columns: of a choice.
    """
    compression = next((ending for ending in DECOMPRESSORS if file.endswith(ending)), "")
    path = pathlib.PurePosixPath(file.removesuffix(compression))
    try:
        text = tables.decode(path, _read(file))
        if path.suffix not in tables.ENDINGS:
            rows = ((n, {text_columns[0]: line}) for n, line in tables.lines(text))
        else:
            rows = tables.rows_of(path, text)
        for line, fields in rows:
            try:
                example = _example(file, line, fields, kind, text_columns, choice_columns)
                yield InputRow(file, line, example)
            except InputError as error:
                yield {"file": file, "line": line, "reason": str(error)}
    except InputError as error:
        yield {"file": file, "line": 0, "reason": str(error)}


def _read(file: str) -> bytes:
    with input_files.open_stored(file) as stored:
        try:
            return decompress(file, stored).read()
        except CorruptFileError as error:
            raise InputError(f"{file} cannot be read ({error}); copy it again") from error


def _example(
    file: str,
    line: int,
    fields: dict[str, str] | tables.BadRow,
    kind: str,
    text_columns: Sequence[str],
    choice_columns: Sequence[str],
) -> TextExample | ChoiceExample | TaggedExample | Question:
    if isinstance(fields, tables.BadRow):
        raise fields
    for name in (*text_columns, *choice_columns):
        if name not in fields:
            raise InputError(
                f"{file}, line {line} has no column {name!r} (it has {', '.join(fields)}): name "
                "those that it has with --text_columns"
            )
        if not fields[name].strip():
            raise InputError(f"{file}, line {line} has an empty {name!r}: fill it in")
    texts = [fields[name] for name in text_columns]
    if kind == TAGGING:
        return TaggedExample(tuple(texts[0].split()), None)
    if kind == SPAN:
        return Question("", texts[0], texts[1], (), False, "")
    text_b = texts[1] if len(texts) > 1 else None
    if kind == CHOICE:
        choices = tuple(fields[name] for name in choice_columns)
        return ChoiceExample(texts[0], text_b, choices, None, {})
    return TextExample(texts[0], text_b, None, {})


def answer_of(kind: str, labels: Sequence[str], outputs: dict[str, Any], i: int) -> dict[str, Any]:
    """Returns row i of a SavedModel's outputs in plain types."""
    if kind == TAGGING:
        return {"tags": [tag.decode() for tag in outputs["tags"][i] if tag]}
    if kind == REGRESSION:
        return {"score": float(outputs["score"][i])}
    if kind == SPAN:
        names = [name for name in SPAN_ANSWER if name in outputs]
        return {"answer": outputs["answer"][i].decode()} | {n: outputs[n][i].item() for n in names}
    probabilities = outputs["probabilities"][i].tolist()
    return {
        "label": outputs["label"][i].decode(),
        "probabilities": dict(zip(labels, probabilities, strict=True)),
    }


class SavedModelHandler(ModelHandler):
    """Answers batches of rows with a SavedModel, which a worker process loads once."""

    def __init__(self, model: saved_models.Model, kind: str):
        """Remembers which."""
        self._model = model
        self._kind = kind

    def load_model(self) -> Any:
        """Loads it."""
        return load(self._model)

    def run_inference(
        self, batch: Sequence[InputRow], model: Any, inference_args: dict[str, Any] | None = None
    ) -> list[str]:
        """Returns each row's answer as JSON."""
        outputs = call(model, [row.example for row in batch])
        return [
            json.dumps(
                {"file": row.file, "line": row.line}
                | answer_of(self._kind, self._model.labels, outputs, i),
                ensure_ascii=False,
            )
            for i, row in enumerate(batch)
        ]

    def batch_elements_kwargs(self) -> dict[str, int]:
        """Returns how large a batch may be."""
        return {"max_batch_size": BATCH_SIZE}


def predict(
    model_dir: str,
    inputs: Sequence[str],
    output: str,
    text_columns: Sequence[str] | None,
    pipeline_flags: Sequence[str] = (),
) -> dict[str, int]:
    """Writes the answers of a model; returns how many there are, and how many rejects.

    Args:
      model_dir: of a fine-tuned model, local or on gs://.
      inputs: globs.
      output: folder to make.
      text_columns: None for those that the model was trained on.
      pipeline_flags: Beam's.

    Raises:
      InputError: something given can't be used.
    """
    with local_folder(model_dir, NOT_TO_USE) as here:
        return _predict(here, inputs, output, text_columns, pipeline_flags)


def _predict(
    model_dir: str,
    inputs: Sequence[str],
    output: str,
    text_columns: Sequence[str] | None,
    pipeline_flags: Sequence[str],
) -> dict[str, int]:
    """`predict` with a model on this machine."""
    model = saved_models.find_model(model_dir)
    training = model.training
    kind = training["kind"]
    columns = list(text_columns or _trained_columns(training))
    if len(columns) != 1 + training["is_pair"]:
        raise InputError(
            f"--text_columns={','.join(columns)}: --model={model_dir} takes "
            f"{'two texts' if training['is_pair'] else 'one text'}"
        )
    choices = training["columns"]["choice_columns"] if kind == CHOICE else []
    if any(name.endswith("*") for name in choices):
        choices = [f"{choices[0][:-1]}_{label}" for label in training["labels"]]
    found = input_files.match_inputs(inputs)
    job = {
        "weights_sha256": weights_sha256(model_dir),
        "text_columns": columns,
        "input": [dataclasses.asdict(file) for file in found],
    }
    options = running.beam_options(pipeline_flags)
    running.check_reachable(options, input=inputs, output=output)
    output = claims.absolute(output)
    if files.claim_output(output, job):
        print(f"{output}: already finished by the same command, nothing to do")
        return json.loads(files.read_bytes(f"{output}/{INFO_FILE}", "--output"))
    for prefix in (f"{PART}-", f"{REJECTS}-", "beam-temp-"):  # of a run that was killed
        files.delete_prefixed(output, prefix)
    if running.is_local(options):
        # An error says it all; and RunInference warns that it can't measure its memory.
        logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
        logging.getLogger().setLevel(logging.ERROR)
    with worker_folder.worker_folder(options) as sent, running.plain_errors():
        pipeline = beam.Pipeline(options=options)
        handler = SavedModelHandler(worker_folder.send_model(model, sent), kind)
        _add_steps(pipeline, found, (kind, columns, choices), handler, output)
        result = pipeline.run()
        result.wait_until_finish()
    counts = {"answers": _count(result, PART), "rejects": _count(result, REJECTS)}
    files.write_bytes(f"{output}/{INFO_FILE}", json.dumps(job | counts, indent=1).encode())
    files.finish_output(output, job)
    return counts


def _add_steps(
    pipeline: beam.Pipeline,
    found: Sequence[input_files.InputFile],
    reading: tuple[str, Sequence[str], Sequence[str]],
    handler: SavedModelHandler,
    output: str,
) -> None:
    """Adds the steps from files to answers; `reading` are the last arguments of `read_rows`."""
    rows = (
        pipeline
        | "Files" >> beam.Create([file.path for file in found])
        | "Spread" >> beam.Reshuffle()
        | "Read" >> beam.FlatMap(read_rows, *reading)
    )
    answers = (
        rows
        | "Rows" >> beam.Filter(lambda row: isinstance(row, InputRow))
        | "Answer" >> RunInference(handler)
    )
    rejects = (
        rows
        | "Rejects" >> beam.Filter(lambda row: not isinstance(row, InputRow))
        | "RejectsAsText" >> beam.Map(lambda row: json.dumps(row, ensure_ascii=False))
    )
    for name, lines in ((PART, answers), (REJECTS, rejects)):
        _ = (
            lines
            | f"Count {name}" >> beam.Map(_counted, Metrics.counter("beambert", name))
            | f"Write {name}" >> beam.io.WriteToText(f"{output}/{name}", file_name_suffix=".jsonl")
        )


def _counted(line: str, counter: Any) -> str:
    counter.inc()
    return line


def _count(result: Any, name: str) -> int:
    found = result.metrics().query(MetricsFilter().with_name(name))["counters"]
    return sum(counter.committed or 0 for counter in found)


def _trained_columns(training: Mapping[str, Any]) -> list[str]:
    if training["kind"] == TAGGING:
        return ["text"]
    return training["columns"]["text_columns"][: 1 + training["is_pair"]]
