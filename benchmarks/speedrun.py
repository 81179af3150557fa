"""Who makes the best encoder in the time? Runs of `beambert train` with several seeds.

    python -m benchmarks.speedrun --output=record --seeds 1 2 3 4 5
    python -m benchmarks.speedrun --output=mine --seeds 6 7 8 --record=record/results.json
    python -m benchmarks.speedrun --output=wiki --input 'wiki/*' --held_out=held-out.txt --glue=glue

Tracks: two cores for 30 minutes (the default budget), one GPU for 10 (`--budget=10min`). The text
is what every machine has: three of the four files of documentation that `beambert demo` reads, of
the packages in requirements/*.lock. A run is one command, from text to encoder; what comes after it
takes no part of the budget. Change the code or the flags of that command as you like, but not what
is held out: paragraphs of the fourth file. Their loss by character (`beambert score --whole_words`)
is comparable whatever the vocabulary. Flags that are not listed go to `beambert train`.

With --record, which names the results of the record (at least five seeds), it is beaten if
(its mean - the mean of these) * sqrt(the number of these) / the record's deviation is above 2.
The commit, each command, its time and its loss are written to OUTPUT/results.json. After an
interruption the same command continues.
"""

import json
import math
import pathlib
import random
import shlex
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from beambert.console import duration
from beambert.demo.corpus import make_corpus
from beambert.errors import InputError
from beambert.trainer.pretraining.job import parse_budget
from benchmarks import measuring
from benchmarks.measuring import beambert

# Paragraphs of fewer words have little context, those of more may not fit into 128 tokens.
HELD_OUT, FEWEST_WORDS, MOST_WORDS = 1000, 6, 60
# A record's deviation is that of so many runs, and is beaten by so much.
LEAST_RUNS, LEAST_SCORE = 5, 2.0
# A command may end so much later than its budget, as a share of it.
TOLERANCE = 0.02


def make_text(folder: pathlib.Path) -> tuple[list[str], str]:
    """Returns the files to read and the file of held-out paragraphs, which it makes if missing."""
    make_corpus(folder)
    *files, last = sorted(map(str, (folder / "corpus").glob("*.jsonl")))
    held_out = folder / "held-out.txt"
    if not held_out.exists():
        lines = pathlib.Path(last).read_text(encoding="utf-8").splitlines()
        documents = [json.loads(line)["text"] for line in lines]
        paragraphs = [each for text in documents for each in text.split("\n")]
        some = [each for each in paragraphs if FEWEST_WORDS <= each.count(" ") + 1 <= MOST_WORDS]
        chosen = random.Random(0).sample(sorted(set(some)), HELD_OUT)
        held_out.write_text("\n".join(chosen) + "\n", encoding="utf-8")
    return files, str(held_out)


def loss_of(scores: str) -> float:
    """Returns the loss of each character in nats, of a file that `beambert score` wrote."""
    with open(scores, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    lost = -sum(row["pseudo_log_likelihood"] for row in rows)
    return lost / sum(row["characters"] for row in rows)


def run_one(
    flags: Sequence[str], folder: pathlib.Path, held_out: str, glue: str | None
) -> dict[str, Any]:
    """Trains once, unless that is done, and returns the command, its seconds and what it gained."""
    done = folder / "run.json"
    if not done.exists():
        command = ("train", *flags, f"--output={folder / 'made'}")
        started = time.monotonic()
        beambert(*command)
        seconds = round(time.monotonic() - started, 1)
        done.write_text(json.dumps({"command": shlex.join(command), "seconds": seconds}))
    row = json.loads(done.read_text())
    encoder, scores = f"{folder}/made/encoder", f"{folder}/scores.jsonl"
    if not pathlib.Path(scores).exists():
        beambert(
            *("score", f"--model={encoder}", "--whole_words"),
            *(f"--input={held_out}", f"--output={scores}"),
        )
    row["loss_per_character"] = round(loss_of(scores), 4)
    if glue:
        output = f"{folder}/glue"
        beambert(
            *("glue", f"--init={encoder}", f"--data_dir={glue}", f"--output={output}"),
            *(*measuring.SMALL_ENCODER, "--max_seq_length=128"),
        )
        row["glue"] = json.loads(pathlib.Path(output, "glue.json").read_text())["average"]
    return row


def score_against(record: Sequence[float], losses: Sequence[float]) -> float:
    """Returns by how many deviations of their mean losses are below those of a record."""
    gained = statistics.fmean(record) - statistics.fmean(losses)
    return gained * math.sqrt(len(losses)) / statistics.stdev(record)


def read_record(path: str, budget: float) -> list[float]:
    """Returns the losses of a record.

    Raises:
      InputError: it has too few runs, or another budget.
    """
    result = json.loads(pathlib.Path(path).read_text())["result"]
    losses = [row["loss_per_character"] for row in result["runs"]]
    if len(losses) < LEAST_RUNS or result["budget"] != budget:
        raise InputError(
            f"--record={path}: has {len(losses)} runs of {duration(result['budget'])}; give one of "
            f"at least {LEAST_RUNS} runs of {duration(budget)}"
        )
    return losses


def summary(result: Mapping[str, Any], record: Sequence[float] | None) -> str:
    """Returns the lines that say what came out."""
    losses = [row["loss_per_character"] for row in result["runs"]]
    spread = f" ± {statistics.stdev(losses):.4f}" if len(losses) > 1 else ""
    lines = [f"{statistics.fmean(losses):.4f}{spread} nats a character, {len(losses)} runs"]
    longest = max(row["seconds"] for row in result["runs"])
    if longest > (1 + TOLERANCE) * result["budget"]:
        lines.append(f"no record: a run took {duration(longest)}")
    elif record:
        score = score_against(record, losses)
        verdict = "a record" if score > LEAST_SCORE else "no record"
        lines.append(f"{verdict}: {score:.1f} deviations below, {LEAST_SCORE:g} are needed")
    return "\n".join(lines)


def main(argv: Sequence[str]) -> None:
    """Runs and prints.

    Raises:
      InputError: a command failed, or a flag cannot be used.
    """
    parser = measuring.flag_parser("speedrun", __doc__)
    add = parser.add_argument
    add("--output", required=True, metavar="DIR", help="folder for the runs and results.json")
    add("--seeds", type=int, nargs="+", default=[1], metavar="N", help="one run each (default: 1)")
    add("--budget", type=parse_budget, default=1800.0, metavar="TIME", help="(default: 30min)")
    add("--input", nargs="+", metavar="FILE", help="other text; needs --held_out")
    add("--held_out", metavar="FILE", help="texts that are not in --input, one a line")
    add("--glue", metavar="DIR", help="folder of GLUE, to fine-tune each encoder on its tasks")
    add("--record", metavar="FILE", help="results.json of the runs to beat")
    flags, others = parser.parse_known_args(list(argv))
    if bool(flags.input) != bool(flags.held_out):
        raise InputError("--input, --held_out: give both or none")
    record = read_record(flags.record, flags.budget) if flags.record else None
    output = pathlib.Path(flags.output)
    output.mkdir(parents=True, exist_ok=True)
    text, held_out = flags.input, flags.held_out
    if not text:
        text, held_out = make_text(output / "text")
    given = (*text, f"--budget={flags.budget:.0f}s", *others)
    runs = []
    for seed in flags.seeds:
        folder = output / f"seed-{seed}"
        folder.mkdir(exist_ok=True)
        runs.append(run_one((*given, f"--random_seed={seed}"), folder, held_out, flags.glue))
        print(json.dumps(runs[-1]), flush=True)
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    result = {"budget": flags.budget, "commit": commit.stdout.strip(), "runs": runs}
    measuring.write_results(output / "results.json", parser, argv, result)
    print(summary(result, record))


if __name__ == "__main__":
    measuring.run(main)
