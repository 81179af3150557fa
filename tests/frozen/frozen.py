"""Freezes what the commands compute: bytes of records, metrics, outputs of encoders, weights.

Check: `PYTHONPATH=TREE python tests/frozen/frozen.py --check [--only=records] [--case=TEXT]`;
write: the same with `--write`. PYTHONPATH decides which tree is run, so that it can be an older
one; the values are in frozen.json next to this file, one case on a line.

Only stable interfaces are used: the command line and the files that the commands write. Hashes and
words must be equal, numbers must agree within TOLERANCE.
"""

import argparse
import contextlib
import functools
import gzip
import hashlib
import io
import json
import math
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

VALUES = pathlib.Path(__file__).with_name("frozen.json")
REAL_TEXT = pathlib.Path(
    os.environ.get("BEAMBERT_TEST_DATA", pathlib.Path(__file__).parents[3] / "shared" / "data")
)
# Greatest difference of two numbers, absolute or relative to the greater one.
TOLERANCE = 1e-5
PIECES = "ba de fi go hu ka le mi no pu ra se ti vo wu ya ze cha sho the ing er en an st tion é ü"
LANGUAGES = {
    "de": "Der Fluß ist lang. Die Straße führt über die Brücke, und niemand weiß, wohin.",
    "zh": "这条河很长。房子在城市的北边，人们喜欢音乐。今天下雨，所以街道是湿的。",
    "ja": "この川は長いです。家は町の北にあります。人々は音楽が好きです。",
    "th": "แม่น้ำสายนี้ยาวมาก บ้านอยู่ทางเหนือของเมือง ผู้คนชอบดนตรี",
}


class Skipped(Exception):
    """What a case needs is not on this machine."""


def beambert(*arguments: object) -> str:
    """Runs a command in this process and returns what it printed; the only entry point."""
    from beambert.cli import run

    printed, status = io.StringIO(), 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            status = run([str(argument) for argument in arguments])
        except SystemExit as end:
            status = end.code
    if status:
        command = " ".join(map(str, arguments))
        raise RuntimeError(f"beambert {command} ended with {status}:\n{printed.getvalue()[-2000:]}")
    return printed.getvalue()


@functools.cache
def work() -> pathlib.Path:
    """Returns the folder of all files that are made, which is deleted at the end."""
    folder = tempfile.TemporaryDirectory(prefix="frozen-")
    work.folder = folder  # lives as long as this process
    return pathlib.Path(folder.name)


def new_folder() -> pathlib.Path:
    """Returns the path of a folder that is not there yet."""
    return pathlib.Path(tempfile.mkdtemp(dir=work())) / "made"


def sha256(data: bytes) -> str:
    """Returns the SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


# Text


@functools.cache
def words() -> list[str]:
    """Returns 300 words that look like text, the frequent ones first."""
    generator = random.Random(1)
    made = (
        "".join(generator.choices(PIECES.split(), k=generator.randint(1, 3))) for _ in range(900)
    )
    return list(dict.fromkeys(made))[:300]


def sentence(generator: random.Random) -> str:
    """Returns a sentence of 3 to 14 words, sometimes with numbers, names, addresses or quotes."""
    length = generator.randint(3, 14)
    chosen = [words()[int(300 * generator.random() ** 2)] for _ in range(length)]
    others = ("1984", "3.14", "“Ona”", "x@example.org", "https://example.org/a?b", "U.S.", "Bo-Li")
    if generator.random() < 0.3:
        chosen[generator.randrange(length)] = generator.choice(others)
    if generator.random() < 0.3:
        chosen[length // 2] += ","
    return " ".join(chosen).capitalize() + generator.choice(".....?!")


def documents(seed: int, count: int = 40) -> list[str]:
    """Returns documents of 1 to 12 sentences, a long one, an equal one and one almost equal."""
    generator = random.Random(seed)
    lengths = [*(generator.randint(1, 12) for _ in range(count - 3)), 150]
    made = [[sentence(generator) for _ in range(length)] for length in lengths]
    made += [made[0], [*made[-1][:60], sentence(generator), *made[-1][60:]]]
    return ["\n".join(sentences) for sentences in made]


@functools.cache
def corpus() -> pathlib.Path:
    """Returns a folder of text in several formats, sources, languages and encodings."""
    folder = work() / "corpus"
    folder.mkdir()

    def write(name: str, text: str, encoding: str = "utf-8") -> None:
        data = text.encode(encoding)
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)

    def rows(texts: Iterable[str], **columns: str) -> str:
        return "".join(json.dumps({"text": text, **columns}) + "\n" for text in texts)

    write("a.jsonl", rows(documents(1)))
    write("b.jsonl", rows(documents(2, 20)))
    foreign = [rows([text * 12] * 2, language=code) for code, text in LANGUAGES.items()]
    write("languages.jsonl", "".join(foreign) + rows(documents(3, 10), language="en"))
    wiki = [f'<doc id="{n}" title="x">\n{text}\n</doc>\n' for n, text in enumerate(documents(4, 8))]
    write("formats-wiki_00", "".join(wiki))
    write("formats.csv", "text,other\n" + "".join(f'"{text}",1\n' for text in documents(5, 6)))
    write("formats.md", "".join(f"# A *b*\n\n{text}\n\n* c\n\n" for text in documents(6, 6)))
    write("formats.txt.gz", "\n\n".join(documents(7, 6)))
    write("old.txt", "\n\n".join(documents(8)).replace("“Ona”", "„Größe“"), "cp1252")
    write("blocklist.txt", f"{words()[60]} {words()[2]}\n{words()[150]}\n")
    write("evaluation.txt", documents(1)[5] + "\n" + documents(1)[9] + "\n")
    return folder


@functools.cache
def padded_corpus() -> pathlib.Path:
    """Returns a file of 105 MB, most of it a column that is ignored; two processes need 100 MB."""
    path = work() / "padded.jsonl"
    rows = map(json.loads, (corpus() / "a.jsonl").read_text().splitlines())
    path.write_text("".join(json.dumps(row | {"other": "-" * 2_700_000}) + "\n" for row in rows))
    return path


# Vocabularies and records: their bytes

TOKENIZERS = {
    "uncased": ["--vocab_size=400"],
    "cased": ["--vocab_size=500", "--do_lower_case=False"],
    "covering": ["--vocab_size=900", "--character_coverage=0.999", "--do_lower_case=False"],
    "bpe": ["--kind=bpe", "--vocab_size=500"],
    "unigram": ["--kind=unigram", "--vocab_size=400"],
    "small": ["--vocab_size=150"],
    "extended": ["--add=50"],
}


@functools.cache
def tokenizer(name: str) -> pathlib.Path:
    """Returns the file of a vocabulary or tokenizer, learned with the flags of TOKENIZERS."""
    is_wordpiece = not any("--kind" in flag for flag in TOKENIZERS[name])
    path = work() / name / ("vocab.txt" if is_wordpiece else "tokenizer.json")
    path.parent.mkdir()
    inputs = "[abl]*.jsonl" if name == "covering" else "[ab].jsonl"
    more = [f"--extend={tokenizer('small')}"] if name == "extended" else []
    beambert("vocab", f"--input={corpus()}/{inputs}", f"--output={path}", *TOKENIZERS[name], *more)
    return path


def vocabulary_case(name: str) -> str:
    """Returns the hash of a vocabulary or tokenizer."""
    return sha256(tokenizer(name).read_bytes())


SOURCES = ["--source=a={corpus}/a.jsonl", "--source=b={corpus}/b.jsonl"]
WORDPIECE, UNIGRAM = "--vocab_file={uncased}", "--tokenizer={unigram}"
BPE, COVERING = "--tokenizer={bpe}", ["--vocab_file={covering}", "--do_lower_case=False"]
HELD_OUT = "--eval_fraction=0.2"
# Name of a job -> its flags beside those of `record_case`. A later flag replaces an earlier one.
JOBS: dict[str, list[str]] = {
    "next": [],
    "next_without_masks": ["--masks=none", "--random_seed=7"],
    "next_by_source": ["--random_next=source", "--input={corpus}/[ab].jsonl", HELD_OUT],
    "reference": ["--pairs=reference"],
    "full_sentences": ["--pairs=none"],
    "full_sentences_without_masks": ["--pairs=none", "--masks=none", HELD_OUT],
    "sentence_order_whole_words": ["--pairs=sop", "--masks=whole_word", HELD_OUT],
    "copies_spans": ["--pairs=copy", "--masks=span", "--max_seq_length=48", HELD_OUT],
    "lengths": [
        *("--max_seq_length=24,64", "--max_predictions_per_seq=4,12"),
        *("--masked_lm_prob=0.2", "--short_seq_prob=0.4", HELD_OUT),
    ],
    "many_passes": ["--dupe_factor=7", "--num_shards=3", "--shuffle=runner"],
    "sources": [*SOURCES, "--weights=a=0.4,b=0.6", "--eval_fraction=0.25"],
    "sources_by_temperature": [
        *(*SOURCES, "--temperature=0.3", "--max_epochs_per_source=3"),
        *("--pairs=none", "--masks=span"),
    ],
    "held_out": ["--eval_fraction=0.2", "--pairs=sop", "--compression=gzip"],
    "bpe": [BPE, "--pairs=none", "--masks=whole_word", HELD_OUT],
    "bpe_pairs": [BPE, "--masks=span"],
    "unigram": [UNIGRAM, "--masks=whole_word", HELD_OUT],
    "cased_lines": ["--vocab_file={cased}", "--do_lower_case=False", "--layout=sentences"],
    "few_pieces": ["--vocab_file={small}", HELD_OUT],
    "more_pieces": ["--vocab_file={extended}", "--pairs=none", HELD_OUT],
    "exact_duplicates": ["--duplicates=exact", "--pairs=none"],
    "near_duplicates": ["--duplicates=near", "--pairs=none", "--eval_fraction=0.1"],
    "clean": [
        *("--quality_filter=gopher", "--scrub=url,email,ip", "--min_document_characters=60"),
        *("--blocklist={corpus}/blocklist.txt", "--decontaminate={corpus}/evaluation.txt"),
    ],
    "languages_icu": [
        *("--input={corpus}/languages.jsonl", "--language_column=language", *COVERING),
        *("--masks=whole_word", "--segmenter=icu"),
    ],
    "languages_sudachi": [
        *("--input={corpus}/languages.jsonl", "--language=ja", *COVERING),
        *("--masks=span", "--segmenter=sudachi", "--keep_languages=ja"),
    ],
    "formats": ["--input={corpus}/formats*"],
    "windows-1252": ["--input={corpus}/old.txt", "--encoding=windows-1252", "--language=de"],
    "next, two threads": ["--direct_num_workers=2", "--direct_running_mode=multi_threading"],
    "sources, two processes": [
        *("--source=a={padded}", SOURCES[1], "--weights=a=0.4,b=0.6", "--eval_fraction=0.25"),
        *("--direct_num_workers=2", "--direct_running_mode=multi_processing"),
    ],
    "next, Prism": ["--runner=PrismRunner", "--prism_location={prism}"],
    "real_wikitext": [
        *("--input={real}/wikitext2/*", "--masks=whole_word", "--eval_fraction=0.02"),
        *("--vocab_file={real}/vocab/bert-base-uncased-vocab.txt", "--duplicates=exact"),
        *("--max_seq_length=128", "--dupe_factor=1"),
    ],
}


@functools.cache
def records(name: str) -> pathlib.Path:
    """Returns a records folder, made by the job of JOBS."""
    flags = JOBS[name]
    names = {"corpus": corpus(), "real": REAL_TEXT, "prism": os.environ.get("BEAMBERT_PRISM")}
    if any("{real}" in flag for flag in flags) and not REAL_TEXT.is_dir():
        raise Skipped(f"no {REAL_TEXT}")
    if any("{prism}" in flag for flag in flags) and not names["prism"]:
        raise Skipped("BEAMBERT_PRISM does not name a Prism")
    if not any("--source" in flag or "--input" in flag for flag in flags):
        flags = ["--input={corpus}/a.jsonl", *flags]
    if not any("--vocab_file" in flag or "--tokenizer" in flag for flag in flags):
        flags = [WORDPIECE, *flags]
    if any("{padded}" in flag for flag in flags):
        names["padded"] = padded_corpus()
    for kind in TOKENIZERS:
        if any(f"{{{kind}}}" in flag for flag in flags):
            names[kind] = tokenizer(kind)
    output = new_folder()
    defaults = ["--max_seq_length=32", "--dupe_factor=2", "--num_shards=2"]
    beambert("data", f"--output={output}", *defaults, *(flag.format(**names) for flag in flags))
    return output


def record_case(name: str) -> str:
    """Returns the hash of the names and the uncompressed bytes of all shards of a job."""
    digest, folder = hashlib.sha256(), records(name)
    shards = sorted(path for path in folder.rglob("*") if ".tfrecord" in path.name)
    assert shards, f"{name} made no shards"
    for path in shards:
        data = path.read_bytes()
        digest.update(path.relative_to(folder).as_posix().encode())
        digest.update(gzip.decompress(data) if path.suffix == ".gz" else data)
    return digest.hexdigest()


# Pre-training: weights and held-out losses

SHORT = "--num_train_steps=10"
# Name of a training -> name of its records, and its flags beside those of `encoder`.
TRAININGS: dict[str, tuple[str, list[str]]] = {
    "bert": ("next_by_source", []),
    "mlm": ("full_sentences_without_masks", ["--objective=mlm"]),
    "sop": ("sentence_order_whole_words", ["--objective=sop"]),
    "copy": ("copies_spans", ["--objective=copy"]),
    "rtd": ("next_by_source", ["--objective=rtd"]),
    "few_pieces": ("few_pieces", ["--objective=mlm", SHORT]),
    "roberta": ("bpe", ["--family=roberta", "--objective=mlm", SHORT]),
    "distilbert": ("unigram", ["--family=distilbert", "--objective=mlm", SHORT]),
    "albert": ("sentence_order_whole_words", ["--family=albert", "--objective=sop", SHORT]),
    "electra": ("full_sentences_without_masks", ["--family=electra", "--objective=rtd", SHORT]),
    "modernbert": (
        "full_sentences_without_masks",
        ["--family=modernbert", "--objective=mlm", "--attend_within_documents", SHORT],
    ),
    "deberta-v2": ("unigram", ["--family=deberta-v2", "--objective=mlm", SHORT]),
    "deberta-v3": ("bpe", ["--family=deberta-v2", "--objective=rtd", SHORT]),
    "adamw_corrected": ("next_by_source", ["--optimizer=adamw_corrected"]),
    "lamb": ("next_by_source", ["--optimizer=lamb", "--learning_rate=0.01"]),
    "muon": ("next_by_source", ["--optimizer=muon", "--dropout=0", "--beta_2=0.98"]),
    "schedule": (
        "next_by_source",
        [
            *("--schedule=trapezoid", "--decay_share=0.5", "--num_warmup_steps=20"),
            *("--gradient_accumulation_steps=2", "--train_batch_size=16"),
        ],
    ),
    "cosine": ("next_by_source", ["--schedule=cosine", "--initializer_range=0.05", SHORT]),
    "drawn_masks": (
        "next_by_source",
        [
            *("--masking=dynamic", "--mask_rate=0.3:0.1"),
            *("--do_whole_word_mask=True", SHORT),
        ],
    ),
    "long_data": ("lengths", ["--long_data={records}/../64", "--long_data_share=0.3", SHORT]),
    "recipe": (
        "full_sentences_without_masks",
        ["--recipe=modern_tiny", "--mask_rate=0.15", "--num_train_steps=6", "--train_batch_size=8"],
    ),
    "distillation": ("next_by_source", ["--distill_from={bert}", SHORT]),
    "init": (
        "more_pieces",
        [
            "--init={few_pieces}",
            "--init_positions=tile",
            "--objective=mlm",
            SHORT,
        ],
    ),
}


@functools.cache
def encoder(name: str) -> pathlib.Path:
    """Returns the model folder of a training of TRAININGS."""
    of, flags = TRAININGS[name]
    names = {"records": records(of) / "24" if of == "lengths" else records(of)}
    for other in ("bert", "few_pieces"):
        if any(f"{{{other}}}" in flag for flag in flags):
            names[other] = encoder(other)
    if not any("--init" in flag or "--recipe" in flag for flag in flags):
        flags = ["--model=tiny", *flags]
    defaults = ["--num_train_steps=50", "--train_batch_size=8", "--learning_rate=1e-3"]
    output = new_folder()
    given = [flag.format(**names) for flag in flags]
    beambert("pretrain", f"--data={names['records']}", f"--model_dir={output}", *defaults, *given)
    return output


@functools.cache
def exported(name: str) -> pathlib.Path:
    """Returns the encoder of a training in the format of transformers."""
    output = new_folder()
    beambert("export", f"--model={encoder(name)}", "--to=huggingface", f"--output={output}")
    return output


def rounded(value: Any) -> Any:
    """Returns a value of JSON with numbers of seven significant digits."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return digits(value) if isinstance(value, float) else value


def digits(number: float) -> float:
    """Returns a number of seven significant digits."""
    return float(f"{number:.7g}")


def weight_case(name: str) -> dict[str, Any]:
    """Returns the losses of a training, and of each weight mean, norm and a projection.

    The projection changes if the numbers of a weight change places.
    """
    import numpy as np
    from safetensors.numpy import load_file

    found: dict[str, Any] = json.loads((encoder(name) / "results.json").read_text())
    first = json.loads((encoder(name) / "metrics.jsonl").read_text().splitlines()[0])
    found |= {f"first {key}": value for key, value in first.items() if "loss" in key}
    for weight, values in sorted(load_file(exported(name) / "model.safetensors").items()):
        flat = values.astype(np.float64).ravel()
        projection = flat @ np.cos(np.arange(len(flat))) / math.sqrt(len(flat))
        found[weight] = [digits(n) for n in (flat.mean(), np.linalg.norm(flat), projection)]
    return found


# Encoders with fixed random weights: their vectors and scores

OUTPUTS = (
    *("bert", "roberta", "distilbert", "albert", "electra", "modernbert", "deberta-v2"),
    "deberta-v3",
)
TEXTS = ("Ba de figo, hu kale mino pu 1984.", "Sho the ing", "Tion ra seti! Vo wu ya ze é ü 3.14?")


@functools.cache
def random_encoder(name: str) -> pathlib.Path:
    """Returns the export of a training with new random weights, which only their names decide."""
    import numpy as np
    from safetensors.numpy import load_file, save_file

    folder = new_folder()
    shutil.copytree(exported(name), folder)
    weights = load_file(folder / "model.safetensors")
    for weight, values in weights.items():
        seed = int(sha256(weight.encode())[:8], 16)
        made = 0.2 * np.random.Generator(np.random.PCG64(seed)).standard_normal(values.shape)
        is_scale = values.ndim == 1 and weight.endswith(".weight")
        weights[weight] = (made + is_scale).astype(np.float32)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def output_case(name: str) -> dict[str, Any]:
    """Returns the first numbers of embeddings of TEXTS, and how likely a masked LM finds them."""
    import pyarrow.parquet

    texts = new_folder()
    texts.write_text("".join(f"{text}\n" for text in TEXTS))
    of, found = ["--model", random_encoder(name), "--input", texts], {}
    for pooling in ("cls", "mean"):
        output = new_folder()
        beambert("embed", *of, "--output", output, f"--pooling={pooling}")
        (made,) = output.rglob("*.parquet")
        rows = pyarrow.parquet.read_table(made)["embedding"].to_pylist()
        found[pooling] = [rounded(row[:8]) for row in rows]
    if name not in ("electra", "deberta-v3"):  # Their discriminators predict no words.
        scores = new_folder()
        beambert("score", *of, "--output", scores)
        found["score"] = [rounded(json.loads(line)) for line in scores.read_text().splitlines()]
    return found


# Tasks: metrics and answers of models that are trained for a few steps

Row = Callable[[random.Random], list[str]]


def splits(seed: str) -> Iterable[tuple[str, random.Random, int]]:
    """Yields for each split its name, a generator of random numbers and the number of examples."""
    for split, count in (("train", 24), ("dev", 13), ("test", 5)):
        yield split, random.Random(f"{seed} {split}"), count


def table(columns: str, row: Row) -> dict[str, str]:
    """Returns the files of a task: file name -> tab-separated table."""
    return {
        f"{split}.tsv": "".join(
            "\t".join(fields) + "\n"
            for fields in [columns.split(), *(row(generator) for _ in range(count))]
        )
        for split, generator, count in splits(columns)
    }


def tagged(tags: str) -> dict[str, str]:
    """Returns the files of a task that asks for the tag of each word."""
    files = {}
    for split, generator, count in splits(tags):
        texts = [sentence(generator).split() for _ in range(count)]
        lines = ["".join(f"{word} {generator.choice(tags.split())}\n" for word in t) for t in texts]
        files[f"{split}.conll"] = "\n".join(lines)
    return files


def questions(version: str) -> dict[str, str]:
    """Returns the files of SQuAD; in version 2.0 some questions have no answer."""
    files = {}
    for split, generator, count in splits(version):
        paragraphs = []
        for number in range(count):
            context = " ".join(sentence(generator) for _ in range(6))
            start = context.index(" ", generator.randrange(len(context) // 2)) + 1
            answers = [{"text": " ".join(context[start:].split()[:2]), "answer_start": start}]
            asked: dict[str, Any] = {"id": f"{split}{number}", "question": sentence(generator)}
            if version == "2.0":
                asked["is_impossible"] = generator.random() < 0.3
            asked["answers"] = [] if asked.get("is_impossible") else answers
            paragraphs.append({"context": context, "qas": [asked]})
        data = [{"title": "t", "paragraphs": paragraphs}]
        files[f"{split}-v{version}.json"] = json.dumps({"version": version, "data": data})
    return files


def texts(generator: random.Random, count: int) -> list[str]:
    """Returns some sentences."""
    return [sentence(generator) for _ in range(count)]


SIGNS = ["bad", "good", "odd"]
LABELLED = table("text label", lambda g: [*texts(g, 1), g.choice(SIGNS)])
SCORED = table("text text_b label", lambda g: [*texts(g, 2), f"{g.random():.3f}"])
MANY_LABELS = table("text label", lambda g: [*texts(g, 1), ",".join(g.sample(SIGNS, 2))])
NEIGHBOURS = table("text text_b", lambda g: texts(g, 2))
PAIRS = table("text text_b label", lambda g: [*texts(g, 2), g.choice(SIGNS)])
CHOICES = table("text choice_0 choice_1 choice_2 label", lambda g: [*texts(g, 4), g.choice("012")])
COLA = table("", lambda g: ["x", g.choice("01"), "", *texts(g, 1)])
# Name of a model -> its task, the task's files and flags.
TASKS: dict[str, tuple[str, dict[str, str], list[str]]] = {
    "classification": ("classification", LABELLED, []),
    "windows": (
        "classification",
        LABELLED,
        ["--max_windows=8", "--max_seq_length=12", "--class_weights=balanced"],
    ),
    "pairs": ("classification", PAIRS, []),
    "multi_label": ("multi_label", MANY_LABELS, []),
    "regression": ("regression", SCORED, ["--freeze_encoder"]),
    "choice": ("choice", CHOICES, []),
    "tagging": ("tagging", tagged("O B-x I-x B-y"), []),
    "word_labels": ("word_labels", tagged("O B-x I-x"), []),
    "embedding": ("embedding", table("text text_b negative", lambda g: texts(g, 3)), []),
    "similarity": ("similarity", SCORED, ["--matryoshka_dims=8,16"]),
    "rerank": ("rerank", SCORED, []),
    "late_interaction": ("late_interaction", NEIGHBOURS, ["--query_length=8"]),
    "squad1.1": ("squad1.1", questions("1.1"), []),
    "squad2.0": ("squad2.0", questions("2.0"), []),
    "cola": ("cola", COLA, []),
}


def task_case(name: str) -> dict[str, Any]:
    """Returns the metrics of a model, and its answers where there is a command for them."""
    task, files, flags = TASKS[name]
    data, model, output, answers = (new_folder() for _ in range(4))
    data.mkdir()
    for file, text in files.items():
        (data / file).write_text(text.removeprefix("\n"))
    of = [f"--task={task}", f"--data_dir={data}"]
    config = {"vocab_size": 400, "hidden_size": 32, "num_hidden_layers": 1}
    config |= {"num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 64}
    (data / "bert_config.json").write_text(json.dumps(config))
    start = ["--init=random", f"--model={data}/bert_config.json"]
    start.append(f"--vocab_file={tokenizer('uncased')}")
    steps = ["--num_train_epochs=2", "--train_batch_size=8", "--learning_rate=1e-3"]
    given = ["--max_seq_length=48", *flags]
    beambert("finetune", *of, f"--model_dir={model}", *start, *steps, *given)
    beambert("evaluate", *of, f"--model={model}", f"--output={output}", "--slices=length")
    metrics = json.loads((output / "metrics.json").read_text())
    names = ("overall", "constant_answers", "slices", "details", "blessed")
    found = {name: metrics[name] for name in names if name in metrics}
    if name not in ("embedding", "similarity", "late_interaction"):
        rows = data / "questions.jsonl"
        if task.startswith("squad"):
            text = json.dumps({"question": words()[9], "context": " ".join(words()[:40])})
            rows.write_text(text + "\n")
        else:
            (rows,) = data.glob("dev.*")
        beambert("predict", f"--model={model}", f"--input={rows}", f"--output={answers}")
        lines = [line for path in answers.glob("part-*") for line in path.open(encoding="utf-8")]
        made = sorted((json.loads(line) for line in lines), key=lambda answer: answer["line"])
        found["answers"] = [answer | {"file": ""} for answer in made[:3]]
    return rounded(found)


# The flags of all commands


def flags_case(command: str) -> dict[str, Any]:
    """Returns the flags of a command with their defaults, as its parser has them."""
    found: dict[str, Any] = {}

    def note(parser: argparse.ArgumentParser, *_: Any) -> None:
        for action in parser._actions:
            for name in action.option_strings or [action.dest]:
                found[name] = json.loads(json.dumps(action.default, default=str))

    print_help, argparse.ArgumentParser.print_help = argparse.ArgumentParser.print_help, note
    try:
        beambert(command, "--help")
    finally:
        argparse.ArgumentParser.print_help = print_help
    return dict(sorted(found.items()))


COMMANDS = (
    *("vocab", "data", "verify", "pretrain", "finetune", "glue", "evaluate", "predict"),
    *("fill", "score", "embed", "index", "search", "judge", "compare", "explore"),
    *("export", "retrain", "demo", "train"),
)

Case = Callable[[], Any]


def cases() -> dict[str, dict[str, Case]]:
    """Returns group -> name of a case -> what computes its value."""
    groups = {
        "vocabularies": (vocabulary_case, TOKENIZERS),
        "records": (record_case, JOBS),
        "weights": (weight_case, TRAININGS),
        "outputs": (output_case, OUTPUTS),
        "tasks": (task_case, TASKS),
        "flags": (flags_case, COMMANDS),
    }
    return {
        group: {name: functools.partial(compute, name) for name in names}
        for group, (compute, names) in groups.items()
    }


def differences(expected: Any, found: Any, where: str = "") -> list[str]:
    """Returns a line for each difference of two values of JSON."""
    if isinstance(expected, dict) and isinstance(found, dict):
        lines = [f"{where}/{key}: is gone" for key in expected.keys() - found.keys()]
        lines += [f"{where}/{key}: is new" for key in found.keys() - expected.keys()]
        for key in expected.keys() & found.keys():
            lines += differences(expected[key], found[key], f"{where}/{key}")
        return sorted(lines)
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [
            line
            for place, pair in enumerate(zip(expected, found, strict=True))
            for line in differences(*pair, f"{where}/{place}")
        ]
    numbers = (int, float)
    if isinstance(expected, numbers) and isinstance(found, numbers):
        is_same = math.isclose(expected, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    else:
        is_same = expected == found
    return [] if is_same else [f"{where}: {found} in place of {expected}"]


def frozen() -> dict[str, dict[str, Any]]:
    """Returns the frozen values: group -> name of a case -> value."""
    return json.loads(VALUES.read_text()) if VALUES.exists() else {}


def compute(group: str, name: str) -> Any:
    """Computes a case, and forgets the graphs that it made."""
    try:
        return cases()[group][name]()
    finally:
        if "keras" in sys.modules:
            sys.modules["keras"].utils.clear_session()


def check(group: str, name: str, values: dict[str, dict[str, Any]]) -> list[str]:
    """Computes a case and returns a line for each difference from the frozen values.

    What follows a comma in a name, such as other runners, must not change the value.
    """
    expected = values.get(group, {}).get(name.partition(",")[0])
    if expected is None:
        raise Skipped("frozen.json has no value")
    return differences(expected, json.loads(json.dumps(compute(group, name))))


def write(values: dict[str, dict[str, Any]]) -> None:
    """Writes the frozen values, a case on a line."""
    groups = []
    for group, found in values.items():
        lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()]
        groups.append(f" {json.dumps(group)}: {{\n" + ",\n".join(lines) + "\n }")
    VALUES.write_text("{\n" + ",\n".join(groups) + "\n}\n")


def main() -> int:
    """Checks or writes the values; returns 1 if one differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(cases()), help="groups: %(default)s")
    parser.add_argument("--case", default="", help="only the cases whose name has this text")
    parser.add_argument("--check", action="store_true", help="the default")
    parser.add_argument("--write", action="store_true", help="write the values instead")
    flags = parser.parse_args()
    import beambert as package

    print(f"{'writing' if flags.write else 'checking'} the values of {package.__file__}")
    # Beam's workers in other processes look for modules in the current folder first.
    tree = pathlib.Path(package.__file__).resolve().parents[1]
    os.environ["PYTHONPATH"] = str(tree)
    os.chdir(work())
    values, wrong, started = frozen(), 0, time.time()
    for group in flags.only.split(","):
        for name in cases()[group]:
            if flags.case not in name:
                continue
            begin, lines = time.time(), []
            try:
                if flags.write and "," not in name:
                    values.setdefault(group, {})[name] = compute(group, name)
                    write(values)
                else:
                    lines = check(group, name, values)
            except Skipped as reason:
                print(f"{group}: {name}: skipped, {reason}")
                continue
            except Exception as error:
                print(f"{group}: {name}: FAILED: {error}")
                wrong += 1
                continue
            wrong += bool(lines)
            print(f"{group}: {name}: {'DIFFERS' if lines else 'ok'}, {time.time() - begin:.1f} s")
            print("".join(f"    {line}\n" for line in lines), end="", flush=True)
    # An installed beambert is found where this tree lacks a module.
    for name, module in list(sys.modules.items()):
        file = pathlib.Path(getattr(module, "__file__", None) or tree / name).resolve()
        if name.startswith("beambert.") and tree not in file.parents:
            print(f"NOT OF THIS TREE: {file}")
            wrong += 1
    print(f"{wrong} cases differ or failed, {time.time() - started:.0f} s")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
