"""`beambert COMMAND …`: lists the commands and runs one, importing only what that one needs."""

import importlib
import sys

from beambert.pipelines.shared.console import run_main

# command -> (module, its main, what it does). In the order of the path from text to a model.
COMMANDS = {
    "vocab": (
        "beambert.pipelines.create_vocabulary",
        "main",
        "corpus -> WordPiece vocabulary (Beam)",
    ),
    "data": (
        "beambert.pipelines.create_pretraining_data",
        "main",
        "corpus -> pre-training records (Beam)",
    ),
    "verify": (
        "beambert.pipelines.verify",
        "main",
        "records -> statistics, faults and warnings (Beam)",
    ),
    "pretrain": ("beambert.trainer.commands.pretrain", "pretrain_main", "records -> encoder"),
    "features": (
        "beambert.pipelines.create_task_features",
        "main",
        "task -> features to fine-tune on (Beam)",
    ),
    "finetune": ("beambert.trainer.commands.finetune", "finetune_main", "encoder + task -> model"),
    "glue": (
        "beambert.trainer.commands.glue",
        "glue_main",
        "encoder -> all of GLUE, submission.zip",
    ),
    "evaluate": ("beambert.pipelines.evaluate", "main", "model + task -> metrics, blessing (Beam)"),
    "predict": ("beambert.pipelines.predict", "main", "model + texts -> answers (Beam)"),
    "export": (
        "beambert.trainer.commands.export",
        "export_main",
        "model -> SavedModel on raw text",
    ),
    "deliver": (
        "beambert.deploy.deliver",
        "main",
        "task -> fine-tuned, evaluated, served if blessed",
    ),
    "retrain": (
        "beambert.deploy.retraining.command",
        "main",
        "new files -> a new served version, if it is better",
    ),
    "demo": ("beambert.demo.run", "main", "all of the above on text that every machine has"),
}


def usage() -> str:
    """Returns the list of commands."""
    lines = [f"  {name:<10}{about}" for name, (_, _, about) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: beambert COMMAND …",
            "",
            "From your own text to a BERT that is pre-trained, fine-tuned, evaluated and exported.",
            "",
            "commands:",
            *lines,
            "",
            "`beambert COMMAND --help` lists a command's flags, with examples.",
        ]
    )


def main() -> int:
    """Dispatches to a command; returns its exit status."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        print(f"beambert: no command {name!r}; see beambert --help", file=sys.stderr)
        return 2
    module, function, _ = COMMANDS[name]
    return run_main(name, getattr(importlib.import_module(module), function), rest)
