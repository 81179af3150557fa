"""Values beside a job: they come back as they were, or not at all."""

import os

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beambert.errors import InputError
from beambert.pipelines.input_files import StoredValue, store_values

VALUES = [["a"], {"b": (1, None)}, "", ["c" * 5000]]


def test_workers_read_them(tmp_path):
    places = store_values(f"{tmp_path}/values", VALUES)
    assert [place.read() for place in places] == VALUES
    pipeline = beam.Pipeline(runner="FnApiRunner")
    read = pipeline | beam.Create(places) | beam.Map(StoredValue.read)
    assert_that(read, equal_to(VALUES))
    # The job has their places only.
    assert b"ccccc" not in pipeline.to_runner_api().SerializeToString()
    pipeline.run()


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_what_was_changed_is_not_loaded(tmp_path, number):
    """A pickle runs code, so a byte from somebody else is a byte too many."""
    path = tmp_path / "values"
    place = store_values(str(path), VALUES)[number]
    data = bytearray(path.read_bytes())
    data[place.start] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match="values: was changed while the job ran"):
        place.read()


def test_a_file_that_was_cut_off_is_noticed(tmp_path):
    place = store_values(f"{tmp_path}/values", VALUES)[-1]
    os.truncate(place.path, place.start + 10)
    with pytest.raises(EOFError, match="values: ends at byte"):
        place.read()
