"""The Beam transform that reads records and gives the findings."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from beambert.pipelines.files.beam_files import write_bytes
from beambert.pipelines.files.beginnings import check_beginning
from beambert.pipelines.jobs.outputs import take_output
from beambert.pipelines.jobs.running import check_reachable_from
from beambert.pipelines.jobs.totals import total_of
from beambert.pipelines.records.artefacts import TokenTable, phrase_limit
from beambert.pipelines.records.decoding import examine_file
from beambert.pipelines.records.statistics import VocabularyIds
from beambert.pipelines.storage.claims import absolute
from beambert.pipelines.verification.findings import (
    Findings,
    add_findings,
    sample_limit,
    verify,
)
from beambert.pipelines.verification.found_folders import FoundFolder, find_folders
from beambert.pipelines.verification.job import JSON_FILE, VerificationJob
from beambert.pipelines.verification.output import choose_output
from beambert.progress import ProgressTally


@beam.typehints.with_output_types(dict[str, Any])
class VerifyRecords(beam.PTransform):
    """Begins a pipeline: reads records again and gives the content of verification.json.

    Example:
      >>> import apache_beam as beam
      >>> from beambert.pipelines.transforms import VerificationJob, VerifyRecords
      >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
      ...     faults = (
      ...         pipeline
      ...         | VerifyRecords(VerificationJob(("records",)))
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
            self._inputs, self._output = tuple(map(absolute, job.inputs)), absolute(self._output)
            folders = find_folders(self._inputs, job.vocab_file, job.tokenizer)
        self._folders = folders
        self._progress_folder = progress_folder

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[dict[str, Any]]:
        """Adds the steps.

        Raises:
          InputError: it is applied to the elements of another step, or workers don't see a path, or
            another transform of the pipeline writes there.
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
            >> beam.ParDo(
                WriteFindings(folders, self._output),
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
        """Opens the worker's tally, and looks at the vocabularies."""
        self._progress = ProgressTally(self._progress_folder)
        vocabularies = [folder.vocabulary for folder in self._folders]
        # Most folders share one, see `find_folders`.
        distinct = {id(each): each for each in vocabularies if each}
        ids = {key: VocabularyIds.of(each) for key, each in distinct.items()}
        tables = {key: TokenTable.of(each) for key, each in distinct.items()}
        self._ids = [ids.get(id(each)) for each in vocabularies]
        self._tables = [tables.get(id(each)) for each in vocabularies]

    def process(self, element: tuple[int, str]) -> Iterator[dict[int, Findings]]:
        """Yields the findings in one file, by the index of its folder."""
        index, file = element
        progress, folder = self._progress, self._folders[index]
        report = examine_file(
            file,
            folder.features,
            self._ids[index],
            self._limit,
            lambda new_bytes, records: progress.add(bytes=new_bytes, instances=records),
            self._tables[index],
            phrase_limit(folder.expected_records),
        )
        yield {index: Findings.of(report)}


class WriteFindings(beam.DoFn):
    """The findings in all files -> verification.json; yields its content."""

    def __init__(self, folders: Sequence[FoundFolder], output: str):
        """Takes the folders and the folder to write to."""
        self._folders = folders
        self._output = output

    def process(self, _: None, findings: Mapping[int, Findings]) -> Iterator[dict[str, Any]]:
        """Writes the findings; it runs once, after every file is read."""
        found = verify(self._folders, findings)
        text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
        write_bytes(FileSystems.join(self._output, JSON_FILE), text.encode())
        yield found
