"""Would the tests notice if a pure module computed something else?

    python -m benchmarks.mutations --sample=40
    python -m benchmarks.mutations --modules=instances/pairs,corpus/gutenberg

Of a module one operator, comparison, number, boolean or condition at a time is changed, and the
module's tests run until one fails. Printed are the changes that none noticed and the share of
noticed ones, without those in `equivalent_mutations`, which change nothing that can be seen. The
files stay as they are: the changed module is compiled into a forked process, which has loaded the
libraries already. Real data is not used, so that the share is the same everywhere.

Not changed are annotations, decorators, strings and `strict=` of zip, which stop mistakes only.
"""

import argparse
import ast
import contextlib
import copy
import importlib
import importlib.machinery
import importlib.util
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks.equivalent_mutations import EQUIVALENT, TESTS

ROOT = pathlib.Path(__file__).parents[1]
FORK = multiprocessing.get_context("fork")
OPTIONS = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow and not flink"]
# What each operator is replaced by, one after the other.
SWAPS: dict[str, str] = {
    **{"Add": "Sub", "Sub": "Add", "Mult": "Div", "Div": "Mult", "FloorDiv": "Mult"},
    **{"Mod": "Mult", "Pow": "Mult", "MatMult": "Mult", "LShift": "RShift", "RShift": "LShift"},
    **{"BitAnd": "BitOr", "BitOr": "BitAnd", "BitXor": "BitAnd", "And": "Or", "Or": "And"},
    **{"Lt": "LtE GtE", "LtE": "Lt Gt", "Gt": "GtE LtE", "GtE": "Gt Lt", "Eq": "NotEq"},
    **{"NotEq": "Eq", "Is": "IsNot", "IsNot": "Is", "In": "NotIn", "NotIn": "In"},
}


class Mutation(NamedTuple):
    """A change to a module, its line, its name in `EQUIVALENT`, and the changed module."""

    line: int
    name: str
    tree: ast.Module


def changes_of(node: ast.AST) -> Iterator[tuple[str, object]]:
    """Returns the attributes of a node that can be changed, and to what."""
    for swapped in SWAPS.get(type(getattr(node, "op", None)).__name__, "").split():
        yield "op", getattr(ast, swapped)()
    match node:
        case ast.Compare(ops=ops):
            for i, op in enumerate(ops):
                for swapped in SWAPS[type(op).__name__].split():
                    yield "ops", [*ops[:i], getattr(ast, swapped)(), *ops[i + 1 :]]
        case ast.Constant(value=bool(value)):
            yield "value", not value
        case ast.Constant(value=int(value) | float(value)):
            yield "value", value + 1
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            # Comparisons and `not` have their own opposites.
            if not isinstance(test, ast.Compare | ast.UnaryOp):
                yield "test", ast.UnaryOp(ast.Not(), test)
        case ast.comprehension(ifs=[test, *others]):
            yield "ifs", [ast.UnaryOp(ast.Not(), test), *others]
        case ast.UnaryOp(op=ast.USub() | ast.Invert()):
            yield "op", ast.UAdd()
        case ast.UnaryOp(op=ast.Not()):
            yield "operand", ast.UnaryOp(ast.Not(), node.operand)


def places(node: ast.AST, shown: tuple = ()) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Returns the nodes that may be changed, each with the node whose code shows the change."""
    if isinstance(node, ast.expr | ast.stmt):
        shown = (*shown[-1:], node)
    yield node, (shown[0] if isinstance(node, ast.Constant) else shown[-1]) if shown else node
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns", "decorator_list", "format_spec"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and getattr(child, "arg", None) != "strict":
                    yield from places(child, shown)


def mutations_of(source: str) -> list[Mutation]:
    """Returns every change to a module, in the order of its lines."""
    tree = ast.parse(source)
    found, names = [], Counter()
    for node, shown in places(tree):
        for field, changed in changes_of(node):
            before, old = first_line(shown), getattr(node, field)
            setattr(node, field, changed)
            name = f"{before} -> {first_line(shown)}"
            names[name] += 1
            name += f" #{names[name]}" if names[name] > 1 else ""
            line = getattr(node, "lineno", 0) or shown.lineno
            found.append(Mutation(line, name, ast.fix_missing_locations(copy.deepcopy(tree))))
            setattr(node, field, old)
    return sorted(found, key=lambda mutation: mutation.line)


def first_line(node: ast.AST) -> str:
    """Returns the code of an expression, or of a statement without the ones in it."""
    return ast.unparse(node).strip().partition("\n")[0]


class Finder(importlib.machinery.SourceFileLoader):
    """Finds one module, and loads a changed tree in its stead."""

    def __init__(self, name: str, path: pathlib.Path, tree: ast.Module):
        """Takes the module's full name, its file and its tree."""
        super().__init__(name, str(path))
        self._tree = tree

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        """Returns where the module comes from; called for every import."""
        return importlib.util.spec_from_loader(name, self) if name == self.name else None

    def get_code(self, name: str) -> object:
        """Returns what the module runs; no file of it is read or written."""
        return compile(self._tree, self.path, "exec")


def run_tests(module: str, tree: ast.Module, loaded: Callable[[list[str]], None] | None) -> None:
    """Runs a module's tests and leaves this process: 0 if they pass."""
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    import hypothesis
    import pytest

    settings = hypothesis.settings
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    settings.register_profile("mutations", database=None, derandomize=True, phases=phases)
    settings.load_profile("mutations")
    name = "beambert." + module.replace("/", ".")
    sys.meta_path.insert(0, Finder(name, ROOT / f"{module}.py", tree))
    code = pytest.main([*OPTIONS, *TESTS[module].split()])
    if name not in sys.modules:
        code = 9  # The tests are not of this module.
    if loaded:
        own = ("beambert", "tests", "support", "benchmarks", "conftest", "test_", "__main__")
        loaded([name for name in sys.modules if not name.startswith(own)])
    os._exit(int(code))


def survivors_of(module: str, mutations: list[Mutation], processes: int) -> int:
    """Prints the mutations that the module's tests do not notice; returns their number."""
    receiver, sender = FORK.Pipe(duplex=False)
    tree, started = ast.parse((ROOT / f"{module}.py").read_text("utf-8")), time.monotonic()
    unchanged = FORK.Process(target=run_tests, args=(module, tree, sender.send))
    unchanged.start()
    for name in receiver.recv():  # what every test process would load anew
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    unchanged.join()
    if unchanged.exitcode:
        sys.exit(f"benchmarks.mutations: {TESTS[module]} fails, or tests another module")
    seconds = 10 + 5 * (time.monotonic() - started)
    survivors, running, left = 0, {}, list(mutations)[::-1]
    while left or running:
        while left and len(running) < processes:
            mutation = left.pop()
            process = FORK.Process(target=run_tests, args=(module, mutation.tree, None))
            process.start()
            running[process] = mutation, time.monotonic() + seconds
        multiprocessing.connection.wait([process.sentinel for process in running], timeout=1)
        for process, (mutation, deadline) in list(running.items()):
            if process.is_alive() and time.monotonic() > deadline:
                os.killpg(process.pid, signal.SIGKILL)
            elif not process.is_alive():
                del running[process]
                if process.exitcode == 0:
                    print(f"{module}.py:{mutation.line}: {mutation.name}", flush=True)
                    survivors += 1
    return survivors


def main() -> None:
    """Changes, tests and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modules", default="", help="parts of their names, by commas; else all")
    parser.add_argument("--sample", type=int, help="changes to each module; else all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--processes", type=int, default=1)
    flags = parser.parse_args()
    os.environ |= {"BEAMBERT_TEST_DATA": os.devnull, "CUDA_VISIBLE_DEVICES": "-1"}
    all_killed = all_tried = 0
    for module in TESTS:
        if not any(part in module for part in flags.modules.split(",")):
            continue
        mutations = mutations_of((ROOT / f"{module}.py").read_text("utf-8"))
        equivalent = EQUIVALENT.get(module, {})
        if unknown := equivalent.keys() - {mutation.name for mutation in mutations}:
            sys.exit(f"benchmarks.equivalent_mutations: {module} has no {sorted(unknown)}")
        mutations = [mutation for mutation in mutations if mutation.name not in equivalent]
        if flags.sample and flags.sample < len(mutations):
            chosen = random.Random(flags.seed).sample(range(len(mutations)), flags.sample)
            mutations = [mutations[index] for index in sorted(chosen)]
        survivors = survivors_of(module, mutations, flags.processes)
        tried, killed = len(mutations), len(mutations) - survivors
        all_tried, all_killed = all_tried + tried, all_killed + killed
        print(f"{module}: {killed} of {tried} noticed, {killed / tried:.1%}", flush=True)
    print(f"all: {all_killed} of {all_tried} noticed, {all_killed / max(all_tried, 1):.1%}")


if __name__ == "__main__":
    main()
