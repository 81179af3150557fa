"""The notebook runs from its first cell to its last, and is as short as it is said to be."""

import json
import pathlib

import pytest

NOTEBOOK = pathlib.Path(__file__).parents[2] / "demo" / "data.ipynb"
MOST_LINES = 60


@pytest.mark.slow
def test_the_cells_run_in_order(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert sum(cell.count("\n") + 1 for cell in code) <= MOST_LINES
    namespace = {"__name__": "notebook"}
    for number, cell in enumerate(code):
        exec(compile(cell, f"{NOTEBOOK.name}, cell {number}", "exec"), namespace)
    assert "0 faults" in capfd.readouterr().out.splitlines()
