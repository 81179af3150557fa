"""The code of docs/python.md runs as it stands."""

import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "python.md"


@pytest.mark.slow
def test_the_blocks_run_in_order(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks
    namespace = {"__name__": "documentation"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{PAGE.name}, block {number}", "exec"), namespace)
    assert (tmp_path / "records" / "_SUCCESS").exists()
    # What a comment says of a line that prints.
    printed = capfd.readouterr().out.splitlines()
    for expected in re.findall(r"print.*\)  # (.*)", "\n".join(blocks)):
        assert expected in printed
