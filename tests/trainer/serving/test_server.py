"""An exported model behind MLServer, as deploy/serving runs it, and its settings."""

import concurrent.futures
import http.server
import json
import os
import pathlib
import re
import shutil
import threading
import urllib.request

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  (it registers the operations of the tokenizer)

from beambert.deploy.serving.client import ask, inputs_of, request_of
from beambert.trainer.commands.export import main as export_main
from benchmarks.serving import main as measure
from benchmarks.serving import server

ROOT = pathlib.Path(__file__).parents[3]
SERVING = ROOT / "deploy" / "serving"
TEXTS = ["So good", "", "a waste of time", "naïve 日本語", "no " * 100]


def test_the_image_has_what_its_server_needs():
    dockerfile = (SERVING / "Dockerfile").read_text()
    copied = [name for line in re.findall("^COPY (.*)$", dockerfile, re.M) for name in line.split()]
    assert all((ROOT / name).is_file() for name in copied if not name.startswith("."))
    settings = json.loads((SERVING / "model-settings.json").read_text())
    module, _, name = settings["implementation"].partition(".")
    assert f"deploy/serving/{module}.py" in copied
    assert f"class {name}(" in (SERVING / f"{module}.py").read_text()
    assert settings["parameters"]["uri"] in dockerfile

    # Nothing of the server needs the rights of root.
    assert re.search(r"^USER [1-9]\d*$", dockerfile, re.M)


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers every request with the status and the content that the path names."""

    def do_POST(self):
        status, content = REPLIES[self.path.split("/")[1]]
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(content.encode())

    def log_message(self, *args):
        """Nothing."""


def _outputs(data, shape):
    return json.dumps({"outputs": [{"name": "a", "data": data, "shape": shape}]})


REPLIES = {
    "none": (200, _outputs([], [2, 0])),
    "no_rows": (200, _outputs([], [0, 3])),
    "nested": (200, _outputs([*range(12)], [2, 3, 2])),
    "page": (502, "<html>Bad Gateway</html>"),
    "refusal": (400, '{"error": "give text"}'),
    "other": (200, "<html>Welcome</html>"),
}


def test_texts_of_several_inputs_take_turns():
    assert inputs_of(["text"], ["a", "b"]) == {"text": ["a", "b"]}
    found = inputs_of(["question", "context"], ["q1", "c1", "q2", "c2"])
    assert found == {"question": ["q1", "q2"], "context": ["c1", "c2"]}
    with pytest.raises(ValueError, match="3 texts for 2 inputs"):
        inputs_of(["question", "context"], ["q1", "c1", "q2"])


def test_the_client_reads_every_answer():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()

        def asked(path):
            return ask(f"http://127.0.0.1:{served.server_port}/{path}", {"text": ["a"]})

        try:
            assert asked("none") == {"a": [[], []]}
            assert asked("no_rows") == {"a": []}
            nested = [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [10, 11]]]
            assert asked("nested") == {"a": nested}
            for path, said in (
                ("page", "HTTP Error 502: Bad Gateway"),
                ("refusal", "^give text$"),
                ("other", "the answer is none of the Open Inference Protocol"),
            ):
                with pytest.raises(RuntimeError, match=said):
                    asked(path)
        finally:
            served.shutdown()


@pytest.fixture(scope="module")
def mlserver() -> str:
    if "BEAMBERT_MLSERVER" not in os.environ:
        pytest.skip("`make test-serving` installs MLServer and sets BEAMBERT_MLSERVER")
    return os.environ["BEAMBERT_MLSERVER"]


@pytest.fixture(scope="module")
def versions(classifier_folder, tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("served") / "serving"
    export_main([f"--model={classifier_folder}", f"--output={folder}"])
    return folder


@pytest.mark.serving
def test_answers_are_those_of_the_saved_model(mlserver, versions):
    """Alone, together, and put together by the server with those of others."""
    model = tf.saved_model.load(str(versions / "1"))
    expected = model.signatures["serving_default"](text=tf.constant(TEXTS))
    labels = [label.decode() for label in expected["label"].numpy()]
    probabilities = expected["probabilities"].numpy()

    def check(found, places):
        assert found["label"] == [labels[place] for place in places]
        np.testing.assert_allclose(found["probabilities"], probabilities[places], atol=1e-5)

    with server(mlserver, str(versions), max_batch_size=32) as port:
        url = f"http://127.0.0.1:{port}"
        check(ask(url, {"text": TEXTS}), [*range(len(TEXTS))])
        asked = [place for place in range(len(TEXTS)) for _ in range(8)]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = pool.map(lambda place: ask(url, {"text": [TEXTS[place]]}), asked)
            for place, found in zip(asked, answers, strict=True):
                check(found, [place])


@pytest.mark.serving
def test_a_refused_request_is_a_sentence(mlserver, versions):
    with server(mlserver, str(versions), max_batch_size=0) as port:
        url = f"http://127.0.0.1:{port}"
        with pytest.raises(RuntimeError, match="^the inputs are sentence; give text$"):
            ask(url, {"sentence": ["a"]})
        with pytest.raises(RuntimeError, match="^the inputs are text, text_b; give text$"):
            ask(url, {"text": ["a"], "text_b": ["b"]})
        for change, message in (
            ({"datatype": "FP32", "data": [1.0]}, "text: is FP32; give BYTES, as the model takes"),
            (
                {"shape": [2]},
                r"text: has 1 values for the shape \[2\]; give BYTES of the shape \[-1\]",
            ),
        ):
            request = request_of({"text": ["a"]})
            request["inputs"][0] |= change
            with pytest.raises(urllib.error.HTTPError) as refused:
                post(f"{url}/v2/models/beambert/infer", request)
            assert refused.value.code == 400
            assert re.search(message, json.load(refused.value)["error"])
        # A column does as well as a list, as other clients of the protocol send it.
        request = request_of({"text": ["a", "b"]})
        request["inputs"][0]["shape"] = [2, 1]
        found = post(f"{url}/v2/models/beambert/infer", request)
        assert [each["shape"][0] for each in found["outputs"]] == [2, 2]


@pytest.mark.serving
def test_wrong_requests_do_not_touch_others(mlserver, versions):
    """Two wrong ones together have as many values as their shapes say, at others' places."""
    model = tf.saved_model.load(str(versions / "1"))
    expected = model.signatures["serving_default"](text=tf.constant(TEXTS))["probabilities"]
    short, long, unknown = (request_of({"text": ["a"]}) for _ in range(3))
    short["inputs"][0]["shape"] = [2]
    long["inputs"][0]["data"] = ["a", "b"]
    unknown["inputs"][0]["name"] = "sentence"
    with server(mlserver, str(versions), max_batch_size=32) as port:
        url = f"http://127.0.0.1:{port}"

        def wrong(request):
            with pytest.raises(urllib.error.HTTPError) as refused:
                post(f"{url}/v2/models/beambert/infer", request)
            return refused.value.code

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            refused, answers = [], []
            for place in [*range(len(TEXTS))] * 8:
                refused += [pool.submit(wrong, request) for request in (short, long, unknown)]
                answers.append((place, pool.submit(ask, url, {"text": [TEXTS[place]]})))
            assert {one.result() for one in refused} == {400}
            for place, found in answers:
                np.testing.assert_allclose(
                    found.result()["probabilities"], expected[place : place + 1], atol=1e-5
                )


@pytest.mark.serving
def test_a_new_version_is_loaded_when_asked_for(mlserver, versions, tmp_path):
    folder = shutil.copytree(versions, tmp_path / "serving")
    with server(mlserver, str(folder), max_batch_size=32) as port:
        url = f"http://127.0.0.1:{port}/v2"
        asked = f"{url}/models/beambert/infer", request_of({"text": ["a"]})
        assert post(*asked)["model_version"] == "1"
        shutil.copytree(folder / "1", folder / "10")
        (folder / "11").mkdir()  # It is being written.
        shutil.copytree(folder / "1", folder / "12.old")
        post(f"{url}/repository/models/beambert/load", {})
        assert post(*asked)["model_version"] == "10"


@pytest.mark.serving
def test_load_is_measured(mlserver, versions, tmp_path, capsys):
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS), encoding="utf-8")
    flags = [f"--model={versions}", f"--mlserver={os.path.relpath(mlserver)}"]
    measure([*flags, f"--texts={texts}", "--seconds=0.4", "--clients", "1", "2"])
    rows = json.loads(capsys.readouterr().out)["result"]
    assert [(row["max_batch_size"], row["clients"]) for row in rows] == [
        (0, 1),
        (0, 2),
        (32, 1),
        (32, 2),
    ]
    assert all(0 < row["p50_milliseconds"] <= row["p99_milliseconds"] for row in rows)


def post(url: str, content: object) -> dict:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(content).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.loads(response.read() or b"{}")
