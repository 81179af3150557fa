"""The plan of a job before any work: its inputs, vocabulary, folders and shards."""

import contextlib
import dataclasses
import math
import os
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from apache_beam.io.filesystems import FileSystems

from beambert.pipelines.corpus.encodings import Encodings
from beambert.pipelines.corpus.reading import ReadOptions, find_encodings
from beambert.pipelines.jobs import files
from beambert.pipelines.jobs.input_files import InputFile, match_inputs
from beambert.pipelines.jobs.running import library_versions
from beambert.pipelines.pretraining_data.job import PretrainingDataJob
from beambert.pipelines.pretraining_data.layout import Layout, RecordsFolder
from beambert.pipelines.pretraining_data.since import new_inputs
from beambert.pipelines.pretraining_data.sources import find_sources
from beambert.pipelines.records.contract import INFO_FILE, REJECTS_FILE, STATISTICS_FILE
from beambert.pipelines.records.schema import SCHEMA_FILE
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage.claims import TEMPORARY_PREFIX, UNFINISHED_FILE, absolute
from beambert.pipelines.text.filters import FilterSettings
from beambert.pipelines.text.preparation import TextOptions
from beambert.pipelines.wordpiece.vocabulary import VOCABULARY_FILE, Vocabulary

# Number of bytes of text for one shard (default of --num_shards). At dupe_factor 10 its records
# take about 120 MB. TensorFlow's input guide advises files of 100 to 200 MB.
TEXT_BYTES_PER_SHARD = 8 << 20
# Usual compression ratio of text, which is used only to choose the number of shards.
COMPRESSION_RATIO = 3.5
# Files of a records folder besides the shards, which may be there before info.json.
SMALL_FILES = (REJECTS_FILE, STATISTICS_FILE, SCHEMA_FILE, VOCABULARY_FILE)


@dataclasses.dataclass(frozen=True)
class Manifest:
    """The contents of a records folder's small files, except for the counts.

    Attributes:
      parameters: parameters of the job that are the same for all its folders.
      vocabulary, inputs, versions: see `RecordsInfo`.
      sources: names of the sources, see `sources.find_sources`.
      max_reject_fraction: share of rejected documents above which the job fails.
      patterns: patterns of --input, which matched the inputs.
    """

    parameters: Mapping[str, Any]
    vocabulary: Vocabulary
    inputs: list[InputFile]
    sources: list[str]
    versions: Mapping[str, str]
    max_reject_fraction: float
    patterns: Sequence[str] = ()

    def parameters_of(self, folder: RecordsFolder) -> dict[str, Any]:
        """Returns all parameters that shape a folder's records."""
        return dataclasses.asdict(folder.parameters) | dict(self.parameters)

    def job(self, folder: RecordsFolder) -> dict[str, Any]:
        """Returns the values that decide a folder's content; equal values mean the same job."""
        return {
            "parameters": self.parameters_of(folder),
            "vocabulary": self.vocabulary.sha256,
            "inputs": [dataclasses.asdict(file) for file in self.inputs],
        }


@dataclasses.dataclass(frozen=True)
class Plan:
    """A job with everything that is known before it runs.

    Attributes:
      job: parameters of the job.
      manifest: inputs, vocabulary and parameters for the small files.
      layout: folders and shards.
      run: unique name of this run, for temporary files.
      source_of: path of a file -> number of its source; empty if there is one source.
      encodings: how text that isn't UTF-8 is decoded.
      notes: lines that say what is assumed about the files.
    """

    job: PretrainingDataJob
    manifest: Manifest
    layout: Layout
    run: str
    source_of: Mapping[str, int]
    encodings: Encodings = Encodings()
    notes: Sequence[str] = ()

    @property
    def text_options(self) -> TextOptions:
        """Options for turning documents into sentences and tokens."""
        job = self.job
        filters = FilterSettings(job.min_document_characters, job.quality_filter)
        return TextOptions(job.do_lower_case, job.language, job.sentences, filters, job.duplicates)

    def read_options(self, progress_folder: str | None = None) -> ReadOptions:
        """Returns the options for reading documents from files."""
        job = self.job
        return ReadOptions(job.format, job.text_column, progress_folder, self.encodings)

    def output_folders(self) -> list[str]:
        """Returns the paths of all folders to fill, each before those that lie in it."""
        outer = self.layout.output.rstrip("/") or "/"
        return sorted({outer, *(folder.path for folder in self.layout.folders())})

    def claim_folders(self) -> bool:
        """Claims the output folders for the job; returns whether the job has finished them all.

        Raises:
          InputError: a folder holds something else, or cannot be made.
        """
        layout, manifest = self.layout, self.manifest
        if len(layout.lengths) > 1:
            lengths = {str(parameters.max_seq_length) for parameters in layout.lengths}
            files.refuse_others(layout.output, lengths)
        folders = layout.folders()
        # All folders are claimed before anything is written to one.
        is_finished = [
            files.claim_output(of.path, manifest.job(of), self._folders_in(of.path))
            for of in folders
        ]
        if not all(is_finished):
            for folder, finished in zip(folders, is_finished, strict=True):
                if finished:
                    files.reopen_output(folder.path, manifest.job(folder))
        return all(is_finished)

    def _folders_in(self, path: str) -> set[str]:
        """Returns the names of the output folders in a folder."""
        found = (os.path.split(of.path) for of in self.layout.folders())
        return {name for parent, name in found if parent == path}

    def release_folders(self) -> None:
        """Deletes what a failed run wrote, so that a job with other flags may use the folders.

        If a folder of the job was finished before, all stay as they are: the same job repairs them.
        """
        folders = self.layout.folders()
        there = {folder.path: files.list_folder(folder.path) for folder in folders}
        if any(INFO_FILE in names for names in there.values()):
            return
        shards: dict[str, list[str]] = {}
        for key in range(self.layout.total_shards):
            for folder, name in self.layout.files_of(key):
                shards.setdefault(folder.path, []).append(name)
        for folder in reversed(folders):  # The held-out folder stands inside the other one.
            ours = {*shards[folder.path], *SMALL_FILES}
            mine = [name for name in there[folder.path] if name in ours]
            files.delete_prefixed(folder.path, TEMPORARY_PREFIX)
            # The mark goes last: if the deletion is cut off, the folder is still the job's.
            for name in (*mine, UNFINISHED_FILE):
                files.delete_quietly([FileSystems.join(folder.path, name)])
            _delete_if_empty(folder.path)
        _delete_if_empty(self.layout.output)


def _delete_if_empty(folder: str) -> None:
    if "://" not in folder:  # Object storage has no folders.
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def find_inputs(job: PretrainingDataJob) -> list[InputFile]:
    """Returns the files that a job reads.

    These are the files of --input that --leave_out doesn't name and that are not in the records of
    --since.

    Raises:
      InputError: a pattern matches nothing, or the records of --since or the file of --leave_out
        cannot be read.
    """
    inputs = _listed(job)
    return new_inputs(inputs, job.since, job.output) if job.since else inputs


def _listed(job: PretrainingDataJob) -> list[InputFile]:
    """Returns the files of --input that --leave_out doesn't name."""
    inputs = match_inputs(job.input)
    if not job.leave_out:
        return inputs
    lines = files.read_bytes(job.leave_out, "--leave_out").decode(errors="replace").splitlines()
    named = {absolute(line) for line in lines if line}
    return [file for file in inputs if file.path not in named]


def make_plan(job: PretrainingDataJob, inputs: Sequence[InputFile]) -> Plan:
    """Returns the plan of a job that reads some files, after a check of its vocabulary.

    Raises:
      InputError: the vocabulary cannot be used, or the number of shards is not known.
    """
    vocabulary = Vocabulary.parse(
        files.read_bytes(job.vocab_file, "--vocab_file"), f"--vocab_file={job.vocab_file}"
    )
    vocabulary.check_case(job.do_lower_case)
    if not (job.input or job.num_shards):
        raise InputError(
            "--num_shards: must be given, because the size of a pipeline's documents is unknown"
        )
    # All files tell the encoding of a folder, those that --since leaves out as well.
    everything = _listed(job) if job.since else inputs
    encodings, notes = find_encodings(everything, job.format, job.encoding)
    num_shards = job.num_shards or default_num_shards(inputs)
    layout = Layout(job.output, job.lengths(), num_shards, job.eval_fraction, job.compression)
    names = ("do_lower_case", "eval_fraction", "format", "text_column", "language", "sentences")
    names += ("encoding", "min_document_characters", "quality_filter", "duplicates", "compression")
    parameters = {name: getattr(job, name) for name in names} | {"num_shards": num_shards}
    sources, source_of = find_sources(job.input, inputs)
    manifest = Manifest(
        parameters=parameters | {"assumed_encodings": encodings.to_json()},
        vocabulary=vocabulary,
        inputs=inputs,
        sources=sources,
        versions=library_versions(),
        max_reject_fraction=job.max_reject_fraction,
        patterns=job.input,
    )
    return Plan(job, manifest, layout, uuid.uuid4().hex[:8], source_of, encodings, notes)


def default_num_shards(inputs: Sequence[InputFile]) -> int:
    """Returns the default number of shards for the amount of text."""
    text = sum(file.bytes * (COMPRESSION_RATIO if file.is_compressed else 1) for file in inputs)
    return max(1, math.ceil(text / TEXT_BYTES_PER_SHARD))
