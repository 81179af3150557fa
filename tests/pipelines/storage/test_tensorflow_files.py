"""Files and folders, here and on an emulated gs://."""

import contextlib
import errno
import hashlib
import os

import pytest

from beambert import io
from beambert.errors import InputError
from beambert.model_files import weights_sha256


@pytest.fixture(params=["local", "gs", "memory"])
def root(request, tmp_path):
    """A folder that isn't there yet."""
    if request.param == "local":
        return str(tmp_path / "root")
    if request.param == "memory":  # It stands for all storages that fsspec knows.
        return f"memory://bucket/{tmp_path.name}"
    return f"{request.getfixturevalue('gs')}/{tmp_path.name}"


def test_a_file_is_written_in_the_place_of_an_older_one(root):
    path = f"{root}/deep/file"
    io.write_bytes(path, b"once")
    io.write_bytes(path, "zwölf".encode())
    assert io.read_bytes(path) == "zwölf".encode()
    assert io.read_text(path) == "zwölf"
    assert b"".join(io.read_chunks(path)) == "zwölf".encode()
    assert io.info(path).bytes == 6
    assert io.list_folder(f"{root}/deep") == ["file"]
    assert io.list_folder(f"{root}/nowhere") == []
    io.write_bytes(f"{root}/empty", b"")
    assert io.read_bytes(f"{root}/empty") == b""


def test_a_file_that_is_not_there(root):
    with pytest.raises(InputError, match=rf"^--vocab_file={root}/none: cannot be read \(.+\)"):
        io.read_bytes(f"{root}/none", "--vocab_file")
    with pytest.raises(InputError, match=rf"^{root}/none: cannot be read \(.+\)"):
        io.read_bytes(f"{root}/none")


def test_what_is_there(root):
    io.write_bytes(f"{root}/folder/file", b"x")
    assert io.list_folder(root) == ["folder"]
    for path, exists, is_folder in (
        (f"{root}/folder", True, True),
        (f"{root}/folder/", True, True),
        (f"{root}/folder/file", True, False),
        (f"{root}/none", False, False),
    ):
        assert io.is_folder(path) == is_folder
        assert io.exists(path) == exists
    assert io.match_in(root, "*/f*") == [f"{root}/folder/file"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("bug"), OSError(28, "full")])
def test_what_fails_while_writing_leaves_nothing(root, error):
    """An error of storage is a sentence; others pass as they are."""
    io.write_bytes(f"{root}/beside", b"x")
    expected = InputError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected) as raised, io.temporary_path(f"{root}/m") as folder:
        io.write_bytes(f"{folder}/half", b"x")
        assert io.leftovers(root, "m") == [folder]
        assert io.leftovers(root, "another") == []
        raise error
    if expected is InputError:
        assert str(raised.value).startswith(f"{root}/m: cannot be written (full); ")
    assert io.list_folder(root) == ["beside"]


def test_copied_moved_and_deleted(root, tmp_path):
    """Between file systems, too; what was at the place is gone."""
    here = str(tmp_path / "here")
    for name in ("model/a", "model/deep/b", "model/checkpoints/c"):
        io.write_bytes(f"{root}/{name}", name.encode())
    io.copy(f"{root}/model", here, left_out=["checkpoints"])
    assert io.list_folder(here) == ["a", "deep"]
    assert (tmp_path / "here" / "deep" / "b").read_bytes() == b"model/deep/b"
    io.move(here, f"{root}/model")
    assert not (tmp_path / "here").exists()
    assert io.list_folder(f"{root}/model") == ["a", "deep"]
    assert io.read_bytes(f"{root}/model/deep/b") == b"model/deep/b"
    io.move(f"{root}/model/a", f"{root}/model/deep/b")
    assert io.read_bytes(f"{root}/model/deep/b") == b"model/a"
    io.delete(f"{root}/model/deep/b")
    io.delete(f"{root}/model")
    io.delete(f"{root}/model")  # nothing is there
    assert not io.exists(f"{root}/model")
    with pytest.raises(InputError, match="model: cannot be copied"):
        io.copy(f"{root}/model", here)


def test_a_folder_elsewhere_is_copied_and_errors_speak_of_it(gs, tmp_path):
    io.write_bytes(f"{gs}/elsewhere/deep/file", b"x")
    with (
        pytest.raises(InputError, match=f"^--model={gs}/elsewhere/deep is damaged$"),
        io.local_copy(f"{gs}/elsewhere/") as here,
    ):
        assert "://" not in here
        assert io.read_bytes(f"{here}/deep/file") == b"x"
        raise InputError(f"--model={here}/deep is damaged")
    assert not io.exists(here)


def test_storage_that_does_not_answer_is_not_empty(gs):
    path = f"{gs}/forbidden/folder"
    for look in (
        io.exists,
        io.is_folder,
        io.list_folder,
        io.delete,
        weights_sha256,
    ):
        with pytest.raises(InputError, match="forbidden.*: cannot be .*403"):
            look(path)
    with (
        pytest.raises(InputError, match="forbidden.*: cannot be .*403"),
        io.local_copy(path),
    ):
        pass


@pytest.mark.parametrize("is_done", [True, False])
def test_a_rename_that_reports_an_error(tmp_path, monkeypatch, is_done):
    """NFS may have renamed the file, which counts then; otherwise the old one stands."""
    path, replace = tmp_path / "file", os.replace
    path.write_text("old")

    def reporting(source, target):
        if is_done:
            replace(source, target)
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(os, "replace", reporting)
    with contextlib.nullcontext() if is_done else pytest.raises(InputError, match="Stale"):
        io.write_bytes(str(path), b"new")
    assert path.read_text() == ("new" if is_done else "old") and os.listdir(tmp_path) == ["file"]


def test_a_link_to_itself_keeps_no_folder_from_being_listed(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    assert io.list_folder(str(tmp_path)) == ["loop"] and not io.exists(f"{tmp_path}/loop/a")


def test_a_folder_whose_name_looks_like_a_pattern(root):
    """What is in it is found, and nothing of others."""
    for folder in ("project [v2]", "project v", "p*"):
        io.write_bytes(f"{root}/{folder}/model.safetensors", folder.encode())
    for folder in ("project [v2]", "p*"):
        expected = hashlib.sha256(folder.encode()).hexdigest()
        assert weights_sha256(f"{root}/{folder}") == expected
    io.copy(f"{root}/p*", f"{root}/[p]*")
    io.move(f"{root}/[p]*", f"{root}/?*")
    for folder in ("p*", "?*"):
        path = f"{root}/{folder}/model.safetensors"
        assert [file.path for file in io.match_inputs([path])] == [path]
        io.delete(f"{root}/{folder}")
    assert io.list_folder(root) == ["project [v2]", "project v"]


def test_a_client_that_is_missing_is_one_message():
    for path in ("s3://bucket/p", "no-such://bucket/p"):
        with pytest.raises(InputError, match=f"^{path}: cannot be written "):
            io.write_bytes(path, b"x")


def test_a_storage_that_cannot_be_reached(gs, monkeypatch):
    """It is tried for seconds, not for minutes, and is not taken for an empty one."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    monkeypatch.setattr(io, "FIRST_SECONDS", 0.1)
    monkeypatch.setattr(io, "_GOOGLE_STORAGE", io._GoogleStorage())
    with pytest.raises(InputError, match="gs://bucket/encoder: cannot be read"):
        io.exists("gs://bucket/encoder")
