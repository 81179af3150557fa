"""Embeds the texts of files into a folder, in this process or by a Beam pipeline."""

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from beambert.console import counted, duration
from beambert.embedding.job import EmbeddingJob
from beambert.pipelines.storage import claims, tensorflow_files
from beambert.progress import Describe, Pace
from beambert.trainer.commands.texts import show_progress
from beambert.trainer.embedding.text_files import match_files
from beambert.trainer.embedding.writing import PART_TEXTS, Embedded, Work, fill_folder
from beambert.trainer.embedding.writing import embed_files as embed_files_here

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions


def embed_files(job: EmbeddingJob, options: "PipelineOptions | None" = None) -> Embedded:
    """Writes the embeddings of the texts of files, as `beambert embed` does.

    The files are the same either way. This process alone needs no Beam, so that it also works on
    machines with accelerators, and starts sooner.

    Args:
      job: the encoder, the texts and the folder.
      options: Beam's options; None for this process without Beam.

    Raises:
      InputError: the model, a file or the output folder cannot be used.
    """
    paths = match_files(job.input)
    embedder = job.open()
    output = job.output.rstrip("/")
    print(f"{counted(len(paths), 'file')} -> {output}", flush=True)
    if options is None:
        report = show_progress("texts")
        return embed_files_here(embedder, paths, output, job.reading, job.keep_text, report)

    from beambert.pipelines.jobs.running import check_reachable, has_local_workers

    check_reachable(options, input=job.input, output=output)
    home = "" if has_local_workers(options) else os.getcwd()
    work = Work(tuple(paths), claims.absolute(output), job.reading, job.keep_text, PART_TEXTS, home)
    return fill_folder(embedder, work, lambda work: _run(job, work, options))


def _run(job: EmbeddingJob, work: Work, options: "PipelineOptions") -> tuple[int, int]:
    """Writes the parts of a work with a pipeline; returns the numbers of texts and of cut ones."""
    from beambert.embedding.graph import WriteEmbeddings
    from beambert.pipelines.jobs.running import run_job
    from beambert.pipelines.jobs.written_counts import WriteCounts, take_counts

    total_bytes = sum(tensorflow_files.size(path) or 0 for path in work.paths)
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
            output=work.output,
        )
    found = take_counts(work.output)
    return found["texts"], found["cut"]


@contextlib.contextmanager
def _model_for_workers(job: EmbeddingJob, options: "PipelineOptions") -> Iterator[EmbeddingJob]:
    """Yields the job with a model that workers can read, which is deleted afterwards."""
    from beambert.pipelines.prediction.worker_folder import worker_folder

    with worker_folder(options) as folder:
        if folder is None or "://" in job.model:
            yield job
            return
        # A TF1 checkpoint is several files of one name, beside those that describe it.
        path = job.model.rstrip("/")
        where, name = (path, "") if os.path.isdir(path) else os.path.split(path)
        tensorflow_files.copy(where or ".", f"{folder}/model")
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
