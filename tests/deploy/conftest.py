"""gs:// for the tests of a module."""

import pytest
from support.emulated_storage import emulated_storage


@pytest.fixture(scope="module")
def storage_environment(tmp_path_factory):
    """The environment in which gs://bucket is on this machine."""
    with emulated_storage(tmp_path_factory.mktemp("storage")) as environment:
        yield environment


@pytest.fixture
def gs(storage_environment, monkeypatch):
    """gs://bucket in this process."""
    for name, value in storage_environment.items():
        monkeypatch.setenv(name, value)
    return "gs://bucket"
