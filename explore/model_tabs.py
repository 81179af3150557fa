"""The tabs of records and models: their controls, and what each change shows."""

import gradio as gr

from beambert.errors import InputError
from beambert.explore import browsing, controls, inside
from beambert.explore.axes import AXES
from beambert.explore.drawing import refused
from beambert.explore.examples import ATTENDED, HIDDEN, SENTENCES
from beambert.explore.material import Material, short_names


def records(tab: gr.Tab, material: Material) -> None:
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
        text = gr.Textbox("", label="Text", info="words that stand in the record", max_length=200)
    with gr.Row():
        file = gr.Number(1, label="File", info="number of the file to begin with", precision=0)
        number = gr.Number(1, label="Record", info="number of the record there", precision=0)
        following = gr.Button("Next", variant="primary")
    shown = controls.place()
    then = gr.State(None)
    filters = [folder, label, least, most, unknown, text]

    def search(folder, label, least, most, unknown, text, at):
        limits = (controls.whole_number(least), controls.whole_number(most, 1))
        try:
            folders = material.browsers()
            folder = folder if folder in folders else next(iter(folders))
            return browsing.show_records(material, folder, label, *limits, unknown, text or "", at)
        except InputError as error:
            return refused(error), None

    def begin(*values):
        *choices, file, number = values
        at = (controls.whole_number(file, 1) - 1, controls.whole_number(number, 1) - 1)
        return search(*choices, at)

    def go_on(*values):
        *choices, at = values
        return search(*choices, at or (0, 0))

    def names():
        try:
            folders = list(material.browsers())
        except InputError as error:
            return gr.Dropdown(), refused(error)
        choices = list(zip(short_names(folders, "--records"), folders, strict=True))
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
    with gr.Accordion("Statistics, warnings and faults of the first records", open=False):
        count = gr.Button("Count")
        survey = gr.HTML()

        def tell(folder):
            folders = material.browsers()
            return browsing.show_survey(
                material, folder if folder in folders else next(iter(folders))
            )

        controls.shows([count.click], tell, [folder], survey)


def layers(tab: gr.Tab, material: Material) -> None:
    """Adds the tab of attention, layers and vectors."""
    models = gr.Dropdown(
        material.pretrained,
        value=material.pretrained[0],
        label="Model",
        info="folders of --model with the heads of pre-training",
    )
    configs = [material.models[name].config for name in material.pretrained]
    # A slider has at least two places.
    most = [
        max(2, *(getattr(config, name) for config in configs))
        for name in ("num_hidden_layers", "num_attention_heads")
    ]
    with gr.Accordion("Attention"):
        typed = controls.text("Text", ATTENDED, "at most 40 tokens are shown", 1)
        with gr.Row():
            layer = gr.Slider(
                1, most[0], 1, step=1, label="Layer", info="from 1, the first after the embeddings"
            )
            head = gr.Slider(
                1, most[1], 1, step=1, label="Head", info="from 1 (multi-head attention)"
            )
            way = gr.Radio(
                [inside.MAP, inside.LINES],
                value=inside.MAP,
                label="Drawing",
                info="the same weights",
            )
        drawn = controls.place()
    inputs = [models, typed, layer, head, way]
    controls.shows(
        [tab.select, *(control.change for control in inputs)],
        lambda *values: inside.show_attention(material, *values),
        inputs,
        drawn,
    )
    with gr.Accordion("What each layer would answer"):
        with gr.Row():
            masked = controls.text("Text with [MASK]", HIDDEN, "or a position below", 1)
            place = gr.Slider(
                1, 38, 2, step=1, label="Position", info="token to mask if the text has no [MASK]"
            )
        lens = gr.HTML()
    inputs = [models, masked, place]
    controls.shows(
        [tab.select, *(control.change for control in inputs)],
        lambda *values: inside.show_lens(material, *values),
        inputs,
        lens,
    )
    with gr.Accordion("Sentences in two dimensions"):
        sentences = controls.text(
            "Sentences", SENTENCES, "one a line; a label and | may stand before it", 6
        )
        plane = gr.HTML()
    inputs = [models, sentences]
    controls.shows(
        [tab.select, *(control.change for control in inputs)],
        lambda *values: inside.show_points(material, *values),
        inputs,
        plane,
    )


def runs(tab: gr.Tab, material: Material) -> None:
    """Adds the tab of curves."""
    axis = gr.Radio(
        list(AXES),
        value=AXES[0],
        label="Horizontal axis",
        info="updates, or the tokens, minutes or floating-point operations that they took",
    )
    shown = controls.place()
    controls.shows(
        [tab.select, axis.change],
        lambda axis: inside.show_runs(material, axis),
        [axis],
        shown,
        progress="minimal",
    )
