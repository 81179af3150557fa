"""Do hostile inputs make a command crash, hang, lose data, fill memory or leave files?

    python -m benchmarks.attack --attempts=3000 --seed=0
    python -m benchmarks.attack --only=corpora --attempts=200
    python -m benchmarks.attack --only=corpora --number=17

Makes seeded attempts of several families against the real commands, each in a bounded process. The
outcomes are counted by family. A fault prints its family, number, seed and command, and its folder
stays in --keep. The last form makes one attempt again.
"""

import contextlib
import dataclasses
import importlib
import os
import pathlib
import re
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from benchmarks import measuring

# Libraries are quiet, see no accelerator, and take one core for each process.
_ENVIRONMENT = {
    **{"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"},
    **{
        "TF_NUM_INTRAOP_THREADS": "1",
        "TF_NUM_INTEROP_THREADS": "1",
        "GRPC_ENABLE_FORK_SUPPORT": "0",
    },
}
FAMILIES = (
    "corpora", "tables", "records", "models", "flags", "retraining", "paths", "disk", "kills",
    "two", "pages",
)  # fmt: skip
# The families whose commands read a trained model.
_OF_MODELS = ("flags", "models", "pages")
# The commonest refusals are told: one that hides what is attacked is seen by its count.
MOST_REFUSALS = 8
# Each family makes its attempts in so many turns.
_TURNS = 30
_NAMES = re.compile(r"'[^']*'|\"[^\"]*\"|=\S+|\S*[/\d]\S*")
# Modules that the commands import, loaded once before processes are forked.
_LOADED = (
    "pipelines.vocabulary_learning.run", "pipelines.pretraining_data.run",
    "pipelines.verification.run", "pipelines.features", "pipelines.prediction",
    "trainer.pretraining.run", "trainer.finetuning.run",
    "trainer.serving.versions", "trainer.comparison.comparing", "deploy.retraining.workspace",
)  # fmt: skip


def build_parser():
    """Returns the parser of the flags."""
    parser = measuring.flag_parser("attack", __doc__)
    add = parser.add_argument
    add("--attempts", type=int, default=3000, help="number of all attempts (default: 3000)")
    add("--seed", type=int, default=0, help="seed of all attempts (default: 0)")
    add("--only", choices=FAMILIES, help="family to make attempts of (default: all)")
    add("--number", type=int, help="with --only: number of the one attempt to make again")
    add("--minutes", type=float, default=0, help="minutes after which it ends (default: no bound)")
    add("--processes", type=int, default=2, help="processes at a time (default: 2)")
    add("--keep", metavar="DIR", default="attack-output", help="folder for what found faults")
    measuring.add_results_flag(parser)
    return parser


def _load() -> None:
    """Imports what the commands need, and starts none of it."""
    from beambert.commands import COMMANDS
    from beambert.console import quiet_stderr

    with quiet_stderr():
        for command in COMMANDS.values():
            command.build_parser()
        for name in _LOADED:
            importlib.import_module(f"beambert.{name}")


def _families(only: str | None) -> list:
    from benchmarks.attack import (
        corpora,
        endings,
        flags,
        models,
        pages,
        paths,
        records,
        retraining,
        tables,
    )

    modules = (corpora, tables, records, models, flags, retraining, paths, pages)
    found = [*(module.FAMILY for module in modules), *endings.FAMILIES]
    return [family for family in found if only in (None, family.name)]


def main(argv: Sequence[str]) -> None:
    """Makes the attempts; ends with status 1 if one found a fault."""
    parser = build_parser()
    flags = parser.parse_args(list(argv))
    os.environ |= _ENVIRONMENT
    _load()
    from benchmarks.attack import material, workers

    keep = pathlib.Path(flags.keep).absolute()
    keep.mkdir(parents=True, exist_ok=True)
    families = _families(flags.only)
    total = sum(family.share for family in families)
    numbers = {
        family.name: range(max(1, round(flags.attempts * family.share / total)))
        if flags.number is None
        else range(flags.number, flags.number + 1)
        for family in families
    }
    found: dict[str, _Found] = {family.name: _Found() for family in families}
    faults = 0
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="attack-") as place, contextlib.chdir(place):
        sound = pathlib.Path(place) / "material"
        material.make(sound, flags.seed, any(family.name in _OF_MODELS for family in families))
        print(f"material made in {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
        for family, some in _in_turn(families, numbers):
            if flags.minutes and time.monotonic() - begun > 60 * flags.minutes:
                break
            started, cpu_started = time.monotonic(), _cpu_seconds()
            outcome = found[family.name]
            for result in workers.run(family, some, flags.processes, flags.seed, (sound, keep)):
                outcome.results.append(result)
                if result.is_fault:
                    faults += 1
                    _tell(result, flags.seed, keep)
            outcome.seconds += time.monotonic() - started
            outcome.cpu_seconds += _cpu_seconds() - cpu_started
            print(f"{family.name}: {len(outcome.results)} done", file=sys.stderr, flush=True)
        if faults:
            shutil.copytree(sound, keep / "material", dirs_exist_ok=True)
    table = {name: each.summary() for name, each in found.items() if each.results}
    attempts = sum(row["attempts"] for row in table.values())
    result = {"attempts": attempts, "faults": faults}
    result |= {"seconds": round(time.monotonic() - begun), "families": table}
    print(measuring.write_results(flags.results, parser, argv, result))
    if faults:
        sys.exit(1)


@dataclasses.dataclass
class _Found:
    """What the attempts of a family have found, and the seconds that they took and worked."""

    results: list = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def summary(self) -> dict:
        """Returns the family's row of the table."""
        times = {"seconds": round(self.seconds), "cpu_seconds": round(self.cpu_seconds)}
        return _summary(self.results) | times


def _in_turn(families: Sequence, numbers: Mapping[str, range]) -> Iterator[tuple]:
    """Yields families with some of their attempts, so that a campaign that is cut has all kinds."""
    for turn in range(_TURNS):
        for family in families:
            attempts = numbers[family.name]
            count = len(attempts)
            some = attempts[count * turn // _TURNS : count * (turn + 1) // _TURNS]
            if some:
                yield family, some


def _cpu_seconds() -> float:
    """Returns the seconds that all ended processes have worked."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _summary(results: Sequence) -> dict:
    outcomes = Counter(result.outcome for result in results)
    return {
        "attempts": len(results),
        "faults": sum(result.is_fault for result in results),
        "outcomes": dict(outcomes.most_common()),
        "percent": {
            name: round(100 * each / len(results)) for name, each in outcomes.most_common()
        },
        "refusals": dict(_kinds_of_refusals(results).most_common(MOST_REFUSALS)),
        "longest_seconds": round(max(result.seconds for result in results), 1),
        "most_mib": max(result.bytes for result in results) >> 20,
    }


def _kinds_of_refusals(results: Sequence) -> Counter[str]:
    """Counts refusals by their words, without names and numbers, which differ by attempt."""
    # A sentence may name something very long.
    sentences = [sentence[:500] for result in results for sentence in result.refusals]
    return Counter(" ".join(_NAMES.sub("_", sentence).split()[:12]) for sentence in sentences)


def _tell(result, seed: int, keep: pathlib.Path) -> None:
    folder = keep / f"{result.family}-{result.number}"
    command = folder / "command.txt"
    words = command.read_text("utf-8", "surrogateescape").split("\0") if command.exists() else []
    print(
        f"\nFAULT {result.outcome}: --seed={seed} --only={result.family} --number={result.number}\n"
        f"  in {folder}\n  {ascii(words)[:1000]}\n{result.detail}\n",
        file=sys.stderr,
        flush=True,
    )


if __name__ == "__main__":
    measuring.run(main)
