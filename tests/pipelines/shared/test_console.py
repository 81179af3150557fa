"""Hiding stderr from several threads at once: nobody waits, and it is put back."""

import os
import threading

from beambert.pipelines.shared.console import quiet_stderr


def test_a_thread_does_not_wait_for_another_that_hides(capfd):
    entered = threading.Event()

    def hide():
        with quiet_stderr():
            entered.set()

    with quiet_stderr():
        worker = threading.Thread(target=hide, daemon=True)
        worker.start()
        assert entered.wait(timeout=10)
        worker.join(timeout=10)
        os.write(2, b"hidden")
    os.write(2, b"seen")
    assert capfd.readouterr().err == "seen"


def test_the_last_to_leave_puts_it_back(capfd):
    first, second = quiet_stderr(), quiet_stderr()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    os.write(2, b"hidden")
    second.__exit__(None, None, None)
    os.write(2, b"seen")
    assert capfd.readouterr().err == "seen"
