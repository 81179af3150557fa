"""A Python caller gets the same sentence as the user of the command."""

import pytest

from beambert.errors import InputError
from beambert.trainer.commands import export as export_command
from beambert.trainer.commands import index as index_command
from beambert.trainer.commands import search as search_command
from beambert.trainer.retrieval.indexing import make_index
from beambert.trainer.retrieval.searching import Searcher
from beambert.trainer.serving.versions import export


def _searcher() -> Searcher:
    return Searcher.__new__(Searcher)  # Only the number is looked at, before the index.


CASES = [
    pytest.param(
        lambda folder: export_command.main(
            [f"--model={folder}", f"--output={folder}/served", "--version=0"]
        ),
        lambda folder: export(folder, f"{folder}/served", number=0),
        "--version=0: must be at least 1",
        id="export",
    ),
    pytest.param(
        lambda folder: index_command.main([f"--embeddings={folder}", "--output=gs://bucket/index"]),
        lambda folder: make_index([folder], "gs://bucket/index"),
        "--output=gs://bucket/index: must be on this machine, whose memory the index is mapped "
        "into; name a folder here",
        id="index",
    ),
    pytest.param(
        lambda folder: search_command.main([f"--index={folder}", "--top=0", "words"]),
        lambda folder: _searcher().search(["words"], top=0),
        "--top=0: must be at least 1",
        id="search",
    ),
]


@pytest.mark.parametrize(("command", "function", "sentence"), CASES)
def test_command_and_function_refuse_alike(command, function, sentence, tmp_path):
    for call in (command, function):
        with pytest.raises(InputError) as refusal:
            call(str(tmp_path))
        assert str(refusal.value) == sentence
    assert not list(tmp_path.iterdir())
