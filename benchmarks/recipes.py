"""What is each element of a recipe worth, at the same budget and equal search?

    python -m benchmarks.recipes --data=records --output=recipes --budgets 5min 15min 45min
    python -m benchmarks.recipes --data=records --output=recipes --models tiny mini \\
        --budgets 5e13flops --recipes paper muon --num_seeds=3 --glue=glue

Pre-trains each model on the same records by each recipe, at each learning rate and with each seed,
in turns, to the end of each budget. Each of the first three recipes adds to the one before it. Then
"adamw" and "muon" differ by the optimizer alone, "muon" and "masked lm" by the objective, and
"masked lm" and "modernbert" by the family of the encoder. "crammed" and "modern" are the recipes
crammed_tiny and modern_tiny, at each size. With --glue, the best rate of each recipe is fine-tuned
on GLUE. All steps are the commands that a user runs. After an interruption the same command
continues. Prints a table of the results on the held-out records, and writes them to
OUTPUT/results.json.
"""

import json
import pathlib
import statistics
from collections.abc import Mapping, Sequence

from benchmarks import measuring
from benchmarks.measuring import beambert

# Name -> flags of `beambert pretrain`. The masks of all are the same.
_NO_DROPOUT = ("--dropout=0", "--initializer_range=0.05")
_TRAPEZOID = (*_NO_DROPOUT, "--schedule=trapezoid", "--beta_2=0.98")
_MUON = (*_TRAPEZOID, "--optimizer=muon")
RECIPES = {
    "paper": (),
    "no dropout": _NO_DROPOUT,
    "adamw": (*_TRAPEZOID, "--optimizer=adamw_corrected"),
    "muon": _MUON,
    "masked lm": (*_MUON, "--objective=mlm"),
    "modernbert": (*_MUON, "--objective=mlm", "--family=modernbert"),
    "crammed": ("--recipe=crammed_tiny",),
    "modern": ("--recipe=modern_tiny",),
}
LEARNING_RATES = (1e-3, 3e-3, 1e-2)
# Trainings of one group differ by their seeds only.
_GROUP = ("model", "budget", "recipe", "learning_rate")


def pretrain(flags: Sequence[str], folder: pathlib.Path) -> dict[str, float]:
    """Returns the held-out results of a training, its updates and its seconds without compiling."""
    beambert("pretrain", "--recipe=tiny", f"--model_dir={folder}", *flags)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    results = json.loads((folder / "results.json").read_text())
    of_step = [row["seconds_per_step"] for row in rows if "seconds_per_step" in row]
    steps = rows[-1]["step"]
    return results | {"steps": steps, "seconds": steps * statistics.median(of_step)}


def glue(encoder: pathlib.Path, data: str, seed: int, others: Sequence[str]) -> float:
    """Returns the average of an encoder's results on GLUE, fine-tuned with a seed."""
    output = pathlib.Path(f"{encoder} glue {seed}")
    beambert(
        "glue",
        *(f"--init={encoder}", f"--data_dir={data}", f"--output={output}"),
        *(*measuring.SMALL_ENCODER, f"--random_seed={seed}", *others),
    )
    return json.loads((output / "glue.json").read_text())["average"]


def groups(results: Sequence[Mapping]) -> dict[tuple, list[Mapping]]:
    """Returns the rows of each model, budget, recipe and rate, which differ by their seeds."""
    found: dict[tuple, list[Mapping]] = {}
    for row in results:
        found.setdefault(tuple(row[name] for name in _GROUP), []).append(row)
    return found


def best(results: Sequence[Mapping]) -> list[Mapping]:
    """Returns the rows of the rate with the least loss, of each model, budget and recipe."""
    by_recipe: dict[tuple, list[list[Mapping]]] = {}
    for key, rows in groups(results).items():
        by_recipe.setdefault(key[:-1], []).append(rows)
    return [row for rates in by_recipe.values() for row in min(rates, key=_mean_loss)]


def _mean_loss(rows: Sequence[Mapping]) -> float:
    return statistics.fmean(row["masked_lm_loss"] for row in rows)


def table(results: Sequence[Mapping]) -> str:
    """Returns the mean results of each model, budget, recipe and rate as a table in Markdown."""
    names = ("model", "budget", "recipe", "learning rate", "steps", "seconds", "masked LM loss")
    names = (*names, "deviation", "masked LM accuracy", "GLUE")
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for (*of_group, rate), rows in groups(results).items():
        losses = [row["masked_lm_loss"] for row in rows]
        scores = [score for row in rows for score in row.get("glue", ())]
        steps, seconds, loss, accuracy = (
            statistics.fmean(row[name] for row in rows)
            for name in ("steps", "seconds", "masked_lm_loss", "masked_lm_accuracy")
        )
        deviation = f"{statistics.stdev(losses):.3f}" if len(losses) > 1 else "one seed"
        cells = [*of_group, f"{rate:g}", f"{steps:,.0f}", f"{seconds:.0f}", f"{loss:.3f}"]
        cells += [deviation, f"{accuracy:.1%}", _mean_and_deviation(scores)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean_and_deviation(scores: Sequence[float]) -> str:
    if not scores:
        return "-"
    mean = f"{100 * statistics.fmean(scores):.1f}"
    return f"{mean} ± {100 * statistics.stdev(scores):.1f}" if len(scores) > 1 else mean


def main(argv: Sequence[str]) -> None:
    """Trains and prints.

    Raises:
      InputError: a command failed.
    """
    parser = measuring.flag_parser("recipes", __doc__)
    add = parser.add_argument
    add("--data", required=True, metavar="DIR", help="records folder with held-out records in eval")
    add("--output", required=True, metavar="DIR", help="folder for the models and results.json")
    add("--models", nargs="+", default=["tiny"], help="sizes (default: %(default)s)")
    add("--recipes", nargs="+", default=[*RECIPES], choices=RECIPES, help="default: %(default)s")
    add(
        "--learning_rates",
        nargs="+",
        type=float,
        default=LEARNING_RATES,
        help="peaks to try with each recipe (default: %(default)s)",
    )
    add(
        "--budgets",
        nargs="+",
        default=["1500"],
        help="each a number of steps, or what `beambert pretrain --budget` takes "
        "(default: %(default)s)",
    )
    add("--num_seeds", type=int, default=1, help="trainings of each (default: %(default)s)")
    add("--glue", metavar="DIR", help="folder that holds CoLA, SST-2 and so on")
    add(
        "--num_finetuning_seeds",
        type=int,
        default=1,
        help="with --glue: fine-tunings of each encoder (default: %(default)s)",
    )
    flags, others = parser.parse_known_args(list(argv))
    output = pathlib.Path(flags.output)
    output.mkdir(parents=True, exist_ok=True)
    results = []
    # Of what is compared, each is trained in turn.
    for seed in range(1, flags.num_seeds + 1):
        for rate in flags.learning_rates:
            for model, budget, recipe in (
                (model, budget, recipe)
                for model in flags.models
                for budget in flags.budgets
                for recipe in flags.recipes
            ):
                amount = "--num_train_steps" if budget.isdigit() else "--budget"
                folder = output / f"{model} {budget} {recipe} {rate:g} {seed}"
                of_run = (f"--data={flags.data}", f"--model={model}", f"{amount}={budget}")
                of_run += (*RECIPES[recipe], f"--learning_rate={rate}", f"--random_seed={seed}")
                row = {"model": model, "budget": budget, "recipe": recipe, "learning_rate": rate}
                row |= {"seed": seed, "folder": str(folder)}
                results.append(row | pretrain(of_run, folder))
    if flags.glue:
        for row in best(results):
            seeds = range(1, flags.num_finetuning_seeds + 1)
            encoder = pathlib.Path(row["folder"])
            row["glue"] = [glue(encoder, flags.glue, seed, others) for seed in seeds]
    order = (flags.models, flags.budgets, flags.recipes)
    results.sort(
        key=lambda row: (
            *(each.index(row[name]) for each, name in zip(order, _GROUP, strict=False)),
            row["learning_rate"],
        )
    )
    for row in results:
        del row["folder"]  # It says where the machine had the models.
    measuring.write_results(output / "results.json", parser, argv, results)
    print(table(results))


if __name__ == "__main__":
    measuring.run(main)
