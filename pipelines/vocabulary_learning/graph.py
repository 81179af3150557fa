"""The Beam transform that learns a vocabulary from documents."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from beambert.errors import InputError
from beambert.pipelines.corpus.encodings import Encodings
from beambert.pipelines.corpus.reading import ReadOptions, find_encodings, first_rejects
from beambert.pipelines.corpus.transforms import COUNTS, REJECTS, add_parts
from beambert.pipelines.files.input_files import InputFile, match_inputs
from beambert.pipelines.files.input_list import InputList, write_list
from beambert.pipelines.jobs.outputs import take_output
from beambert.pipelines.jobs.running import check_reachable_from
from beambert.pipelines.jobs.totals import add_counts, total_of
from beambert.pipelines.storage.claims import absolute
from beambert.pipelines.tokenizers.vocabulary import Vocabulary
from beambert.pipelines.vocabulary_learning import learning, word_counts
from beambert.pipelines.vocabulary_learning.extending import read_extension
from beambert.pipelines.vocabulary_learning.extension import Extension
from beambert.pipelines.vocabulary_learning.job import WORDPIECE, VocabularyJob

_PARAMETERS = ("vocab_size", "do_lower_case", "format", "text_column", "encoding")
# The flags behind the values of `about_job`.
FLAGS_OF = (
    {"inputs": "--input"}
    | {
        f"parameters.{name}": f"--{name}"
        for name in (
            *_PARAMETERS,
            *("kind", "extend", "add", "add_pieces", "character_coverage"),
        )
    },
)


def about_job(
    job: VocabularyJob,
    inputs: Sequence[InputFile],
    encodings: Encodings,
    extension: Extension | None = None,
) -> dict[str, Any]:
    """Returns the values that decide the output; two jobs with the same values are the same."""
    parameters = {name: getattr(job, name) for name in _PARAMETERS}
    parameters["do_lower_case"] = job.lower_cases
    if job.kind != WORDPIECE:  # The files of older versions do not name the kind.
        parameters["kind"] = job.kind
    if job.character_coverage is not None:
        parameters["character_coverage"] = job.character_coverage
    if extension:
        del parameters["vocab_size"]
        parameters["extend"] = extension.vocabulary.sha256
        parameters |= {"add": job.add} if job.add else {"add_pieces": list(extension.given)}
    return {
        "parameters": parameters | {"assumed_encodings": encodings.to_json()},
        "inputs": list_inputs(job, inputs).to_json(),
    }


def list_inputs(job: VocabularyJob, inputs: Sequence[InputFile]) -> InputList:
    """Returns the list of the inputs. If they are many, a file beside the vocabulary has it."""
    return InputList.of(inputs, word_counts.inputs_file(job.output))


@beam.typehints.with_input_types(str)
@beam.typehints.with_output_types(Vocabulary)
class LearnVocabulary(beam.PTransform):
    """Learns a vocabulary or a tokenizer, writes it, and returns it as its only element.

    The input is the texts of documents. At the beginning of a pipeline, the transform reads the
    files of the job instead.

    Example:
      >>> import apache_beam as beam
      >>> from beambert.pipelines.transforms import LearnVocabulary, VocabularyJob
      >>> texts = ["A river in the north.", "The north of the city."]
      >>> job = VocabularyJob("vocab.txt", vocab_size=130)
      >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
      ...     sizes = (
      ...         pipeline
      ...         | beam.Create(texts)
      ...         | LearnVocabulary(job)
      ...         | beam.Map(lambda vocabulary: print(len(vocabulary), "tokens"))
      ...     )
      130 tokens
    """

    def __init__(
        self,
        job: VocabularyJob,
        progress_folder: str | None = None,
        inputs: Sequence[InputFile] | None = None,
        encodings: Encodings | None = None,
        extension: Extension | None = None,
    ):
        """Lists the files to read.

        Args:
          job: the vocabulary to learn.
          progress_folder: folder of a `ProgressDisplay`, or None.
          inputs: files that match the patterns of the job, if they are listed already.
          encodings: result of `find_encodings` for the inputs, if it exists already.
          extension: result of `read_extension` for the job, if it exists already.

        Raises:
          InputError: a pattern matches no file.
        """
        super().__init__()
        if inputs is None:
            job = dataclasses.replace(job, output=absolute(job.output))
            inputs = match_inputs(job.patterns)
        self._job, self._inputs = job, inputs
        self._encodings = encodings
        if encodings is None:
            self._encodings, _ = find_encodings(self._inputs, job.format, job.encoding)
        self._progress_folder = progress_folder
        self._extension = extension or read_extension(job)

    # Beam takes no union as a hint, but it takes the beginning of a pipeline for any collection.
    def expand(self, documents: beam.PCollection[str]) -> beam.PCollection[Vocabulary]:
        """Adds the steps to the pipeline.

        Raises:
          InputError: the output file exists already, or another transform of the pipeline makes it.
        """
        reads_files = isinstance(documents, beam.pvalue.PBegin)
        check_reachable_from(
            documents.pipeline,
            input=self._job.patterns if reads_files else (),
            output=self._job.output,
        )
        if FileSystems.exists(self._job.output):
            raise InputError(
                f"--output={self._job.output}: exists already; choose another or delete it"
            )
        take_output(documents.pipeline, self._job.output)
        job, size, do_lower_case = self._job, self._job.vocab_size, self._job.lower_cases
        if extension := self._extension:
            size = len(extension.vocabulary) + (extension.number or len(extension.given))
        most = learning.words_needed(size)
        options = ReadOptions(job.format, job.text_column, self._progress_folder, self._encodings)
        inputs = list_inputs(job, self._inputs)
        if inputs.path:
            write_list(inputs.path, self._inputs)
        partitions = word_counts.PARTITIONS_OF_DOCUMENTS
        if reads_files:
            partitions = word_counts.partitions_of(self._inputs)
        counted = add_parts(documents, inputs, options) | "CountWords" >> beam.ParDo(
            word_counts.CountWords(do_lower_case, options, partitions, job.kind)
        ).with_outputs(COUNTS, REJECTS, main="words")
        words = (
            counted.words
            | "Partition" >> beam.GroupByKey()
            | "SumPartition" >> beam.Map(word_counts.sum_partition, most)
            | "Sum" >> beam.CombineGlobally(learning.CorpusWords.merge, most)
        )
        if job.kind == WORDPIECE and not extension:
            characters = words | "Characters" >> beam.Map(
                learning.choose_characters, size, do_lower_case, job.character_coverage
            )
            uncovered = (
                counted.words
                | "Uncovered"
                >> beam.Map(word_counts.count_uncovered, beam.pvalue.AsSingleton(characters))
                | "SumUncovered" >> beam.CombineGlobally(sum)
            )
            of_characters = [beam.pvalue.AsSingleton(each) for each in (characters, uncovered)]
        else:  # They are there already, or the trainers choose them.
            of_characters = [(), 0]
        return words | "Learn" >> beam.ParDo(
            word_counts.WriteVocabulary(
                job,
                inputs,
                about_job(job, self._inputs, self._encodings, extension),
                extension,
            ),
            *of_characters,
            total_of(counted[COUNTS], "SumCounts", add_counts),
            total_of(counted[REJECTS], "FirstRejects", first_rejects),
        )
