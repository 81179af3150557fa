"""The documents: links lead somewhere, files and flags that they name exist, README stays short."""

import contextlib
import functools
import importlib.util
import io
import pathlib
import re

import pytest

from beambert import commands

ROOT = pathlib.Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "deploy" / "README.md"]
DOCUMENTS += sorted(ROOT.glob("docs/*.md"))
TOPS = (
    "beambert",
    "pipelines",
    "model",
    "trainer",
    "deploy",
    "demo",
    "explore",
    "docs",
    "tests",
    "benchmarks",
    "examples",
)
README_BYTES = 8 * 1024
# Flags of others: Beam's, WikiExtractor's, those of `python -m beambert.deploy.vertex`.
BEAM_FLAGS = {
    *("--runner", "--machine_type", "--max_num_workers", "--disk_size_gb", "--resource_hint"),
    *("--dataflow_service_options", "--flexrs_goal", "--no_use_public_ips", "--experiments"),
    *("--setup_file", "--project", "--region", "--temp_location", "--flink_master"),
    *("--direct_running_mode", "--environment_type", "--environment_cache_millis"),
    *("--job_endpoint", "--hdfs_host", "--hdfs_port", "--hdfs_user", "--hdfs_full_urls"),
    "--s3_region_name",
}
OTHER_FLAGS = {"--json", "--show", "--share", "--start"}

documents = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def anchors(path):
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def prose(path):
    """A document without its blocks of code."""
    text = path.read_text("utf-8")
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def links(path):
    return re.findall(r"\]\(([^)\s]+)\)", prose(path))


def codes(path):
    """What stands in backticks in the running text."""
    return re.findall(r"`([^`]+)`", prose(path))


def test_the_scan_sees_what_is_there():
    assert "what-should-i-see" in anchors(ROOT / "docs" / "pretraining.md")
    assert "pipelines/corpus/" in codes(ROOT / "README.md")
    assert "docs/data.md" in links(ROOT / "README.md")


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_bytes()) <= README_BYTES


@documents
def test_links(path):
    for link in links(path):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@documents
def test_paths_in_backticks(path):
    """A path that begins with a folder of the repository is one of its files or folders."""
    for code in codes(path):
        if re.fullmatch(rf"({'|'.join(TOPS)})/[\w./*-]*", code):
            assert list(ROOT.glob(code.rstrip("/"))), code


@documents
def test_commands_of_python(path):
    """`python -m` names a module that is there."""
    names = re.findall(r"python -m ((?:beambert|benchmarks)\.[\w.]+\w)", path.read_text("utf-8"))
    assert [name for name in names if importlib.util.find_spec(name) is None] == []


@functools.cache
def flags_of(command):
    """The flags in a command's help, and Beam's."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        commands.run([command, "--help"])
    flags = (
        set(re.findall(r"^  (?:-h, )?(--[a-z_]+)", printed.getvalue(), re.MULTILINE)) | BEAM_FLAGS
    )
    return flags | flags_of("finetune") if command == "deliver" else flags


def test_flags_of_a_command():
    assert {"--dupe_factor", "--since"} <= flags_of("data")
    assert "--dupe_factor" not in flags_of("deliver") >= {"--serving", "--learning_rate"}


@documents
def test_flags_in_backticks(path):
    """They are flags of the command that stands before them, or else of any."""
    every = OTHER_FLAGS.union(*map(flags_of, commands.COMMANDS))
    for code in codes(path):
        command = re.match(r"beambert ([a-z]+) ", code)
        if command or code.startswith("--"):
            found = set(re.findall(r"(?<![\w-])--[a-z_]+", code))
            assert found <= (flags_of(command[1]) if command else every), code
