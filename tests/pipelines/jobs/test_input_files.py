"""The files that patterns match."""

import pytest

from beambert.pipelines.jobs.input_files import match_inputs
from beambert.pipelines.shared.errors import InputError


@pytest.mark.parametrize("pattern", ["*.txt", "./*.txt", "b.txt", "in/../*.txt"])
def test_patterns_are_of_the_working_folder(pattern, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "b.txt").write_text("text")
    (found,) = match_inputs([pattern])
    assert (found.path, found.bytes) == (str(tmp_path / "b.txt"), 4)
    with pytest.raises(InputError, match=r"--input=\*\.csv: matches no file"):
        match_inputs(["*.csv"])
