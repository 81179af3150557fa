"""Whose an output folder is."""

import re

import pytest

from beambert import folders
from beambert.errors import InputError
from beambert.folders import serialize_job

JOB = {"parameters": {"random_seed": 1, "max_seq_length": 128}, "inputs": [{"path": "a"}]}


@pytest.fixture
def check(tmp_path):
    """Whether a job has finished a folder of these files."""

    def claim(files: dict[str, bytes], job=JOB) -> bool:
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
        return folders.claim_output(str(tmp_path), job)

    return claim


def other(**parameters):
    return JOB | {"parameters": JOB["parameters"] | parameters}


@pytest.mark.parametrize("files", [{}, {"_tmp-0-part": b""}])
def test_new(files, check):
    assert check(files) is False


def test_finished_wins_over_unfinished(check, tmp_path):
    """A job that stopped between writing the one and deleting the other."""
    assert check({"_SUCCESS": serialize_job(JOB), "_UNFINISHED": serialize_job(JOB)}) is True
    assert [path.name for path in tmp_path.iterdir()] == ["_SUCCESS"]


@pytest.mark.parametrize("files", [{"thesis.tex": b""}, {"part-0": b"", "_tmp-0-part": b""}])
def test_somebody_elses(files, check):
    with pytest.raises(InputError, match=r"--output=\S+: .*something else"):
        check(files)


@pytest.mark.parametrize("marker", ["_SUCCESS", "_UNFINISHED"])
def test_another_job_names_both_values(marker, check):
    with pytest.raises(InputError, match=r"parameters\.random_seed there 2, here 1"):
        check({marker: serialize_job(other(random_seed=2)), "part-0": b""})


def test_claim_alone_is_nothing_to_keep(check):
    assert check({"_UNFINISHED": serialize_job(other(random_seed=2))}) is False
    assert check({"_UNFINISHED": serialize_job(JOB)[:10]}) is False


@pytest.mark.parametrize("content", [b"", b"\xff", b"{", b"[]", b"null"])
def test_marker_of_another_tool(content, check):
    """Spark and Hadoop write an empty _SUCCESS."""
    with pytest.raises(InputError, match="--output="):
        check({"_SUCCESS": content, "part-0": b""})


FILES = [{"path": f"/text/{name}", "bytes": 9} for name in "ab"]
TEXTS = {"parameters": {"num_shards": 1, "pairs": "x", "dtype": 0}, "vocabulary": "0" * 64}
TEXTS |= {"inputs": FILES}


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"inputs": [FILES[0], {"path": "/text/b", "bytes": 8}]}, "inputs.1.bytes there 9, here 8"),
        ({"vocabulary": "1" * 64}, "vocabulary is another one"),
        ({"inputs": []}, "inputs is another one"),
        (
            {"num_shards": 2, "pairs": "y", "dtype": 1, "vocabulary": "1" * 64},
            'parameters.num_shards there 1, here 2; parameters.pairs there "x", here "y"; '
            "parameters.dtype there 0, here 1 and 1 more",
        ),
    ],
)
def test_another_job_names_what_differs(job, message, check):
    given = {name: job.get(name, value) for name, value in TEXTS["parameters"].items()}
    changed = TEXTS | {"parameters": given} | {k: v for k, v in job.items() if k in TEXTS}
    files = {"_SUCCESS": serialize_job(TEXTS), "part-0": b""}
    with pytest.raises(InputError, match=rf"another job \({re.escape(message)}"):
        check(files, changed)


def names(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_finished_folder_is_read_by_the_same_command_alone(tmp_path):
    folder = tmp_path / "output"
    with folders.claimed(str(folder), {"model": "a"}) as output:
        assert not output.is_finished and "_UNFINISHED" in names(folder)
        output.write_json("about.json", {"rows": 3})
    assert names(folder) == ["_SUCCESS", "about.json"]
    with folders.claimed(str(folder), {"model": "a"}) as output:
        assert output.is_finished and output.read_json("about.json") == {"rows": 3}
    with (
        pytest.raises(InputError, match="model there"),
        folders.claimed(str(folder), {"model": "b"}),
    ):
        pytest.fail("the folder is another command's")
    (folder / "about.json").write_text("{")
    with (
        pytest.raises(InputError, match=r"about.json: is damaged .*; make it again"),
        folders.claimed(str(folder), {"model": "a"}) as output,
    ):
        output.read_json("about.json")


def test_what_is_interrupted_goes_on(tmp_path):
    folder = tmp_path / "output"
    with (
        pytest.raises(KeyboardInterrupt),
        folders.claimed(str(folder), {"model": "a"}) as output,
    ):
        output.write("part", b"1")
        (folder / "_tmp-0-part").touch()
        raise KeyboardInterrupt
    assert names(folder) == ["_UNFINISHED", "part"]
    with (
        pytest.raises(InputError, match="model there"),
        folders.claimed(str(folder), {"model": "b"}),
    ):
        pytest.fail("the folder is another command's")
    with folders.claimed(str(folder), {"model": "a"}) as output:
        assert not output.is_finished
    assert names(folder) == ["_SUCCESS", "part"]


@pytest.mark.parametrize("has_written", [False, True])
def test_bad_input_leaves_the_folder_free_unless_there_is_work_in_it(tmp_path, has_written):
    folder = tmp_path / "output"
    with (
        pytest.raises(InputError, match="bad row"),
        folders.claimed(str(folder), {"model": "a"}) as output,
    ):
        if has_written:
            output.write("part", b"1")
        raise InputError("bad row")
    assert names(folder) == (["_UNFINISHED", "part"] if has_written else [])
