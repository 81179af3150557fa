"""The Beam transform that makes features of the files of a task."""

import dataclasses

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from beambert.errors import InputError
from beambert.pipelines.features.contract import FLAGS_OF
from beambert.pipelines.features.job import (
    FeaturesJob,
    FeaturesPlan,
    make_plan,
    make_shards,
    read_inputs,
)
from beambert.pipelines.features.transforms import FinishFeatures, WriteFeatures
from beambert.pipelines.files import beam_files
from beambert.pipelines.files.beginnings import check_beginning
from beambert.pipelines.files.stored_values import StoredValue, store_values
from beambert.pipelines.jobs.outputs import take_output
from beambert.pipelines.jobs.running import check_reachable_from, library_versions
from beambert.pipelines.storage import claims
from beambert.pipelines.tasks.splits import TaskSplits
from beambert.pipelines.tokenizers.folders import read_given

# File in the output folder from which workers read the examples. The last step deletes it.
EXAMPLES_FILE = f"{claims.TEMPORARY_PREFIX}examples"


@beam.typehints.with_output_types(str)
class CreateTaskFeatures(beam.PTransform):
    """Makes the features of a task, at the beginning of a pipeline, and yields their folder.

    Example:
      >>> import apache_beam as beam
      >>> from beambert.pipelines.tasks.declarations import find_task
      >>> from beambert.pipelines.transforms import CreateTaskFeatures, FeaturesJob
      >>> job = FeaturesJob(find_task("sst-2"), "SST-2", "vocab.txt", "features")
      >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
      ...     folder = (
      ...         pipeline
      ...         | CreateTaskFeatures(job)
      ...         | beam.Map(lambda path: print(path.rpartition("/")[2]))
      ...     )
      features
    """

    def __init__(
        self,
        job: FeaturesJob,
        progress_folder: str | None = None,
        planned: tuple[FeaturesPlan, TaskSplits] | None = None,
    ):
        """Reads the task's files and the vocabulary.

        Args:
          job: the features to make.
          progress_folder: folder of a `ProgressDisplay`, if there is one.
          planned: result of `plan_features` for the job, if it was called before.

        Raises:
          InputError: a file cannot be used.
        """
        super().__init__()
        self._plan, self._inputs = planned or plan_features(job)
        self._progress_folder = progress_folder

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[str]:
        """Claims the output and adds the steps.

        Raises:
          InputError: the output folder is finished already, or holds something else, or workers
            don't see it, or another transform of the pipeline writes there, or this one is applied
            to the elements of another step.
        """
        check_beginning(begin, "CreateTaskFeatures")
        plan = self._plan
        check_reachable_from(begin.pipeline, output=plan.output)
        take_output(begin.pipeline, plan.output)
        if beam_files.claim_output(plan.output, plan.identity(), FLAGS_OF):
            raise InputError(
                f"--output={plan.output}: is finished already; choose another folder or delete it"
            )
        path = FileSystems.join(plan.output, EXAMPLES_FILE)
        reports = (
            begin
            | "Shards" >> beam.Create(store_values(path, make_shards(self._inputs)))
            | "Spread" >> beam.Reshuffle()
            | "Examples" >> beam.Map(StoredValue.read)
            | "Write" >> beam.ParDo(WriteFeatures(plan, self._progress_folder))
        )
        return (
            begin
            | "Once" >> beam.Create([None])
            | "Finish" >> beam.ParDo(FinishFeatures(plan), beam.pvalue.AsIter(reports))
        )


def plan_features(job: FeaturesJob) -> tuple[FeaturesPlan, TaskSplits]:
    """Reads the files of a job's task; returns the plan and the examples.

    Raises:
      InputError: a file cannot be used.
    """
    vocabulary, do_lower_case = read_given(
        job.vocab_file, job.tokenizer, job.do_lower_case, beam_files.read_bytes, FileSystems.exists
    )
    inputs = read_inputs(job.task, job.data_dir, job.skip_bad_rows)
    output = claims.absolute(job.output)
    job = dataclasses.replace(job, output=output, do_lower_case=do_lower_case)
    return make_plan(job, inputs, vocabulary, library_versions()), inputs
