"""Logging is as it was, whatever libraries do to it."""

import logging

import absl.logging
import pytest

from beambert.process import logging_restored


@pytest.mark.parametrize("own", [[], [logging.NullHandler()]])
def test_handlers_and_levels_are_put_back(own, monkeypatch, capsys):
    monkeypatch.setattr(logging.root, "handlers", list(own))
    verbosity, level = absl.logging.get_verbosity(), logging.getLogger("absl").level

    @logging_restored()
    def work():
        absl.logging.set_verbosity(absl.logging.ERROR)
        absl.logging.error("adds a handler to a root logger without one")
        assert logging.root.handlers and logging.getLogger("absl").level != level
        return "done"

    assert work() == "done"
    assert logging.root.handlers == own
    assert logging.getLogger("absl").level == level
    absl.logging.set_verbosity(verbosity)
