"""A trainer that starts again on thousands of shards in a bucket, as when its machine was lost."""

import dataclasses
import os
import time
import urllib.request
from concurrent import futures
from urllib.parse import quote

import pytest
from support.emulated_storage import delay, requests_made

from beambert.pipelines.records.contract import INFO_FILE
from beambert.trainer.pretraining.records import open_records

SHARDS = 5000
# A request to a bucket in the same region takes about so many seconds, and accelerators must not
# wait for longer than the others.
LATENCY, MOST_SECONDS = 0.05, 20.0


def upload(name: str, content: bytes) -> None:
    """Writes an object of gs://bucket; Google's client takes ten times as long."""
    address = os.environ["STORAGE_EMULATOR_HOST"] + "/upload/storage/v1/b/bucket/o"
    url = f"{address}?uploadType=media&name={quote(name, safe='')}"
    urllib.request.urlopen(urllib.request.Request(url, data=content, method="POST")).close()


@pytest.mark.release
def test_thousands_of_shards_are_listed_in_seconds(gs, records_folder):
    records = open_records(str(records_folder), "--data")
    content = (records_folder / records.info.files[0]["name"]).read_bytes()
    entry = records.info.files[0]
    shards = [entry | {"name": f"{n:05d}-of-{SHARDS:05d}.tfrecord"} for n in range(SHARDS)]
    info = dataclasses.replace(records.info, files=shards)
    small = {path.name: path.read_bytes() for path in records_folder.iterdir() if path.is_file()}
    small = {name: of for name, of in small.items() if not name.endswith(".tfrecord")}
    small[INFO_FILE] = info.to_json().encode()
    with futures.ThreadPoolExecutor(4) as pool:
        objects = [*small.items(), *((shard["name"], content) for shard in shards)]
        list(pool.map(lambda each: upload(f"many/{each[0]}", each[1] or b"x"), objects))
    requests_made()
    delay(LATENCY)
    try:
        began = time.monotonic()
        found = open_records(f"{gs}/many", "--data")
        seconds = time.monotonic() - began
    finally:
        delay(0)
    made = requests_made()
    print(f"{SHARDS:,} shards: {len(made)} requests, {seconds:.1f} s")
    assert len(found.files) == SHARDS and found.instances == SHARDS * entry["instances"]
    assert made.count("GET /storage/v1/b/bucket/o") >= SHARDS / 1000  # they came in pages
    assert seconds < MOST_SECONDS
