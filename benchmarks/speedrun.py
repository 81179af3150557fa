"""Which recipe makes the best encoder in a fixed time? An entry of the speedrun, beside the record.

    python -m benchmarks.speedrun --data=records/64 --long_data=records/128 --recipe=copying_tiny \\
        --name='noisy copies, ModernBERT' --glue=glue --output=speedrun
    python -m benchmarks.speedrun --track=gpu --data=records/128 --recipe=modern_base \\
        --name='base for ten minutes' --glue=glue --output=gpu

The rules:

- The text is Wikipedia and novels, 101 MB (docs/pretraining.md); nothing else is learned from, and
  nothing of GLUE but its training files. Vocabulary and records take what they take.
- `beambert pretrain` has 30 minutes of two cores, or 10 minutes of one GPU, from its beginning to
  the finished model. Where the machine is not alone, --num_train_steps may be given with the steps
  that an idle one reaches.
- The score is the mean of CoLA (Matthews), SST-2, MRPC (F1), STS-B (Pearson), QQP (F1), MNLI
  (matched), QNLI and RTE on dev, after `beambert glue` at a rate of 3e-4, batches of 32 sequences
  of at most 128 tokens, 3 epochs. Each encoder has another seed, which is that of its fine-tunings.
- An entry of n encoders is a record if (mean - record) * sqrt(n) / deviation is above 2, with the
  deviation of the encoders of the record.

All other flags are those of `beambert pretrain`. After an interruption the same command continues.
Prints the scores, and writes them with the command to OUTPUT/results.json, whose "result" is an
entry of benchmarks/results/speedrun.json.
"""

import json
import math
import pathlib
import statistics
from collections.abc import Mapping, Sequence

from benchmarks import measuring
from benchmarks.measuring import beambert

TRACKS = {"cores": "30min", "gpu": "10min"}
# Task -> its metric in the mean.
METRICS = {
    "cola": "matthews_correlation",
    "sst-2": "accuracy",
    "mrpc": "f1",
    "sts-b": "pearson",
    "qqp": "f1",
    "mnli": "accuracy",
    "qnli": "accuracy",
    "rte": "accuracy",
}
FINETUNING = (*measuring.SMALL_ENCODER, "--num_train_epochs=3", "--max_seq_length=128")
RECORDS = pathlib.Path(__file__).parent / "results" / "speedrun.json"


def score(encoder: pathlib.Path, data: str, seed: int) -> dict[str, float]:
    """Returns the scores of the tasks, and their mean, of a fine-tuning of an encoder."""
    output = pathlib.Path(f"{encoder} glue")
    beambert(
        *("glue", f"--init={encoder}", f"--data_dir={data}", f"--output={output}"),
        *(f"--tasks={','.join(METRICS)}", f"--random_seed={seed}", *FINETUNING),
    )
    tasks = json.loads((output / "glue.json").read_text())["tasks"]
    scores = {task: 100 * tasks[task][metric] for task, metric in METRICS.items()}
    return scores | {"mean": statistics.fmean(scores.values())}


def verdict(means: Sequence[float], record: Mapping) -> str:
    """Returns whether encoders of these means are a record, in a sentence."""
    found = statistics.fmean(means)
    deviation = statistics.stdev(record["means"])
    z = (found - statistics.fmean(record["means"])) * math.sqrt(len(means)) / deviation
    is_record = "a record" if z > 2 else "no record"
    return f"{found:.1f}, z = {z:.1f} against {record['name']}: {is_record}"


def main(argv: Sequence[str]) -> None:
    """Trains, fine-tunes and prints.

    Raises:
      InputError: a command failed.
    """
    parser = measuring.flag_parser("speedrun", __doc__)
    add = parser.add_argument
    add("--track", choices=TRACKS, default="cores", help="default: %(default)s")
    add("--name", required=True, help="what is new in this entry")
    add("--glue", required=True, metavar="DIR", help="folder that holds CoLA, SST-2 and so on")
    add("--output", required=True, metavar="DIR", help="folder for the models and results.json")
    add("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5], help="default: %(default)s")
    flags, training = parser.parse_known_args(list(argv))
    if not any(flag.startswith("--num_train_steps") for flag in training):
        training.append(f"--budget={TRACKS[flags.track]}")
    output = pathlib.Path(flags.output)
    output.mkdir(parents=True, exist_ok=True)
    runs = []
    for seed in flags.seeds:
        encoder = output / f"encoder {seed}"
        beambert("pretrain", *training, f"--random_seed={seed}", f"--model_dir={encoder}")
        results = json.loads((encoder / "results.json").read_text())
        losses = {name: value for name, value in results.items() if "loss" in name}
        runs.append({"seed": seed, **losses, "glue": score(encoder, flags.glue, seed)})
        print(json.dumps(runs[-1]))
    entry = {"track": flags.track, "name": flags.name, "pretrain": training, "runs": runs}
    entry["means"] = [run["glue"]["mean"] for run in runs]
    measuring.write_results(output / "results.json", parser, argv, entry)
    of_track = [row for row in json.loads(RECORDS.read_text()) if row["track"] == flags.track]
    if of_track:
        print(verdict(entry["means"], of_track[-1]))


if __name__ == "__main__":
    measuring.run(main)
