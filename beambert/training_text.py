"""What `beambert train` reads before it begins: the text, and the files of the task."""

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Iterator

from beambert.config import settings_parser
from beambert.console import counted, size
from beambert.errors import InputError
from beambert.pipelines.corpus.reading import layout_notes, sample_files, spread
from beambert.pipelines.pretraining.estimate import describe_examples
from beambert.pipelines.pretraining.job import PretrainingDataJob
from beambert.pipelines.pretraining.plan import find_inputs
from beambert.pipelines.tasks.flags import LearningSettings, task_of
from beambert.pipelines.tasks.reading import read_splits
from beambert.pipelines.tasks.task import DEV, TRAIN
from beambert.pipelines.text.languages import language_notes
from beambert.pipelines.text.preparation import TextOptions, prepare_documents
from beambert.pipelines.tokenizers.text_warnings import warn_of_lost_marks
from beambert.pipelines.tokenizers.vocabulary import VOCABULARY_FILE
from beambert.training import TrainJob, reading, task_flags

DOCUMENTS_SHOWN = 10


@dataclasses.dataclass(frozen=True)
class Text:
    """What was seen of the text.

    Attributes:
      files, bytes: number of files, and their size.
      notes: what was assumed of it.
      examples: lines about some documents as they are read.
      sentences: sentences of a sample of the documents.
    """

    files: int
    bytes: int
    notes: list[str]
    examples: list[str]
    sentences: list[str]

    def lines(self) -> list[str]:
        """Returns what is printed."""
        head = "documents as they are read, at the beginnings of files (long ones are cut):"
        files = f"{counted(self.files, 'file')}, {size(self.bytes)}"
        return [head, *self.examples, *self.notes, files]


@contextlib.contextmanager
def _named(flag: str, own: str) -> Iterator[None]:
    """Has errors name what `train` calls a flag of another command."""
    try:
        yield
    except InputError as error:
        raise InputError(str(error).replace(flag, own, 1)) from error


def check_task(job: TrainJob) -> None:
    """Reads the files of the task, if there is one, so that a fault is found before the training.

    Raises:
      InputError: the folder's files are not those of the task.
    """
    if job.task_data:
        flags = settings_parser(LearningSettings, "train", "", "").parse_args(task_flags(job))
        with _named("--data_dir", "--task_data"):
            read_splits(task_of(flags), job.task_data, (TRAIN, DEV), skip_bad_rows=False)


def look(job: TrainJob) -> Text:
    """Looks at the files.

    Raises:
      InputError: a pattern matches nothing, or the files cannot be read.
    """
    data = PretrainingDataJob(
        input=job.input,
        vocab_file=VOCABULARY_FILE,
        output=job.output,
        language=job.language,
        **reading(job),
    )
    with _named("--input", "TEXT"):
        files, read_options = find_inputs(data), data.read_options()
    samples = sample_files(files, read_options)
    options = TextOptions.of(data, do_lower_case=job.do_lower_case)
    documents = [(each.path, document) for each in samples for document in each.documents]
    split = prepare_documents([document for _, document in documents], options, Counter())
    texts = [document.text for _, document in documents]
    lost = warn_of_lost_marks(texts) if job.do_lower_case and not job.init else []
    return Text(
        len(files),
        sum(file.bytes for file in files),
        [*layout_notes(samples, read_options), *language_notes(texts, job.language), *lost],
        [*describe_examples(spread(documents, DOCUMENTS_SHOWN), options)],
        [sentence for each in split for sentence in each.sentences],
    )
