"""Which package may import which, and what importing one must not load."""

import ast
import pathlib
import subprocess
import sys

import pytest
from absent_packages import BEAM_PACKAGES, without

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("pipelines", "model", "trainer", "deploy", "demo")
FORBIDDEN = {
    "pipelines": {"model", "trainer", "deploy", "demo"},
    "model": {"pipelines", "trainer", "deploy", "demo"},
    "trainer": {"deploy", "demo"},
    "deploy": {"model", "demo"},
    "demo": {"deploy"},
}
# What a machine with accelerators doesn't have.
BEAM = {"apache_beam", "tfx_bsl"}
# Besides all of `model` and `trainer`, what such a machine needs of `pipelines`.
WITHOUT_BEAM = {
    f"pipelines.{name}"
    for name in (
        *("records", "tasks", "folders", "errors", "console", "tokenization", "weights"),
        *("masking", "shards", "ragged", "offsets", "squad", "squad_features", "squad_decoding"),
        *("squad_scoring", "table_files", "examples", "task_flags", "task_features"),
        *("text_features", "metrics", "entities", "task_splits", "task_files"),
        "feature_records",
    )
}


def module_name(path: pathlib.Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    module_name(path): ast.parse(path.read_text("utf-8"))
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}


def imported(nodes) -> set[str]:
    """Dotted names that import statements load, `from a import b` as both a and a.b."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "relative imports are not used here"
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def anywhere(module: str) -> set[str]:
    return imported(ast.walk(MODULES[module]))


def at_import(module: str) -> set[str]:
    """Loaded by importing the module: not in a function, nor for type checkers only."""

    def nodes(body):
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
                yield from nodes(node.orelse)
                continue
            yield node
            for field in ("body", "orelse", "finalbody", "handlers"):
                yield from nodes(getattr(node, field, []) or [])

    return imported(nodes(MODULES[module].body))


def closure(module: str) -> set[str]:
    """Everything that importing the module loads, through the project's own modules."""
    seen, todo = set(), [module]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            if name in MODULES:
                todo += at_import(name) | {name.rpartition(".")[0]} - {""}
    return seen


def tops(names) -> set[str]:
    return {name.split(".")[0] for name in names}


def test_the_scan_sees_what_is_there():
    assert len(MODULES) > 25
    assert "apache_beam" in tops(at_import("pipelines.transforms"))
    assert "apache_beam" not in tops(at_import("pipelines.create_pretraining_data"))
    assert "apache_beam" in tops(anywhere("pipelines.create_pretraining_data"))
    assert "tensorflow" in tops(closure("pipelines.tokenization"))


@pytest.mark.parametrize("package", PACKAGES)
def test_packages(package):
    found = {
        (module, name)
        for module in MODULES
        if module.split(".")[0] == package
        for name in tops(anywhere(module)) & FORBIDDEN[package]
    }
    assert found == set()


def test_no_beam_where_models_are_trained():
    needed = [m for m in MODULES if m.split(".")[0] in ("model", "trainer")]
    found = {
        (module, name)
        for module in [*needed, *sorted(WITHOUT_BEAM)]
        for name in tops(closure(module)) & BEAM
    }
    assert found == set()


def test_trainer_takes_of_pipelines_what_needs_no_beam():
    used = {
        name
        for module in MODULES
        if module.startswith("trainer")
        for name in anywhere(module)
        if name in MODULES and name.startswith("pipelines.")
    }
    assert used <= WITHOUT_BEAM


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_a_package_loads_nothing_heavy():
    code = "import sys, pipelines, model, trainer, deploy, demo, beambert; print(*sys.modules)"
    heavy = {"tensorflow", "keras", "apache_beam", "numpy", "tfx_bsl", "pyarrow"}
    assert tops(run(code).split()) & heavy == set()


def test_trainer_without_beam():
    """As on a machine where neither Beam nor tfx-bsl is installed."""
    code = (
        without(BEAM_PACKAGES)
        + """
try:
    import apache_beam
except ModuleNotFoundError:
    import trainer.task, trainer.pretraining, trainer.finetuning, trainer.export, trainer.tfx_module
    print("imported")
"""
    )
    assert run(code) == "imported"
