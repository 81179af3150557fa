"""The notebook of docs/ runs from its first cell to its last."""

import json
import pathlib

import pytest

NOTEBOOK = pathlib.Path(__file__).parents[1] / "docs" / "python.ipynb"


@pytest.mark.slow
def test_the_cells_run_in_order(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    namespace = {"__name__": "notebook"}
    for number, cell in enumerate(code):
        exec(compile(cell, f"{NOTEBOOK.name}, cell {number}", "exec"), namespace)
    printed = capfd.readouterr().out
    assert "0 faults" in printed and "--model=nowhere: no such folder" in printed
    assert namespace["results"] and namespace["found"]["examples"] == 32
