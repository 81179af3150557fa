"""What are both directions and next sentence prediction worth? The paper's table 5.

    python -m benchmarks.ablations --data=records --glue=glue --output=ablations
    python -m benchmarks.ablations --data=records --glue=glue --output=ablations \\
        --num_train_steps=18000 --tasks=mnli,qnli,mrpc,sst-2

Pre-trains the same model on the same records with --objective=bert and mlm, and fine-tunes
each encoder; the last one also with a BiLSTM on top. The paper's table has these four rows and the
tasks MNLI, QNLI, MRPC, SST-2 and SQuAD. Flags of `beambert glue` are passed on. After an
interruption the same command continues. Prints a table of the first metric of each task, and writes
it to OUTPUT/results.json.
"""

import json
import pathlib
from collections.abc import Mapping, Sequence

from beambert.pipelines.tasks.declarations import find_task
from benchmarks import measuring
from benchmarks.measuring import beambert

# Row of the paper's table -> the objective of its encoder, and flags of its fine-tuning.
ROWS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "BERT": ("bert", ()),
    "No NSP": ("mlm", ()),
}
TASKS = "mnli,qnli,mrpc,sst-2"


def table(results: Mapping[str, Mapping[str, float]]) -> str:
    """Returns row -> task -> score as a table of percentages in Markdown."""
    tasks = list(next(iter(results.values())))
    lines = [f"| | {' | '.join(tasks)} |", "|---" * (len(tasks) + 1) + "|"]
    for row, scores in results.items():
        cells = " | ".join(f"{100 * score:.1f}" for score in scores.values())
        lines.append(f"| {row} | {cells} |")
    return "\n".join(lines)


def first_metrics(glue: Mapping) -> dict[str, float]:
    """Returns task -> its first metric, from a glue.json."""
    return {name: task[find_task(name).metrics[0]] for name, task in glue["tasks"].items()}


def main(argv: Sequence[str]) -> None:
    """Trains and prints.

    Raises:
      InputError: a command failed.
    """
    parser = measuring.flag_parser("ablations", __doc__)
    add = parser.add_argument
    add("--data", required=True, metavar="DIR", help="records folder of `beambert data`, of pairs")
    add("--glue", required=True, metavar="DIR", help="folder that holds MNLI, QNLI and so on")
    add("--output", required=True, metavar="DIR", help="folder for the models and results.json")
    add("--recipe", default="tiny", help="recipe of all encoders (default: %(default)s)")
    add("--num_train_steps", type=int, help="steps of each (default: the recipe's)")
    add("--tasks", default=TASKS, help="tasks of `beambert glue` (default: %(default)s)")
    flags, others = parser.parse_known_args(list(argv))
    output = pathlib.Path(flags.output)
    output.mkdir(parents=True, exist_ok=True)
    steps = [f"--num_train_steps={flags.num_train_steps}"] if flags.num_train_steps else []
    results = {}
    for row, (objective, of_finetuning) in ROWS.items():
        encoder = output / objective
        beambert(
            "pretrain",
            *(f"--recipe={flags.recipe}", f"--objective={objective}", f"--data={flags.data}"),
            *(f"--model_dir={encoder}", *steps),
        )
        folder = output / f"glue of {row}"
        beambert(
            "glue",
            *(f"--init={encoder}", f"--data_dir={flags.glue}", f"--output={folder}"),
            *(f"--tasks={flags.tasks}", *measuring.SMALL_ENCODER, *of_finetuning, *others),
        )
        results[row] = first_metrics(json.loads((folder / "glue.json").read_text()))
    measuring.write_results(output / "results.json", parser, argv, results)
    print(table(results))


if __name__ == "__main__":
    measuring.run(main)
