"""`beambert verify`: finished records -> figures, faults and warnings, with Apache Beam."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from beambert.pipelines.jobs.running import BEAM_HELP, beam_options, check_reachable, run_job
from beambert.pipelines.shared.console import duration, run_main
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.flags import FlagParser
from beambert.pipelines.shared.loading import loading
from beambert.pipelines.shared.progress import ProgressTally

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

    from beambert.pipelines.records.decoding import FileReport
    from beambert.pipelines.verification.found_folders import FoundFolder

JSON_FILE = "verification.json"
PAGE_FILE = "verification.html"
# Beside the records, never in them: nothing is written into a finished folder.
OUTPUT_ENDING = "-verification"
STATUS_OF_FAULTS = 1

EXAMPLES = f"""examples:
  # a records folder, its held-out part too; report in records{OUTPUT_ENDING}
  beambert verify records

  # records of the original script, Model Garden or keras-hub
  beambert verify --vocab_file=vocab.txt --output=report 'bert/tf_examples.tfrecord*'

exit status: 0 all in order, perhaps with warnings; 1 faults; 2 nothing could be verified
"""


def build_parser() -> FlagParser:
    """Returns the command's flags."""
    parser = FlagParser(
        prog="beambert verify",
        description="Reads pre-training records again, whoever made them, and reports what is in "
        "them, what is wrong with them and what others came to regret.",
        examples=EXAMPLES + "\n" + BEAM_HELP,
    )
    parser.add_argument(
        "inputs", nargs="+", metavar="DIR", help="records folder, or a pattern of record files"
    )
    parser.add_argument(
        "--vocab_file", help="vocabulary of the records (default: vocab.txt beside them)"
    )
    parser.add_argument(
        "--output",
        metavar="DIR2",
        help=f"folder for {JSON_FILE} and {PAGE_FILE} (default: DIR{OUTPUT_ENDING})",
    )
    return parser


def choose_output(inputs: Sequence[str], output: str | None) -> str:
    """Returns the folder to report in.

    Raises:
      InputError: it must be named, or holds something else.
    """
    from beambert.pipelines.jobs.files import list_folder

    if output is None:
        if len(inputs) > 1 or set(inputs[0]) & set("*?["):
            raise InputError("--output: name a folder for the report, as there is no one DIR")
        # A folder given as "." has a name, too.
        is_nameless = os.path.basename(inputs[0].rstrip("/")) in ("", ".", "..")
        output = (os.path.abspath(inputs[0]) if is_nameless else inputs[0]).rstrip("/")
        output += OUTPUT_ENDING
    foreign = [name for name in list_folder(output) if name not in (JSON_FILE, PAGE_FILE)]
    if foreign:
        raise InputError(
            f"--output={output}: already holds something else ({foreign[0]} …); choose another"
        )
    return output


def verify_records(
    folders: "Sequence[FoundFolder]",
    output: str,
    options: "PipelineOptions",
    progress_folder: str | None,
) -> None:
    """Builds the pipeline and runs it to its end; it writes verification.json."""
    import apache_beam as beam

    from beambert.pipelines.jobs.files import write_bytes
    from beambert.pipelines.records.decoding import examine_file
    from beambert.pipelines.verification.findings import sample_limit, verify

    limit = sample_limit(folders)
    path = beam.io.filesystems.FileSystems.join(output, JSON_FILE)

    def examine(element: tuple[int, str]) -> "Iterator[tuple[int, FileReport]]":
        index, file = element
        progress = ProgressTally(progress_folder)
        folder = folders[index]
        report = examine_file(
            file,
            folder.features,
            folder.vocabulary,
            limit,
            lambda new_bytes, records: progress.add(bytes=new_bytes, instances=records),
        )
        yield index, report

    def finish(_: None, reports: "Iterable[tuple[int, FileReport]]") -> None:
        result = verify(folders, reports)
        write_bytes(path, (json.dumps(result, indent=1, ensure_ascii=False) + "\n").encode())

    files = [(index, file) for index, folder in enumerate(folders) for file in folder.files]
    with beam.Pipeline(options=options) as pipeline:
        reports = (
            pipeline
            | "Files" >> beam.Create(files)
            | "Spread" >> beam.Reshuffle()
            | "Examine" >> beam.FlatMap(examine)
        )
        (
            pipeline
            | "Once" >> beam.Create([None])
            | "Finish" >> beam.Map(finish, beam.pvalue.AsIter(reports))
        )


def describe_progress(counts: dict[str, int], seconds: float, total_bytes: int) -> str:
    """Returns the progress line; empty before there is any progress."""
    done = counts.get("bytes", 0)
    if not done:
        return ""
    rate = done / seconds
    return (
        f"verifying: {counts['instances']:,} instances, {done / 1e6:.1f} of "
        f"{total_bytes / 1e6:.1f} MB, {rate / 1e6:.2f} MB/s, "
        f"{duration((total_bytes - done) / rate)} left"
    )


def summarize(result: dict[str, Any]) -> str:
    """Returns what the command prints of verification.json."""
    from beambert.pipelines.verification.report import plural

    lines = []
    for folder in result["folders"]:
        lines += _folder_lines(folder)
        lines += [f"  FAULT    {text}" for text in folder["faults"]]
        lines += [f"  warning  {text}" for text in folder["warnings"]]
        lines += [f"  not checked: {text}" for text in folder["not_checked"]]
    if result["hashes_sampled"] < 1:
        lines.append(f"repeats counted in a sample of {result['hashes_sampled']:.2%} of the texts")
    verdict = f"{plural(result['faults'], 'fault')}, {plural(result['warnings'], 'warning')}"
    return "\n".join([*lines, verdict])


def _folder_lines(folder: dict[str, Any]) -> list[str]:
    from beambert.pipelines.verification.report import figure_rows, plural

    size = sum(file["bytes"] for file in folder["files"])
    records = sum(file["instances"] for file in folder["files"])
    files = plural(len(folder["files"]), "file")
    heading = f"{folder['path']}: {records:,} instances in {files} ({size / 1e6:.1f} MB)"
    found = folder["figures"]
    if not found:
        return [heading]
    return [heading, *(f"  {name:<25}{value}" for name, value in figure_rows(found))]


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: what was given can't be used.
      SystemExit: with status 1, the records have faults.
    """
    flags, beam_flags = build_parser().parse_known_args(list(argv))
    with loading():
        options = beam_options(beam_flags)
        from apache_beam.io.filesystems import FileSystems

        from beambert.pipelines.jobs.files import delete_quietly, read_bytes, write_bytes
        from beambert.pipelines.verification.found_folders import find_folders
        from beambert.pipelines.verification.report import render
    folders = find_folders(flags.inputs, flags.vocab_file)
    output = choose_output(flags.inputs, flags.output)
    check_reachable(options, inputs=flags.inputs, output=output)
    report, page = (FileSystems.join(output, name) for name in (JSON_FILE, PAGE_FILE))
    delete_quietly([report, page])  # an earlier report must not pass for this one's
    total_bytes = sum(size for folder in folders for size in folder.files.values())
    count = sum(len(folder.files) for folder in folders)
    print(f"{count} files, {total_bytes / 1e6:.1f} MB", flush=True)
    run_job(
        lambda folder: verify_records(folders, output, options, folder),
        options,
        total_bytes,
        lambda counts, seconds: describe_progress(counts, seconds, total_bytes),
    )
    result = json.loads(read_bytes(report, "--output"))
    write_bytes(page, render(result).encode())
    print(summarize(result))
    print(f"Report: {page}")
    if result["faults"]:
        raise SystemExit(STATUS_OF_FAULTS)


if __name__ == "__main__":
    sys.exit(run_main("verify", main, sys.argv[1:]))
