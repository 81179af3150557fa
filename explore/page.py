"""The page: its tabs, their controls, and the function that each change calls."""

from collections.abc import Callable
from typing import Any

import gradio as gr

from beambert import io
from beambert.errors import InputError
from beambert.explore import showing
from beambert.explore.material import Material, importing
from beambert.explore.showing import MaskingSettings, message, whole
from beambert.report import tag

TITLE = "BeamBERT: look inside"
STYLE = showing.STYLE + "footer { display: none !important; }"
# Largest number of characters of a typed text.
MOST_CHARACTERS = 20_000
_EVENT = {"api_visibility": "private", "show_progress": "hidden"}


def build_page(material: Material) -> gr.Blocks:
    """Returns the page of what a command names; a tab is there if it has something to show."""
    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=False) as page:
        gr.HTML(
            whole(
                tag("h1", TITLE),
                message(
                    "BERT learns from text by two games: guess hidden tokens (masked LM), and say "
                    "whether one passage follows another (next sentence prediction). This page "
                    "plays both on your text, and shows what is in records."
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


def guarded(function: Callable) -> Callable:
    """Returns a function whose InputError, or a missing value, becomes a message."""

    def call(*values: Any) -> Any:
        if any(value is None for value in values):
            return whole(message("Give every field a value."))
        with importing():  # before the first answer of any tab
            import beambert.trainer.models  # noqa: F401
        try:
            return function(*values)
        except InputError as error:
            return whole(message(str(error), is_wrong=True))

    return call


def connect(triggers: list, function: Callable, inputs: list, output: Any) -> None:
    """Calls a function from the values of the inputs to HTML after each change."""
    gr.on(triggers, guarded(function), inputs, output, trigger_mode="always_last", **_EVENT)


def _placeholder() -> gr.HTML:
    return gr.HTML(whole(message("Loading; the first answer takes a few seconds.")))


def _number(label: str, value: int, info: str) -> gr.Number:
    return gr.Number(value, label=label, info=info, precision=0)


def _share(label: str, value: float, info: str, least: float = 0, most: float = 1) -> gr.Slider:
    return gr.Slider(least, most, value, step=0.01 if least else 0.05, label=label, info=info)


def _typed(label: str, value: str, info: str, lines: int) -> gr.Textbox:
    return gr.Textbox(value, label=label, info=info, lines=lines, max_length=MOST_CHARACTERS)


def _masking_tab(page: gr.Blocks, material: Material) -> None:
    """Adds the tab of masks."""
    paper = MaskingSettings()
    text = "any text; the data job cuts it into tokens (WordPiece)"
    typed = _typed("Text", showing.TEXT, text, 3)
    with gr.Row():
        unit = gr.Radio(
            [showing.TOKENS, showing.WORDS, showing.SPANS],
            value=showing.TOKENS,
            label="What is chosen",
            info="tokens (paper), all pieces of a word or none (whole word masking), or 1 to 10 "
            "words in a row (SpanBERT)",
        )
        seed = _number("Seed", 1, "another number gives other draws (random_seed)")
    with gr.Row():
        of_rate = "share of the tokens to predict (masked_lm_prob; paper: 0.15)"
        rate = _share("Mask rate", paper.rate, of_rate, 0.01, 0.9)
        as_mask = _share("Becomes [MASK]", paper.mask_share, "share of those chosen (paper: 0.8)")
        of_random = "share of the chosen ones (paper: 0.1); the rest stays the same"
        as_random = _share("Becomes a random token", paper.random_share, of_random)
    shown = _placeholder()

    def show(text: str, *settings: Any) -> str:
        *shares, unit, seed = settings
        given = MaskingSettings(*shares, unit, max(0, int(seed)))
        return showing.show_masking(material, text, given)

    inputs = [typed, rate, as_mask, as_random, unit, seed]
    connect([page.load, *(control.change for control in inputs)], show, inputs, shown)


def _next_sentence_tab(tab: gr.Tab, material: Material) -> None:
    """Adds the tab of sentence pairs."""
    text = "two or more, with an empty line between them"
    typed = _typed("Documents", showing.DOCUMENTS, text, 8)
    with gr.Row():
        of_length = "[CLS] and both [SEP] included (max_seq_length)"
        length = gr.Slider(8, 128, 48, step=1, label="Tokens of a pair", info=of_length)
        of_short = "share of documents whose pairs aim at a random shorter length (short_seq_prob)"
        short = _share("Shorter pairs", 0.1, of_short)
        seed = _number("Seed", 1, "another number gives other draws (random_seed)")
    with gr.Row():
        wanted = gr.Radio(
            [showing.ANY, showing.IS_NEXT_ONLY, showing.RANDOM_ONLY],
            value=showing.ANY,
            label="Label",
            info="which pairs to show",
        )
        number = _number("Pair", 1, "number of the pair to show")
    shown = _placeholder()

    def show(text: str, length: int, short: float, seed: int, wanted: str, number: int) -> str:
        given = int(length), short, max(0, int(seed)), wanted, max(1, int(number))
        return showing.show_pairs(material, text, *given)

    inputs = [typed, length, short, seed, wanted, number]
    connect([tab.select, *(control.change for control in inputs)], show, inputs, shown)


def _records_tab(tab: gr.Tab, material: Material) -> None:
    """Adds the tab of records."""
    with gr.Row():
        folder = gr.Dropdown(
            [], label="Folder", info="the records folders in --records", allow_custom_value=True
        )
        file = _number("File", 1, "number of the file")
        first = _number("Record", 1, "number of the first record there")
        following = gr.Button("Next", variant="primary")
    shown, then = _placeholder(), gr.State((0, 0))

    @guarded
    def look(name: str, file: int, first: int) -> Any:
        path = name if name in material.folders else next(iter(material.folders))
        return showing.show_records(material, path, file, first)

    def show(name: str, file: float | None, first: float | None) -> tuple:
        found = look(name, max(1, int(file or 1)) - 1, max(1, int(first or 1)) - 1)
        return found if isinstance(found, tuple) else (found, (0, 0))

    def names() -> Any:
        found = list(material.folders)
        choices = list(zip(io.short_names(found, "--records"), found, strict=True))
        return gr.Dropdown(choices, value=found[0])

    def choose() -> tuple:
        found = guarded(names)()
        return (gr.Dropdown(), found) if isinstance(found, str) else (found, gr.HTML())

    tab.select(choose, None, [folder, shown], **_EVENT)
    inputs = [folder, file, first]
    changes = [control.change for control in inputs]
    gr.on(changes, show, inputs, [shown, then], trigger_mode="always_last", **_EVENT)
    following.click(
        lambda name, at: show(name, at[0] + 1, at[1] + 1), [folder, then], [shown, then], **_EVENT
    )
