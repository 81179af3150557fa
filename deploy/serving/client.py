"""Asks a server of `deploy/serving` over REST, with nothing but Python's own library.

python deploy/serving/client.py "So good from start to end" "A waste of time"
python deploy/serving/client.py --url=http://10.0.0.7:8080 "So good from start to end"
python deploy/serving/client.py --name=question,context "Where is Rouen?" "Rouen is in France."
"""

import argparse
import json
import math
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any


def inputs_of(names: Sequence[str], texts: Sequence[str]) -> dict[str, list[str]]:
    """Returns the texts of each input, out of texts that take turns.

    Args:
      names: the inputs of the model, such as question and context.
      texts: a text for each input, then the next ones.

    Raises:
      ValueError: the last turn isn't whole.
    """
    count = len(names)
    if len(texts) % count:
        raise ValueError(f"{len(texts)} texts for {count} inputs; give each input as many")
    return {name: list(texts[place::count]) for place, name in enumerate(names)}


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
      RuntimeError: the server refuses the request, with its reason, or it is no such server.
    """
    request = urllib.request.Request(
        f"{url}/v2/models/{model}/infer",
        json.dumps(request_of(inputs)).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request) as response:
            outputs = json.load(response)["outputs"]
    except urllib.error.HTTPError as error:
        raise RuntimeError(_reason(error)) from error
    except (ValueError, TypeError, KeyError) as error:
        raise RuntimeError("the answer is none of the Open Inference Protocol") from error
    return {each["name"]: _nested(each["data"], each["shape"]) for each in outputs}


def _reason(error: urllib.error.HTTPError) -> str:
    """Returns the reason of a refusal; a proxy's page has none but the status."""
    try:
        return str(json.load(error)["error"])
    except (ValueError, TypeError, KeyError):
        return str(error)


def _nested(flat: list, shape: Sequence[int]) -> list:
    # From the last axis to the second; without elements the sizes alone tell the number of lists.
    for axis in range(len(shape) - 1, 0, -1):
        size = shape[axis]
        flat = [flat[i * size : (i + 1) * size] for i in range(math.prod(shape[:axis]))]
    return flat


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--url", default="http://localhost:8080", help="default: %(default)s")
    parser.add_argument(
        "--name",
        default="text",
        help="inputs of the model, with commas between them; the texts take turns "
        "(default: %(default)s)",
    )
    parser.add_argument("text", nargs="+")
    flags = parser.parse_args()
    try:
        given = inputs_of(flags.name.split(","), flags.text)
    except ValueError as error:
        parser.error(str(error))
    try:
        print(json.dumps(ask(flags.url, given), indent=1))
    except (RuntimeError, urllib.error.URLError) as error:
        sys.exit(f"{flags.url}: {error}")
