"""`beambert COMMAND …`: lists the commands, or runs one and imports only what it needs."""

import sys
from collections.abc import Sequence

from beambert import interrupts, temporary
from beambert.command import Command
from beambert.flags import meant

# The commands, in the order of the path from text to a served model.
_TABLE = (
    Command(
        "vocab",
        "corpus -> vocabulary or tokenizer (Beam)",
        "beambert.pipelines.create_vocabulary",
        needs_beam=True,
    ),
    Command(
        "data",
        "corpus -> pre-training records (Beam)",
        "beambert.pipelines.create_pretraining_data",
        needs_beam=True,
    ),
    Command(
        "verify",
        "records -> statistics, faults and warnings (Beam)",
        "beambert.pipelines.verify",
        needs_beam=True,
    ),
    Command("pretrain", "records -> encoder", "beambert.trainer.commands.pretrain", resumes=True),
    Command(
        "features",
        "task -> features to fine-tune on (Beam)",
        "beambert.pipelines.create_task_features",
        needs_beam=True,
    ),
    Command(
        "finetune", "encoder + task -> model", "beambert.trainer.commands.finetune", resumes=True
    ),
    Command(
        "glue",
        "encoder -> all of GLUE, submission.zip",
        "beambert.trainer.commands.glue",
        resumes=True,
    ),
    Command(
        "evaluate",
        "model + task -> metrics, blessing (Beam)",
        "beambert.pipelines.evaluate",
        needs_beam=True,
    ),
    Command(
        "predict",
        "model + texts -> answers (Beam)",
        "beambert.pipelines.predict",
        needs_beam=True,
    ),
    Command("fill", "encoder + texts -> what stands at [MASK]", "beambert.trainer.commands.fill"),
    Command("score", "encoder + texts -> how likely they are", "beambert.trainer.commands.score"),
    Command(
        "embed",
        "encoder + texts -> embeddings in Parquet files",
        "beambert.embedding",
        resumes=True,
    ),
    Command(
        "index",
        "embeddings -> an index of them and of words",
        "beambert.trainer.commands.index",
        resumes=True,
    ),
    Command(
        "negatives",
        "index + pairs -> pairs with hard negatives",
        "beambert.trainer.commands.negatives",
    ),
    Command("search", "index + queries -> passages", "beambert.trainer.commands.search"),
    Command(
        "judge",
        "index + judged queries -> nDCG, MRR, MAP, recall",
        "beambert.trainer.commands.judge",
    ),
    Command("compare", "models -> settings, results, curves", "beambert.trainer.commands.compare"),
    Command(
        "explore",
        "text, records, models -> a local page to look inside",
        "beambert.explore.command",
        needs_beam=True,
    ),
    Command("export", "model -> SavedModel on raw text", "beambert.trainer.commands.export"),
    Command(
        "deliver",
        "task -> fine-tuned model, evaluated and served if blessed",
        "beambert.deploy.deliver",
        needs_beam=True,
        resumes=True,
    ),
    Command(
        "retrain",
        "new files -> a new served version, if it is better",
        "beambert.deploy.retraining.command",
        needs_beam=True,
        resumes=True,
    ),
    Command(
        "demo",
        "all of the above on text that every machine has",
        "beambert.demo.run",
        needs_beam=True,
        resumes=True,
    ),
)
COMMANDS = {command.name: command for command in _TABLE}


def usage() -> str:
    """Returns the help text, a list of the commands."""
    lines = [f"  {name:<10}{command.about}" for name, command in COMMANDS.items()]
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
            "`beambert --version` prints the version.",
        ]
    )


def version() -> str:
    """Returns the installed version."""
    import importlib.metadata

    return importlib.metadata.version("beambert")


def main() -> int:
    """Runs the command of the command line as the work of this process; returns its exit status.

    It ends the process on signals, and soon after it returns; see `interrupts`.
    """
    interrupts.install()
    status: object = 1
    try:
        status = run(sys.argv[1:])
        return status
    except SystemExit as end:
        status = end.code
        raise
    finally:
        interrupts.finish(status)


def run(arguments: Sequence[str]) -> int:
    """Runs a command and returns its exit status.

    Args:
      arguments: name of the command, and its arguments.
    """
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    name, *rest = arguments
    if name == "--version":
        print(f"beambert {version()}")
        return 0
    if name not in COMMANDS:
        nearest = meant(name, COMMANDS)
        advice = f"did you mean {nearest}?" if nearest else "see beambert --help"
        print(f"beambert: no command {name!r}; {advice}", file=sys.stderr)
        return 2
    with temporary.own_folder():
        return COMMANDS[name].run(rest)
