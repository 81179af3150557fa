"""What is pre-training worth? All of GLUE from an encoder, and from random weights of its size.

    python -m benchmarks.glue --init=encoder --data_dir=glue --output=glue-results

Runs `beambert glue` twice, with the flags that are given besides, and prints both beside the best
answer that ignores the text. Interrupted, the same command continues. The results also go to
OUTPUT/results.json.
"""

import argparse
import json
import pathlib
import subprocess
import sys

STARTS = ("pre-trained", "random weights")
# Of the grid for small encoders in the original release's README.
SMALL = ("--learning_rate=3e-4", "--train_batch_size=32")


def main() -> None:
    """Fine-tunes and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--init", required=True, metavar="DIR", help="of `beambert pretrain`")
    parser.add_argument("--data_dir", required=True, metavar="DIR", help="GLUE's folders")
    parser.add_argument("--output", required=True, metavar="DIR")
    flags, others = parser.parse_known_args()
    random = ("--init=random", f"--model={flags.init}/bert_config.json")
    starts = {
        "pre-trained": (f"--init={flags.init}",),
        "random weights": (*random, f"--vocab_file={flags.init}/vocab.txt"),
    }
    found = {}
    for name, start in starts.items():
        output = pathlib.Path(flags.output, name)
        output.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "beambert", "glue", f"--data_dir={flags.data_dir}"]
        command += [*start, f"--output={output}", *SMALL, *others]
        subprocess.run(command, check=True)
        found[name] = json.loads((output / "glue.json").read_text())
    names = ("task", "metric", *STARTS, "without the text")
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    metrics: dict[str, dict[str, list[float]]] = {}
    for task, of_task in found["pre-trained"]["tasks"].items():
        metrics[task] = {}
        for metric in [name for name in of_task if f"baseline_{name}" in of_task]:
            other = found["random weights"]["tasks"][task]
            values = [of_task[metric], other[metric], of_task[f"baseline_{metric}"]]
            metrics[task][metric] = dict(zip(names[2:], values, strict=True))
            cells = " | ".join(f"{100 * value:.1f}" for value in values)
            lines.append(f"| {task} | {metric.replace('_', ' ')} | {cells} |")
    average = {name: found[name]["average"] for name in STARTS}
    cells = " | ".join(f"{100 * value:.1f}" for value in average.values())
    lines.append(f"| average | | {cells} | |")
    results = {"flags": [*SMALL, *others], "tasks": metrics, "average": average}
    pathlib.Path(flags.output, "results.json").write_text(json.dumps(results, indent=1) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
