"""Versions get their numbers one after the other, in a folder and on an emulated gs://."""

import threading

import pytest
from support import emulated_storage

from beambert import storage
from beambert.errors import InputError
from beambert.trainer.serving import versions

NAMES = ("assets.extra/model.json", "saved_model.pb", "variables/variables.index")


@pytest.fixture(params=["local", "gs"])
def output(request, tmp_path, monkeypatch):
    monkeypatch.setattr(versions, "SECONDS_BETWEEN_TRIES", 0.05)
    if request.param == "local":
        return str(tmp_path / "serving")
    return f"{request.getfixturevalue('gs')}/{tmp_path.name}/serving"


def write_model(output, mark):
    """Writes what `export` has before it knows the version's number."""
    temporary = f"{output}/_tmp-{mark * 32}-1"
    for name in NAMES:
        storage.write_bytes(f"{temporary}/{name}", f"{mark} {name}".encode())
    return temporary


def publish(temporary, output, number=None):
    return versions.publish(temporary, output, lambda: number or versions.next_version(output))


@pytest.mark.slow
def test_two_at_once_make_two_versions(output):
    """Each has all files of one model, whoever was first."""
    temporaries = {mark: write_model(output, mark) for mark in "ab"}
    barrier, paths = threading.Barrier(2), {}

    def run(mark):
        barrier.wait()
        paths[mark] = publish(temporaries[mark], output)

    threads = [threading.Thread(target=run, args=mark) for mark in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(paths.values()) == [f"{output}/1", f"{output}/2"]
    for mark, path in paths.items():
        for name in NAMES:
            assert storage.read_text(f"{path}/{name}") == f"{mark} {name}"
    assert not storage.leftovers(output)


def test_the_graph_comes_last_where_files_come_one_by_one(gs, tmp_path, monkeypatch):
    """Servers load a version as soon as its graph is there."""
    output = f"{gs}/{tmp_path.name}/serving"
    temporary = write_model(output, "a")
    copy, there = storage.copy, []

    def watch(source, target, *more):
        if source.endswith("saved_model.pb"):
            there.extend(sorted(storage.list_folder(f"{output}/1")))
        copy(source, target, *more)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "copy", lambda s, t, left_out=(): watch(s, t, left_out))
        publish(temporary, output)
    assert there == ["assets.extra", "variables"]
    assert "saved_model.pb" in storage.list_folder(f"{output}/1")


def test_a_refused_graph_leaves_no_half_of_a_version(gs, tmp_path):
    """The same command then makes the version whole, with the same number."""
    output = f"{gs}/{tmp_path.name}/serving"
    temporary = write_model(output, "a")
    emulated_storage.refuse(r"POST .*/serving/1/saved_model\.pb.*")
    with pytest.raises(InputError, match="403"):
        publish(temporary, output)
    emulated_storage.refuse("")
    assert versions.next_version(output) == 1
    assert publish(temporary, output) == f"{output}/1"
    assert "saved_model.pb" in storage.list_folder(f"{output}/1")


@pytest.mark.slow
def test_a_number_that_is_taken(output):
    publish(write_model(output, "a"), output, 5)
    with pytest.raises(InputError, match="serving/5: exists already; leave --version out"):
        publish(write_model(output, "b"), output, 5)
    assert storage.read_text(f"{output}/5/saved_model.pb") == "a saved_model.pb"
    assert versions.next_version(output) == 6
