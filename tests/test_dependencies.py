"""Which package and room may import which, and what importing one must not load."""

import ast
import graphlib
import pathlib
import re
import subprocess
import sys

import pytest
from support.absent_packages import BEAM_PACKAGES, without

ROOT = pathlib.Path(__file__).parents[1]
TOPS = ("beambert", "pipelines", "model", "trainer", "deploy", "demo", "explore")
# The packages that no module of a package may import.
FORBIDDEN = {
    "beambert": set(),
    "pipelines": {"beambert", "model", "trainer", "deploy", "demo", "explore"},
    "model": {"beambert", "pipelines", "trainer", "deploy", "demo", "explore"},
    "trainer": {"beambert", "deploy", "demo", "explore"},
    "deploy": {"model", "demo", "explore"},
    "demo": {"deploy", "explore"},
    "explore": {"beambert", "deploy", "demo"},
}
# room of `pipelines` -> the rooms that it may import, besides its own modules. The command modules
# at the top of `pipelines` may import every room.
PIPELINES = {
    "shared": "",
    "storage": "shared",
    "tokenizers": "shared",
    "tasks": "corpus.encodings jobs model_inputs records shared storage tokenizers",
    "model_inputs": "shared tasks tokenizers",
    "files": "shared storage",
    "jobs": "files shared storage",
    "records": "files shared storage tokenizers",
    "corpus": "files shared",
    "instances": "records.contract shared tokenizers",
    "text": "corpus shared",
    "vocabulary_learning": "files jobs corpus shared storage tokenizers",
    "verification": "files jobs records shared storage tokenizers",
    "pretraining_data": "files jobs corpus instances records shared storage tasks text tokenizers",
    "evaluation": "files jobs model_inputs shared storage task_jobs tasks tokenizers",
}
# The same of `trainer`; modules at its top count as rooms of their own.
TRAINER = {
    "loop": "",
    "model_folders": "loop",
    "models": "model_folders",
    "weights": "model_folders models",
    "serving": "model_folders models weights",
    "pretraining": "loop model_folders models weights",
    "finetuning": "embedding loop model_folders models serving weights",
    "comparison": "loop model_folders models",
    "asking": "weights",
    "embedding": "model_folders models weights",
    "retrieval": "embedding model_folders models",
    "commands": "asking comparison embedding finetuning loop model_folders pretraining retrieval "
    "serving weights",
}
# What a machine with accelerators has: none of Beam's packages. All of `model` and `trainer` work
# there, and of `pipelines` these, which is all that `trainer` takes of it.
BEAM = {"apache_beam", "tfx_bsl"}
BEAM_FREE_ROOMS = {"shared", "storage", "tokenizers", "tasks", "model_inputs"}
BEAM_FREE_ROOMS |= {"instances"}
BEAM_FREE_MODULES = {
    *("pipelines.records.contract",),
    "pipelines.tasks.feature_folder",
}


def module_name(path: pathlib.Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    module_name(path): ast.parse(path.read_text("utf-8"))
    for top in TOPS
    for path in sorted((ROOT / top).rglob("*.py"))
}


def imported(nodes) -> set[str]:
    """Dotted names that import statements load, `from a import b` as both a and a.b.

    Of the project's own the name in the repository: pipelines.tasks for beambert.pipelines.tasks.
    """
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "relative imports are not used here"
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    assert not {name for name in names if name.split(".")[0] in TOPS[1:]}, "not installed so"
    short = {name: name.removeprefix("beambert.") for name in names}
    return {part if part.split(".")[0] in TOPS[1:] else name for name, part in short.items()}


def anywhere(module: str) -> set[str]:
    """All that a module imports, in functions and for type checkers too."""
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


def own(names) -> set[str]:
    """Those of the names that are modules of the project."""
    return {name for name in names if name in MODULES}


def room_of(module: str) -> str:
    """The room of a module: a folder, or a module at the top of its package."""
    return module.split(".")[1] if "." in module else ""


def test_the_scan_sees_what_is_there():
    assert len(MODULES) > 25
    assert "apache_beam" in tops(at_import("pipelines.pretraining_data.transforms"))
    assert "apache_beam" not in tops(at_import("pipelines.running"))
    assert "apache_beam" in tops(anywhere("pipelines.running"))
    assert "tensorflow" in tops(closure("pipelines.tokenizers.wordpiece"))


@pytest.mark.parametrize("package", TOPS)
def test_packages(package):
    found = {
        (module, name)
        for module in MODULES
        if module.split(".")[0] == package
        for name in own(anywhere(module)) - {"beambert"}
        if name.split(".")[0] in FORBIDDEN[package]
    }
    assert found == set()


@pytest.mark.parametrize("package, rooms", [("pipelines", PIPELINES), ("trainer", TRAINER)])
def test_every_room_stands_in_the_table(package, rooms):
    folders = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
    assert folders <= set(rooms)


@pytest.mark.parametrize(
    "package, room, allowed",
    [("pipelines", *rule) for rule in PIPELINES.items()]
    + [("trainer", *rule) for rule in TRAINER.items()],
)
def test_rooms(package, room, allowed):
    """A room imports itself and what its line of the table names."""
    allowed = {f"{package}.{name}" for name in [room, *allowed.split()]}
    found = {
        (module, name)
        for module in MODULES
        if module.startswith(f"{package}.") and room_of(module) == room
        for name in own(anywhere(module))
        if name.startswith(f"{package}.") and not name.endswith(".__init__")
        if not any(name == may or name.startswith(f"{may}.") for may in allowed)
        if not any(may.startswith(f"{name}.") for may in allowed)  # the package of what it may
    }
    assert found == set()


def test_the_documented_table_is_this_one():
    """docs/code.md shows who may import whom."""
    documented = {}
    text = (ROOT / "docs" / "code.md").read_text("utf-8")
    for rooms, allowed in re.findall(r"^\| (`[^|]*`) \| (.*) \|$", text, re.MULTILINE):
        for room in re.findall(r"`(\w+)`", rooms):
            documented.setdefault(room, []).append(set(re.findall(r"`([\w.]+)`", allowed)))
    packages = {top: " ".join({*TOPS} - FORBIDDEN[top] - {top}) for top in TOPS}
    for room, allowed in [*packages.items(), *PIPELINES.items(), *TRAINER.items()]:
        assert set(allowed.split()) in documented.get(room, []), room


@pytest.mark.parametrize("package, rooms", [("pipelines", PIPELINES), ("trainer", TRAINER)])
def test_every_permission_is_used(package, rooms):
    for room, allowed in rooms.items():
        modules = [m for m in MODULES if m.startswith(f"{package}.") and room_of(m) == room]
        names = {name for module in modules for name in own(anywhere(module))}
        for may in allowed.split():
            assert any(f"{name}.".startswith(f"{package}.{may}.") for name in names), (room, may)


def test_nothing_imports_a_command_of_pipelines_but_commands():
    """Command modules stand on rooms, never the other way round."""
    commands = {name for name in MODULES if name.count(".") == 1 and name.startswith("pipelines.")}
    commands = {name for name in commands if room_of(name) not in PIPELINES}
    commands -= {"pipelines.features", "pipelines.prediction", "pipelines.task_jobs"}
    found = {
        (module, name)
        for module in MODULES
        if module.startswith(("pipelines.", "trainer."))
        for name in anywhere(module) & commands
    }
    assert found == set()


def test_no_circles():
    """Not between modules, those that a function imports or a type checker reads included."""
    graph = {module: own(anywhere(module)) - {module} for module in MODULES}
    packages = {name for name in MODULES if (ROOT / name.replace(".", "/")).is_dir()}
    for module in graph:
        graph[module] -= packages
    graphlib.TopologicalSorter(graph).prepare()


def test_the_loop_knows_no_task():
    """The training loop trains whatever it is given."""
    modules = [module for module in MODULES if module.startswith("trainer.loop.")]
    found = {
        name
        for module in modules
        for name in own(anywhere(module))
        if name.startswith(("model", "pipelines.tasks"))
    }
    assert found == set()


def test_no_beam_where_models_are_trained():
    needed = [m for m in MODULES if m.split(".")[0] in ("model", "trainer")]
    needed += [m for m in MODULES if m.startswith("pipelines.") and room_of(m) in BEAM_FREE_ROOMS]
    found = {
        (module, name)
        for module in [*needed, *sorted(BEAM_FREE_MODULES)]
        for name in tops(closure(module)) & BEAM
    }
    assert found == set()


def test_trainer_takes_of_pipelines_what_needs_no_beam():
    used = {
        name
        for module in MODULES
        if module.startswith("trainer")
        for name in own(anywhere(module))
        if name.startswith("pipelines.") and room_of(name) not in BEAM_FREE_ROOMS
    }
    assert used - {"pipelines.records", "pipelines.features"} <= BEAM_FREE_MODULES


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_a_package_loads_nothing_heavy():
    names = ", ".join(f"beambert.{top}" for top in TOPS[1:])
    code = f"import sys, beambert.functions, {names}; dir(beambert); print(*sys.modules)"
    heavy = {"tensorflow", "keras", "apache_beam", "numpy", "tfx_bsl", "pyarrow"}
    assert tops(run(code).split()) & heavy == set()


@pytest.mark.slow
def test_trainer_without_beam():
    """As on a machine where neither Beam nor tfx-bsl is installed."""
    modules = ("commands.pretrain", "pretraining.job", "finetuning.job", "serving.versions")
    imports = "\n".join(f"    import beambert.trainer.{name}" for name in modules)
    code = f"""{without(BEAM_PACKAGES)}
try:
    import apache_beam
except ModuleNotFoundError:
{imports}
    print("imported")
"""
    assert run(code) == "imported"
