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

    def claim(files: dict[str, bytes], job=JOB, flags_of=()) -> bool:
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
        return folders.claim_output(str(tmp_path), job, flags_of)

    return claim


def other(**parameters):
    return JOB | {"parameters": JOB["parameters"] | parameters}


@pytest.mark.parametrize("files", [{}, {"_tmp-0-part": b""}])
def test_new(files, check):
    assert check(files) is False


def test_continued(check):
    files = {"_UNFINISHED": serialize_job(JOB), "part-0": b"", "rejects.jsonl": b""}
    files["_tmp-0-part"] = b""
    assert check(files) is False


def test_finished(check):
    assert check({"_SUCCESS": serialize_job(JOB), "part-0": b""}) is True


def test_finished_wins_over_unfinished(check, tmp_path):
    """A job that stopped between writing the one and deleting the other."""
    assert check({"_SUCCESS": serialize_job(JOB), "_UNFINISHED": serialize_job(JOB)}) is True
    assert [path.name for path in tmp_path.iterdir()] == ["_SUCCESS"]


@pytest.mark.parametrize("files", [{"thesis.tex": b""}, {"part-0": b"", "_tmp-0-part": b""}])
def test_somebody_elses(files, check):
    with pytest.raises(InputError, match=r"--output=\S+: .*something else"):
        check(files)


@pytest.mark.parametrize("marker", ["_SUCCESS", "_UNFINISHED"])
@pytest.mark.parametrize(
    ("job", "message"),
    [
        (other(random_seed=2), r"parameters\.random_seed there 2, here 1"),
        (JOB | {"inputs": []}, r'inputs there \[\], here \[\{"path": "a"\}\]'),
    ],
)
def test_another_job_names_both_values(marker, job, message, check):
    with pytest.raises(InputError, match=message):
        check({marker: serialize_job(job), "part-0": b""})


def test_claim_alone_is_nothing_to_keep(check):
    assert check({"_UNFINISHED": serialize_job(other(random_seed=2))}) is False
    assert check({"_UNFINISHED": serialize_job(JOB)[:10]}) is False


@pytest.mark.parametrize("content", [b"", b"\xff", b"{", b"[]", b"null"])
def test_marker_of_another_tool(content, check):
    """Spark and Hadoop write an empty _SUCCESS."""
    with pytest.raises(InputError, match="--output="):
        check({"_SUCCESS": content, "part-0": b""})


FLAGS_OF = (
    {"inputs": "--input", "parameters.pairs": "--pairs", "vocabulary": "--vocab_file"},
    {"parameters.num_shards": "--num_shards"},
)
FILES = [{"path": f"/text/{name}", "bytes": 9} for name in "ab"]
TEXTS = {"parameters": {"num_shards": 1, "pairs": "x", "dtype": 0}, "vocabulary": "0" * 64}
TEXTS |= {"inputs": FILES}


@pytest.mark.parametrize(
    ("job", "message"),
    [
        # What follows from the files isn't named beside them.
        (
            {"inputs": [*FILES, {"path": "/text/c", "bytes": 9}], "num_shards": 2},
            "--input is another one",
        ),
        ({"vocabulary": "1" * 64}, "--vocab_file is another one"),
        ({"pairs": "y", "vocabulary": "1" * 64}, '--pairs there "x", here "y"; --vocab_file is'),
    ],
)
def test_another_job_names_the_flags_that_the_user_changed(job, message, check):
    given = {name: job.get(name, value) for name, value in TEXTS["parameters"].items()}
    changed = TEXTS | {"parameters": given} | {k: v for k, v in job.items() if k in TEXTS}
    files = {"_SUCCESS": serialize_job(TEXTS), "part-0": b""}
    with pytest.raises(InputError, match=rf"another job \({re.escape(message)}"):
        check(files, changed, FLAGS_OF)


MODEL_FLAG = ({"model": "--model"},)


def names(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_finished_folder_is_read_by_the_same_command_alone(tmp_path):
    folder = tmp_path / "output"
    with folders.claimed(str(folder), {"model": "a"}, MODEL_FLAG) as output:
        assert not output.is_finished and "_UNFINISHED" in names(folder)
        output.write_json("about.json", {"rows": 3})
    assert names(folder) == ["_SUCCESS", "about.json"]
    with folders.claimed(str(folder), {"model": "a"}, MODEL_FLAG) as output:
        assert output.is_finished and output.read_json("about.json") == {"rows": 3}
    with (
        pytest.raises(InputError, match="--model"),
        folders.claimed(str(folder), {"model": "b"}, MODEL_FLAG),
    ):
        pytest.fail("the folder is another command's")
    (folder / "about.json").write_text("{")
    with (
        pytest.raises(InputError, match=r"about.json: is damaged .*; make it again"),
        folders.claimed(str(folder), {"model": "a"}, MODEL_FLAG) as output,
    ):
        output.read_json("about.json")


def test_what_is_interrupted_goes_on(tmp_path):
    folder = tmp_path / "output"
    with (
        pytest.raises(KeyboardInterrupt),
        folders.claimed(str(folder), {"model": "a"}, MODEL_FLAG) as output,
    ):
        output.write("part", b"1")
        raise KeyboardInterrupt
    assert names(folder) == ["_UNFINISHED", "part"]
    with (
        pytest.raises(InputError, match="--model"),
        folders.claimed(str(folder), {"model": "b"}, MODEL_FLAG),
    ):
        pytest.fail("the folder is another command's")
    with folders.claimed(str(folder), {"model": "a"}, MODEL_FLAG) as output:
        assert not output.is_finished
    assert names(folder) == ["_SUCCESS", "part"]


@pytest.mark.parametrize("has_written", [False, True])
def test_bad_input_leaves_the_folder_free_unless_there_is_work_in_it(tmp_path, has_written):
    folder = tmp_path / "output"
    with (
        pytest.raises(InputError, match="bad row"),
        folders.claimed(str(folder), {"model": "a"}, MODEL_FLAG) as output,
    ):
        if has_written:
            output.write("part", b"1")
        raise InputError("bad row")
    assert names(folder) == (["_UNFINISHED", "part"] if has_written else [])
