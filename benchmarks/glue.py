"""What is pre-training worth? All of GLUE from an encoder, and from random weights of that size.

    python -m benchmarks.glue --init=encoder --data_dir=glue --output=glue-results

Runs `beambert glue` twice and passes it all other flags. Prints both scores beside those of the
best answer that ignores the text. After an interruption the same command continues. The results
also go to OUTPUT/results.json.
"""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import measuring

STARTS = ("pre-trained", "random weights")
WITHOUT_TEXT = "without the text"


def compare(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the tasks' scores from each start and without the text, and the averages.

    Args:
      found: start -> content of its glue.json.
    """
    tasks: dict[str, dict[str, dict[str, float]]] = {}
    for task, scores in found[STARTS[0]]["tasks"].items():
        metrics = [name for name in scores if f"baseline_{name}" in scores]
        tasks[task] = {
            metric: {start: found[start]["tasks"][task][metric] for start in STARTS}
            | {WITHOUT_TEXT: scores[f"baseline_{metric}"]}
            for metric in metrics
        }
    return {"tasks": tasks, "average": {start: found[start]["average"] for start in STARTS}}


def table(result: Mapping[str, Any]) -> str:
    """Returns the result of `compare` as a table of percentages in Markdown."""
    names = ("task", "metric", *STARTS, WITHOUT_TEXT)
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for task, metrics in result["tasks"].items():
        for metric, scores in metrics.items():
            cells = " | ".join(f"{100 * score:.1f}" for score in scores.values())
            lines.append(f"| {task} | {metric.replace('_', ' ')} | {cells} |")
    cells = " | ".join(f"{100 * score:.1f}" for score in result["average"].values())
    return "\n".join([*lines, f"| average | | {cells} | |"])


def main(argv: Sequence[str]) -> None:
    """Fine-tunes and prints.

    Raises:
      InputError: a fine-tuning failed.
    """
    parser = measuring.flag_parser("glue", __doc__)
    add = parser.add_argument
    add("--init", required=True, metavar="DIR", help="encoder of `beambert pretrain`")
    add("--data_dir", required=True, metavar="DIR", help="folder that holds CoLA, SST-2 and so on")
    add("--output", required=True, metavar="DIR", help="folder for the models and results.json")
    flags, others = parser.parse_known_args(list(argv))
    random = ("--init=random", f"--model={flags.init}/bert_config.json")
    starts = (
        (f"--init={flags.init}",),
        (*random, f"--vocab_file={flags.init}/vocab.txt"),
    )
    found = {}
    for name, start in zip(STARTS, starts, strict=True):
        output = pathlib.Path(flags.output, name)
        output.mkdir(parents=True, exist_ok=True)
        to = (f"--data_dir={flags.data_dir}", f"--output={output}")
        measuring.beambert("glue", *to, *start, *measuring.SMALL_ENCODER, *others)
        found[name] = json.loads((output / "glue.json").read_text())
    result = compare(found)
    measuring.write_results(pathlib.Path(flags.output, "results.json"), parser, argv, result)
    print(table(result))


if __name__ == "__main__":
    measuring.run(main)
