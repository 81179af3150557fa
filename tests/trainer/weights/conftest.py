"""Fixtures of the tests of weights."""

import shutil

import pytest
from support.golden_checkpoint import GOLDEN


@pytest.fixture
def golden(tmp_path):
    """A copy of the folder that transformers wrote."""
    return shutil.copytree(GOLDEN, tmp_path / "golden")
