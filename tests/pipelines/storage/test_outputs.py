"""A folder that a command fills: who may fill it, and what stands there after each ending."""

import pytest

from beambert import folders
from beambert.errors import InputError

FLAGS_OF = ({"model": "--model"},)


def names(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_finished_folder_is_read_by_the_same_command_alone(tmp_path):
    folder = tmp_path / "output"
    with folders.claimed(str(folder), {"model": "a"}, FLAGS_OF) as output:
        assert not output.is_finished and "_UNFINISHED" in names(folder)
        output.write_json("about.json", {"rows": 3})
    assert names(folder) == ["_SUCCESS", "about.json"]
    with folders.claimed(str(folder), {"model": "a"}, FLAGS_OF) as output:
        assert output.is_finished and output.read_json("about.json") == {"rows": 3}
    with (
        pytest.raises(InputError, match="--model"),
        folders.claimed(str(folder), {"model": "b"}, FLAGS_OF),
    ):
        pytest.fail("the folder is another command's")
    (folder / "about.json").write_text("{")
    with (
        pytest.raises(InputError, match=r"about.json: is damaged; make the folder again"),
        folders.claimed(str(folder), {"model": "a"}, FLAGS_OF) as output,
    ):
        output.read_json("about.json")


def test_what_is_interrupted_goes_on(tmp_path):
    folder = tmp_path / "output"
    with (
        pytest.raises(KeyboardInterrupt),
        folders.claimed(str(folder), {"model": "a"}, FLAGS_OF) as output,
    ):
        output.write("part", b"1")
        raise KeyboardInterrupt
    assert names(folder) == ["_UNFINISHED", "part"]
    with (
        pytest.raises(InputError, match="--model"),
        folders.claimed(str(folder), {"model": "b"}, FLAGS_OF),
    ):
        pytest.fail("the folder is another command's")
    with folders.claimed(str(folder), {"model": "a"}, FLAGS_OF) as output:
        assert not output.is_finished
    assert names(folder) == ["_SUCCESS", "part"]


@pytest.mark.parametrize("has_written", [False, True])
def test_bad_input_leaves_the_folder_free_unless_there_is_work_in_it(tmp_path, has_written):
    folder = tmp_path / "output"
    with (
        pytest.raises(InputError, match="bad row"),
        folders.claimed(str(folder), {"model": "a"}, FLAGS_OF) as output,
    ):
        if has_written:
            output.write("part", b"1")
        raise InputError("bad row")
    assert names(folder) == (["_UNFINISHED", "part"] if has_written else [])
