"""Spills: what is read is what was written; a full disk is one sentence and leaves nothing."""

import contextlib
import errno
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beambert.pipelines.pretraining_data.spills import read_segments, spill_prefix, write_spill
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.storage.claims import TEMPORARY_PREFIX

exact = settings(derandomize=True, max_examples=50, deadline=None, database=None)


@exact
@given(st.lists(st.tuples(st.integers(0, 99), st.binary(max_size=300)), max_size=9), st.data())
def test_round_trip(tmp_path_factory, items, data):
    folder = tmp_path_factory.mktemp("spill")
    found = write_spill(str(folder), "run", items)
    assert [key for key, _ in found] == [key for key, _ in items]
    order = data.draw(st.permutations(range(len(items))))
    assert list(read_segments(found[i][1] for i in order)) == [items[i][1] for i in order]
    # One file, of nothing else.
    (path,) = folder.iterdir()
    assert path.stat().st_size == sum(len(content) for _, content in items)


def test_a_retried_worker_writes_another_file(tmp_path):
    first, again = (write_spill(str(tmp_path), "run", [(3, b"abc")]) for _ in range(2))
    assert first[0][1][0] != again[0][1][0]
    assert list(read_segments([first[0][1], again[0][1]])) == [b"abc", b"abc"]


def test_names_are_temporary_and_tell_the_run(tmp_path):
    for run in ("one", "two"):
        write_spill(str(tmp_path), run, [(0, b"x")])
    names = [path.name for path in tmp_path.iterdir()]
    assert all(name.startswith(TEMPORARY_PREFIX) for name in names)
    assert sum(name.startswith(spill_prefix("one")) for name in names) == 1


class FullDisk(io.FileIO):
    """Takes ten bytes and no more."""

    def write(self, data):
        if self.tell() + len(data) > 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("can_create", [False, True])
def test_full_disk(tmp_path, monkeypatch, can_create):
    @contextlib.contextmanager
    def create(path, *_):
        if not can_create:
            raise OSError(errno.ENOSPC, "No space left on device")
        with FullDisk(path, "wb") as file:
            yield file

    monkeypatch.setattr("apache_beam.io.filesystems.FileSystems.create", create)
    with pytest.raises(InputError, match="No space left on device.*choose another --output"):
        write_spill(str(tmp_path / "out"), "run", [(0, b"x" * 8), (1, b"y" * 8)])
    assert list((tmp_path / "out").iterdir()) == []
