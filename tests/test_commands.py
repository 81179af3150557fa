"""The console command, as a user types it, and the commands that the documentation shows."""

import importlib
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

from beambert.commands import COMMANDS
from beambert.deploy import deliver
from beambert.deploy.retraining import command as retrain
from beambert.pipelines import (
    create_pretraining_data,
    create_task_features,
    create_vocabulary,
    evaluate,
    predict,
    verify,
)
from beambert.trainer.commands import export, glue, pretrain
from beambert.trainer.commands import finetune as finetune_command

ROOT = pathlib.Path(__file__).parents[1]
HEAVY = ("tensorflow", "keras", "apache_beam", "tfx_bsl", "tensorflow_model_analysis", "matplotlib")
# Prints the help and then what it took to print it.
RUN = """
import sys
from beambert import commands
try:
    status = commands.main()
except SystemExit as stop:
    status = stop.code
print("LOADED", *(name for name in {heavy} if name in sys.modules))
sys.exit(status)
"""
PARSERS = {
    "vocab": create_vocabulary.build_parser,
    "data": create_pretraining_data.build_parser,
    "verify": verify.build_parser,
    "pretrain": pretrain.build_pretrain_parser,
    "features": create_task_features.build_parser,
    "finetune": finetune_command.build_finetune_parser,
    "glue": glue.build_glue_parser,
    "evaluate": evaluate.build_parser,
    "export": export.build_export_parser,
    "predict": predict.build_parser,
    "deliver": deliver.build_parser,
    "retrain": retrain.build_parser,
}


def run_beambert(*arguments):
    return subprocess.run(
        [sys.executable, "-c", RUN.format(heavy=HEAVY), *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


@pytest.mark.parametrize("arguments", [[], ["--help"], ["help"]])
def test_help_lists_every_command(arguments):
    run = run_beambert(*arguments)
    assert (run.returncode, run.stderr) == (0, "")
    for name in COMMANDS:
        assert f"\n  {name} " in run.stdout


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_of_a_command(command):
    """With an example to copy, and at once, as nothing heavy is loaded for it."""
    run = run_beambert(command, "--help")
    assert (run.returncode, run.stderr) == (0, "")
    assert f"beambert {command} --" in run.stdout
    assert run.stdout.splitlines()[-1] == "LOADED"


def test_unknown_command():
    run = run_beambert("dta", "--input=x")
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1 and "dta" in run.stderr


def documented_commands():
    """Every command line of the documents and of the commands' own examples."""
    documents = [ROOT / "README.md", ROOT / "deploy" / "README.md", *ROOT.glob("docs/*.md")]
    texts = [path.read_text("utf-8") for path in documents]
    texts += [
        getattr(importlib.import_module(module), name)
        for module, name in (
            ("beambert.pipelines.create_vocabulary", "EPILOG"),
            ("beambert.pipelines.create_pretraining_data", "EPILOG"),
            ("beambert.pipelines.verify", "EPILOG"),
            ("beambert.pipelines.predict", "EPILOG"),
            ("beambert.trainer.commands.pretrain", "PRETRAIN_EPILOG"),
            ("beambert.pipelines.create_task_features", "EPILOG"),
            ("beambert.trainer.commands.finetune", "FINETUNE_EPILOG"),
            ("beambert.trainer.commands.glue", "GLUE_EPILOG"),
            ("beambert.trainer.commands.export", "EXPORT_EPILOG"),
            ("beambert.deploy.deliver", "EPILOG"),
            ("beambert.deploy.retraining.command", "EPILOG"),
        )
    ]
    for text in texts:
        joined = text.replace("\\\n", " ")
        joined = joined.replace("python -m beambert.deploy.vertex job --", "beambert")
        for line in re.findall(r"^ *beambert +(.*--.*)$", joined, re.MULTILINE):
            if line.split()[0] in PARSERS:
                yield shlex.split(line, comments=True)


def test_documented_commands_have_real_flags():
    names = "runner|project|region|temp_location|setup_file|parallelism|environment_type"
    names += "|sdk_container_image|service_account_email|machine_type|max_num_workers"
    beam_flag = re.compile(rf"--({names}|prism_location|flink_[a-z_]+|direct_[a-z_]+)=")
    commands = list(documented_commands())
    assert {name for name, *_ in commands} == set(PARSERS)
    for name, *arguments in commands:
        # What a parser doesn't know goes to Beam, which takes no bare words.
        _, others = PARSERS[name]().parse_known_args(arguments)
        if name == "deliver":
            of_task = [argument for argument in arguments if argument not in others]
            finetune = finetune_command.build_finetune_parser()
            parsed = finetune.parse_known_args([*others, *of_task, "--model_dir=model"])
            others = [other for other in others if other in parsed[1]]
        assert [other for other in others if not beam_flag.match(other)] == [], name
