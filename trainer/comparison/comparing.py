"""Compares trainings: what differs in their settings, and their results side by side."""

import dataclasses
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from beambert import storage
from beambert.console import counted
from beambert.errors import InputError
from beambert.trainer.comparison.page import render
from beambert.trainer.comparison.runs import ComparedRun, read_run, short_names

PAGE_FILE = "compare.html"
# End of the names of the settings that tell the held-out records, in the order of training.
_HELD_OUT = ".eval_records_sha256"
# Text of a setting or a result that a training doesn't have.
NONE = "–"
# Longest text of a setting in the printed table; of a longer one, the end is shown.
_WIDEST = 32


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Trainings side by side; every list has an entry for each of them, None where it has none.

    Attributes:
      names: names that tell the trainings apart.
      settings: name -> values, for the settings that differ.
      results: name -> values.
      left_out: number of settings that are left out, as trainings of only some kinds have them.
      held_out: names of the trainings whose results are those of the same held-out records, for
        each of such records.
    """

    names: Sequence[str]
    settings: Mapping[str, Sequence[Any]]
    results: Mapping[str, Sequence[Any]]
    left_out: int = 0
    held_out: Sequence[Sequence[str]] = ()


def compare(folders: Sequence[str], output: str | None = None) -> Comparison:
    """Compares trainings, as `beambert compare` does.

    Args:
      folders: model folders of `beambert pretrain` or `finetune`, finished or not.
      output: folder that gets a page with the curves, compare.html; None for no page.

    Raises:
      InputError: a folder is no model folder, or the page cannot be written.
    """
    paths = [storage.absolute(folder) for folder in folders]
    for number, path in enumerate(paths):
        if path in paths[:number]:
            raise InputError(f"{folders[number]}: is named twice; name each folder once")
    if len(paths) < 2:
        raise InputError(f"{' '.join(paths)}: is alone; name two model folders or more")
    if output and importlib.util.find_spec("matplotlib") is None:
        raise InputError(
            f"--output={output}: its page needs matplotlib; run pip install 'beambert[evaluate]', "
            "or leave --output out"
        )
    runs = [read_run(folder) for folder in folders]
    settings = differing_settings(runs)
    common = shared_settings(runs, settings)
    names = short_names(folders)
    held_out: dict[Any, list[str]] = {}
    for name, run in zip(names, runs, strict=True):
        if sums := _held_out(run):
            held_out.setdefault(sums[-1], []).append(name)
    found = Comparison(
        names,
        common,
        all_results(runs),
        left_out=len(settings) - len(common),
        held_out=list(held_out.values()),
    )
    if output:
        sections = [(title, text_rows(each)) for title, each in sections_of(found)]
        page = render(found.names, sections, [run.curves for run in runs], " ".join(notes(found)))
        storage.write_bytes(f"{output.rstrip('/')}/{PAGE_FILE}", page.encode())
    return found


def differing_settings(runs: Sequence[ComparedRun]) -> dict[str, list[Any]]:
    """Returns the settings that aren't the same in all trainings; an empty list is none."""
    rows = {
        name: [None if (value := run.settings.get(name)) == [] else value for run in runs]
        for name in _names(runs, "settings")
    }
    return {name: row for name, row in rows.items() if any(value != row[0] for value in row)}


def shared_settings(
    runs: Sequence[ComparedRun], settings: Mapping[str, Sequence[Any]]
) -> dict[str, Sequence[Any]]:
    """Returns the settings without those that differ only in that trainings lack them.

    Where all trainings are of one kind, such a setting tells them apart, and all are returned.
    """
    if len({run.settings.get("kind") for run in runs}) == 1:
        return dict(settings)
    common = {}
    for name, values in settings.items():
        there = [value for run, value in zip(runs, values, strict=True) if name in run.settings]
        if len(there) == len(runs) or any(value != there[0] for value in there):
            common[name] = values
    return common


def all_results(runs: Sequence[ComparedRun]) -> dict[str, list[Any]]:
    """Returns the results, how far each training is, and how fast it was."""
    names = _names(runs, "results")
    rows = {name.replace("_", " "): [run.results.get(name) for run in runs] for name in names}
    rows["loss in training"] = [run.training_loss for run in runs]
    rows["updates"] = [run.steps for run in runs]
    rows["tokens a second"] = [run.tokens_a_second for run in runs]
    rows["state"] = ["finished" if run.is_finished else "unfinished" for run in runs]
    return rows


def _names(runs: Sequence[ComparedRun], attribute: str) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in getattr(run, attribute)))


def sections_of(found: Comparison) -> list[tuple[str, Mapping[str, Sequence[Any]]]]:
    """Returns the tables of a comparison, with their titles."""
    settings = {readable(name): values for name, values in found.settings.items()}
    return [("Settings that differ", settings), ("Results", found.results)]


def readable(name: str) -> str:
    """Returns the name of a setting for a person: `records 1 dupe_factor`, counted from 1."""
    return " ".join(str(int(part) + 1) if part.isdecimal() else part for part in name.split("."))


def _held_out(run: ComparedRun) -> list[Any]:
    """Returns the checksums of the held-out records of each stretch of a pre-training."""
    return [value for name, value in run.settings.items() if name.endswith(_HELD_OUT)]


def notes(found: Comparison) -> list[str]:
    """Returns the sentences on what the tables do not show, and on what does not compare."""
    lines = []
    if len(found.held_out) > 1:
        alike = [", ".join(names) for names in found.held_out if len(names) > 1]
        how = f"compare only among {', or among '.join(alike)}" if alike else "do not compare"
        lines.append(f"The held-out records differ, so the results on them {how}.")
    if found.left_out:
        left_out = counted(found.left_out, "setting")
        lines.append(f"{left_out} left out that only some kinds of training have.")
    return lines


def text_rows(rows: Mapping[str, Sequence[Any]]) -> list[list[str]]:
    """Returns a table's rows as text: a name and the values."""
    return [[name, *map(_text, values)] for name, values in rows.items()]


def _text(value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def describe(found: Comparison) -> str:
    """Returns the tables as lines to print."""
    lines: list[str] = []
    for title, rows in sections_of(found):
        body = [[name, *map(_shortened, cells)] for name, *cells in text_rows(rows)]
        if not body:
            lines += [f"{title}: none", ""]
            continue
        columns = [[title, *found.names], *body]
        widths = [max(map(len, column)) for column in zip(*columns, strict=True)]
        for first, *others in columns:
            cells = [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
            lines.append("  ".join([f"{first:<{widths[0]}}", *cells]))
        lines.append("")
    return "\n".join([*lines, *notes(found)]).rstrip()


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDEST else f"…{text[1 - _WIDEST :]}"
