"""The console command, as a user types it, and what the documentation shows: it works."""

import importlib
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

from beambert.cli import COMMANDS, run

ROOT = pathlib.Path(__file__).parents[1]
HEAVY = ("tensorflow", "keras", "apache_beam", "tfx_bsl", "tensorflow_model_analysis", "matplotlib")
# Prints the help and then what it took to print it.
RUN = """
import sys
from beambert import cli
try:
    status = cli.main()
except SystemExit as stop:
    status = stop.code
print("LOADED", *(name for name in {heavy} if name in sys.modules))
sys.exit(status)
"""


def run_beambert(*arguments):
    return subprocess.run(
        [sys.executable, "-c", RUN.format(heavy=HEAVY), *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_lists_every_command(arguments):
    run = run_beambert(*arguments)
    assert (run.returncode, run.stderr) == (0, "")
    for name in COMMANDS:
        assert f"\n  {name} " in run.stdout


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_of_a_command(command):
    """With an example to copy, and at once, as nothing heavy is loaded for it."""
    run = run_beambert(command, "--help")
    assert (run.returncode, run.stderr) == (0, "")
    assert f"\n  beambert {command} " in run.stdout
    assert run.stdout.splitlines()[-1] == "LOADED"


def test_unknown_command():
    run = run_beambert("dta", "--input=x")
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1 and "dta" in run.stderr


def test_version():
    run = run_beambert("--version")
    assert (run.returncode, run.stderr) == (0, "")
    assert re.match(r"beambert \d+\.\d+", run.stdout)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_list_may_be_given_in_several_flags(command):
    """The last one alone would count otherwise, and nothing would tell."""
    for name, flag in COMMANDS[command].build_parser().flags.items():
        assert flag.is_repeatable or flag.is_positional or not flag.takes_several, name


def documented_commands():
    """Every command line of the documents, of examples/ and of the commands' own examples."""
    documents = [ROOT / "README.md", *ROOT.glob("docs/*.md")]
    documents += ROOT.glob("examples/*/*.sh")
    texts = [path.read_text("utf-8") for path in documents]
    # Words and numbers that a script is given.
    texts = [re.sub(r'"\$(length|steps)"', "8", text.replace(' "$@"', "")) for text in texts]
    texts += [command.build_parser().epilog for command in COMMANDS.values()]
    for text in texts:
        joined = text.replace("\\\n", " ")
        joined = joined.replace("python -m beambert.deploy job --", "beambert")
        for line in re.findall(r"^ *beambert +(.*--.*)$", joined, re.MULTILINE):
            if line.split()[0] in COMMANDS:
                yield shlex.split(line, comments=True)


def test_documented_commands_have_real_flags():
    names = "runner|project|region|temp_location|setup_file|parallelism|environment_type"
    names += "|sdk_container_image|sdk_location|service_account_email|machine_type|max_num_workers"
    names += "|labels|subnetwork|prism_location|(?:flink|spark|direct)_[a-z_]+"
    beam_flag = re.compile(rf"--({names})=|--no_use_public_ips$")
    commands = list(documented_commands())
    assert {name for name, *_ in commands} == set(COMMANDS) - {"compare"}  # It has no flags.
    for name, *arguments in commands:
        # What a parser doesn't know goes to Beam, which takes no bare words.
        _, others = COMMANDS[name].build_parser().parse_known_args(arguments)
        assert [other for other in others if not beam_flag.match(other)] == [], name


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("pretrain --data=records --long_data=nothere --model_dir=m", "--long_data=nothere"),
        ("finetune --task=sst-2 --data_dir=task --init=nothere --model_dir=n", "--init=nothere"),
        ("evaluate --task=sst-2 --data_dir=task --model=nothere --output=o", "--model=nothere"),
        ("predict --model=nothere --input=x --output=o", "--model=nothere"),
        ("export --model=nothere --output=o", "--model=nothere"),
        ("fill --model=nothere [MASK]", "--model=nothere"),
        ("embed --model=nothere --input=x --output=o", "--model=nothere"),
        ("index --embeddings=nothere --output=o", "--embeddings=nothere"),
        ("search --index=nothere a", "--index=nothere"),
        ("compare nothere", "nothere"),
    ],
)
def test_a_missing_folder_is_refused_before_libraries_load(
    command, missing, tmp_path, monkeypatch, capsys
):
    """And with one answer; loading takes many seconds."""
    name, *arguments = command.split()
    module = importlib.import_module(COMMANDS[name].module)
    monkeypatch.setattr(module, "loading", lambda: pytest.fail("loads"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "records").mkdir()
    (tmp_path / "records/_SUCCESS").touch()
    (tmp_path / "task").mkdir()
    (tmp_path / "task/train.tsv").touch()
    assert run([name, *arguments]) == 2
    assert f"{missing}: no such folder" in capsys.readouterr().err


DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]


def test_links_point_to_files_that_exist():
    missing = []
    for path in DOCUMENTS:
        for link in re.findall(r"\]\(([^)\s#]+)[^)\s]*\)", path.read_text("utf-8")):
            if "://" not in link and not (path.parent / link).exists():
                missing.append(f"{path.relative_to(ROOT)}: {link}")
    assert not missing
