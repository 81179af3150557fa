"""The page: its tabs, their controls, and which function each control calls."""

from collections.abc import Callable
from typing import Any

import gradio as gr

from beambert.explore import browsing, inside, playgrounds
from beambert.explore.axes import AXES
from beambert.explore.drawing import STYLE as DRAWN_STYLE
from beambert.explore.drawing import refused, said, whole
from beambert.explore.examples import ATTENDED, DOCUMENTS, HIDDEN, PAIR, SENTENCES, TEXT
from beambert.explore.masking import MaskingSettings
from beambert.explore.material import Material
from beambert.pipelines.shared.errors import InputError
from beambert.pipelines.shared.report_page import tag

TITLE = "BeamBERT: look inside"
STYLE = DRAWN_STYLE + "footer { display: none !important; }"

# Greatest number of characters of a typed text.
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
                _masking(page, material)
            with gr.Tab("Next sentence") as tab:
                _next_sentence(tab, material)
            with gr.Tab("Input representation") as tab:
                _input_representation(tab, material)
            if material.records is not None:
                with gr.Tab("Records") as tab:
                    _records(tab, material)
            if material.pretrained:
                with gr.Tab("Attention and layers") as tab:
                    _layers(tab, material)
            asked = [name for name in material.finetuned if material.models[name].can_ask]
            if asked:
                with gr.Tab("Ask the task") as tab:
                    _task(tab, material, asked)
            if material.models:
                with gr.Tab("Runs") as tab:
                    _runs(tab, material)
    return page


def _on(triggers: list, function: Callable, inputs: list, output: Any) -> None:
    """Calls a function after each change, and shows its HTML or the message of its error."""

    def guarded(*values: Any) -> str:
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


def _text(label: str, value: str, info: str, lines: int = 3) -> gr.Textbox:
    return gr.Textbox(value, label=label, info=info, lines=lines, max_length=MOST_CHARACTERS)


def _models(material: Material) -> gr.Dropdown:
    names = playgrounds.all_names(material)
    return gr.Dropdown(
        names,
        value=names[0],
        label="Model",
        info="whose answers are shown (folders of --model with the heads of pre-training)",
        visible=len(names) > 1,
    )


def _seed() -> gr.Number:
    return gr.Number(
        1,
        label="Seed",
        info="another number gives other draws (random_seed)",
        precision=0,
        minimum=0,
    )


def _masking(page: gr.Blocks, material: Material) -> None:
    typed = _text("Text", TEXT, "any text; the data job cuts it into tokens (WordPiece)")
    with gr.Row():
        model = _models(material)
        seed = _seed()
        words = gr.Checkbox(
            False,
            label="Whole words",
            info="hide all pieces of a word or none (whole word masking)",
        )
    with gr.Row():
        rate = gr.Slider(
            0.01,
            0.9,
            0.15,
            step=0.01,
            label="Mask rate",
            info="share of the tokens to predict (masked_lm_prob; paper: 0.15)",
        )
        as_mask = gr.Slider(
            0,
            1,
            0.8,
            step=0.05,
            label="Becomes [MASK]",
            info="share of the chosen tokens (paper: 0.8)",
        )
        as_random = gr.Slider(
            0,
            1,
            0.1,
            step=0.05,
            label="Becomes a random token",
            info="share of the chosen tokens (paper: 0.1); the rest stays the same",
        )
    shown = gr.HTML()

    def show(name, text, rate, as_mask, as_random, words, seed):
        settings = MaskingSettings(rate, as_mask, as_random, words, int(seed or 0))
        return playgrounds.show_masking(material, name, text, settings)

    inputs = [model, typed, rate, as_mask, as_random, words, seed]
    _on([page.load, *(control.change for control in inputs)], show, inputs, shown)


def _next_sentence(tab: gr.Tab, material: Material) -> None:
    typed = _text("Documents", DOCUMENTS, "two or more, with an empty line between them", lines=8)
    with gr.Row():
        model = _models(material)
        seed = _seed()
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
            info="share of documents with a shorter target (short_seq_prob; original: 0.1)",
        )
        wanted = gr.Radio(
            [playgrounds.ANY, playgrounds.IS_NEXT_ONLY, playgrounds.RANDOM_ONLY],
            value=playgrounds.ANY,
            label="Label",
            info="which pairs to show",
        )
        number = gr.Number(
            1, label="Pair", info="number of the pair to show", precision=0, minimum=1
        )
    if material.corpus:
        drawn = gr.Button("Draw documents from the corpus")

        def draw(seed):
            try:
                documents = material.draw_documents(int(seed or 0))
            except InputError as error:
                raise gr.Error(str(error), print_exception=False) from error
            return "\n\n".join("\n".join(sentences) for sentences in documents)

        drawn.click(draw, [seed], typed, api_visibility="private")
    shown = gr.HTML()

    def show(name, text, length, short, seed, wanted, number):
        numbers = (int(length), short, int(seed or 0), wanted, int(number or 1))
        return playgrounds.show_pairs(material, name, text, *numbers)

    inputs = [model, typed, length, short, seed, wanted, number]
    _on([tab.select, *(control.change for control in inputs)], show, inputs, shown)
    with gr.Accordion("Quiz: is B the next passage?", open=False):
        _quiz(material, model, typed, length, seed)


def _quiz(material: Material, model, typed, length, seed) -> None:
    state = gr.State({"number": -1, "label": None, "guess": None, "right": 0, "of": 0, "its": 0})
    question, verdict = gr.HTML(), gr.HTML()
    with gr.Row():
        following = gr.Button("B follows A (IsNext)")
        random = gr.Button("B is random (NotNext)")
        other = gr.Button("Next question")

    def ask(state, name, text, length, seed):
        number = state["number"] + 1
        shown, label, guess = playgrounds.quiz_pair(
            material, name, text, int(length), int(seed or 0), number
        )
        return {**state, "number": number, "label": label, "guess": guess}, shown, ""

    def judge(state, said_next):
        if state["label"] is None:
            return state, whole(said("Press “Next question” first."))
        state = dict(state)
        label, guess = state["label"], state["guess"]
        state["of"] += 1
        state["right"] += said_next == label
        state["its"] += guess == label
        answer = "B follows A" if label else "B is random"
        score = f"You: {state['right']} of {state['of']}."
        if guess is not None:
            score += f" The model: {state['its']} of {state['of']}."
        verdict = "Right" if said_next == label else "Wrong"
        state["label"] = None
        return state, whole(said(f"{verdict}: {answer}. {score}"))

    other.click(
        ask,
        [state, model, typed, length, seed],
        [state, question, verdict],
        api_visibility="private",
    )
    for button, said_next in ((following, True), (random, False)):
        button.click(
            lambda state, said_next=said_next: judge(state, said_next),
            [state],
            [state, verdict],
            api_visibility="private",
        )


def _input_representation(tab: gr.Tab, material: Material) -> None:
    with gr.Row():
        first = _text("Sentence A", PAIR[0], "the first segment", 1)
        second = _text("Sentence B", PAIR[1], "the second segment; may be empty", 1)
    with gr.Row():
        model = _models(material)
        place = gr.Slider(
            0, 127, 3, step=1, label="Position", info="the token whose embeddings are shown"
        )
    shown = gr.HTML()

    def show(name, first, second, place):
        return playgrounds.show_inputs(material, name, first, second, int(place))

    inputs = [model, first, second, place]
    _on([tab.select, *(control.change for control in inputs)], show, inputs, shown)


def _records(tab: gr.Tab, material: Material) -> None:
    with gr.Row():
        folder = gr.Dropdown(
            [], label="Folder", info="the records folders in --records", allow_custom_value=True
        )
        label = gr.Radio(
            [browsing.ANY, browsing.IS_NEXT, browsing.RANDOM_NEXT],
            value=browsing.ANY,
            label="Label",
            info="next_sentence_labels",
        )
    with gr.Row():
        least = gr.Number(0, label="Fewest tokens", info="filled positions", precision=0, minimum=0)
        most = gr.Number(4096, label="Most tokens", info="filled positions", precision=0, minimum=1)
        unknown = gr.Checkbox(False, label="With [UNK]", info="words that the vocabulary lacks")
        text = gr.Textbox("", label="Text", info="words that stand in the record", max_length=200)
    with gr.Row():
        file = gr.Number(
            1, label="File", info="number of the file to begin with", precision=0, minimum=1
        )
        number = gr.Number(
            1, label="Record", info="number of the record there", precision=0, minimum=1
        )
        following = gr.Button("Next", variant="primary")
    shown = gr.HTML()
    then = gr.State(None)
    filters = [folder, label, least, most, unknown, text]

    def search(folder, label, least, most, unknown, text, at):
        folders = material.browsers()
        folder = folder if folder in folders else next(iter(folders))
        limits = (int(least or 0), int(most or 4096))
        try:
            return browsing.show_records(material, folder, label, *limits, unknown, text or "", at)
        except InputError as error:
            return refused(error), None

    def begin(*values):
        *of, file, number = values
        try:
            return search(*of, (int(file or 1) - 1, int(number or 1) - 1))
        except InputError as error:
            return refused(error), None

    def go_on(*values):
        *of, at = values
        return search(*of, at or (0, 0))

    def names():
        try:
            folders = list(material.browsers())
        except InputError:
            folders = []
        return gr.Dropdown(folders, value=folders[0] if folders else None)

    private = {"api_visibility": "private", "show_progress": "hidden"}
    tab.select(names, None, folder, **private)
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

        _on([count.click], tell, [folder], survey)


def _layers(tab: gr.Tab, material: Material) -> None:
    models = gr.Dropdown(
        material.pretrained,
        value=material.pretrained[0],
        label="Model",
        info="folders of --model with the heads of pre-training",
    )
    with gr.Accordion("Attention"):
        typed = _text("Text", ATTENDED, "at most 40 tokens are shown", 1)
        with gr.Row():
            layer = gr.Slider(
                1, 24, 1, step=1, label="Layer", info="from 1, the first after the embeddings"
            )
            head = gr.Slider(1, 16, 1, step=1, label="Head", info="from 1 (multi-head attention)")
            way = gr.Radio(
                [inside.MAP, inside.LINES],
                value=inside.MAP,
                label="Drawing",
                info="the same weights",
            )
        drawn = gr.HTML()
    inputs = [models, typed, layer, head, way]
    _on(
        [tab.select, *(control.change for control in inputs)],
        lambda *values: inside.show_attention(material, *values),
        inputs,
        drawn,
    )
    with gr.Accordion("What each layer would answer"):
        with gr.Row():
            masked = _text("Text with [MASK]", HIDDEN, "or a position below", 1)
            place = gr.Slider(
                1, 38, 2, step=1, label="Position", info="token to mask if the text has no [MASK]"
            )
        lens = gr.HTML()
    inputs = [models, masked, place]
    _on(
        [tab.select, *(control.change for control in inputs)],
        lambda *values: inside.show_lens(material, *values),
        inputs,
        lens,
    )
    with gr.Accordion("Sentences in two dimensions"):
        sentences = _text(
            "Sentences", SENTENCES, "one a line; a label and | may stand before it", 6
        )
        plane = gr.HTML()
    inputs = [models, sentences]
    _on(
        [tab.select, *(control.change for control in inputs)],
        lambda *values: inside.show_points(material, *values),
        inputs,
        plane,
    )


def _task(tab: gr.Tab, material: Material, names: list[str]) -> None:
    has_two = any(material.models[name].takes_two for name in names)
    model = gr.Dropdown(names, value=names[0], label="Model", info="folders of --model with a task")
    first = _text(
        "Text", "A joy from start to end.", "of a reader the question, of a pair the first text", 2
    )
    second = gr.Textbox(
        "",
        label="Second text",
        info="of a reader the context, of a pair the second text",
        lines=4,
        max_length=MOST_CHARACTERS,
        visible=has_two,
    )
    button = gr.Button("Ask", variant="primary")
    shown = gr.HTML()
    inputs = [model, first, second]
    _on(
        [tab.select, button.click, first.submit, model.change],
        lambda *values: inside.show_answer(material, *values),
        inputs,
        shown,
    )


def _runs(tab: gr.Tab, material: Material) -> None:
    axis = gr.Radio(
        list(AXES),
        value=AXES[0],
        label="Horizontal axis",
        info="updates, or the tokens, minutes or floating-point operations that they took",
    )
    shown = gr.HTML()
    _on([tab.select, axis.change], lambda axis: inside.show_runs(material, axis), [axis], shown)
