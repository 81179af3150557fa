"""The page and its tabs."""

import gradio as gr

from beambert.explore import model_tabs, task_tab, text_tabs
from beambert.explore.drawing import STYLE as DRAWN_STYLE
from beambert.explore.drawing import said, whole
from beambert.explore.material import Material
from beambert.report import tag

TITLE = "BeamBERT: look inside"
STYLE = DRAWN_STYLE + "footer { display: none !important; }"


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
                text_tabs.masking(page, material)
            with gr.Tab("Next sentence") as tab:
                text_tabs.next_sentence(tab, material)
            with gr.Tab("Input representation") as tab:
                text_tabs.input_representation(tab, material)
            if material.records is not None:
                with gr.Tab("Records") as tab:
                    model_tabs.records(tab, material)
            if material.pretrained:
                with gr.Tab("Attention and layers") as tab:
                    model_tabs.layers(tab, material)
            asked = material.finetuned
            if asked or material.evaluations:
                with gr.Tab("Ask the task") as tab:
                    if asked:
                        task_tab.task(tab, material, asked)
                    if material.evaluations:
                        task_tab.errors(tab, material)
            if material.models:
                with gr.Tab("Runs") as tab:
                    model_tabs.runs(tab, material)
    return page
