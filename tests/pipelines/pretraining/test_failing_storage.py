"""Object storage that fails in the middle of a job: for a moment, or until somebody mends it."""

import pytest
from support import emulated_storage
from support.data_command import body, data, refused

from beambert.io import copy, list_folder, open_file, write_bytes

pytestmark = pytest.mark.slow
NUMBER = iter(range(100))


@pytest.fixture
def stored(gs, corpus):
    """The corpus in two objects."""
    for number in range(2):
        text = "\n".join(body(document) for document in corpus[number::2])
        write_bytes(f"{gs}/texts/text_{number}", text.encode())
    yield f"{gs}/texts/text_*"
    emulated_storage.fail("", 500, 0)


def run(capsys, gs, vocab_file, stored):
    """Returns the name of a new output, and a function that runs the command for it."""
    output = f"{gs}/failing-{next(NUMBER)}"
    flags = [f"--input={stored}", "--format=text", "--layout=sentences", "--num_shards=2"]
    return output, lambda: data(capsys, vocab_file, output, *flags)


def records(output):
    """Returns the content of the record files."""
    found = {}
    for name in list_folder(output):
        if "tfrecord" in name:
            with open_file(f"{output}/{name}") as file:
                found[name] = file.read()
    return found


@pytest.fixture
def expected(capsys, gs, vocab_file, stored, tmp_path):
    """Those of files on this machine."""
    copy(f"{gs}/texts", f"{tmp_path}/texts")
    output, command = run(capsys, str(tmp_path), vocab_file, f"{tmp_path}/texts/text_*")
    status, _, errors = command()
    assert (status, errors) == (0, "")
    return records(output)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ("GET texts/text_1", "gs://bucket/texts/text_1: cannot be read (403 "),
        ("POST .*part-00001-of-00002.*", "part-00001-of-00002.tfrecord: cannot be written ("),
    ],
)
def test_a_permission_that_is_revoked_is_one_sentence(
    capsys, gs, vocab_file, stored, expected, request_, said
):
    """Nothing is left; with the permission back, the same command makes the same records."""
    output, command = run(capsys, gs, vocab_file, stored)
    emulated_storage.fail(request_, 403, 1000)
    refused(command(), said)
    assert list_folder(output) == []
    emulated_storage.fail("", 403, 0)
    assert command()[0] == 0
    assert records(output) == expected
