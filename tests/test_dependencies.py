"""Which package may import which, and what importing one must not load."""

import ast
import functools
import graphlib
import importlib.util
import pathlib
import subprocess
import sys

import pytest
from support.absent_packages import BEAM_PACKAGES, without

ROOT = pathlib.Path(__file__).parents[1]
# What each package may import besides itself, in functions too. `shared` are the modules of
# beambert/ that all parts use, `face` those that offer the parts to users.
ALLOWED = {
    "shared": set(),
    "model": {"shared"},
    "pipelines": {"shared"},
    "trainer": {"shared", "model", "pipelines"},
    "face": {"shared", "model", "pipelines", "trainer"},
    "deploy": {"shared", "pipelines", "trainer", "face"},
    "demo": {"shared", "model", "pipelines", "trainer", "face"},
    "explore": {"shared", "model", "pipelines", "trainer"},
}
FACE = {"__init__", "__main__", "cli"}
FACE |= {"embedding", "embedding_in_beam", "training", "training_page", "training_text"}


def package_of(module: str) -> str:
    """Returns the key of `ALLOWED` for a module, such as beambert.trainer.loop.loop."""
    name = (module.split(".") + ["__init__"])[1]
    if name in FACE:
        return "face"
    return name if name in ALLOWED else "shared"


def find_modules() -> dict[str, pathlib.Path]:
    """Returns the modules of the project by their names."""
    found = {}
    for top in ("beambert", *(ALLOWED.keys() - {"shared", "face"})):
        for path in (ROOT / top).glob("*.py" if top == "beambert" else "**/*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = parts if top == "beambert" else ("beambert", *parts)
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = find_modules()


@functools.cache
def tree_of(module: str) -> ast.Module:
    """Returns the syntax tree of a module, without what is for type checkers only."""
    tree = ast.parse(MODULES[module].read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            node.body = []
    return tree


@functools.cache
def imports(module: str, lazily: bool = True) -> set[str]:
    """Returns the modules of the project that a module imports, but for type checkers only.

    Args:
      module: name of the module.
      lazily: True to count the imports of functions too.
    """
    tree, names = tree_of(module), set()
    for node in ast.walk(tree) if lazily else tree.body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in MODULES else node.module for name in inside}
    return names & MODULES.keys() - {module}


@pytest.mark.parametrize("package", ALLOWED)
def test_packages(package):
    wrong = {
        (module, name)
        for module in MODULES
        if package_of(module) == package
        for name in imports(module)
        if package_of(name) not in ALLOWED[package] | {package}
    }
    assert not wrong


def test_no_circles():
    packages = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    graph = {
        module: imports(module, lazily=False) - packages for module in MODULES.keys() - packages
    }
    graphlib.TopologicalSorter(graph).prepare()


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_a_package_loads_nothing_heavy():
    tops = ", ".join(f"beambert.{top}" for top in ALLOWED.keys() - {"shared", "face"})
    loaded = run(f"import sys, beambert, {tops}; dir(beambert); print(*sys.modules)")
    heavy = {"tensorflow", "keras", "apache_beam", "numpy", "tfx_bsl", "pyarrow"}
    assert not {name.split(".")[0] for name in loaded.split()} & heavy


@pytest.mark.slow
def test_trainer_without_beam():
    """A machine with accelerators has neither Beam nor tfx-bsl."""
    modules = {name for name in MODULES if package_of(name) in ("model", "trainer")}
    if importlib.util.find_spec("jax") is None:
        modules.remove("beambert.trainer.loop.engines.jax")
    loads = "\n".join(f"import {name}" for name in sorted(modules))
    assert run(f'{without(BEAM_PACKAGES)}\n{loads}\nprint("imported")') == "imported"
