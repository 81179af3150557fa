"""The page: its tabs, their controls, and the function that each change calls."""

from collections.abc import Callable
from typing import Any

import gradio as gr

from beambert import storage
from beambert.errors import InputError
from beambert.explore import browsing, playgrounds
from beambert.explore.drawing import STYLE as DRAWN_STYLE
from beambert.explore.drawing import refused, said, whole
from beambert.explore.instances import PAPER, SPANS, TOKENS, WORDS, MaskingSettings
from beambert.explore.material import Material, load_libraries
from beambert.explore.playgrounds import (
    DOCUMENTS,
    TEXT,
)
from beambert.report import tag

TITLE = "BeamBERT: look inside"
STYLE = DRAWN_STYLE + "footer { display: none !important; }"
# Largest number of characters of a typed text.
MOST_CHARACTERS = 20_000


def build_page(material: Material) -> gr.Blocks:
    """Returns the page of what a command names; a tab is there if it has something to show."""
    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=False) as page:
        gr.HTML(
            whole(
                tag("h1", TITLE),
                said(
                    "BERT learns from text by two games: guess hidden tokens (masked LM), and say "
                    "whether one passage follows another (next sentence prediction). This page "
                    "plays both on your text, and shows what is in records and models."
                ),
            )
        )
        with gr.Tabs():
            with gr.Tab("Masking"):
                _masking_tab(page, material)
            with gr.Tab("Next sentence") as tab:
                _next_sentence_tab(tab, material)
            if material.records is not None:
                with gr.Tab("Records") as tab:
                    _records_tab(tab, material)
    return page


def connect(triggers: list, function: Callable, inputs: list, output: Any) -> Callable:
    """Calls a function after each change, and shows its HTML or the message of its error.

    Returns the function that does so, for events that follow others.

    Args:
      triggers: events of the page.
      function: function from the values of the inputs to HTML.
      inputs: controls.
      output: element for the HTML.
    """

    def guarded(*values: Any) -> str:
        if any(value is None for value in values):
            return whole(said("Give every field a value."))
        load_libraries()
        try:
            return function(*values)
        except InputError as error:
            return refused(error)

    gr.on(
        triggers,
        guarded,
        inputs,
        output,
        show_progress="hidden",
        trigger_mode="always_last",
        api_visibility="private",
    )
    return guarded


def placeholder() -> gr.HTML:
    """Returns an element for HTML, with a message until the first answer."""
    return gr.HTML(whole(said("Loading; the first answer takes a few seconds.")))


def text_field(label: str, value: str, info: str, lines: int = 3) -> gr.Textbox:
    """Returns a field for a text."""
    return gr.Textbox(value, label=label, info=info, lines=lines, max_length=MOST_CHARACTERS)


def model_choice(material: Material) -> gr.Dropdown:
    """Returns the choice of a pre-trained model, hidden where there is none."""
    names = playgrounds.all_names(material)
    return gr.Dropdown(
        names,
        value=names[0],
        label="Model",
        info="whose answers are shown (folders of --model with the heads of pre-training)",
        visible=len(names) > 1,
    )


def seed_field() -> gr.Number:
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


def _masking_tab(page: gr.Blocks, material: Material) -> None:
    """Adds the tab of masks."""
    typed = text_field("Text", TEXT, "any text; the data job cuts it into tokens (WordPiece)")
    with gr.Row():
        model = model_choice(material)
        seed = seed_field()
        unit = gr.Radio(
            [TOKENS, WORDS, SPANS],
            value=TOKENS,
            label="What is chosen",
            info="tokens (paper), all pieces of a word or none (whole word masking), or 1 to 10 "
            "words in a row (SpanBERT)",
        )
    with gr.Row():
        rate = gr.Slider(
            0.01,
            0.9,
            PAPER.rate,
            step=0.01,
            label="Mask rate",
            info="share of the tokens to predict (masked_lm_prob; paper: 0.15)",
        )
        as_mask = gr.Slider(
            0,
            1,
            PAPER.mask_share,
            step=0.05,
            label="Becomes [MASK]",
            info="share of the chosen tokens (paper: 0.8)",
        )
        as_random = gr.Slider(
            0,
            1,
            PAPER.random_share,
            step=0.05,
            label="Becomes a random token",
            info="share of the chosen tokens (paper: 0.1); the rest stays the same",
        )
    shown = placeholder()

    def show(name, text, rate, as_mask, as_random, unit, seed):
        settings = MaskingSettings(rate, as_mask, as_random, unit, whole_number(seed))
        return playgrounds.show_masking(material, name, text, settings)

    inputs = [model, typed, rate, as_mask, as_random, unit, seed]
    connect([page.load, *(control.change for control in inputs)], show, inputs, shown)


def _next_sentence_tab(tab: gr.Tab, material: Material) -> None:
    """Adds the tab of sentence pairs."""
    typed = text_field(
        "Documents", DOCUMENTS, "two or more, with an empty line between them", lines=8
    )
    with gr.Row():
        model = model_choice(material)
        seed = seed_field()
        length = gr.Slider(
            8,
            128,
            48,
            step=1,
            label="Tokens of a pair",
            info="[CLS] and both [SEP] included (max_seq_length)",
        )
    with gr.Row():
        short = gr.Slider(
            0,
            1,
            0.1,
            step=0.05,
            label="Shorter pairs",
            info="share of documents whose pairs aim at a random shorter length (short_seq_prob; "
            "original: 0.1)",
        )
        wanted = gr.Radio(
            [playgrounds.ANY, playgrounds.IS_NEXT_ONLY, playgrounds.RANDOM_ONLY],
            value=playgrounds.ANY,
            label="Label",
            info="which pairs to show",
        )
        number = gr.Number(1, label="Pair", info="number of the pair to show", precision=0)
    shown = placeholder()

    def show(name, text, length, short, seed, wanted, number):
        numbers = (
            whole_number(length, 8),
            short,
            whole_number(seed),
            wanted,
            whole_number(number, 1),
        )
        return playgrounds.show_pairs(material, name, text, *numbers)

    inputs = [model, typed, length, short, seed, wanted, number]
    connect([tab.select, *(control.change for control in inputs)], show, inputs, shown)


def _records_tab(tab: gr.Tab, material: Material) -> None:
    """Adds the tab of records."""
    with gr.Row():
        folder = gr.Dropdown(
            [], label="Folder", info="the records folders in --records", allow_custom_value=True
        )
        label = gr.Radio(
            [browsing.ANY, browsing.FIRST, browsing.SECOND],
            value=browsing.ANY,
            label="Label",
            info="IsNext or NotNext in the paper, the order in ALBERT's (next_sentence_labels)",
        )
    with gr.Row():
        least = gr.Number(0, label="Fewest tokens", info="filled positions", precision=0)
        most = gr.Number(4096, label="Most tokens", info="filled positions", precision=0)
        unknown = gr.Checkbox(False, label="With [UNK]", info="words that the vocabulary lacks")
        text = gr.Textbox("", label="Text", info="words that occur in the record", max_length=200)
    with gr.Row():
        file = gr.Number(1, label="File", info="number of the file to begin with", precision=0)
        number = gr.Number(1, label="Record", info="number of the record there", precision=0)
        following = gr.Button("Next", variant="primary")
    shown = placeholder()
    then = gr.State(None)
    filters = [folder, label, least, most, unknown, text]

    def search(folder, label, least, most, unknown, text, at):
        limits = (whole_number(least), whole_number(most, 1))
        try:
            folders = material.browsers()
            folder = folder if folder in folders else next(iter(folders))
            return browsing.show_records(material, folder, label, *limits, unknown, text or "", at)
        except InputError as error:
            return refused(error), None

    def begin(*values):
        *choices, file, number = values
        at = (whole_number(file, 1) - 1, whole_number(number, 1) - 1)
        return search(*choices, at)

    def go_on(*values):
        *choices, at = values
        return search(*choices, at or (0, 0))

    def names():
        try:
            folders = list(material.browsers())
        except InputError as error:
            return gr.Dropdown(), refused(error)
        choices = list(zip(storage.short_names(folders, "--records"), folders, strict=True))
        return gr.Dropdown(choices, value=folders[0]), gr.HTML()

    private = {"api_visibility": "private", "show_progress": "hidden"}
    tab.select(names, None, [folder, shown], **private)
    changes = [control.change for control in (*filters, file, number)]
    gr.on(
        changes,
        begin,
        [*filters, file, number],
        [shown, then],
        trigger_mode="always_last",
        **private,
    )
    following.click(go_on, [*filters, then], [shown, then], **private)
