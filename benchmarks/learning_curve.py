"""What should I see? Half an hour of BERT tiny on two cores, then SST-2 and MRPC.

    python -m benchmarks.learning_curve --input 'wiki_extracted/*' 'novels/*' \\
        --glue=glue --output=learning

Learns a vocabulary, makes records, pre-trains by the recipe `tiny`, and fine-tunes on each task
from the encoder and from random weights, by the commands that a user gives. Interrupted, the same
command continues. Prints the table of held-out results by step, and writes it and the scores to
OUTPUT/results.json.
"""

import argparse
import json
import pathlib
import subprocess
import sys

VOCAB_SIZE = 10_000
TASKS = ("sst-2", "mrpc")
# Of the grid for small encoders in the original release's README.
FINETUNING = ("--learning_rate=3e-4", "--train_batch_size=32", "--num_train_epochs=3")
FINETUNING_LENGTH = "--max_seq_length=64"


def beambert(*arguments: str) -> None:
    """Runs a command; its output is shown."""
    subprocess.run([sys.executable, "-m", "beambert", *arguments], check=True)


def pretrain(inputs: list[str], output: pathlib.Path) -> None:
    """Text -> output/encoder."""
    vocabulary, records = output / "vocab.txt", output / "records"
    if not vocabulary.exists():
        beambert(
            "vocab", "--input", *inputs, f"--output={vocabulary}", f"--vocab_size={VOCAB_SIZE}"
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
            FINETUNING_LENGTH,
            *FINETUNING,
        )
        results = json.loads((model / "results.json").read_text())
        scores[name] = results["accuracy"]
        scores["majority"] = results["baseline_accuracy"]
    return scores


def curve(encoder: pathlib.Path) -> list[dict[str, float]]:
    """Returns the held-out metrics by step, with the length of what was held out."""
    phases = json.loads((encoder / "training.json").read_text())["phases"]
    rows = []
    for row in map(json.loads, (encoder / "metrics.jsonl").read_text().splitlines()):
        if row["split"] == "eval":
            phase = next(phase for phase in phases if row["step"] <= phase["last_step"])
            rows.append(row | {"max_seq_length": phase["max_seq_length"]})
    return rows


def main() -> None:
    """Trains and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", nargs="+", required=True, metavar="GLOB")
    parser.add_argument("--glue", required=True, metavar="DIR", help="holds SST-2 and MRPC")
    parser.add_argument("--output", required=True, metavar="DIR")
    flags = parser.parse_args()
    output = pathlib.Path(flags.output)
    output.mkdir(parents=True, exist_ok=True)
    pretrain(flags.input, output)
    rows = curve(output / "encoder")
    tasks = {task: finetune(task, f"{flags.glue}/{task.upper()}", output) for task in TASKS}
    results = {"held_out": rows, "dev_accuracy": tasks}
    results |= {"end": json.loads((output / "encoder" / "results.json").read_text())}
    (output / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    print("| step | tokens | masked LM loss | masked LM accuracy | next sentence accuracy |")
    print("|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['step']:,} | {row['max_seq_length']} | {row['masked_lm_loss']:.2f} "
            f"| {row['masked_lm_accuracy']:.1%} "
            f"| {row['next_sentence_accuracy']:.1%} |"
        )
    print(json.dumps(tasks, indent=1))


if __name__ == "__main__":
    main()
