"""The tab of fine-tuned models: their answers, and the errors of their evaluations."""

import gradio as gr

from beambert.explore import controls, error_list, inside
from beambert.explore.material import Material


def task(tab: gr.Tab, material: Material, names: list[str]) -> None:
    """Adds the tab of fine-tuned models."""
    has_two = any(material.models[name].takes_two for name in names)
    model = gr.Dropdown(names, value=names[0], label="Model", info="folders of --model with a task")
    first = controls.text(
        "Text", "A joy from start to end.", "of a reader the question, of a pair the first text", 2
    )
    second = gr.Textbox(
        "",
        label="Second text",
        info="of a reader the context, of a pair the second text",
        lines=4,
        max_length=controls.MOST_CHARACTERS,
        visible=has_two,
    )
    button = gr.Button("Ask", variant="primary")
    shown = controls.place()
    inputs = [model, first, second]
    controls.shows(
        [tab.select, button.click, first.submit, model.change],
        lambda *values: inside.show_answer(material, *values),
        inputs,
        shown,
        progress="minimal",
    )


def errors(tab: gr.Tab, material: Material) -> None:
    """Adds the errors of evaluations to the tab."""
    names = list(material.evaluations)
    choices = {name: error_list.slice_names(of) for name, of in material.evaluations.items()}
    with gr.Accordion("Errors of an evaluation"):
        with gr.Row():
            name = gr.Dropdown(
                names, value=names[0], label="Evaluation", info="folders of --evaluation"
            )
            part = gr.Dropdown(
                choices[names[0]],
                value=error_list.ALL,
                label="Slice",
                info="examples that have something in common",
            )
        with gr.Row():
            text = gr.Textbox(
                "", label="With the words", info="in the text or an answer", max_length=200
            )
            page = gr.Number(
                1, label="Page", info=f"{error_list.PAGE} errors each", precision=0, minimum=1
            )
        shown = controls.place()
    name.change(
        lambda name: (gr.Dropdown(choices[name], value=error_list.ALL), 1),
        [name],
        [part, page],
        show_progress="hidden",
        api_visibility="private",
    )
    for control in (part, text):
        control.change(lambda: 1, None, page, show_progress="hidden", api_visibility="private")
    controls.shows(
        [tab.select, *(control.change for control in (name, part, text, page))],
        lambda name, part, text, page: error_list.show_errors(
            material, name, part, text, controls.whole_number(page, 1)
        ),
        [name, part, text, page],
        shown,
    )
