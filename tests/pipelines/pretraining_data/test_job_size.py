"""What a job is estimated to handle, beside what it does handle."""

import dataclasses
import time

import pytest
from support import data_command
from support.data_command import data

from beambert.pipelines.pretraining_data import estimate
from beambert.pipelines.pretraining_data.job import PretrainingDataJob
from beambert.pipelines.pretraining_data.job_size import JobSize
from beambert.pipelines.pretraining_data.plan import Plan, find_inputs, make_plan
from beambert.pipelines.pretraining_data.shuffle import Shuffle

corpus, corpus_file = data_command.corpus, data_command.corpus_file
vocab_file = data_command.vocab_file
NOTHING = dict.fromkeys((field.name for field in dataclasses.fields(JobSize)), 0)
# Bytes by which an element with several documents, or rows of bands, is smaller than told.
SPARED_HEADERS = {"keep": 21, "near": 21 + 14 * 5}


@pytest.fixture(scope="module")
def vocab_files(vocab_file, tmp_path_factory):
    """Number of bytes of an id -> a vocabulary."""
    path = tmp_path_factory.mktemp("large") / "vocab.txt"
    path.write_text(vocab_file.read_text() + "".join(f"zq{n}\n" for n in range(1 << 16)))
    return {2: vocab_file, 4: path}


def plan_of(vocab_file, **options) -> Plan:
    job = PretrainingDataJob(str(vocab_file), "out", max_seq_length=(32,), dupe_factor=2, **options)
    return make_plan(job, *find_inputs(job))


def text_options(plan) -> dict:
    return {
        "vocabulary": plan.manifest.vocabulary,
        "read_options": plan.read_options(),
        "text_options": plan.text_options,
        "layout": plan.layout,
    }


@pytest.mark.parametrize("id_bytes", [2, 4])
@pytest.mark.parametrize("duplicates", ["keep", "near"])
def test_bytes_of_the_shuffle(
    capsys, monkeypatch, tmp_path, corpus_file, vocab_files, duplicates, id_bytes
):
    """Those that a job groups; the whole of so small a corpus is in the sample."""
    grouped, send = [], Shuffle.send

    def counted(shuffle, items):
        for group, value in send(shuffle, items):
            grouped.append(len(value))
            yield group, value

    monkeypatch.setattr(Shuffle, "send", counted)
    flags = [f"--input={corpus_file}", "--shuffle=runner", "--num_shards=7"]
    flags += [f"--duplicates={duplicates}"]
    assert data(capsys, vocab_files[id_bytes], tmp_path / "out", *flags)[0] == 0
    options = {"duplicates": duplicates, "input": (str(corpus_file),), "num_shards": 7}
    plan = plan_of(vocab_files[id_bytes], **options)
    found = estimate.estimate(plan.inputs, **text_options(plan))
    size = estimate.job_size(found, 1 / found.share, 1e6, 1, 7, 7)
    assert found.share == 1 and found.used == 80
    assert found.id_bytes == id_bytes * found.tokens > 80 * SPARED_HEADERS[duplicates]
    assert 0 < size.shuffled_bytes - sum(grouped) < 80 * SPARED_HEADERS[duplicates]


def test_bytes_of_a_corpus_that_is_sampled(tmp_path, monkeypatch, vocab_file):
    """Each of its documents has 14 rows, though only some are in the sample."""
    monkeypatch.setattr(estimate, "CHARACTERS_PER_SAMPLE", 2000)
    monkeypatch.setattr(estimate, "MOST_SAMPLES", 0)
    texts = [f"{n} " + "The river ends in the city. " * 9 for n in range(1000)]
    (tmp_path / "a.txt").write_text("\n\n".join(texts))
    given = {"input": (f"{tmp_path}/a.txt",), "format": "lines", "duplicates": "near"}
    plan = plan_of(vocab_file, num_shards=1, **given)
    found = estimate.estimate(plan.inputs, **text_options(plan))
    assert found.share < 0.5
    assert found.corpus_band_bytes == pytest.approx(1000 * 14 * (80 + 5), rel=0.05)


def test_sources_that_are_measured_first(tmp_path, monkeypatch, vocab_file):
    """The pass takes time, and reads the documents again, but no rows of bands."""
    for name in "ab":
        (tmp_path / name).write_text("\n\n".join(["The river ends. A city began."] * 50))
    measured, seconds = [], {}

    def measure(documents, lengths, key, sources):
        measured.append(len(documents.hashes))
        started = time.process_time()
        while time.process_time() < started + 0.5:
            pass

    monkeypatch.setattr(estimate, "source_sizes", measure)
    sources = tuple(f"{name}={tmp_path}/{name}" for name in "ab")
    for weights in ("", "a=0.3,b=0.7"):
        plan = plan_of(vocab_file, source=sources, weights=weights, num_shards=1, format="lines")
        options = text_options(plan)
        found, _ = estimate.estimate_sources(
            plan.inputs_by_source(), plan.manifest.mixture, **options
        )
        seconds[weights] = found.seconds
    assert measured == [50, 50]
    assert seconds["a=0.3,b=0.7"] > seconds[""] + 0.7
    sizes = [
        JobSize(**NOTHING | {"id_bytes": 1000, "band_bytes": 300, "measures_sources": again})
        for again in (False, True)
    ]
    assert [size.shuffled_bytes for size in sizes] == [1300, 1300]
    assert [size.shuffle_traffic for size in sizes] == [2600, 3600]


def test_listings_of_object_storage():
    """Pages of a thousand, one after the other: of the inputs twice, and of the records twice."""
    size = JobSize(**NOTHING | {"input_files": 1_000_000, "record_files": 2001, "shards": 1000})
    assert size.listings == 2 * 1000 + 2 * 3
    assert size.write_requests == 2 * 2001 + size.listings
    assert size.serial_seconds == pytest.approx(26 + 12 + 2006 * 0.06, rel=0.01)
