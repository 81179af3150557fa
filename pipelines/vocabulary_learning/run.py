"""Runs a vocabulary job: checks the output, shows the progress, and sums up the result."""

import contextlib
import dataclasses
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from beambert import folders
from beambert.console import counted, describe_bytes, size
from beambert.errors import InputError
from beambert.folders import file_held
from beambert.io import (
    delete_quietly,
    exists,
    parse_object,
    read_bytes,
    read_object,
    write_bytes,
)
from beambert.pipelines.corpus.reading import layout_notes, recognise_formats, sample_files
from beambert.pipelines.corpus.sources import describe_changes
from beambert.pipelines.input_files import InputFile, match_inputs, match_sources
from beambert.pipelines.running import (
    check_reachable,
    on_this_machine,
    path_for_workers,
    run_job,
)
from beambert.pipelines.tokenizers.text_warnings import warn_of_lost_marks, warn_of_unspaced_words
from beambert.pipelines.tokenizers.vocabulary import TOKENIZER_CONFIG_FILE, Vocabulary
from beambert.pipelines.vocabulary_learning.graph import (
    LearnVocabulary,
    about_job,
    inputs_file,
    job_file,
    no_words,
    read_old,
    rejects_file,
)
from beambert.pipelines.vocabulary_learning.job import WORDPIECE, VocabularyJob
from beambert.pipelines.vocabulary_learning.learning import special_tokens

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

# Share of words without pieces above which there is a warning about an extended vocabulary.
_MANY_UNKNOWN = 0.01


@on_this_machine
def learn_vocabulary(job: VocabularyJob, options: "PipelineOptions | None" = None) -> None:
    """Learns a vocabulary from files, unless the same job has finished, and prints a summary.

    Raises:
      InputError: the output file exists and is of another job, or an input cannot be used.
    """
    job.check_given()
    check_reachable(options, input=job.patterns, output=job.output)
    job = dataclasses.replace(job, output=path_for_workers(job.output, options))
    inputs = match_sources(job.sources) if job.source else match_inputs(job.input)
    beside = (*_beside(job.output, job.kind), rejects_file(job.output))
    with file_held(job.output, beside):
        _create(job, inputs, options)


def _create(job: VocabularyJob, inputs: Sequence[InputFile], options: "PipelineOptions") -> None:
    total_bytes = sum(file.bytes for file in inputs)
    if not total_bytes:
        raise InputError(no_words(len(inputs), "file"))
    old = read_old(job)
    about = about_job(job, inputs, old)
    if is_finished(job.output, about):
        print(f"{job.output}: already finished by the same command, nothing to do")
        return
    folders.check_own(rejects_file(job.output), "file")
    write_bytes(job_file(job.output), (json.dumps(about, indent=1) + "\n").encode())
    try:
        _learn(job, inputs, options, old, total_bytes)
    except Exception:
        # Nothing is left of a job that failed but the list of its rejects.
        delete_quietly([job_file(job.output), inputs_file(job.output)])
        raise
    print(summarize(job.output))


def _learn(
    job: VocabularyJob,
    inputs: Sequence[InputFile],
    options: "PipelineOptions",
    old: Vocabulary | None,
    total_bytes: int,
) -> None:
    options_of_reading = job.read_options()
    notes = recognise_formats(inputs, options_of_reading)
    samples = sample_files(inputs, options_of_reading)
    notes += layout_notes(samples, options_of_reading)
    print(f"{counted(len(inputs), 'file')}, {size(total_bytes)} -> {job.output}", flush=True)
    texts = [document.text for sample in samples for document in sample.documents]
    if job.lower_cases and job.kind == WORDPIECE:
        notes += warn_of_lost_marks(texts)
    if job.kind == WORDPIECE and not old:
        notes += warn_of_unspaced_words(texts)
    for note in notes:
        print(note, flush=True)

    reading = describe_bytes("reading", "documents", total_bytes)

    def describe(counts: dict[str, int], seconds: float) -> str:
        if counts.get("bytes", 0) < total_bytes:
            return reading(counts, seconds)
        return f"learning {job.add or job.vocab_size:,} tokens"

    run_job(
        lambda pipeline, folder: pipeline | LearnVocabulary(job, folder, inputs, old),
        options,
        describe,
        total_bytes / 1e6,
        "MB",
    )


def summarize(output: str) -> str:
    """Returns the line that sums up a finished vocabulary, with a warning if it isn't full."""
    about = read_object(job_file(output), "counts", "parameters", flag="--output")
    counts, parameters = about["counts"], about["parameters"]
    if "extend" in parameters:
        return _summarize_extension(output, counts)
    cleaned = describe_changes("cleaned", counts["cleaned"])
    line = (
        f"{output}: {counts['tokens']:,} tokens, learned from {counts['distinct_words']:,} "
        f"different words that occur {counts['words']:,} times in "
        f"{counted(counts['documents'], 'document')}{cleaned}"
    )
    kind = parameters.get("kind", WORDPIECE)
    if rare := counts.get("rare_characters"):
        line += (
            f"; {rare:,} of {counts['characters']:,} characters are too rare for a token: words "
            "with one are [UNK]"
        )
    if rejected := counts["rejected"]:
        read = counts["documents"] + counts["skipped"] + rejected
        line += (
            f"\n  {rejected:,} of {counted(read, 'document')} rejected, see {rejects_file(output)}"
        )
    if kind != WORDPIECE:
        fewer = counts["tokens"] < parameters["vocab_size"]
        warning = "\n  warning: the text has too few words for more tokens; give more text"
        return line + warning * fewer
    reserved = special_tokens(parameters["vocab_size"], parameters["do_lower_case"])
    wanting = counts["unused_tokens"] - sum(token.startswith("[unused") for token in reserved)
    if not wanting:
        return line
    return (
        f"{line}\n  warning: the text has too few words for {counts['tokens']:,} tokens, and "
        f"{wanting:,} of them are [unusedN], which no text contains; give more text, or "
        f"--vocab_size={counts['tokens'] - wanting}"
    )


def _summarize_extension(output: str, counts: dict[str, int]) -> str:
    before, after, words = (
        counts[name] for name in ("tokens_before", "tokens_after", "counted_words")
    )
    line = (
        f"{output}: {counts['tokens']:,} tokens, {counts['new_tokens']:,} of them new; "
        f"{after / words:.3f} tokens a word instead of {before / words:.3f}, "
        f"{1 - after / before:.1%} fewer"
    )
    unknown = counts["unknown_words"] / words
    if unknown < _MANY_UNKNOWN:
        return line
    return (
        f"{line}\n  warning: {unknown:.1%} of the words are [UNK], since the vocabulary lacks "
        "their characters; write these at the end of it, one a line, or learn another"
    )


def is_finished(output: str, about: dict[str, Any]) -> bool:
    """Returns whether the same job has written the output already.

    Raises:
      InputError: the output, or a file that the job writes next to it, exists and is of another
        job.
    """
    difference = ""
    if exists(job_file(output)):
        # The file may be foreign or damaged.
        with contextlib.suppress(ValueError):
            found = parse_object(read_bytes(job_file(output), "--output"))
            made_by = {name: found.get(name) for name in about}
            difference = folders.describe_difference(made_by, about)
            is_killed = about.keys() <= found.keys() and "counts" not in found
            if not difference or (is_killed and not exists(output)):
                return exists(output)
    for path in (output, *_beside(output, about["parameters"].get("kind", WORDPIECE))):
        if exists(path):
            by = "not made by this command; choose another"
            if difference:
                by = f"made by another job ({difference}); choose another or delete it"
            raise InputError(f"--output={output}: {path} already exists, {by}")
    return False


def _beside(output: str, kind: str) -> list[str]:
    """Returns the paths of the files that are written next to a vocabulary of a kind."""
    beside = [job_file(output), inputs_file(output)]
    if kind != WORDPIECE:
        beside.append(os.path.join(os.path.dirname(output), TOKENIZER_CONFIG_FILE))
    return beside
