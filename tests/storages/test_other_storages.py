"""The Beam commands on s3:// and hdfs://: what they write is what they write on this machine.

`make test-storage` installs the clients and an S3 on this machine, and runs this; it is no part of
`make test`. HDFS is a stand-in that answers as its documentation says.
"""

import bz2
import gzip
import json
import random

import pytest
from support import web_hdfs
from support.data_command import SMALL, wikiextractor
from support.sample_text import make_document

from beambert import io as files
from beambert.cli import run_main
from beambert.errors import InputError
from beambert.pipelines import create_pretraining_data, create_vocabulary, verify

pytestmark = pytest.mark.storage


class Storage:
    """A storage that is not on this machine.

    Attributes:
      root: path of its only folder.
      server: the server of HDFS; None on S3.
    """

    def __init__(self, root, server=None):
        self.root, self.server = root, server

    def run(self, capsys, name, command, *flags):
        """Runs a command in this process; returns its exit status and what it printed."""
        status = run_main(name, command.main, [*map(str, flags)])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    def names(self, folder):
        """Returns the paths of the files in a folder of this storage, from the folder on."""
        found = files.match_files(f"{self.root}/{folder}/**")
        paths = [each.path for each in found if not each.is_folder]
        return sorted(path.partition(f"/{folder}/")[2] for path in paths)


@pytest.fixture(scope="module")
def hdfs():
    with web_hdfs.served() as (address, files):
        yield Storage(f"hdfs://somebody@{address}/work", files)


@pytest.fixture(scope="module")
def s3():
    s3fs = pytest.importorskip("s3fs", reason="make test-storage installs it")
    server = pytest.importorskip("moto.server", reason="make test-storage installs it")
    served = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    served.start()
    host, port = served.get_host_and_port()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            environment.setenv(name, "testing")
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        s3fs.S3FileSystem().mkdir("bucket")
        yield Storage("s3://bucket/work")
    served.stop()


@pytest.fixture(params=["s3", "hdfs"])
def storage(request):
    """One storage after the other, which this process knows as a command would."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def texts(tmp_path_factory, vocabulary):
    """A folder with three files of text, one of them compressed, and a vocabulary."""
    folder, draw = tmp_path_factory.mktemp("texts"), random.Random(3)
    documents = [make_document(draw, draw.randint(1, 30)) for _ in range(90)]
    documents += documents[:9]
    for number in range(3):
        text = wikiextractor(documents[number::3]).encode()
        name, data = (f"wiki_{number}", text) if number else ("wiki_0.gz", gzip.compress(text))
        (folder / name).write_bytes(data)
    (folder / "vocab.txt").write_bytes(vocabulary.serialize())
    return folder


@pytest.fixture
def sent(storage, texts):
    """The same files in the storage."""
    for path in texts.iterdir():
        files.write_bytes(f"{storage.root}/texts/{path.name}", path.read_bytes())
    return f"{storage.root}/texts"


def flags_for(folder, output, *flags):
    given = ["--input", f"{folder}/wiki_*", f"--vocab_file={folder}/vocab.txt"]
    given += [f"--output={output}", *SMALL, "--eval_fraction=0.2", "--num_shards=3"]
    return [*given, "--duplicates=exact", *flags]


def content(path):
    with files.open_file(path) as file:
        return file.read()


@pytest.mark.parametrize("way", ["files", "runner"])
def test_records_are_those_of_this_machine(capsys, storage, texts, sent, tmp_path, way):
    local = Storage(str(tmp_path))
    flags = [f"--shuffle={way}"]
    run = local.run(
        capsys, "data", create_pretraining_data, *flags_for(texts, tmp_path / "out", *flags)
    )
    assert run[0] == 0, run[2]
    output = f"{storage.root}/records-{way}"
    made = storage.run(capsys, "data", create_pretraining_data, *flags_for(sent, output, *flags))
    assert made[0] == 0, made[2]
    assert made[2] == ""
    names = storage.names(f"records-{way}")
    expected = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert names == sorted(str(path.relative_to(tmp_path / "out")) for path in expected)
    for name in names:
        # These name the inputs.
        if name.rpartition("/")[2] not in ("info.json", "_SUCCESS"):
            assert content(f"{output}/{name}") == (tmp_path / "out" / name).read_bytes(), name
    infos = [json.loads(content(f"{output}/info.json"))]
    infos.append(json.loads((tmp_path / "out" / "info.json").read_text()))
    for found in infos:  # Sources have the names of their patterns.
        found["counts"]["sources"] = list(found["counts"]["sources"].values())
    assert infos[0]["counts"] == infos[1]["counts"] and infos[0]["files"] == infos[1]["files"]
    again = storage.run(capsys, "data", create_pretraining_data, *flags_for(sent, output, *flags))
    assert again[0] == 0 and "nothing to do" in again[1]


def test_a_vocabulary_and_a_verification(capsys, storage, texts, sent, tmp_path):
    flags = ["--vocab_size=300", "--input"]
    local = Storage("").run(
        capsys, "vocab", create_vocabulary, *flags, f"{texts}/wiki_*", f"--output={tmp_path}/v.txt"
    )
    assert local[0] == 0, local[2]
    output = f"{storage.root}/learnt/v.txt"
    made = storage.run(
        capsys, "vocab", create_vocabulary, *flags, f"{sent}/wiki_*", f"--output={output}"
    )
    assert made[0] == 0, made[2]
    assert content(output) == (tmp_path / "v.txt").read_bytes()
    records = f"{storage.root}/to-verify"
    made = storage.run(capsys, "data", create_pretraining_data, *flags_for(sent, records))
    assert made[0] == 0, made[2]
    verified = storage.run(capsys, "verify", verify, records, f"--output={records}-report")
    assert verified[0] == 0, verified
    assert json.loads(content(f"{records}-report/verification.json"))["faults"] == 0


def test_a_file_replaces_one_of_its_name(storage):
    path = f"{storage.root}/renamed/part"
    files.write_bytes(path, b"of a worker that was too slow")
    files.write_bytes(path, b"of the other one")
    assert content(path) == b"of the other one"
    assert storage.names("renamed") == ["part"]
    with pytest.raises(InputError):
        files.move(f"{storage.root}/renamed/gone", path)
    assert content(path) == b"of the other one"


def test_an_empty_file(storage):
    """A shard without a document is one."""
    files.write_bytes(f"{storage.root}/empty/part", b"")
    assert content(f"{storage.root}/empty/part") == b""
    with (
        pytest.raises(ValueError, match="of the body"),
        files.create(f"{storage.root}/empty/no"),
    ):
        raise ValueError("of the body")
    assert storage.names("empty") == ["part"]


def test_a_damaged_input_is_one_sentence(capsys, storage, sent):
    damaged = bz2.compress(b"A river in the north.\n" * 100_000)[:-20]
    files.write_bytes(f"{sent}/damaged.bz2", damaged)
    flags = [f"--input={sent}/damaged.bz2", f"--vocab_file={sent}/vocab.txt"]
    output = f"{storage.root}/damaged"
    status, _, errors = storage.run(
        capsys, "data", create_pretraining_data, *flags, f"--output={output}"
    )
    assert status == 2 and "Traceback" not in errors
    assert f"beambert data: {sent}/damaged.bz2: unreadable after line" in errors
    assert "_SUCCESS" not in storage.names("damaged")


def test_what_is_not_there_is_one_sentence(capsys, storage, sent):
    flags = flags_for(sent, f"{storage.root}/nothing", f"--input={sent}/gone_*")
    status, _, errors = storage.run(capsys, "data", create_pretraining_data, *flags)
    assert (status, errors.count("\n")) == (2, 1)
    assert errors.startswith(f"beambert data: --input={sent}/gone_*: matches no file")


def test_a_name_node_that_does_not_answer_is_one_sentence(capsys, hdfs, texts):
    nowhere = "hdfs://127.0.0.1:9/texts"
    flags = flags_for(nowhere, f"{hdfs.root}/nothing")
    status, _, errors = hdfs.run(capsys, "data", create_pretraining_data, *flags)
    assert (status, errors.count("\n")) == (2, 1)
    assert errors.startswith(f"beambert data: --input={nowhere}/wiki_*: cannot be listed")


def test_a_disk_of_hdfs_that_fails_midway(capsys, hdfs, texts):
    """The same command makes the records afterwards."""
    for path in texts.iterdir():
        files.write_bytes(f"{hdfs.root}/texts/{path.name}", path.read_bytes())
    output = f"{hdfs.root}/broken"
    flags = flags_for(f"{hdfs.root}/texts", output)
    hdfs.server.failing = ["part-00001-of-00003"]
    try:
        status, _, errors = hdfs.run(capsys, "data", create_pretraining_data, *flags)
    finally:
        hdfs.server.failing = []
    assert status == 2 and "Traceback" not in errors
    assert "cannot be written (a disk is broken)" in errors and "part-00001-of-00003" in errors
    assert not [name for name in hdfs.names("broken") if name == "_SUCCESS"]
    assert hdfs.run(capsys, "data", create_pretraining_data, *flags)[0] == 0
    assert "_SUCCESS" in hdfs.names("broken")
