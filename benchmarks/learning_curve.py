"""Which results should I see? Half an hour of BERT tiny on two cores, then SST-2 and MRPC.

    python -m benchmarks.learning_curve --input 'wiki_extracted/*' 'novels/*' \\
        --glue=glue --output=learning

Learns a vocabulary, makes records and pre-trains with the recipe `tiny`. Then fine-tunes on each
task from the encoder and from random weights. All steps are the commands that a user runs. After an
interruption the same command continues. Prints a table of held-out results by step, and writes it
and the scores to OUTPUT/results.json.
"""

import json
import pathlib
from collections.abc import Mapping, Sequence

from benchmarks import measuring
from benchmarks.measuring import beambert

TASKS = ("sst-2", "mrpc")
FINETUNING = (*measuring.SMALL_ENCODER, "--num_train_epochs=3", "--max_seq_length=64")


def pretrain(inputs: list[str], vocab_size: int, steps: int | None, output: pathlib.Path) -> None:
    """Text -> output/encoder; `steps` None takes the recipe's number of steps."""
    vocabulary, records = output / "vocab.txt", output / "records"
    if not vocabulary.exists():
        beambert(
            "vocab", "--input", *inputs, f"--output={vocabulary}", f"--vocab_size={vocab_size}"
        )
    beambert(
        "data",
        *("--input", *inputs),
        f"--vocab_file={vocabulary}",
        f"--output={records}",
        "--max_seq_length=32,128",
        "--eval_fraction=0.02",
        "--dupe_factor=2",
    )
    beambert(
        "pretrain",
        "--recipe=tiny",
        f"--data={records / '32'}",
        f"--long_data={records / '128'}",
        f"--model_dir={output / 'encoder'}",
        "--eval_steps=1000",
        "--save_checkpoints_steps=500",
        *([] if steps is None else [f"--num_train_steps={steps}"]),
    )


def finetune(task: str, folder: str, output: pathlib.Path) -> dict[str, float]:
    """Returns the dev accuracies of a task."""
    scores = {}
    random = ("--init=random", "--model=tiny", f"--vocab_file={output / 'vocab.txt'}")
    for name, start in (
        ("pre-trained", (f"--init={output / 'encoder'}",)),
        ("random weights", random),
    ):
        model = output / f"{task} from {name}"
        beambert(
            "finetune",
            f"--task={task}",
            f"--data_dir={folder}",
            *start,
            f"--model_dir={model}",
            *FINETUNING,
        )
        results = json.loads((model / "results.json").read_text())
        scores[name] = results["accuracy"]
        scores["majority"] = results["baseline_accuracy"]
    return scores


def curve(encoder: pathlib.Path) -> list[dict[str, float]]:
    """Returns the held-out metrics by step, each with the sequence length of its phase."""
    phases = json.loads((encoder / "training.json").read_text())["phases"]
    rows = []
    for row in map(json.loads, (encoder / "metrics.jsonl").read_text().splitlines()):
        if row["split"] == "eval":
            phase = next(phase for phase in phases if row["step"] <= phase["last_step"])
            rows.append(row | {"max_seq_length": phase["max_seq_length"]})
    return rows


def table(rows: Sequence[Mapping[str, float]]) -> str:
    """Returns the held-out metrics by step as a table in Markdown."""
    lines = [
        "| step | tokens | masked LM loss | masked LM accuracy | next sentence accuracy |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['step']:,} | {row['max_seq_length']} | {row['masked_lm_loss']:.2f} "
            f"| {row['masked_lm_accuracy']:.1%} "
            f"| {row['next_sentence_accuracy']:.1%} |"
        )
    return "\n".join(lines)


def main(argv: Sequence[str]) -> None:
    """Trains and prints.

    Raises:
      InputError: a command failed.
    """
    parser = measuring.flag_parser("learning_curve", __doc__)
    add = parser.add_argument
    add("--input", nargs="+", required=True, metavar="GLOB", help="corpus to learn from")
    add("--tasks", nargs="+", default=TASKS, choices=TASKS, help="default: %(default)s")
    add("--glue", required=True, metavar="DIR", help="folder that holds SST-2 and MRPC")
    add("--output", required=True, metavar="DIR", help="folder for the models and results.json")
    add("--vocab_size", type=int, default=10_000, help="number of tokens (default: %(default)s)")
    add("--num_train_steps", type=int, help="number of steps (default: that of the recipe)")
    flags = parser.parse_args(list(argv))
    output = pathlib.Path(flags.output)
    output.mkdir(parents=True, exist_ok=True)
    pretrain(flags.input, flags.vocab_size, flags.num_train_steps, output)
    rows = curve(output / "encoder")
    tasks = {task: finetune(task, f"{flags.glue}/{task.upper()}", output) for task in flags.tasks}
    result = {"held_out": rows, "dev_accuracy": tasks}
    result |= {"end": json.loads((output / "encoder" / "results.json").read_text())}
    measuring.write_results(output / "results.json", parser, argv, result)
    print(table(rows))
    print(json.dumps(tasks, indent=1))


if __name__ == "__main__":
    measuring.run(main)
