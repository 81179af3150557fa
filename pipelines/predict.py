"""`beambert predict`: answers all texts of some files with a fine-tuned model, on Apache Beam."""

import functools
from collections.abc import Sequence

from beambert.config import REQUIRED, read_settings, settings_parser
from beambert.io import FINETUNE, check_folder
from beambert.pipelines.running import BEAM_HELP, beam_options
from beambert.pipelines.task_jobs import PredictionJob
from beambert.process import loading

EXAMPLES = """examples:
  # text files with a text on each line; or each file is one text
  beambert predict --model=sentiment --input='reviews/*.txt' --output=answers
  beambert predict --model=sentiment --input='letters/*.txt' --unit=file --output=answers

  # tables; for pairs, name two columns
  beambert predict --model=topics --input 'news/*.csv' 'more.jsonl' --text_columns=body \\
      --output=answers

  # sentences for a tagging model: one on each line, or words in the first column of .conll files
  beambert predict --model=tagger --input=messages.conll --output=answers

  # a model for SQuAD; the columns are question and context
  beambert predict --model=reader --input=questions.jsonl --output=answers

The answers are JSON Lines in the output folder, part-*.jsonl. Each has the file, the line, for
tables the row and its other columns, and, by the kind of the model, a label with the probabilities
of all labels, a score, the words with their tags, or an answer with its characters in the context.
Lines and rows are counted from 1; the header of a table is no row. Rows that cannot be read, such
as empty lines, are in rejects-*.jsonl, each with the reason; line 0 stands for a whole file, or for
the rest of one.

"""


build_parser = functools.partial(
    settings_parser,
    PredictionJob,
    "predict",
    "Answers all texts of some files with a fine-tuned model.",
    EXAMPLES + BEAM_HELP,
    {"input": REQUIRED, "output": REQUIRED},
)


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a flag, the model, a file or the output folder cannot be used.
    """
    parser = build_parser()
    flags, beam_flags = parser.parse_known_args(argv)
    job = read_settings(PredictionJob, flags)
    check_folder(job.model, f"--model={job.model}", FINETUNE)
    with loading():
        options = beam_options(beam_flags, parser.flags)
        import tensorflow  # noqa: F401  (its import prints notices)

        from beambert.pipelines.prediction import predict
    counts = predict(job, options)
    why = ""
    if files := counts["files"]:
        why = f", of which {files:,} {'is a file' if files == 1 else 'are files'} (line 0)"
    if counts["rejects"]:
        why += f", see why in {job.output}/rejects-*.jsonl"
    print(f"{job.output}: {counts['answers']:,} answers, {counts['rejects']:,} rejects{why}")
