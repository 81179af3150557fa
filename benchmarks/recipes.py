"""What is each element of a recipe worth, at the same number of steps and equal search?

    python -m benchmarks.recipes --data=records --output=recipes --num_train_steps=1500
    python -m benchmarks.recipes --data=records --output=recipes --recipes paper muon --num_seeds=3

Pre-trains BERT tiny on the same records by each recipe, at each learning rate and with each seed,
in turns. Each recipe adds to the one before it, but the last two differ by the optimizer alone. All
steps are the commands that a user runs. After an interruption the same command continues. Prints a
table of the results on the held-out records, and writes them to OUTPUT/results.json.
"""

import json
import pathlib
import statistics
from collections.abc import Mapping, Sequence

from benchmarks import measuring
from benchmarks.measuring import beambert

# Name -> flags of `beambert pretrain`. All have the paper's objective, and the same masks.
_NO_DROPOUT = ("--dropout=0", "--initializer_range=0.05")
_TRAPEZOID = (*_NO_DROPOUT, "--schedule=trapezoid", "--beta_2=0.98")
RECIPES = {
    "paper": (),
    "no dropout": _NO_DROPOUT,
    "adamw": (*_TRAPEZOID, "--optimizer=adamw_corrected"),
    "muon": (*_TRAPEZOID, "--optimizer=muon"),
}
LEARNING_RATES = (1e-3, 3e-3, 1e-2)


def pretrain(flags: Sequence[str], folder: pathlib.Path) -> dict[str, float]:
    """Returns the held-out results of a training, and its seconds without compiling."""
    beambert("pretrain", "--recipe=tiny", f"--model_dir={folder}", *flags)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    training = json.loads((folder / "training.json").read_text())
    results = json.loads((folder / "results.json").read_text())
    of_step = [row["seconds_per_step"] for row in rows if "seconds_per_step" in row]
    return results | {
        "seconds": training["optimizer"]["num_train_steps"] * statistics.median(of_step)
    }


def table(results: Sequence[Mapping]) -> str:
    """Returns the mean results of each recipe and rate as a table in Markdown, in their order."""
    groups: dict[tuple[str, float], list[Mapping]] = {}
    for row in results:
        groups.setdefault((row["recipe"], row["learning_rate"]), []).append(row)
    lines = [
        "| recipe | learning rate | masked LM loss | deviation | masked LM accuracy | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for (recipe, rate), rows in groups.items():
        losses = [row["masked_lm_loss"] for row in rows]
        deviation = f"{statistics.stdev(losses):.3f}" if len(losses) > 1 else "one seed"
        accuracy, seconds = (
            statistics.fmean(row[name] for row in rows)
            for name in ("masked_lm_accuracy", "seconds")
        )
        lines.append(
            f"| {recipe} | {rate:g} | {statistics.fmean(losses):.3f} | {deviation} "
            f"| {accuracy:.1%} | {seconds:.0f} |"
        )
    return "\n".join(lines)


def main(argv: Sequence[str]) -> None:
    """Trains and prints.

    Raises:
      InputError: a command failed.
    """
    parser = measuring.flag_parser("recipes", __doc__)
    add = parser.add_argument
    add("--data", required=True, metavar="DIR", help="records folder with held-out records in eval")
    add("--output", required=True, metavar="DIR", help="folder for the models and results.json")
    add("--recipes", nargs="+", default=[*RECIPES], choices=RECIPES, help="default: %(default)s")
    add(
        "--learning_rates",
        nargs="+",
        type=float,
        default=LEARNING_RATES,
        help="peaks to try with each recipe (default: %(default)s)",
    )
    add("--num_train_steps", type=int, default=1500, help="default: %(default)s")
    add("--num_seeds", type=int, default=1, help="trainings of each (default: %(default)s)")
    flags = parser.parse_args(list(argv))
    output = pathlib.Path(flags.output)
    output.mkdir(parents=True, exist_ok=True)
    same = (f"--data={flags.data}", f"--num_train_steps={flags.num_train_steps}")
    results = []
    for seed in range(1, flags.num_seeds + 1):
        for rate in flags.learning_rates:
            for recipe in flags.recipes:
                of_run = (*RECIPES[recipe], f"--learning_rate={rate}", f"--random_seed={seed}")
                found = pretrain((*same, *of_run), output / f"{recipe} {rate:g} {seed}")
                results.append({"recipe": recipe, "learning_rate": rate, "seed": seed} | found)
    results.sort(key=lambda row: (flags.recipes.index(row["recipe"]), row["learning_rate"]))
    measuring.write_results(output / "results.json", parser, argv, results)
    print(table(results))


if __name__ == "__main__":
    measuring.run(main)
