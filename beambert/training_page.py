"""What `beambert train` shows: the text at the beginning, a page about the encoder at the end."""

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beambert import io, report
from beambert.console import counted, duration, no_report, size
from beambert.folders import BLESSED, METRICS_FILE
from beambert.model_files import RESULTS_FILE
from beambert.pipelines.corpus.reading import layout_notes, sample_files, spread
from beambert.pipelines.pretraining.estimate import describe_examples
from beambert.pipelines.pretraining.job import PretrainingDataJob
from beambert.pipelines.pretraining.plan import find_inputs
from beambert.pipelines.records.batches import read_records
from beambert.pipelines.records.contract import COPY, EVAL_FOLDER
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.metrics import METRICS
from beambert.pipelines.tasks.reading import read_splits
from beambert.pipelines.tasks.task import DEV, TRAIN
from beambert.pipelines.text.languages import language_notes
from beambert.pipelines.text.preparation import TextOptions, prepare_documents
from beambert.pipelines.tokenizers.pieces import join_pieces
from beambert.pipelines.tokenizers.vocabulary import VOCABULARY_FILE
from beambert.report import Card, Html
from beambert.trainer.asking import AskedEncoder, log_softmax, open_encoder
from beambert.trainer.embedding.embedder import embed
from beambert.training import GOALS, WORDS, TrainJob, TrainPlan, reading

DOCUMENTS_SHOWN = 10
MASKS_SHOWN, ANSWERS, PIECES_AROUND = 12, 3, 12
# Sentences to embed, those to look up, and the nearest ones shown of each.
SENTENCES, QUERIES, NEAREST = 500, 6, 3
SENTENCE_WORDS = range(6, 31)
# Metric of an encoder -> what it is, for readers.
PAIR_TASKS = {
    "next_sentence_accuracy": "of held-out pairs are recognized: next sentence or not",
    "copy_accuracy": "of held-out pairs are recognized: noisy copy or not",
}


@dataclasses.dataclass(frozen=True)
class Text:
    """What was seen of the text.

    Attributes:
      files, bytes: number of files, and their size.
      notes: what was assumed of it.
      examples: lines about some documents as they are read.
      sentences: sentences of a sample of the documents.
    """

    files: int
    bytes: int
    notes: list[str]
    examples: list[str]
    sentences: list[str]

    def lines(self) -> list[str]:
        """Returns what is printed."""
        return [*self.examples, *self.notes, f"{counted(self.files, 'file')}, {size(self.bytes)}"]


def check_task(job: TrainJob) -> None:
    """Reads the files of the task, if there is one, so that a fault is found before the training.

    Raises:
      InputError: the folder's files are not those of the task.
    """
    if job.task_data:
        read_splits(find_task(job.task), job.task_data, (TRAIN, DEV), skip_bad_rows=False)


def look(job: TrainJob) -> Text:
    """Looks at the files.

    Raises:
      InputError: a pattern matches nothing, or the files cannot be read.
    """
    data = PretrainingDataJob(
        input=job.input,
        vocab_file=VOCABULARY_FILE,
        output=job.output,
        language=job.language,
        **reading(job),
    )
    files, read_options = find_inputs(data), data.read_options()
    samples = sample_files(files, read_options)
    options = TextOptions.of(data, do_lower_case=job.do_lower_case)
    documents = [(each.path, document) for each in samples for document in each.documents]
    split = prepare_documents([document for _, document in documents], options, Counter())
    texts = [document.text for _, document in documents]
    return Text(
        len(files),
        sum(file.bytes for file in files),
        [*layout_notes(samples, read_options), *language_notes(texts, job.language)],
        [*describe_examples(spread(documents, DOCUMENTS_SHOWN), options)],
        [sentence for each in split for sentence in each.sentences],
    )


def describe(job: TrainJob, made: TrainPlan) -> list[str]:
    """Returns the lines that print a plan."""
    goal, lines = GOALS[job.goal], []
    if job.init:
        lines.append(f"  {job.init} is continued by masked LM, with its own vocabulary")
    else:
        lines.append(f"  vocabulary: {made.vocab_size:,} pieces")
        lines.append(f"  recipe: {goal.recipe}, {goal.lengths[0]}, then {goal.lengths[1]} tokens")
    lines += [
        f"  passes over the text: {made.passes}",
        f"  time: about {duration(made.before)} to make records, {duration(made.training)} of "
        f"training, {duration(made.after)} for the rest",
    ]
    if job.goal == WORDS and not job.init:
        steps = made.training * goal.sequences_a_second / 64
        loss = 3.31 + 1.205 * (2226 / steps) ** 0.446
        lines.append(
            f"  expected of two cores: {steps:,.0f} steps, which on 101 MB of Wikipedia and novels "
            f"made a held-out masked LM loss of {loss:.2f}"
        )
    return lines


def make_page(job: TrainJob, text: Text, steps: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
    """Returns the page as HTML, and its main results as lines.

    Args:
      job: the training.
      text: what was seen of the text.
      steps: name -> command line and seconds of each step.
    """
    path = f"{job.output}/encoder"
    records, encoder = _longest_records(job.output), open_encoder(path)
    cards = [
        *_encoder_cards(_read(f"{path}/{RESULTS_FILE}"), records),
        *([_task_card(job)] if job.task_data else []),
        Card(duration(sum(step["seconds"] for step in steps.values())), "for all steps"),
    ]
    lines = [
        (report.tag("code", each["line"]), duration(each["seconds"])) for each in steps.values()
    ]
    sections = [
        report.cards(cards),
        report.section("Hidden pieces of held-out text", *_masks(encoder, records)),
        report.section("Sentences and their nearest", *_nearest(path, text.sentences)),
        report.section("How it learned", _curve(path)),
        report.section("What was read", *_reading(text, read_records(records).info.counts)),
        report.section("What to do next", _next(job)),
        report.section("How it was made", report.table((), lines, ("text", "number"))),
    ]
    about = (
        "An encoder turns text into vectors, which a model for a task begins with. This one has "
        f"learned from {counted(text.files, 'file')} ({size(text.bytes)}) of text alone."
    )
    summary = [f"  {card.value:<12} {card.name}; {card.beside}".rstrip("; ") for card in cards]
    return report.page(f"The encoder {path}", about, sections), "\n".join(summary)


def _read(path: str) -> dict[str, Any]:
    return json.loads(io.read_bytes(path))


def _longest_records(output: str) -> str:
    """Returns the records folder of the longest sequences."""
    lengths = [name for name in io.list_folder(f"{output}/records") if name.isdecimal()]
    return f"{output}/records/{max(lengths, key=int)}" if lengths else f"{output}/records"


def _encoder_cards(results: Mapping[str, float], records: str) -> list[Card]:
    always = f"always the most common one: {results['commonest_token_accuracy']:.1%}"
    masked = Card(f"{results['masked_lm_accuracy']:.1%}", "of hidden pieces are predicted", always)
    share = read_records(f"{records}/{EVAL_FOLDER}").info.counts.get("is_next_share", 0.0)
    return [masked] + [
        Card(f"{results[name]:.1%}", title, f"always one answer: {max(share, 1 - share):.1%}")
        for name, title in PAIR_TASKS.items()
        if name in results
    ]


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
        "held out": documents.get("in_other_split", 0),
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


def _curve(encoder: str) -> Html:
    rows = list(map(json.loads, io.read_bytes(f"{encoder}/metrics.jsonl").splitlines()))
    lines = {
        name: [(row["step"], row["masked_lm_loss"]) for row in rows if row["split"] == split]
        for name, split in (("training", "train"), ("held out", "eval"))
    }
    return report.curves(lines, "steps", "masked LM loss")


def _masks(encoder: AskedEncoder, records: str) -> list[Html]:
    """Returns a table of hidden pieces of held-out records with the encoder's answers."""
    held_out = read_records(f"{records}/{EVAL_FOLDER}")
    batch = next(iter(held_out))
    tokens, special = encoder.vocabulary.tokens, encoder.ids
    hidden = {special.classify, special.separate, special.padding}
    asked = []
    for number in spread(range(len(batch["input_ids"])), MASKS_SHOWN):
        row = {name: values[number] for name, values in batch.items()}
        ids = row["input_ids"][row["input_mask"] > 0]
        place = len(ids) // 2
        if "masked_lm_ids" in row:  # Otherwise the training draws them.
            used = row["masked_lm_weights"] > 0
            ids[row["masked_lm_positions"][used]] = row["masked_lm_ids"][used]
            place = int(row["masked_lm_positions"][0])
        label, ids[place] = ids[place], special.mask
        asked.append((ids, [place], tokens[label]))
    rows: list[Any] = [None] * len(asked)
    for number, logits in encoder.masked_lm_logits([each[:2] for each in asked], no_report):
        ids, (place,), label = asked[number]
        shares = np.exp(log_softmax(logits[0]))
        around = [
            join_pieces(tokens[index] for index in part if index not in hidden)
            for part in (ids[:place][-PIECES_AROUND:], ids[place + 1 :][:PIECES_AROUND])
        ]
        best = np.argsort(-shares)[:ANSWERS]
        answers = ", ".join(f"{tokens[index]} {shares[index]:.0%}" for index in best)
        rows[number] = (" ____ ".join(around), label, answers)
    table = report.table(("text", "hidden", "answers"), rows, ("text", "name", "short"))
    if held_out.info.parameters.get("pairs") != COPY:
        return [table]
    note = "This encoder compares texts with noisy copies, so words of these may be missing, "
    return [report.note(note + "replaced or out of order."), table]


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


def _next(job: TrainJob) -> Html:
    encoder, model = f"{job.output}/encoder", f"{job.output}/model"
    lines = [
        f"beambert fill --model={encoder} 'A sentence with a [MASK] in it.'",
        f"beambert embed --model={encoder} --input=texts.txt --output=embeddings",
        f"beambert export --model={encoder} --to=huggingface --output=huggingface",
    ]
    if not job.task_data:
        task = "--task=classification --data_dir=FOLDER"
        lines.append(f"beambert finetune {task} --init={encoder} --model_dir=model")
    elif io.exists(f"{job.output}/evaluation/{BLESSED}"):
        lines.append(f"beambert predict --model={model} --input=texts.txt --output=answers")
    return report.tag("pre", "\n".join(lines))
