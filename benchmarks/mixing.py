"""Do mixed records have the shares that are asked for, what does it cost, and what is it worth?

    python -m benchmarks.mixing --source wiki='wiki/*/wiki_*' --source books='novels/*.txt' \\
        --weights=wiki=0.3,books=0.7 --vocab_file=vocab.txt --output=mixing
    python -m benchmarks.mixing --source wiki='wiki/*' --source books='novels/*' \\
        --weights=wiki=0.5,books=0.5 --vocab_file=vocab.txt --output=mixing --num_train_steps=4000

The shares are those of the records' tokens. The cost is the processor time of `beambert data` with
--source and --weights, beside that of the same files as --input, in turns. With --num_train_steps
encoders learn next sentence prediction, some with B of A's own source, others with B of any. All
are then asked for held-out pairs of either kind. A classifier that knows only which source A and B
look like is right as often as "by the sources alone" says. All steps are the commands that a user
runs.
"""

import json
import os
import pathlib
import resource
import shutil
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from beambert.pipelines.records.contract import EVAL_FOLDER, INFO_FILE
from benchmarks import measuring
from benchmarks.measuring import beambert

# Where the B of a random pair comes from -> folder of such records. The value of --random_next is
# "source" with sources, unless it is given.
_FOLDERS = {"the same source": "with-sources", "any source": "of-any-source"}


def processor_seconds(*arguments: str) -> float:
    """Runs a command of this project; returns its processor time, of all its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    beambert(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def counts_of(folder: pathlib.Path) -> dict[str, Any]:
    """Returns the counts in the info.json of a records folder."""
    return json.loads((folder / INFO_FILE).read_text())["counts"]


def shares(counts: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Returns name -> asked and reached share of the records' tokens, their difference, passes."""
    return {
        name: {
            "asked": source["asked_share"],
            "reached": source["share"],
            "difference": round(abs(source["share"] - source["asked_share"]), 6),
            "passes": round(source["passes"], 2),
        }
        for name, source in counts["sources"].items()
    }


def accuracy_by_sources_alone(counts: Mapping[str, Any]) -> float:
    """Returns how often the labels of a folder are right if only the sources of A and B are known.

    Pairs of one source are mostly "is next", and pairs of two never are.
    """
    from_two = counts.get("random_next_other_source", 0)
    is_next, random_next = counts["is_next"], counts["random_next"]
    of_one = max(is_next, random_next - from_two)
    return (of_one + from_two) / (is_next + random_next)


def measure_cost(
    mixed: Sequence[str], plain: Sequence[str], folder: pathlib.Path, repeats: int
) -> dict[str, Any]:
    """Returns the processor times of both ways in turns, and the shares that were reached.

    Args:
      mixed, plain: flags of `beambert data` with sources, and with the same files as --input.
      folder: folder for the records; those of the last turn with sources stay.
      repeats: number of turns.
    """
    seconds: dict[str, list[float]] = {"with sources": [], "without": []}
    for _ in range(repeats):
        for name, flags in (("with sources", mixed), ("without", plain)):
            records = folder / name.replace(" ", "-")
            shutil.rmtree(records, ignore_errors=True)
            seconds[name].append(processor_seconds("data", *flags, f"--output={records}"))
    shutil.rmtree(folder / "without")
    least = {name: min(times) for name, times in seconds.items()}
    counts = counts_of(folder / "with-sources")
    return {
        "shares": shares(counts),
        "greatest_difference": max(share["difference"] for share in shares(counts).values()),
        "processor_seconds": {n: [round(s, 1) for s in times] for n, times in seconds.items()},
        "time_with_sources_to_that_without": round(least["with sources"] / least["without"], 4),
    }


def measure_worth(
    mixed: Sequence[str], folder: pathlib.Path, training: Sequence[str], seeds: int
) -> dict[str, Any]:
    """Returns the next-sentence accuracies of encoders that learned from either kind of pairs.

    Args:
      mixed: flags of `beambert data` with sources.
      folder: folder of `measure_cost`, for further records and the models.
      training: flags of `beambert pretrain`.
      seeds: number of trainings of each kind.
    """
    records = {kind: folder / name for kind, name in _FOLDERS.items()}
    beambert("data", *mixed, "--random_next=corpus", f"--output={records['any source']}")
    held_out = {
        (path.name, kind): (f"{path.name}.{where.name}", path)
        for kind, where in records.items()
        for path in sorted((where / EVAL_FOLDER).iterdir())
    }
    found: dict[str, Any] = {}
    for kind, where in records.items():
        results = []
        for seed in range(1, seeds + 1):
            model = folder / f"encoder-{where.name}-{seed}"
            beambert(
                *("pretrain", f"--data={where}", f"--model_dir={model}"),
                *(f"--eval_data={name}={path}" for name, path in held_out.values()),
                *(f"--random_seed={seed}", *training),
            )
            results.append(json.loads((model / "results.json").read_text()))
        told = {"by the sources alone": round(accuracy_by_sources_alone(counts_of(where)), 4)}
        for (source, asked), (name, _) in held_out.items():
            accuracies = [result[f"{name}/next_sentence_accuracy"] for result in results]
            told[f"on {source}, B of {asked}"] = round(statistics.fmean(accuracies), 4)
        losses = [result["masked_lm_loss"] for result in results]
        found[f"learned with B of {kind}"] = told | {
            "masked LM loss": round(statistics.fmean(losses), 4)
        }
    return found


def main(argv: Sequence[str]) -> None:
    """Measures and prints.

    Raises:
      InputError: a command failed.
    """
    parser = measuring.flag_parser("mixing", __doc__)
    add = parser.add_argument
    add("--source", action="append", required=True, metavar="NAME=GLOB", help="as in data")
    add("--weights", required=True, metavar="NAME=SHARE", help="as in data")
    add("--vocab_file", required=True, metavar="FILE", help="as in data")
    add("--output", required=True, metavar="DIR", help="folder for records and models")
    add("--max_seq_length", type=int, default=64, help="as in data (default: %(default)s)")
    add("--dupe_factor", type=int, default=3, help="as in data (default: %(default)s)")
    add("--repeats", type=int, default=1, help="turns of the times (default: %(default)s)")
    add("--eval_fraction", type=float, default=0.01, help="as in data (default: %(default)s)")
    add(
        "--num_train_steps",
        type=int,
        default=0,
        help="steps of each encoder; 0 trains none (default: %(default)s)",
    )
    add("--recipe", default="tiny", help="recipe of the encoders (default: %(default)s)")
    add("--num_seeds", type=int, default=1, help="encoders of each kind (default: %(default)s)")
    measuring.add_results_flag(parser)
    flags = parser.parse_args(list(argv))
    folder = pathlib.Path(flags.output)
    folder.mkdir(parents=True, exist_ok=True)
    same = [
        *(f"--vocab_file={flags.vocab_file}", f"--max_seq_length={flags.max_seq_length}"),
        *(f"--dupe_factor={flags.dupe_factor}", f"--eval_fraction={flags.eval_fraction}"),
    ]
    mixed = [*(f"--source={each}" for each in flags.source), f"--weights={flags.weights}", *same]
    patterns = [text for each in flags.source for text in each.partition("=")[2].split(",")]
    plain = ["--input", *patterns, *same]
    size = sum(os.path.getsize(path) for path in measuring.files_of("--source", patterns))
    result = {"megabytes": round(size / 1e6, 1)}
    result |= measure_cost(mixed, plain, folder, flags.repeats)
    if flags.num_train_steps:
        training = [f"--recipe={flags.recipe}", f"--num_train_steps={flags.num_train_steps}"]
        training.append(f"--eval_steps={flags.num_train_steps}")
        result["next_sentence_prediction"] = measure_worth(mixed, folder, training, flags.num_seeds)
    print(measuring.write_results(flags.results, parser, argv, result))


if __name__ == "__main__":
    measuring.run(main)
