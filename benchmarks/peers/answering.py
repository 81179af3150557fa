"""How a peer talks with the benchmark that runs it.

A peer is a script that another system's interpreter runs by its path, so that this folder alone is
importable beside what is installed there. Nothing of this project is.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any


def answer(prepare: Callable[[dict[str, Any]], Callable[[], object]]) -> None:
    """Answers every line from stdin with one, having done a piece of work.

    Args:
      prepare: takes what the benchmark asks for; returns the work.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the other system prints goes to stderr
    work = prepare(json.loads(sys.argv[1]))
    print("ready", file=answers, flush=True)
    for _ in sys.stdin:
        work()
        print("done", file=answers, flush=True)
