"""Files through TensorFlow, here and on an emulated gs://, beside what Beam makes of the same."""

import sys
import threading

import pytest
import tensorflow as tf
from support.emulated_storage import requests_made

from beambert.errors import InputError
from beambert.pipelines.files import beam_files
from beambert.pipelines.storage import tensorflow_files
from beambert.pipelines.storage.model_files import weights_sha256


@pytest.fixture(params=["local", "gs"])
def root(request, tmp_path):
    """A folder that isn't there yet."""
    if request.param == "local":
        return str(tmp_path / "root")
    return f"{request.getfixturevalue('gs')}/{tmp_path.name}"


def test_what_one_side_writes_the_other_reads(root):
    for name, writer in (("beam", beam_files), ("tensorflow", tensorflow_files)):
        path = f"{root}/deep/{name}"
        writer.write_bytes(path, b"once")
        writer.write_bytes(path, "zwölf".encode())  # in its place
        assert tensorflow_files.read_bytes(path) == "zwölf".encode()
        assert tensorflow_files.read_text(path) == "zwölf"
        assert b"".join(tensorflow_files.read_chunks(path)) == "zwölf".encode()
        assert tensorflow_files.size(path) == 6
        assert beam_files.read_bytes(path) == "zwölf".encode()
    for lister in (beam_files, tensorflow_files):
        assert lister.list_folder(f"{root}/deep") == ["beam", "tensorflow"]
        assert lister.list_folder(f"{root}/nowhere") == []


def test_both_sides_say_the_same(root):
    for side in (beam_files, tensorflow_files):
        with pytest.raises(InputError, match=rf"^--vocab_file={root}/none: cannot be read \(.+\)"):
            side.read_bytes(f"{root}/none", "--vocab_file")
        with pytest.raises(InputError, match=rf"^{root}/none: cannot be read \(.+\)"):
            side.read_bytes(f"{root}/none")


def test_what_is_there(root):
    tensorflow_files.write_bytes(f"{root}/folder/file", b"x")
    assert tensorflow_files.list_folder(root) == ["folder"]
    for path, exists, is_folder in (
        (f"{root}/folder", True, True),
        (f"{root}/folder/", True, True),
        (f"{root}/folder/file", True, False),
        (f"{root}/none", False, False),
    ):
        assert tensorflow_files.is_folder(path) == is_folder
        assert tensorflow_files.exists(path) == exists
    assert tensorflow_files.size(f"{root}/none") is None
    assert tensorflow_files.match(f"{root}/*/f*") == [f"{root}/folder/file"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("bug"), OSError(28, "full")])
def test_what_fails_while_writing_leaves_nothing(root, error):
    """An error of storage is a sentence; others pass as they are."""
    tensorflow_files.write_bytes(f"{root}/beside", b"x")
    expected = InputError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected) as raised, tensorflow_files.written_aside(f"{root}/m") as folder:
        tensorflow_files.write_bytes(f"{folder}/half", b"x")
        assert tensorflow_files.leftovers(root, "m") == [folder]
        assert tensorflow_files.leftovers(root, "another") == []
        raise error
    if expected is InputError:
        assert str(raised.value) == f"{root}/m: cannot be written ([Errno 28] full)"
    assert tensorflow_files.list_folder(root) == ["beside"]


def test_copied_moved_and_deleted(root, tmp_path):
    """Between file systems, too; what was at the place is gone."""
    here = str(tmp_path / "here")
    for name in ("model/a", "model/deep/b", "model/checkpoints/c"):
        tensorflow_files.write_bytes(f"{root}/{name}", name.encode())
    tensorflow_files.copy(f"{root}/model", here, left_out=["checkpoints"])
    assert tensorflow_files.list_folder(here) == ["a", "deep"]
    assert (tmp_path / "here" / "deep" / "b").read_bytes() == b"model/deep/b"
    tensorflow_files.move(here, f"{root}/model")
    assert not (tmp_path / "here").exists()
    assert tensorflow_files.list_folder(f"{root}/model") == ["a", "deep"]
    assert tensorflow_files.read_bytes(f"{root}/model/deep/b") == b"model/deep/b"
    tensorflow_files.move(f"{root}/model/a", f"{root}/model/deep/b")
    assert tensorflow_files.read_bytes(f"{root}/model/deep/b") == b"model/a"
    tensorflow_files.delete(f"{root}/model/deep/b")
    tensorflow_files.delete(f"{root}/model")
    tensorflow_files.delete(f"{root}/model")  # nothing is there
    assert not tensorflow_files.exists(f"{root}/model")
    with pytest.raises(InputError, match="model: cannot be copied"):
        tensorflow_files.copy(f"{root}/model", here)


def test_a_local_folder_is_itself(tmp_path):
    with tensorflow_files.local_folder(f"{tmp_path}") as here:
        assert here == str(tmp_path)


def test_a_folder_elsewhere_is_copied_and_errors_speak_of_it(gs, tmp_path):
    tensorflow_files.write_bytes(f"{gs}/elsewhere/deep/file", b"x")
    with (
        pytest.raises(InputError, match=f"^--model={gs}/elsewhere/deep is damaged$"),
        tensorflow_files.local_folder(f"{gs}/elsewhere/") as here,
    ):
        assert "://" not in here
        assert tensorflow_files.read_bytes(f"{here}/deep/file") == b"x"
        raise InputError(f"--model={here}/deep is damaged")
    assert not tensorflow_files.exists(here)


def test_storage_that_does_not_answer_is_not_empty(gs):
    """Who may not look doesn't know; TensorFlow's `isdir` says no there."""
    path = f"{gs}/forbidden/folder"
    assert not tf.io.gfile.isdir(path)
    for look in (
        tensorflow_files.exists,
        tensorflow_files.is_folder,
        tensorflow_files.size,
        tensorflow_files.list_folder,
        tensorflow_files.delete,
        weights_sha256,
        beam_files.list_folder,
    ):
        with pytest.raises(InputError, match="forbidden.*: cannot be .*403"):
            look(path)
    with (
        pytest.raises(InputError, match="forbidden.*: cannot be .*403"),
        tensorflow_files.local_folder(path),
    ):
        pass


def test_a_name_that_is_not_utf8(tmp_path):
    path = f"{tmp_path}/\udcff"
    for function in (tensorflow_files.exists, tensorflow_files.is_folder, tensorflow_files.size):
        with pytest.raises(InputError, match="the name is not UTF-8"):
            function(path)


def test_sizes_are_asked_for_at_the_same_time(tmp_path, monkeypatch):
    """One after the other, thousands of shards on another storage would take minutes."""
    names = [str(number) for number in range(40)]
    for number, name in enumerate(names[:-1]):
        (tmp_path / name).write_bytes(b"x" * number)
    assert tensorflow_files.sizes(str(tmp_path), names) == [*range(39), None]
    assert tensorflow_files.sizes(str(tmp_path), []) == []
    together = threading.Barrier(8, timeout=60)
    monkeypatch.setattr(tensorflow_files, "size", lambda path: together.wait())
    # This breaks the barrier, and raises, if fewer than eight ask.
    tensorflow_files.sizes(str(tmp_path), names)


@pytest.mark.slow
def test_one_request_lists_many_sizes(gs, tmp_path, monkeypatch):
    """A trainer that starts again waits for them, with its accelerators."""
    folder = f"{gs}/{tmp_path.name}"
    for number in range(12):
        tensorflow_files.write_bytes(f"{folder}/{number}", b"x" * number)
    tensorflow_files.write_bytes(f"{folder}/deeper/3", b"another file")
    names = [str(number) for number in range(13)]
    requests_made()
    assert tensorflow_files.sizes(folder, names) == [*range(12), None]
    made = requests_made()  # Google's library may also look at the bucket, once
    assert made.count("GET /storage/v1/b/bucket/o") == 1 and len(made) <= 2
    # Without Google's library each file is asked for.
    monkeypatch.setitem(sys.modules, "google.cloud.storage", None)
    monkeypatch.delattr("google.cloud.storage")
    assert tensorflow_files.sizes(folder, names) == [*range(12), None]
    assert len(requests_made()) >= 13


def test_sizes_in_a_bucket_that_refuses(gs):
    with pytest.raises(InputError, match=r"^gs://bucket/forbidden/x: cannot be listed \(.*403"):
        tensorflow_files.sizes(f"{gs}/forbidden/x", ["a"])
