"""Model folders: who may write to one, and what a full disk leaves of it."""

import resource
import signal

import pytest

from pipelines.errors import InputError
from trainer import folders


@pytest.fixture
def full_disk():
    """Switches a limit of 0 bytes a file on and off."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def switch(is_full: bool) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]) if is_full else limits)

    yield switch
    switch(False)
    signal.signal(signal.SIGXFSZ, before)


def test_a_folder_stays_ours_on_a_full_disk(full_disk, tmp_path):
    output, job = folders.TrainingFolders.of(str(tmp_path / "model")), {"steps": 3}
    assert not folders.claim(output, job, chief=True)
    folders.write(f"{output.model}/training.json", b"{}")
    full_disk(True)
    with pytest.raises(InputError, match="_UNFINISHED: cannot be written"):
        folders.claim(output, job, chief=True)
    with pytest.raises(InputError, match="_SUCCESS: cannot be written"):
        folders.finish(output.model, job)
    full_disk(False)
    assert not folders.claim(output, job, chief=True)
    folders.finish(output.model, job)
    assert folders.claim(output, job, chief=True)
