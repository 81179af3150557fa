"""Tests the prediction of what the data job takes on Dataflow."""

import dataclasses

import pytest
from apache_beam.options import pipeline_options
from support import data_command
from support.data_command import data
from support.emulated_storage import requests_made

from beambert.errors import InputError
from beambert.pipelines.pretraining_data import dataflow_cost
from beambert.pipelines.pretraining_data.job_size import LOOKS_PER_FILE, JobSize

corpus, vocab_file = data_command.corpus, data_command.vocab_file
corpus_file = data_command.corpus_file
# https://cloud.google.com/dataflow/pricing, us-central1: a batch vCPU 0.056, a GB 0.003557.
PRICED = {
    (): 0.056 + 3.75 * 0.003557,
    ("--machine_type=n2-standard-4",): 0.056 + 4 * 0.003557,
    ("--machine_type=n2-highmem-4",): 0.056 + 8 * 0.003557,
    ("--machine_type=e2-highcpu-8", "--flexrs_goal=COST_OPTIMIZED"): 0.0336 + 0.0021342,
}


@pytest.mark.parametrize("flags", PRICED)
def test_list_prices(flags):
    options = pipeline_options.PipelineOptions([*flags, "--max_num_workers=10"])
    workers = dataflow_cost.find_workers(options, None)
    assert workers.vcpu_hour_price == pytest.approx(PRICED[flags], abs=0.001)
    assert dataflow_cost.find_workers(options, 0.5).vcpu_hour_price == 0.5


def size_of(core_hours, shards, **changes) -> JobSize:
    nothing = dict.fromkeys((field.name for field in dataclasses.fields(JobSize)), 0)
    return JobSize(**nothing | {"core_seconds": core_hours * 3600, "shards": shards} | changes)


def test_cost_and_time():
    """8 hours of a core, 1.3 times as many through Beam: 10.4 hours of 40 vCPUs."""
    workers = dataflow_cost.Workers("n2-standard-4", 4, 10, 0.07, "mine")
    told = dataflow_cost.describe_cost(size_of(8, 1000), workers)
    assert "10.40 vCPU hours" in told and "$0.73 at $0.070 each (mine)" in told
    assert "15 min 36 s on 10 n2-standard-4, 40 of their vCPUs" in told
    # No more than 5 have work at a time where there are 5 shards.
    assert "2 h 04 min" in dataflow_cost.describe_cost(size_of(8, 5), workers)
    open_ended = dataflow_cost.Workers("n2-standard-4", 4, None, 0.07, "mine")
    assert "--max_num_workers" in dataflow_cost.describe_cost(size_of(8, 1000), open_ended)


def test_shuffle_and_requests():
    """By hand: 10 GB in 100 files, 1,000 record files, a billion tokens of two bytes."""
    size = size_of(
        *(1, 1000),
        **{"input_bytes": 10e9, "input_files": 100, "record_files": 1000, "id_bytes": 2e9},
        **{"sentences": 4e7, "documents": 2e6},
    )
    assert size.shuffled_bytes == 2e9 + 16e7 + 2e6 * 49
    # Parts of 32 MiB, requests of 16 MiB.
    assert size.read_requests == 299 + 597 + 8000
    assert size.write_requests == 2000 + 2 * (1 + 1)
    cost = dataflow_cost.predict(size, dataflow_cost.Workers("n2-standard-4", 4, 10, 0.07, "mine"))
    assert cost.shuffle_dollars == pytest.approx(2.258 * 2 * 0.011)
    assert cost.request_dollars == pytest.approx(2004 * 5e-6 + 8896 * 4e-7)
    assert cost.worker_dollars == pytest.approx(1.3 * 0.07)


@pytest.mark.slow
def test_looks_at_object_storage(gs, capsys, vocab_file, corpus_file):
    """What an emulator counts for each further file, with held-out folders, too."""
    flags = [f"--input={corpus_file}", "--eval_fraction=0.2", "--max_seq_length=32,64"]
    flags += ["--max_predictions_per_seq=5,5", "--shuffle=runner"]
    looks = []
    for shards in (5, 15):
        requests_made()
        output = f"{gs}/looks/{shards}"
        assert data(capsys, vocab_file, output, *flags, f"--num_shards={shards}")[0] == 0
        looks.append(sum(request.startswith("GET") for request in requests_made()))
    files = 2 * (15 + 3) - 2 * (5 + 1)
    assert looks[1] - looks[0] == pytest.approx(LOOKS_PER_FILE * files, rel=0.05)


def test_a_machine_of_unknown_price():
    options = pipeline_options.PipelineOptions(["--machine_type=e2-small"])
    with pytest.raises(InputError, match="--machine_type=e2-small: its price"):
        dataflow_cost.find_workers(options, None)
