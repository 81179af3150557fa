"""Asks a server of `deploy/serving` over REST, with nothing but Python's own library.

python deploy/serving/client.py "So good from start to end" "A waste of time"
python deploy/serving/client.py --url=http://10.0.0.7:8080 "So good from start to end"
"""

import argparse
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any


def request_of(inputs: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Returns a request of the Open Inference Protocol.

    Args:
      inputs: name of an input of the model -> a string for each text. All have equally many.
    """
    return {
        "inputs": [
            {"name": name, "datatype": "BYTES", "shape": [len(values)], "data": list(values)}
            for name, values in inputs.items()
        ]
    }


def ask(url: str, inputs: Mapping[str, Sequence[str]], model: str = "beambert") -> dict[str, Any]:
    """Returns the outputs of a model, name -> list, nested as its shape says.

    Args:
      url: address of the server, such as http://localhost:8080.
      inputs: see `request_of`.
      model: name of the model, see model-settings.json.

    Raises:
      RuntimeError: the server refuses the request, with its reason.
    """
    request = urllib.request.Request(
        f"{url}/v2/models/{model}/infer",
        json.dumps(request_of(inputs)).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request) as response:
            answer = json.load(response)
    except urllib.error.HTTPError as error:
        raise RuntimeError(json.load(error).get("error", str(error))) from error
    return {each["name"]: _nested(each["data"], each["shape"]) for each in answer["outputs"]}


def _nested(flat: list, shape: Sequence[int]) -> list:
    for size in reversed(shape[1:]):
        flat = [flat[first : first + size] for first in range(0, len(flat), size)]
    return flat


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--url", default="http://localhost:8080", help="default: %(default)s")
    parser.add_argument("--name", default="text", help="input of the model (default: %(default)s)")
    parser.add_argument("text", nargs="+")
    flags = parser.parse_args()
    try:
        print(json.dumps(ask(flags.url, {flags.name: flags.text}), indent=1))
    except (RuntimeError, urllib.error.URLError) as error:
        sys.exit(f"{flags.url}: {error}")
