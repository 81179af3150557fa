"""Links in the documents point to files that exist, and the code of docs/python.md runs."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
DOCUMENTS = [*ROOT.glob("*.md"), ROOT / "deploy" / "README.md", *ROOT.glob("docs/*.md")]


def test_links_point_to_files_that_exist():
    missing = []
    for path in DOCUMENTS:
        for link in re.findall(r"\]\(([^)\s#]+)[^)\s]*\)", path.read_text("utf-8")):
            if "://" not in link and not (path.parent / link).exists():
                missing.append(f"{path.relative_to(ROOT)}: {link}")
    assert not missing


@pytest.mark.slow
def test_the_code_of_the_python_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "python.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks
    namespace = {"__name__": "documentation"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{page.name}, block {number}", "exec"), namespace)
    assert (tmp_path / "records" / "_SUCCESS").exists()
