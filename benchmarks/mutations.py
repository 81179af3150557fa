"""Would the tests notice if a pure module computed something else?

    python -m benchmarks.mutations --sample=40
    python -m benchmarks.mutations --modules=instances/pairs,corpus/gutenberg --processes=2

Changes one operator, comparison, number, boolean or condition of a module at a time, and runs the
module's tests until one fails. Prints the changes that no test noticed, and the share of changes
that a test noticed. Changes in `equivalent_mutations`, which no test can notice, are left out. The
files stay as they are: the changed module is compiled in a forked process, which has loaded the
libraries already. Tests on real data are left out, so that the share is the same everywhere.

Annotations, decorators, strings and the `strict=` of zip are not changed. They only catch mistakes.
"""

import ast
import contextlib
import copy
import importlib
import importlib.machinery
import importlib.util
import math
import multiprocessing.connection
import os
import pathlib
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from benchmarks import measuring
from benchmarks.equivalent_mutations import EQUIVALENT, TESTS

ROOT = pathlib.Path(__file__).parents[1]
FORK = multiprocessing.get_context("fork")
OPTIONS = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow and not release and not flink"]
# Seconds that the tests of an unchanged module may take.
LONGEST = 600

# Operator -> the operators that replace it, one after the other.
SWAPS = {
    **{"Add": "Sub", "Sub": "Add", "Mult": "Div", "Div": "Mult", "FloorDiv": "Mult"},
    **{"Mod": "Mult", "Pow": "Mult", "MatMult": "Mult", "LShift": "RShift", "RShift": "LShift"},
    **{"BitAnd": "BitOr", "BitOr": "BitAnd", "BitXor": "BitAnd", "And": "Or", "Or": "And"},
    **{"Lt": "LtE GtE", "LtE": "Lt Gt", "Gt": "GtE LtE", "GtE": "Gt Lt", "Eq": "NotEq"},
    **{"NotEq": "Eq", "Is": "IsNot", "IsNot": "Is", "In": "NotIn", "NotIn": "In"},
}


class Mutation(NamedTuple):
    """A change to a module: its line, its name in `EQUIVALENT`, and the changed tree."""

    line: int
    name: str
    tree: ast.Module


def swaps_of(operator: ast.AST | None) -> list[ast.AST]:
    """Returns the operators that can replace an operator."""
    return [getattr(ast, name)() for name in SWAPS.get(type(operator).__name__, "").split()]


def changes_of(node: ast.AST) -> Iterator[tuple[str, object]]:
    """Yields the attributes of a node that can be changed, each with a new value."""
    yield from (("op", operator) for operator in swaps_of(getattr(node, "op", None)))
    match node:
        case ast.Compare(ops=ops):
            for i, operator in enumerate(ops):
                yield from (("ops", [*ops[:i], new, *ops[i + 1 :]]) for new in swaps_of(operator))
        case ast.Constant(value=bool(value)):
            yield "value", not value
        case ast.Constant(value=int(value) | float(value)):
            yield "value", value + 1
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            # Comparisons and `not` are changed by themselves.
            if not isinstance(test, ast.Compare | ast.UnaryOp):
                yield "test", ast.UnaryOp(ast.Not(), test)
        case ast.comprehension(ifs=[test, *others]):
            yield "ifs", [ast.UnaryOp(ast.Not(), test), *others]
        case ast.UnaryOp(op=ast.USub() | ast.Invert()):
            yield "op", ast.UAdd()
        case ast.UnaryOp(op=ast.Not()):
            yield "operand", ast.UnaryOp(ast.Not(), node.operand)


def places(node: ast.AST, shown: tuple = ()) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yields the nodes that may be changed, each with the node whose code shows the change."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.expr | ast.stmt):
        shown = (*shown[-1:], node)
    yield node, (shown[0] if isinstance(node, ast.Constant) else shown[-1]) if shown else node
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns", "decorator_list", "format_spec"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and getattr(child, "arg", None) != "strict":
                    yield from places(child, shown)


def mutations_of(source: str) -> list[Mutation]:
    """Returns every change to a module, in the order of its lines."""
    tree, found, names = ast.parse(source), [], Counter()
    for node, shown in places(tree):
        for field, changed in changes_of(node):
            old, before = getattr(node, field), ast.unparse(shown).strip().partition("\n")[0]
            setattr(node, field, changed)
            name = f"{before} -> {ast.unparse(shown).strip().partition(chr(10))[0]}"
            names[name] += 1
            name += f" #{names[name]}" if names[name] > 1 else ""
            line = getattr(node, "lineno", 0) or shown.lineno
            found.append(Mutation(line, name, ast.fix_missing_locations(copy.deepcopy(tree))))
            setattr(node, field, old)
    return sorted(found, key=lambda mutation: mutation.line)


class Loader(importlib.machinery.SourceFileLoader):
    """Finds one module and runs a changed tree in its place."""

    tree: ast.Module

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        """Returns the spec of the module, and None for other modules."""
        return importlib.util.spec_from_loader(name, self) if name == self.name else None

    def get_code(self, name: str) -> object:
        """Returns the code of the changed tree; no file is read or written."""
        return compile(self.tree, self.path, "exec")


def run_tests(
    module: str, tree: ast.Module, seconds: float, tell: Callable[[list[str]], None] | None
) -> None:
    """Runs a module's tests and ends this process, with status 0 if they pass in time."""
    # The signal ends an endless loop, even if the process that waits for this one is gone.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(math.ceil(seconds))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    import hypothesis
    import pytest

    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    profile = {"database": None, "derandomize": True, "phases": phases}
    hypothesis.settings.register_profile("mutations", **profile)
    hypothesis.settings.load_profile("mutations")
    loader = Loader("beambert." + module.replace("/", "."), str(ROOT / f"{module}.py"))
    loader.tree = tree
    sys.meta_path.insert(0, loader)
    code = pytest.main([*OPTIONS, *(str(ROOT / path) for path in TESTS[module])])
    if tell:
        own = ("beambert", "tests", "support", "benchmarks", "conftest", "test_", "__main__")
        tell([name for name in sys.modules if not name.startswith(own)])
    os._exit(int(code) if loader.name in sys.modules else 9)


def count_survivors(module: str, mutations: list[Mutation], processes: int) -> int:
    """Prints the mutations that the module's tests do not notice; returns their number."""
    receiver, sender = FORK.Pipe(duplex=False)
    tree, started = ast.parse((ROOT / f"{module}.py").read_text("utf-8")), time.monotonic()
    unchanged = FORK.Process(target=run_tests, args=(module, tree, LONGEST, sender.send))
    unchanged.start()
    for name in receiver.recv():  # Loaded here, they need not be loaded in every process.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    unchanged.join()
    if unchanged.exitcode:
        sys.exit(f"benchmarks.mutations: {module}: its tests fail, or do not import it")
    seconds = 10 + 5 * (time.monotonic() - started)
    survivors, running, left = 0, {}, mutations[::-1]
    while left or running:
        while left and len(running) < processes:
            mutation = left.pop()
            process = FORK.Process(target=run_tests, args=(module, mutation.tree, seconds, None))
            process.start()
            running[process] = mutation
        multiprocessing.connection.wait([process.sentinel for process in running])
        for process, mutation in list(running.items()):
            if not process.is_alive():
                process.join()
                del running[process]
                if process.exitcode == 0:
                    print(f"{module}.py:{mutation.line}: {mutation.name}", flush=True)
                    survivors += 1
    return survivors


def main(argv: Sequence[str]) -> None:
    """Changes modules, runs their tests and prints the results."""
    parser = measuring.flag_parser("mutations", __doc__)
    parser.add_argument(
        "--modules", default="", help="parts of modules' names, with commas (default: all modules)"
    )
    parser.add_argument(
        "--sample", type=int, help="number of changes to each module (default: all changes)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample (default: 0)")
    parser.add_argument(
        "--processes", type=int, default=1, help="number of processes at a time (default: 1)"
    )
    flags = parser.parse_args(argv)
    os.environ |= {"BEAMBERT_TEST_DATA": os.devnull, "CUDA_VISIBLE_DEVICES": "-1"}
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    all_noticed = all_tried = 0
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
        tried = len(mutations)
        noticed = tried - count_survivors(module, mutations, flags.processes)
        all_tried, all_noticed = all_tried + tried, all_noticed + noticed
        print(f"{module}: {noticed} of {tried} noticed, {noticed / tried:.1%}", flush=True)
    print(f"all: {all_noticed} of {all_tried} noticed, {all_noticed / max(all_tried, 1):.1%}")


if __name__ == "__main__":
    measuring.run(main)
