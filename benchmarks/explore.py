"""How soon does the page of `beambert explore` answer?

    python -m benchmarks.explore --records=records/128 --model encoder sentiment

Prints the seconds of opening the records, and of each action once its model is loaded: what the
server computes, without Gradio and the browser, which take some 50 ms more.
"""

import statistics
import time
from collections.abc import Callable, Sequence

from beambert.explore import browsing, inside, playgrounds
from beambert.explore import playgrounds as examples
from beambert.explore.instances import PAPER
from beambert.explore.material import Material
from benchmarks import measuring

REPEATS = 9


def actions(material: Material) -> dict[str, Callable[[int], object]]:
    """Returns the action of each tab, as functions of a number that makes each call another."""
    name = material.pretrained[0]
    folder = next(iter(material.browsers()))
    filters = (folder, browsing.IS_NEXT, 0, 4096, False, "river")
    documents = examples.DOCUMENTS
    found: dict[str, Callable[[int], object]] = {
        "Masking": lambda n: playgrounds.show_masking(
            material, name, f"{examples.TEXT} {n}", PAPER
        ),
        "Next sentence": lambda n: playgrounds.show_pairs(
            material, name, documents, 48, 0.1, n, playgrounds.ANY, 1
        ),
        "Input representation": lambda n: playgrounds.show_inputs(
            material, name, f"{examples.PAIR[0]} {n}", examples.PAIR[1]
        ),
        "Records, five": lambda n: browsing.show_records(
            material, folder, browsing.ANY, 0, 4096, False, "", (0, 5 * n)
        ),
        "Records with a label and a word": lambda n: browsing.show_records(
            material, *filters, (0, n)
        ),
        "Records, number 5,000": lambda n: browsing.show_records(
            material, folder, browsing.ANY, 0, 4096, False, "", (0, 5000 + n)
        ),
        "Attention": lambda n: inside.show_attention(
            material, name, examples.ATTENDED, 1 + n % 2, 1
        ),
        "Layers": lambda n: inside.show_lens(material, name, examples.ATTENDED, 1 + n % 5),
    }
    for task in material.finetuned:
        found[f"Ask {task}"] = lambda n, task=task: inside.show_answer(
            material, task, f"{examples.OPINION} {n}", examples.QUESTION[1], examples.ENDINGS[2]
        )
    return found


def main(argv: Sequence[str]) -> None:
    """Prints the table.

    Raises:
      InputError: a folder cannot be used.
    """
    parser = measuring.flag_parser("explore", __doc__)
    parser.add_argument("--records", required=True, metavar="DIR", help="records folder")
    parser.add_argument(
        "--model", nargs="+", required=True, metavar="DIR", help="an encoder, then other models"
    )
    flags = parser.parse_args(list(argv))
    material = Material(flags.records, flags.model)
    material.tokenizer(material.pretrained[0])
    begun = time.perf_counter()
    folder = next(iter(material.browsers()))
    browsing.show_records(material, folder, browsing.ANY, 0, 4096, False, "", (0, 0))
    print(f"{'the records open, the first five':34s} {time.perf_counter() - begun:6.3f} s")
    for title, act in actions(material).items():
        seconds = []
        for number in range(REPEATS + 1):
            begun = time.perf_counter()
            act(number)
            seconds.append(time.perf_counter() - begun)
        first, *others = seconds
        middle = statistics.median(others)
        print(f"{title:34s} {middle:6.3f} s, at most {max(others):.3f}; the first {first:.3f}")


if __name__ == "__main__":
    measuring.run(main)
