"""Libraries are loaded by one thread while others wait."""

import subprocess
import sys

import pytest

# Two answers that are asked for in the moment in which the page appears; see the page's handlers.
_TWO_AT_ONCE = """
import sys, threading
from beambert.explore.page import connect
import gradio as gr
failures, found = [], []
threading.excepthook = lambda of: failures.append(of.exc_type.__name__)
def first():
    from beambert.pipelines.tokenizers.wordpiece import Tokenizer
    return Tokenizer.__name__
def second():
    from beambert.explore.layers import single
    return single.__name__
with gr.Blocks() as page:
    asked = [connect([page.load], function, [], gr.HTML()) for function in (first, second)]
threads = [threading.Thread(target=lambda of=of: found.extend(of())) for of in asked]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(found), failures)
"""


@pytest.mark.slow
def test_two_first_answers_at_once():
    pytest.importorskip("gradio", reason="Gradio is not installed: make explore")
    command = [sys.executable, "-c", _TWO_AT_ONCE]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert ended.stdout.strip() == "['Tokenizer', 'single'] []"
