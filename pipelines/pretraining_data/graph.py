"""The Beam transform that makes pre-training records of documents."""

import dataclasses

import apache_beam as beam

from beambert.pipelines.corpus.reading import first_rejects
from beambert.pipelines.corpus.transforms import COUNTS, REJECTS, add_parts
from beambert.pipelines.metrics import add_counts, total_of
from beambert.pipelines.pretraining_data import shard_writing, transforms
from beambert.pipelines.pretraining_data.finishing import FinishFolders
from beambert.pipelines.pretraining_data.job import PretrainingDataJob
from beambert.pipelines.pretraining_data.plan import Plan, find_inputs, make_plan
from beambert.pipelines.pretraining_data.shard_counts import ShardCounts, add_shards
from beambert.pipelines.pretraining_data.shuffle import Shuffle, choose
from beambert.pipelines.pretraining_data.source_sizes import MeasureSources, add_sizes
from beambert.pipelines.running import check_reachable_from, take_output
from beambert.pipelines.text.preparation import NEAR
from beambert.storage import absolute


@beam.typehints.with_input_types(str)
@beam.typehints.with_output_types(str)
class CreatePretrainingData(beam.PTransform):
    """Makes pre-training records, and returns the absolute paths of the finished folders.

    The input is the texts of documents. Line feeds separate their paragraphs or, with
    `sentences="line"`, their sentences. At the beginning of a pipeline, the transform reads the
    files of the job instead.

    Example:
      >>> import apache_beam as beam
      >>> from beambert.pipelines.transforms import CreatePretrainingData, PretrainingDataJob
      >>> texts = ["The river begins in the north. It ends in the city.", "A house. A song."]
      >>> job = PretrainingDataJob("vocab.txt", "records", max_seq_length=(32,), num_shards=1)
      >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
      ...     folders = (
      ...         pipeline
      ...         | beam.Create(texts)
      ...         | CreatePretrainingData(job)
      ...         | beam.Map(lambda path: print(path.rpartition("/")[2]))
      ...     )
      records
    """

    def __init__(
        self,
        job: PretrainingDataJob,
        progress_folder: str | None = None,
        plan: Plan | None = None,
    ):
        """Checks the inputs and the vocabulary.

        Args:
          job: the records to make.
          progress_folder: folder of a `ProgressDisplay`, or None.
          plan: result of `make_plan` for the job, if it exists already.

        Raises:
          InputError: the vocabulary or an input cannot be used.
        """
        super().__init__()
        if not plan:
            job = dataclasses.replace(job, output=absolute(job.output))
            plan = make_plan(job, *find_inputs(job))
        self._plan = plan
        self._progress_folder = progress_folder

    # Beam takes no union as a hint, but it takes the beginning of a pipeline for any collection.
    def expand(self, documents: beam.PCollection[str]) -> beam.PCollection[str]:
        """Claims the output folder and adds the steps to the pipeline.

        Raises:
          InputError: the output folder is finished already, or holds something else, or another
            transform of the pipeline writes there.
        """
        plan = self._plan
        check_reachable_from(
            documents.pipeline,
            input=plan.job.patterns if isinstance(documents, beam.pvalue.PBegin) else (),
            decontaminate=plan.job.decontaminate,
            output=plan.layout.output,
        )
        take_output(documents.pipeline, plan.layout.output)
        plan.claim_new_folders(documents.pipeline.options)
        layout, runner = plan.layout, type(documents.pipeline.runner).__name__
        way = choose(plan.job.shuffle, runner)
        shuffle = Shuffle(way, layout.output, plan.run, layout.total_shards)
        tokenized = self._tokenize(documents, shuffle)
        shards, sizes = self._write_shards(tokenized, shuffle)
        further = {"sizes": sizes[0]} if sizes else {}
        if plan.evaluation:
            further["overlaps"] = total_of(
                tokenized[transforms.OVERLAPS], "FirstOverlaps", first_rejects
            )
        return (
            documents.pipeline
            | "Once" >> beam.Create([None])
            | "Finish"
            >> beam.ParDo(
                FinishFolders(plan.manifest, plan.layout),
                total_of(shards, "SumShards", add_shards),
                total_of(tokenized[COUNTS], "SumCounts", add_counts),
                total_of(tokenized[REJECTS], "FirstRejects", first_rejects),
                **further,
            )
        )

    def _tokenize(
        self, documents: beam.PCollection[str] | beam.pvalue.PBegin, shuffle: Shuffle
    ) -> beam.pvalue.DoOutputsTuple:
        plan = self._plan
        read_options = plan.read_options(self._progress_folder)
        return add_parts(documents, plan.manifest.inputs, read_options) | "Tokenize" >> beam.ParDo(
            transforms.TokenizeParts(
                plan.manifest.vocabulary,
                read_options,
                plan.text_options,
                plan.layout,
                shuffle,
                plan.manifest.sources,
                plan.evaluation,
            )
        ).with_outputs(COUNTS, REJECTS, transforms.BANDS, transforms.OVERLAPS, main="documents")

    def _write_shards(
        self, tokenized: beam.pvalue.DoOutputsTuple, shuffle: Shuffle
    ) -> tuple[beam.PCollection[ShardCounts], list[beam.pvalue.AsSingleton]]:
        """Returns the counts of the shards, and the sizes of the sources if they are needed."""
        plan, layout = self._plan, self._plan.layout
        # Every shard gets a file, even if it has no document.
        every_group = (
            tokenized.documents.pipeline
            | "Shards" >> beam.Create([shuffle])
            | "Groups" >> beam.FlatMap(Shuffle.groups)
        )
        in_groups = [tokenized.documents, every_group]
        if plan.job.duplicates == NEAR:
            in_groups.append(
                tokenized[transforms.BANDS]
                | "Bands" >> beam.GroupByKey()
                | "FindNearDuplicates" >> beam.ParDo(transforms.FindNearDuplicates(layout, shuffle))
            )
        grouped = in_groups | beam.Flatten() | beam.GroupByKey()
        mixture, sizes = plan.manifest.mixture, []
        if mixture and mixture.needs_sizes:
            measure = MeasureSources(plan.manifest.vocabulary, layout, shuffle, plan.job.duplicates)
            of_shards = grouped | "MeasureSources" >> beam.ParDo(measure)
            sizes = [total_of(of_shards, "SumSizes", add_sizes)]
        shards = grouped | "WriteShards" >> beam.ParDo(
            shard_writing.WriteShards(
                plan.manifest.vocabulary,
                layout,
                shuffle,
                plan.job.duplicates,
                max(1, len(plan.manifest.sources.names)),
                self._progress_folder,
                {folder.path: plan.manifest.job(folder) for folder in layout.folders()},
                mixture,
            ),
            *sizes,
        )
        return shards, sizes
