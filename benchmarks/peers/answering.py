"""The protocol between a peer and the benchmark that runs it.

A peer is a script that another system's interpreter runs by its path. It can import the modules in
this folder and the packages installed there, but nothing else of this project.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any


def answer(prepare: Callable[[dict[str, Any]], Callable[[], object]]) -> None:
    """For every line from stdin, does a piece of work and answers with a line.

    Args:
      prepare: function of the benchmark's parameters that returns the work.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the other system's output goes to stderr
    work = prepare(json.loads(sys.argv[1]))
    print("ready", file=answers, flush=True)
    for _ in sys.stdin:
        work()
        print("done", file=answers, flush=True)
