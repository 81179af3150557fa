"""The Beam transform that makes pre-training records of documents."""

import dataclasses
from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np

from beambert.io import absolute
from beambert.pipelines.corpus.reading import first_rejects
from beambert.pipelines.corpus.transforms import COUNTS, REJECTS, DocumentRow, add_parts
from beambert.pipelines.metrics import add_counts, total_of
from beambert.pipelines.pretraining.finishing import FinishFolders
from beambert.pipelines.pretraining.instances import REFERENCE
from beambert.pipelines.pretraining.job import PretrainingDataJob
from beambert.pipelines.pretraining.layout import Layout
from beambert.pipelines.pretraining.masks import TokenIds
from beambert.pipelines.pretraining.plan import Plan, find_inputs, make_plan
from beambert.pipelines.pretraining.shards import MeasureSources, WriteShards, add_shards, add_sizes
from beambert.pipelines.pretraining.shuffle import Shuffle, choose
from beambert.pipelines.pretraining.tokenizing import BANDS, OVERLAPS, TokenizeParts
from beambert.pipelines.running import check_reachable_from, take_output
from beambert.pipelines.text.preparation import NEAR


@beam.typehints.with_input_types(beam.typehints.Union[str, DocumentRow])
@beam.typehints.with_output_types(str)
class CreatePretrainingData(beam.PTransform):
    """Makes pre-training records, and returns the absolute paths of the finished folders.

    The input is documents: rows of `DocumentRow`, or their texts alone. Line feeds separate
    paragraphs or, with `layout="sentences"`, sentences. At the beginning of a pipeline, the
    transform reads the files of the job instead. For steps of a custom pipeline between, read them
    with `ReadDocuments`.

    Example:
      >>> import apache_beam as beam
      >>> from beambert import CreatePretrainingData, PretrainingDataJob
      >>> texts = ["The river begins in the north. It ends in the city.", "A house. A song."]
      >>> job = PretrainingDataJob(
      ...     vocab_file="vocab.txt", output="records", max_seq_length=(32,), num_shards=1
      ... )
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
            plan = make_plan(job, find_inputs(job))
        self._plan = plan
        self._progress_folder = progress_folder

    # Beam takes the beginning of a pipeline for any collection.
    def expand(self, documents: beam.PCollection[str | DocumentRow]) -> beam.PCollection[str]:
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
            sentence_model=[plan.job.sentence_model] if plan.job.sentence_model else (),
            output=plan.job.output,
        )
        take_output(documents.pipeline, plan.job.output)
        plan.claim_new_folders(documents.pipeline.options)
        layout, job = plan.layout, plan.job
        way = choose(job.shuffle, type(documents.pipeline.runner).__name__)
        shuffle = Shuffle(way, job.output, plan.run, layout.total_shards)
        read_options = plan.read_options(self._progress_folder)
        tokenize = TokenizeParts(plan, shuffle, self._progress_folder)
        tokenized = add_parts(documents, plan.input_list, read_options) | "Tokenize" >> beam.ParDo(
            tokenize
        ).with_outputs(COUNTS, REJECTS, BANDS, OVERLAPS, main="documents")
        # Every shard gets a file, even if it has no document.
        every_group = (
            documents.pipeline
            | "Shards" >> beam.Create([shuffle])
            | "Groups" >> beam.FlatMap(Shuffle.groups)
        )
        in_groups = [tokenized.documents, every_group]
        if job.duplicates == NEAR:
            in_groups.append(
                tokenized[BANDS]
                | "Bands" >> beam.GroupByKey()
                | "FindNearDuplicates" >> beam.ParDo(FindNearDuplicates(layout, shuffle))
            )
        grouped = in_groups | beam.Flatten() | beam.GroupByKey()
        ids = TokenIds.of(plan.vocabulary, job.pairs == REFERENCE)
        further, sizes = {}, []
        if job.mixture and job.mixture.needs_sizes:
            measured = grouped | "MeasureSources" >> beam.ParDo(
                MeasureSources(layout, ids, shuffle)
            )
            sizes = [total_of(measured, "SumSizes", add_sizes)]
            further["sizes"] = sizes[0]
        shards = grouped | "WriteShards" >> beam.ParDo(
            WriteShards(plan, ids, shuffle, self._progress_folder), *sizes
        )
        if plan.evaluation:
            further["overlaps"] = total_of(tokenized[OVERLAPS], "FirstOverlaps", first_rejects)
        return (
            documents.pipeline
            | "Once" >> beam.Create([None])
            | "Finish"
            >> beam.ParDo(
                FinishFolders(plan),
                total_of(shards, "SumShards", add_shards),
                total_of(tokenized[COUNTS], "SumCounts", add_counts),
                total_of(tokenized[REJECTS], "FirstRejects", first_rejects),
                **further,
            )
        )


class FindNearDuplicates(beam.DoFn):
    """Turns (group, values of band rows) into elements that mark documents to drop."""

    def __init__(self, layout: Layout, shuffle: Shuffle):
        """Takes the layout, which assigns documents to shards, and the shuffle."""
        self._layout = layout
        self._shuffle = shuffle

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[tuple[int, bytes]]:
        """Compares the documents of each bucket of one group."""
        from beambert.pipelines.pretraining.duplicates import ROW, near_duplicates

        for received in self._shuffle.receive(*element).values():
            hashes = near_duplicates(np.frombuffer(b"".join(received.packed), ROW))
            # The pieces of a divided document are in a shard of each split.
            for is_eval in (False, True) if self._layout.job.eval_fraction else (False,):
                keys = self._layout.keys(hashes, is_eval)
                for key in np.unique(keys):
                    yield self._shuffle.mark(int(key), hashes[keys == key].tobytes())
