"""`beambert COMMAND …`: lists the commands and runs one, importing only what that one needs."""

import importlib
import sys

from pipelines.console import run_main

# command -> (module, its main, what it does). In the order of the path from text to a model.
COMMANDS = {
    "vocab": ("pipelines.create_vocabulary", "main", "corpus -> WordPiece vocabulary (Beam)"),
    "data": ("pipelines.create_pretraining_data", "main", "corpus -> pre-training records (Beam)"),
    "verify": ("pipelines.verify", "main", "records -> statistics, faults and warnings (Beam)"),
    "pretrain": ("trainer.task", "pretrain_main", "records -> encoder"),
    "features": (
        "pipelines.create_task_features",
        "main",
        "task -> features to fine-tune on (Beam)",
    ),
    "finetune": ("trainer.finetune_command", "finetune_main", "encoder + task -> model"),
    "glue": ("trainer.finetune_command", "glue_main", "encoder -> all of GLUE, submission.zip"),
    "evaluate": ("pipelines.evaluate", "main", "model + task -> metrics, blessing (Beam)"),
    "predict": ("pipelines.predict", "main", "model + texts -> answers (Beam)"),
    "export": ("trainer.task", "export_main", "model -> SavedModel on raw text"),
    "deliver": ("deploy.deliver", "main", "task -> fine-tuned, evaluated, served if blessed"),
    "retrain": ("deploy.retrain", "main", "new files -> a new served version, if it is better"),
    "demo": ("demo.run", "main", "all of the above on text that every machine has"),
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


if __name__ == "__main__":
    sys.exit(main())
