"""The main module of a worker process; it ends with the process that started it."""

import os
import signal
import sys
import threading

from beambert.loading import loading


def _end_with_parent() -> None:
    # The other end of stdin is in the parent. The kernel closes it if the parent is killed.
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    # A terminal sends Ctrl-C to this process, too, and the parent decides what it does.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with loading():
        from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main(sys.argv)
