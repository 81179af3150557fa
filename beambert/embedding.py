"""Embeddings of texts: their parameters, and the command `beambert embed`, here or by Beam."""

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from beambert import storage
from beambert.config import REQUIRED, add_settings, check_settings, read_settings, setting
from beambert.console import Describe, Pace, counted, duration
from beambert.flags import FlagParser, unknown_flag
from beambert.pipelines.corpus.encodings import encoding_setting, parse_encodings
from beambert.pipelines.running import beam_options
from beambert.process import loading
from beambert.trainer.weights.given_path import check_weights

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

    from beambert.trainer.embedding.embedder import Embedder
    from beambert.trainer.embedding.writing import Embedded, TextReading, Work


@dataclasses.dataclass(frozen=True)
class EmbeddingJob:
    """The encoder, the texts and how they are embedded.

    In a pipeline that provides the texts and takes the embeddings, `input` and `output` are empty.

    Raises:
      InputError: a value cannot be used.
    """

    model: str = setting(
        metavar="DIR",
        help="model of `beambert pretrain` or `finetune`, a folder of Hugging Face or "
        "sentence-transformers, or a TF1 checkpoint",
    )
    input: tuple[str, ...] = setting(
        (),
        metavar="GLOB",
        help="files with a text on each line, or tables (.csv, .tsv, .jsonl)",
    )
    output: str = setting("", metavar="DIR", help="folder to make")
    text_column: str = setting("text", metavar="NAME", help="column of the texts in tables")
    id_column: str = setting("", metavar="NAME", help="column that identifies a row of a table")
    title_column: str = setting(
        "",
        metavar="NAME",
        help="column of the titles in tables, which stand before the texts",
    )
    encoding: str = encoding_setting()
    unit: str = setting(
        "line",
        choices=("line", "file"),
        help="text of a plain text file: each line, or the whole file",
    )
    passage_words: int = setting(
        0,
        minimum=0,
        metavar="N",
        help="divide texts into passages of at most this many words (default: 0, which leaves them "
        "whole)",
    )
    keep_text: bool = setting(True, help="whether the texts are written with their embeddings")
    pooling: str | None = setting(
        None,
        choices=("mean", "cls"),
        help="what is taken of a text's tokens: their mean, or [CLS] (default: what the folder "
        "says, or else mean)",
    )
    last_layers: int | None = setting(
        None, metavar="N", help="number of last layers that are averaged (default: 1)"
    )
    normalize: bool | None = setting(
        None,
        help="whether embeddings are scaled to the length 1 (default: what the folder says, or "
        "else False)",
    )
    prefix: str | None = setting(
        None,
        help="what is put before each text (default: what the folder says, or else nothing)",
    )
    max_seq_length: int | None = setting(
        None,
        metavar="N",
        help="greatest number of tokens of a text, with [CLS] and [SEP] (default: what the folder "
        "says, or else what the encoder was trained on)",
    )

    def __post_init__(self) -> None:
        """Checks the values."""
        check_settings(self)
        parse_encodings(self.encoding)

    def open(self) -> "Embedder":
        """Opens the encoder.

        Raises:
          InputError: it cannot be read, or has not as many layers or positions.
        """
        from beambert.trainer.embedding.embedder import open_embedder, with_settings

        return with_settings(
            open_embedder(self.model),
            self.pooling,
            self.last_layers,
            self.normalize,
            self.prefix,
            self.max_seq_length,
        )

    @property
    def reading(self) -> "TextReading":
        """How the files are read."""
        from beambert.trainer.embedding.writing import TextReading

        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(TextReading)}
        return TextReading(**given)


def embed_files(job: EmbeddingJob, options: "PipelineOptions | None" = None) -> "Embedded":
    """Writes the embeddings of the texts of files, as `beambert embed` does.

    The files are the same either way. This process alone needs no Beam, so that it also works on
    machines with accelerators, and starts sooner.

    Args:
      job: the encoder, the texts and the folder.
      options: Beam's options; None for this process without Beam.

    Raises:
      InputError: the model, a file or the output folder cannot be used.
    """
    # TensorFlow, whose import takes seconds, comes after the flags.
    from beambert.trainer.commands.texts import show_progress
    from beambert.trainer.embedding import writing

    paths = writing.match_files(job.input)
    embedder = job.open()
    output = job.output.rstrip("/")
    print(f"{counted(len(paths), 'file')} -> {output}", flush=True)
    if options is None:
        report = show_progress("texts")
        return writing.embed_files(embedder, paths, output, job.reading, job.keep_text, report)

    from beambert.pipelines.running import check_reachable, has_local_workers

    check_reachable(options, input=job.input, output=output)
    home = "" if has_local_workers(options) else os.getcwd()
    work = writing.Work(
        tuple(paths),
        storage.absolute(output),
        job.reading,
        job.keep_text,
        writing.PART_TEXTS,
        home,
    )
    return writing.fill_folder(embedder, work, lambda work: _run(job, work, options))


def _run(job: EmbeddingJob, work: "Work", options: "PipelineOptions") -> tuple[int, int]:
    """Writes the parts of a work with a pipeline; returns the numbers of texts and of cut ones."""
    from beambert.embedding_in_beam import WriteEmbeddings
    from beambert.pipelines.metrics import WriteCounts, take_counts
    from beambert.pipelines.running import run_job

    total_bytes = sum(storage.size(path) or 0 for path in work.paths)
    with _model_for_workers(job, options) as reachable:
        run_job(
            lambda pipeline, folder: (
                pipeline
                | WriteEmbeddings(reachable, work, folder)
                | "Write counts" >> WriteCounts(work.output)
            ),
            options,
            describe_progress(),
            total_bytes / 1e3,
            "kB",
        )
    found = take_counts(work.output)
    return found["texts"], found["cut"]


@contextlib.contextmanager
def _model_for_workers(job: EmbeddingJob, options: "PipelineOptions") -> Iterator[EmbeddingJob]:
    """Yields the job with a model that workers can read, which is deleted afterwards."""
    from beambert.pipelines.tasks.saved_models import worker_folder

    with worker_folder(options) as folder:
        if folder is None or "://" in job.model:
            yield job
            return
        # A TF1 checkpoint is several files of one name, beside those that describe it.
        path = job.model.rstrip("/")
        where, name = (path, "") if os.path.isdir(path) else os.path.split(path)
        storage.copy(where or ".", f"{folder}/model")
        yield dataclasses.replace(job, model=f"{folder}/model/{name}".rstrip("/"))


def describe_progress() -> Describe:
    """Returns a function that describes the progress through texts; see `ProgressDisplay`."""
    pace = Pace()

    def describe(counts: dict[str, int], seconds: float) -> str:
        found, done = counts.get("found", 0), counts.get("texts", 0)
        if not done:
            return f"{counted(found, 'text')} found" if found else ""
        line = f"{done:,} of {found:,} texts"
        if rate := pace.of(done, seconds):
            line += f", {rate:,.0f}/s, {duration((found - done) / rate)} left"
        return line

    return describe


EXAMPLES = """examples:
  # a text on each line -> Parquet files with an embedding of each
  beambert embed --model=encoder --input='texts/*.txt' --output=embeddings

  # a folder of sentence-transformers, with the pooling and the length that it names
  beambert embed --model=all-MiniLM-L6-v2 --input=texts.txt --output=embeddings

  # a column of tables, with the column that identifies a row
  beambert embed --model=encoder --input 'news/*.csv' 'more.jsonl' --text_column=body \\
      --id_column=number --output=embeddings

  # the mean of the last four layers, scaled to the length 1, of texts behind a prefix
  beambert embed --model=encoder --input=texts.txt --last_layers=4 --normalize=True \\
      --prefix='query: ' --output=embeddings

The columns of the output are file, line, start (the first character of a passage in its text), id,
text and embedding, a list of fixed size of float32. The texts stand in the order of the files. A
text that is longer than the model reads is cut at its end, and counted. Every row is checked before
the first is embedded. An interrupted command continues with the first file part-*.parquet that is
missing.

Without a flag of Beam's, this process does the work, and needs no Beam. Flags that aren't listed
go to Beam, whose workers make the same files. For two processes on this machine, add
  --direct_num_workers=2 --direct_running_mode=multi_processing
"""


def build_parser() -> FlagParser:
    """Returns the parser of the flags of `embed`."""
    parser = FlagParser(
        prog="beambert embed",
        description="Makes an embedding of each text of some files with an encoder.",
        examples=EXAMPLES,
    )
    add_settings(parser, EmbeddingJob, defaults={"input": REQUIRED, "output": REQUIRED})
    return parser


def main(argv: Sequence[str]) -> None:
    """Runs `embed`.

    Raises:
      InputError: a flag, the model, a file or the output folder cannot be used.
    """
    parser = build_parser()
    flags, beam_flags = parser.parse_known_args(list(argv))
    job = read_settings(EmbeddingJob, flags)
    check_weights(job.model, "--model")
    with loading():
        try:
            options = beam_options(beam_flags, parser.flags) if beam_flags else None
        except ModuleNotFoundError as error:  # without Beam, nobody knows its flags
            raise unknown_flag(beam_flags[0], parser.flags) from error
    found = embed_files(job, options)
    output = job.output.rstrip("/")
    if found.was_done:
        print(f"{output}: already finished by the same command, nothing to do")
        return
    most = found.max_seq_length
    cut = f"; {counted(found.cut, 'text')} cut to {most:,} tokens" if found.cut else ""
    print(f"{output}: embeddings of {counted(found.texts, 'text')}, {found.width:,} wide{cut}")
