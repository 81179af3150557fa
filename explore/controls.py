"""The controls that several tabs have, and the call of a function after a change."""

from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from beambert.errors import InputError
from beambert.explore import playgrounds
from beambert.explore.drawing import refused, said, whole
from beambert.explore.libraries import load_libraries
from beambert.explore.material import Material

# Greatest number of characters of a typed text.
MOST_CHARACTERS = 20_000


def shows(
    triggers: list, function: Callable, inputs: list, output: Any, progress: str = "hidden"
) -> Callable:
    """Calls a function after each change, and shows its HTML or the message of its error.

    Returns the function that does so, for events that follow others.

    Args:
      triggers: events of the page.
      function: function from the values of the inputs to HTML, or to pieces of HTML of which each
        replaces the one before.
      inputs: controls.
      output: place of the HTML.
      progress: "minimal" to show a clock meanwhile, where something large may be loaded.
    """

    def guarded(*values: Any) -> Iterator[str]:
        if any(value is None for value in values):
            yield whole(said("Give every field a value."))
            return
        load_libraries()
        try:
            found = function(*values)
            yield from [found] if isinstance(found, str) else found
        except InputError as error:
            yield refused(error)
        except Exception:
            yield whole(said("This could not be computed; the command's console says why."))
            raise

    gr.on(
        triggers,
        guarded,
        inputs,
        output,
        show_progress=progress,
        trigger_mode="always_last",
        api_visibility="private",
    )
    return guarded


def place(script: str | None = None) -> gr.HTML:
    """Returns a place for HTML, with a sentence for those who come before the first answer.

    Args:
      script: JavaScript for the browser, see `js_on_load` of Gradio.
    """
    waiting = whole(said("Loading; the first answer takes a few seconds."))
    return gr.HTML(waiting, js_on_load=script)


def text(label: str, value: str, info: str, lines: int = 3) -> gr.Textbox:
    """Returns a field for a text."""
    return gr.Textbox(value, label=label, info=info, lines=lines, max_length=MOST_CHARACTERS)


def models(material: Material) -> gr.Dropdown:
    """Returns the choice of a pre-trained model, hidden where there is none."""
    names = playgrounds.all_names(material)
    return gr.Dropdown(
        names,
        value=names[0],
        label="Model",
        info="whose answers are shown (folders of --model with the heads of pre-training)",
        visible=len(names) > 1,
    )


def seed() -> gr.Number:
    """Returns the field for the seed of the draws."""
    return gr.Number(
        1,
        label="Seed",
        info="another number gives other draws (random_seed)",
        precision=0,
    )


def whole_number(value: float | None, least: int = 0) -> int:
    """Returns the value of a field for numbers; the least for an empty one or a smaller value."""
    return least if value is None else max(least, int(value))
