"""The tab of fine-tuned models: their answers, and the errors of their evaluations."""

import gradio as gr

from beambert.explore import controls, error_list, inside
from beambert.explore.examples import ENDINGS, NAMES, OPINION, QUESTION, TWO_TEXTS
from beambert.explore.material import Material
from beambert.pipelines.tasks.task import SPAN, TAGGING


def _fields(material: Material, name: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """Returns the labels of a model's two fields, and the texts with which they begin."""
    model = material.models[name]
    if model.training["kind"] == SPAN:
        return ("Question", "Context"), QUESTION
    if model.takes_endings:
        texts = ENDINGS[:2] if model.takes_two else (" ".join(ENDINGS[:2]), "")
        return ("Text", "Beginning of every ending"), texts
    if model.takes_two:
        return ("First text", "Second text"), TWO_TEXTS
    text = NAMES if model.training["kind"] == TAGGING else OPINION
    return ("Text", "Second text"), (text, "")


def task(tab: gr.Tab, material: Material, names: list[str]) -> None:
    """Adds the tab of fine-tuned models."""
    model = gr.Dropdown(names, value=names[0], label="Model", info="folders of --model with a task")
    labels, examples = _fields(material, names[0])
    first = controls.text(labels[0], examples[0], "what the model is asked", 2)
    second = controls.text(labels[1], examples[1], "what it reads besides", 4)
    second.visible = material.models[names[0]].takes_two
    endings = controls.text("Endings", ENDINGS[2], "what may follow; each on a line of its own", 4)
    endings.visible = material.models[names[0]].takes_endings
    button = gr.Button("Ask", variant="primary")
    shown = controls.place()

    def fit(name, typed, typed_too):
        """Names the fields as the model's task does, and keeps what was typed."""
        labels, texts = _fields(material, name)
        known = [_fields(material, other)[1] for other in names]
        if (typed, typed_too) not in known:
            texts = typed, typed_too
        has_two = material.models[name].takes_two
        return (
            gr.Textbox(texts[0], label=labels[0]),
            gr.Textbox(texts[1], label=labels[1], visible=has_two),
            gr.Textbox(visible=material.models[name].takes_endings),
        )

    inputs = [model, first, second, endings]
    answer = controls.shows(
        [tab.select, button.click, first.submit],
        lambda *values: inside.show_answer(material, *values),
        inputs,
        shown,
        progress="minimal",
    )
    private = {"show_progress": "hidden", "api_visibility": "private"}
    fields = [first, second, endings]
    model.change(fit, inputs[:3], fields, **private).then(answer, inputs, shown, **private)


def errors(tab: gr.Tab, material: Material) -> None:
    """Adds the errors of evaluations to the tab."""
    names = list(material.evaluations)
    choices = {
        name: error_list.slice_names(evaluation)
        for name, evaluation in material.evaluations.items()
    }
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
