"""The page about an encoder that `beambert train` makes at the end."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beambert import io, report
from beambert.console import counted, duration, size
from beambert.folders import BLESSED, METRICS_FILE
from beambert.model_files import RESULTS_FILE, TRAINING_FILE
from beambert.pipelines.corpus.reading import spread
from beambert.pipelines.records.batches import read_records
from beambert.pipelines.records.contract import COPY, EVAL_FOLDER, IS_NEXT, LABEL_FEATURE
from beambert.pipelines.tasks.metrics import METRICS
from beambert.pipelines.tokenizers.pieces import CONTINUES, join_pieces
from beambert.pipelines.tokenizers.vocabulary import MASK
from beambert.report import Card, Html
from beambert.trainer.asking import AskedEncoder, fill, open_encoder
from beambert.trainer.embedding.embedder import embed
from beambert.trainer.pretraining.job import few_steps_warning
from beambert.training import TrainJob
from beambert.training_text import Text

MASKS_SHOWN, ANSWERS, PIECES_AROUND, LEAST_PIECES = 12, 3, 12, 12
# Sentences to embed, those to look up, and the nearest ones shown of each.
SENTENCES, QUERIES, NEAREST = 500, 6, 3
SENTENCE_WORDS = range(6, 31)
# Metric of an encoder -> what it is, and what it is compared with, for readers.
_PAIRS = "of held-out pairs are recognized: "
SCORES = {
    "masked_lm_accuracy": ("of hidden pieces are predicted", "always the most common one"),
    "next_sentence_accuracy": (_PAIRS + "next sentence or not", "always one answer"),
    "copy_accuracy": (_PAIRS + "noisy copy or not", "always one answer"),
}


def make_page(job: TrainJob, text: Text, steps: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
    """Returns the page as HTML, and its main results as lines.

    Args:
      job: the training.
      text: what was seen of the text.
      steps: name -> command line and seconds of each step.
    """
    path = f"{job.output}/encoder"
    records, encoder = _longest_records(job.output), open_encoder(path)
    rows = list(map(json.loads, io.read_bytes(f"{path}/metrics.jsonl").splitlines()))
    hidden, training = _hidden(encoder, records), _read(f"{path}/{TRAINING_FILE}")
    steps_done, seconds = training["optimizer"]["num_train_steps"], training["budget_seconds"]
    warning = "" if job.init else few_steps_warning(steps_done, seconds)
    cards = [
        *_encoder_cards(_read(f"{path}/{RESULTS_FILE}"), records),
        *([_task_card(job)] if job.task_data else []),
        Card(duration(sum(step["seconds"] for step in steps.values())), "for all steps"),
    ]
    lines = [
        (report.tag("code", each["line"]), duration(each["seconds"])) for each in steps.values()
    ]
    hidden_table = report.table(("text", "hidden", "answers"), hidden, ("text", "name", "short"))
    sections = [
        report.cards(cards),
        report.section("Hidden pieces of held-out text", hidden_table),
        report.section("Sentences and their nearest", *_nearest(path, text.sentences)),
        report.section("How it learned", _curve(rows)),
        report.section("What was read", *_reading(text, read_records(records).info.counts)),
        report.section("What to do next", *_next(job, hidden, warning)),
        report.section("How it was made", report.table((), lines, ("text", "number"))),
    ]
    about = (
        "An encoder turns text into vectors, which a model for a task begins with. This one has "
        f"learned from {counted(text.files, 'file')} ({size(text.bytes)}) of text alone."
    )
    summary = [f"  {card.value:<12} {card.name}; {card.beside}".rstrip("; ") for card in cards]
    summary += [f"warning: {warning}"] if warning else []
    return report.page(f"The encoder {path}", about, sections), "\n".join(summary)


def _read(path: str) -> dict[str, Any]:
    return json.loads(io.read_bytes(path))


def _longest_records(output: str) -> str:
    """Returns the records folder of the longest sequences."""
    lengths = [name for name in io.list_folder(f"{output}/records") if name.isdecimal()]
    return f"{output}/records/{max(lengths, key=int)}" if lengths else f"{output}/records"


def _encoder_cards(results: Mapping[str, float], records: str) -> list[Card]:
    share = read_records(f"{records}/{EVAL_FOLDER}").info.counts.get("is_next_share", 0.0)
    constants, cards = {"masked_lm_accuracy": results["commonest_token_accuracy"]}, []
    for name, (title, always) in SCORES.items():
        if name in results:
            score, constant = results[name], constants.get(name, max(share, 1 - share))
            learned = "" if score > constant else "; nothing learned yet"
            cards.append(Card(f"{score:.1%}", title, f"{always}: {constant:.1%}{learned}"))
    return cards


def _task_card(job: TrainJob) -> Card:
    found = _read(f"{job.output}/evaluation/{METRICS_FILE}")
    name = found["metrics"][0]
    before = _read(f"{job.output}/model-before/{RESULTS_FILE}")[name]
    constant = found["constant_answers"][name]["score"]
    others = {"without this training" if job.init else "from random weights": before}
    if words := found["words"]:
        others[words["model"]] = words["scores"][name]
    others["always one answer"] = constant
    return Card(
        f"{found['overall'][name]:.3f}",
        f"{METRICS[name].title} on the task: {'BLESSED' if found['blessed'] else 'NOT BLESSED'}",
        "; ".join(f"{other}: {score:.3f}" for other, score in others.items()),
        report.GOOD if found["blessed"] else report.BAD,
    )


def _reading(text: Text, counts: Mapping[str, Any]) -> list[Html]:
    documents = counts["documents"]
    rows = {
        "documents read": documents["read"],
        "wholly held out": documents.get("in_other_split", 0),
        **{f"dropped: {name}": count for name, count in documents["dropped"].items()},
        **{f"rejected: {name}": count for name, count in documents["rejected"].items()},
        **{f"cleaned: {name}": count for name, count in documents.get("cleaned", {}).items()},
        **{name: counts[name] for name in ("sentences", "tokens")},
        "unknown tokens": counts["unknown_tokens"],
    }
    shown = [(name.replace("_", " "), f"{count:,}") for name, count in rows.items()]
    examples = report.tag("pre", "\n".join(text.examples))
    return [
        report.table((), shown, ("name", "number")),
        *map(report.note, text.notes),
        report.tag("details", report.tag("summary", "documents as they are read"), examples),
    ]


def _curve(rows: Sequence[Mapping[str, Any]]) -> Html:
    lines = {
        name: [(row["step"], row["masked_lm_loss"]) for row in rows if row["split"] == split]
        for name, split in (("training", "train"), ("held out", "eval"))
    }
    return report.curves(lines, "steps", "masked LM loss")


def _hidden(encoder: AskedEncoder, records: str) -> list[tuple[str, str, str]]:
    """Returns held-out texts with a mask in the place of a word, the word, and the answers.

    A text is the longer segment of a record: a noisy copy has fewer words than its text.
    """
    held_out = read_records(f"{records}/{EVAL_FOLDER}")
    batch, pieces = next(iter(held_out)), encoder.vocabulary.pieces
    is_copy = held_out.info.parameters.get("pairs") == COPY
    special = (encoder.ids.classify, encoder.ids.separate, encoder.ids.padding)
    ids_BL, segments_BL = batch["input_ids"], batch["segment_ids"]
    if "masked_lm_ids" in batch:  # Otherwise the training draws them.
        rows, used = np.nonzero(batch["masked_lm_weights"] > 0)
        ids_BL[rows, batch["masked_lm_positions"][rows, used]] = batch["masked_lm_ids"][rows, used]
    found = []
    for row, (ids, segments) in enumerate(zip(ids_BL, segments_BL, strict=True)):
        sides = [ids[(segments == side) & ~np.isin(ids, special)] for side in (0, 1)]
        short, long = sorted(sides, key=len)
        text, middle = [pieces[each] for each in long], len(long) // 2
        is_plain = not is_copy or (batch[LABEL_FEATURE][row] == IS_NEXT and len(short) < len(long))
        is_word = len(text) >= LEAST_PIECES and text[middle][:1].isalpha()
        if is_plain and is_word and not text[middle + 1].startswith(CONTINUES):
            around = text[:middle][-PIECES_AROUND:], text[middle + 1 :][:PIECES_AROUND]
            found.append((text[middle], f" {MASK} ".join(map(join_pieces, around))))
    chosen = spread(found, MASKS_SHOWN)
    filled = fill(encoder, [text for _, text in chosen], ANSWERS) if chosen else []
    answers = (" · ".join(f"{token} {p:.0%}" for token, p in each.answers[0]) for each in filled)
    return [(text, word, answer) for (word, text), answer in zip(chosen, answers, strict=True)]


def _nearest(encoder: str, sentences: Sequence[str]) -> list[Html]:
    """Returns a table of sentences of the text, each with the nearest others."""
    fit = [each for each in dict.fromkeys(sentences) if each.count(" ") + 1 in SENTENCE_WORDS]
    chosen = spread(fit, SENTENCES)
    if len(chosen) <= NEAREST:
        return [report.note("The sample of the text has too few sentences.")]
    vectors = embed(encoder, chosen)
    vectors -= vectors.mean(axis=0)  # What all sentences share would make any two alike.
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = []
    for query in spread(range(len(chosen)), QUERIES):
        best = np.argsort(-(vectors @ vectors[query]))[1 : 1 + NEAREST]
        rows.append((chosen[query], "\n".join(chosen[index] for index in best)))
    note = f"By the mean of their tokens' vectors, among {len(chosen):,} sentences of the text."
    return [report.note(note), report.table(("sentence", "nearest"), rows, ("text", "text"))]


def _next(job: TrainJob, hidden: Sequence[tuple[str, str, str]], warning: str) -> list[Html]:
    encoder, model = f"{job.output}/encoder", f"{job.output}/model"
    # A text whose word the encoder finds, if there is one.
    texts = sorted(hidden, key=lambda row: not row[2].startswith(f"{row[1]} "))
    lines = [
        "# ask it for the word at a [MASK]",
        *(f"beambert fill --model={encoder} {shlex.quote(text)}" for text, *_ in texts[:1]),
        "# check the records",
        f"beambert verify {job.output}/records",
        "# vectors of the lines of a file",
        f"beambert embed --model={encoder} --input=texts.txt --output=embeddings",
        "# a folder for transformers",
        f"beambert export --model={encoder} --to=huggingface --output=huggingface",
    ]
    if not job.task_data:
        task = "--task=classification --data_dir=FOLDER"
        lines.append("# a model for a task: a folder of train.tsv and dev.tsv, with text and label")
        lines.append(f"beambert finetune {task} --init={encoder} --model_dir=model")
    elif io.exists(f"{job.output}/evaluation/{BLESSED}"):
        lines.append("# answers to the lines of a file")
        lines.append(f"beambert predict --model={model} --input=texts.txt --output=answers")
    first = [report.note(f"Train anew with another --output: {warning}.")] if warning else []
    return [*first, report.tag("pre", "\n".join(lines))]
