"""What the page shows as one file to send: records, examples and curves, without a server."""

from beambert.errors import InputError
from beambert.explore import browsing, inside, playgrounds
from beambert.explore.axes import UPDATES
from beambert.explore.drawing import STYLE
from beambert.explore.examples import ATTENDED, DOCUMENTS, HIDDEN, PAIR, TEXT
from beambert.explore.masking import PAPER
from beambert.explore.material import Material
from beambert.loading import loading
from beambert.report import Html, note, page, section

TITLE = "A look inside"


def write_report(material: Material, path: str) -> None:
    """Writes the file and prints its path.

    Raises:
      InputError: something that the page shows cannot be read, or the file cannot be written.
    """
    if not path:
        raise InputError("--output=: is empty; name an HTML file")
    with loading():
        from beambert.pipelines.storage import tensorflow_files
    tensorflow_files.write_bytes(path, render(material).encode())
    print(f"page: {path}")


def render(material: Material) -> str:
    """Returns the page: one file that needs nothing but a browser.

    Raises:
      InputError: something that it shows cannot be read.
    """
    name = playgrounds.all_names(material)[0]
    parts = [
        section("Masking", playgrounds.show_masking(material, name, TEXT, PAPER)),
        section(
            "Next sentence",
            *(
                playgrounds.show_pairs(material, name, DOCUMENTS, 48, 0.1, 1, wanted, 1)
                for wanted in (playgrounds.IS_NEXT_ONLY, playgrounds.RANDOM_ONLY)
            ),
        ),
        section("Input representation", playgrounds.show_inputs(material, name, *PAIR, 3)),
    ]
    if material.records is not None:
        parts += _records(material)
    if material.pretrained:
        attention = inside.show_attention(material, name, ATTENDED, 1, 1, inside.MAP)
        lens = inside.show_lens(material, name, HIDDEN, 1)
        parts.append(section("Attention and layers", attention, lens))
    if material.models:
        parts.append(section("Runs", inside.show_runs(material, UPDATES)))
    folders = [material.records or "", *material.models]
    return page(TITLE, ", ".join(filter(None, folders)), [Html(f"<style>{STYLE}</style>"), *parts])


def _records(material: Material) -> list[Html]:
    found = []
    for folder in material.browsers():
        of_any = (browsing.ANY, 0, 1 << 20, False, "")
        shown, _ = browsing.show_records(material, folder, *of_any, (0, 0))
        survey = browsing.show_survey(material, folder)
        found.append(section("Records", note(folder), survey, shown))
    return found
