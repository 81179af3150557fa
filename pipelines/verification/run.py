"""Verifies records: the Beam transform, its run with progress, and the summary it prints."""

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import apache_beam as beam

from beambert.console import ProgressTally, counted, describe_bytes, size
from beambert.errors import InputError
from beambert.folders import check_own, folders_held
from beambert.io import (
    absolute,
    absolute_pattern,
    delete_quietly,
    exists,
    has_wildcard,
    is_temporary,
    list_folder,
    read_object,
    write_bytes,
)
from beambert.pipelines.pretraining.masks import TokenIds
from beambert.pipelines.running import (
    check_beginning,
    check_reachable,
    check_reachable_from,
    on_this_machine,
    path_for_workers,
    run_job,
    take_output,
    total_of,
)
from beambert.pipelines.verification.artefacts import TokenTable
from beambert.pipelines.verification.findings import (
    Findings,
    add_findings,
    examine_file,
    sample_limit,
    verify,
)
from beambert.pipelines.verification.folders import FoundFolder, find_folders
from beambert.pipelines.verification.job import (
    JSON_FILE,
    OUTPUT_ENDING,
    VerificationJob,
)
from beambert.pipelines.verification.report import summarize

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions


@on_this_machine
def verify_records(
    job: VerificationJob, options: "PipelineOptions | None" = None
) -> dict[str, Any]:
    """Verifies records, writes the report and prints a summary.

    Returns:
      the content of verification.json.

    Raises:
      InputError: an input or the output cannot be used.
    """
    inputs = tuple(path_for_workers(path, options) for path in job.inputs)
    folders = find_folders(inputs, job.vocab_file, job.tokenizer)
    output = path_for_workers(choose_output(job.inputs, job.output), options)
    check_reachable(options, inputs=job.inputs, output=output)
    job = dataclasses.replace(job, inputs=inputs, output=output)
    report = os.path.join(output, JSON_FILE)
    with folders_held([output], "--output"):
        delete_quietly([report])  # if this run fails, an earlier report must not be left
        total_bytes = sum(size for folder in folders for size in folder.files.values())
        count = sum(len(folder.files) for folder in folders)
        print(f"{counted(count, 'file')}, {size(total_bytes)}", flush=True)
        run_job(
            lambda pipeline, folder: pipeline | VerifyRecords(job, folder, folders),
            options,
            describe_bytes("verifying", "instances", total_bytes),
            total_bytes / 1e6,
            "MB",
        )
        result = read_object(report, flag="--output")
    print(f"{summarize(result)}\nReport: {report}")
    return result


def choose_output(inputs: Sequence[str], output: str | None) -> str:
    """Returns the folder for the report: next to the records folder, or in the working folder.

    Raises:
      InputError: --output is missing with several inputs, or the folder holds something else.
    """
    if output is None:
        if len(inputs) > 1 or (has_wildcard(inputs[0]) and not exists(inputs[0])):
            raise InputError("--output: missing, with several inputs or a pattern; name a folder")
        if os.path.isfile(inputs[0]):
            # Next to a file, it would be in the records folder.
            return choose_output(inputs, os.path.basename(inputs[0]) + OUTPUT_ENDING)
        is_nameless = os.path.basename(inputs[0].rstrip("/")) in ("", ".", "..")
        output = (os.path.abspath(inputs[0]) if is_nameless else inputs[0]).rstrip("/")
        output += OUTPUT_ENDING
    check_own(f"{output}/{JSON_FILE}", "faults")
    foreign = [name for name in list_folder(output) if name != JSON_FILE and not is_temporary(name)]
    if foreign:
        raise InputError(
            f"--output={output}: already holds something else ({foreign[0]} …); name another folder"
        )
    return output


@beam.typehints.with_output_types(dict[str, Any])
class VerifyRecords(beam.PTransform):
    """Begins a pipeline: reads records again and gives the content of verification.json.

    Example:
      >>> import apache_beam as beam
      >>> from beambert import VerificationJob, VerifyRecords
      >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
      ...     faults = (
      ...         pipeline
      ...         | VerifyRecords(VerificationJob(inputs=("records",)))
      ...         | beam.Map(lambda found: print(found["faults"], "faults"))
      ...     )
      0 faults
    """

    def __init__(
        self,
        job: VerificationJob,
        progress_folder: str | None = None,
        folders: Sequence[FoundFolder] | None = None,
    ):
        """Finds the folders, unless they are given.

        Args:
          job: records to verify.
          progress_folder: folder of a `ProgressDisplay`, if there is one.
          folders: folders that `find_folders` found for the job; None finds them here.

        Raises:
          InputError: there are no records, or the output folder holds something else.
        """
        super().__init__()
        self._inputs, self._output = job.inputs, choose_output(job.inputs, job.output)
        if folders is None:
            self._inputs, self._output = (
                tuple(map(absolute_pattern, job.inputs)),
                absolute(self._output),
            )
            folders = find_folders(self._inputs, job.vocab_file, job.tokenizer)
        self._folders = folders
        self._progress_folder = progress_folder

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[dict[str, Any]]:
        """Adds the steps.

        Raises:
          InputError: the transform does not begin the pipeline, a worker cannot reach a path, or
            another transform writes to the output.
        """
        check_beginning(begin, "VerifyRecords")
        check_reachable_from(begin.pipeline, inputs=self._inputs, output=self._output)
        take_output(begin.pipeline, self._output)
        folders = self._folders
        files = [(index, file) for index, folder in enumerate(folders) for file in folder.files]
        reports = (
            begin
            | "Files" >> beam.Create(files)
            | "Spread" >> beam.Reshuffle()
            | "Examine" >> beam.ParDo(ExamineFile(folders, self._progress_folder))
        )
        return (
            begin
            | "Once" >> beam.Create([None])
            | "Finish"
            >> beam.Map(
                write_findings,
                folders,
                self._output,
                total_of(reports, "AddFindings", add_findings),
            )
        )


class ExamineFile(beam.DoFn):
    """(Index of a folder, path of a file in it) -> index -> findings in the file."""

    def __init__(self, folders: Sequence[FoundFolder], progress_folder: str | None):
        """Takes the folders and the folder for progress, if there is one."""
        self._folders = folders
        self._limit = sample_limit(folders)
        self._progress_folder = progress_folder

    def setup(self) -> None:
        """Opens the worker's tally and makes the tables of the vocabularies."""
        self._progress = ProgressTally(self._progress_folder)
        vocabularies = [folder.vocabulary for folder in self._folders]
        # Most folders share one, see `find_folders`.
        distinct = {id(each): each for each in vocabularies if each}
        ids = {key: TokenIds.of(each) for key, each in distinct.items()}
        tables = {key: TokenTable.of(each) for key, each in distinct.items()}
        self._ids = [ids.get(id(each)) for each in vocabularies]
        self._tables = [tables.get(id(each)) for each in vocabularies]

    def process(self, element: tuple[int, str]) -> Iterator[dict[int, Findings]]:
        """Yields the findings in one file, by the index of its folder."""
        index, file = element
        features, ids, table = self._folders[index].features, self._ids[index], self._tables[index]
        yield {index: examine_file(file, features, ids, self._limit, self._progress, table)}


def write_findings(
    _: None, folders: Sequence[FoundFolder], output: str, findings: Mapping[int, Findings]
) -> dict[str, Any]:
    """Writes the findings in all files to verification.json; returns its content."""
    found = verify(folders, findings)
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    write_bytes(os.path.join(output, JSON_FILE), text.encode())
    return found
