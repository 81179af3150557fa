"""The three playgrounds' tabs: their controls, and what each change shows."""

import gradio as gr

from beambert.errors import InputError
from beambert.explore import controls, playgrounds
from beambert.explore.drawing import said, whole
from beambert.explore.examples import DOCUMENTS, PAIR, TEXT
from beambert.explore.masking import PAPER, SPANS, TOKENS, WORDS, MaskingSettings
from beambert.explore.material import Material

# Tells which token was pressed, and gives it the focus again after it was drawn anew.
_PRESS = """
let pressed = null;
element.addEventListener('click', event => {
  const button = event.target.closest('[data-position]');
  if (button) { pressed = button.dataset.position; trigger('click', {position: Number(pressed)}); }
});
new MutationObserver(() => {
  const button = pressed && element.querySelector(`[data-position="${pressed}"]`);
  if (button && document.activeElement === document.body) button.focus();
}).observe(element, {childList: true, subtree: true});
"""


def _pressed(event: gr.EventData) -> int:
    position = event._data.get("position") if isinstance(event._data, dict) else None
    return position if type(position) is int and 0 <= position < playgrounds.MOST_TOKENS else 0


def masking(page: gr.Blocks, material: Material) -> None:
    """Adds the tab of masks."""
    typed = controls.text("Text", TEXT, "any text; the data job cuts it into tokens (WordPiece)")
    with gr.Row():
        model = controls.models(material)
        seed = controls.seed()
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
    shown = controls.place()

    def show(name, text, rate, as_mask, as_random, unit, seed):
        settings = MaskingSettings(rate, as_mask, as_random, unit, controls.whole_number(seed))
        if not material.is_loaded(name):
            yield playgrounds.show_masking(material, name, text, settings, has_answers=False)
        yield playgrounds.show_masking(material, name, text, settings)

    inputs = [model, typed, rate, as_mask, as_random, unit, seed]
    controls.shows([page.load, *(control.change for control in inputs)], show, inputs, shown)


def next_sentence(tab: gr.Tab, material: Material) -> None:
    """Adds the tab of sentence pairs, with the quiz."""
    typed = controls.text(
        "Documents", DOCUMENTS, "two or more, with an empty line between them", lines=8
    )
    with gr.Row():
        model = controls.models(material)
        seed = controls.seed()
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
    if material.corpus:
        drawn = gr.Button("Draw documents from the corpus")

        def draw(seed):
            try:
                documents = material.draw_documents(controls.whole_number(seed))
            except InputError as error:
                raise gr.Error(str(error), print_exception=False) from error
            return "\n\n".join("\n".join(sentences) for sentences in documents)

        drawn.click(draw, [seed], typed, api_visibility="private")
    shown = controls.place()

    def show(name, text, length, short, seed, wanted, number):
        numbers = (
            controls.whole_number(length, 8),
            short,
            controls.whole_number(seed),
            wanted,
            controls.whole_number(number, 1),
        )
        return playgrounds.show_pairs(material, name, text, *numbers)

    inputs = [model, typed, length, short, seed, wanted, number]
    controls.shows([tab.select, *(control.change for control in inputs)], show, inputs, shown)
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
            material,
            name,
            text,
            controls.whole_number(length, 8),
            controls.whole_number(seed),
            number,
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


def input_representation(tab: gr.Tab, material: Material) -> None:
    """Adds the tab of embeddings."""
    with gr.Row():
        first = controls.text("Sentence A", PAIR[0], "the first segment", 1)
        second = controls.text("Sentence B", PAIR[1], "the second segment; may be empty", 1)
    with gr.Row():
        model = controls.models(material)
        place = gr.Slider(
            0,
            playgrounds.MOST_TOKENS - 1,
            3,
            step=1,
            label="Position",
            info="the token whose embeddings are shown; or press a token below",
        )
    shown = controls.place(_PRESS)
    shown.click(_pressed, None, place, show_progress="hidden", api_visibility="private")

    def show(name, first, second, place):
        return playgrounds.show_inputs(material, name, first, second, int(place), can_press=True)

    inputs = [model, first, second, place]
    controls.shows([tab.select, *(control.change for control in inputs)], show, inputs, shown)
