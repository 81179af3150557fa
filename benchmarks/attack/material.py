"""Makes what is sound: corpora of every format, tasks of every kind, records and models."""

import json
import os
import pathlib
import random

from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS
from benchmarks.attack import trials

WORDS = [
    "the",
    "of",
    "and",
    "in",
    "to",
    "a",
    "was",
    "is",
    "for",
    "on",
    "by",
    "with",
    "as",
    "at",
    "from",
    "his",
    "it",
    "an",
    "are",
    "were",
    "which",
    "river",
    "village",
    "church",
    "school",
    "house",
    "north",
    "south",
    "old",
    "small",
    "family",
    "born",
    "town",
    "year",
    "music",
    "band",
    "album",
    "song",
    "played",
    "team",
    "game",
    "season",
    "first",
    "second",
    "people",
    "city",
    "state",
    "war",
    "army",
    "built",
    "later",
    "between",
    "after",
    "before",
]
LABELS = {"music": "song album music played", "town": "river village church school"}
CONFIG = {
    **{"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2},
    **{"intermediate_size": 32, "max_position_embeddings": 32, "vocab_size": 0},
}
# The flags of the smallest commands.
DATA = ("--max_seq_length=32", "--num_shards=1", "--dupe_factor=1")
# The smallest configuration of retraining; `more` and `data` are lines to add.
RETRAINING = """\
workspace = "{root}/workspace"
input = ["{root}/text/*.jsonl"]
vocab_file = "{root}/vocab.txt"
{more}
[data]
max_seq_length = 32
dupe_factor = 1
num_shards = 1
{data}
[pretrain]
recipe = "tiny"
train_batch_size = 8
[pretrain.first]
model = "{root}/bert_config.json"
num_train_steps = 20
[pretrain.further]
num_train_steps = 10
[finetune]
task = "classification"
data_dir = "{root}/task"
max_seq_length = 24
train_batch_size = 8
learning_rate = {learning_rate}
num_train_epochs = {epochs}
[evaluate]
"""


def sentence(generator: random.Random) -> str:
    """Returns a sentence of some words."""
    return " ".join(generator.choices(WORDS, k=generator.randint(3, 12))).capitalize() + "."


def documents(generator: random.Random, count: int) -> list[list[str]]:
    """Returns documents, each a list of sentences."""
    return [[sentence(generator) for _ in range(generator.randint(2, 8))] for _ in range(count)]


def corpora(generator: random.Random) -> dict[str, bytes]:
    """Returns the name of a file -> its content, one of each format."""
    texts = documents(generator, 12)
    pages = "".join(
        "<page><title>T</title><ns>0</ns><revision><text>"
        f"'''A''' [[b|c]] {{{{d}}}} &lt;ref&gt;e&lt;/ref&gt; {' '.join(text)}"
        "</text></revision></page>\n"
        for text in texts
    )
    found = {
        "plain.txt": "\n\n".join(" ".join(text) for text in texts),
        "sentences.txt": "\n\n".join("\n".join(text) for text in texts) + "\n",
        "wiki_00": "".join(
            f'<doc id="{i}" url="u" title="t">\nt\n\n{chr(10).join(t)}\n</doc>\n'
            for i, t in enumerate(texts)
        ),
        "dump.xml": f'<mediawiki xmlns="http://x/">\n<siteinfo></siteinfo>\n{pages}</mediawiki>\n',
        "wiki.tokens": "".join(
            f" = T = \n\n {' '.join(t)} \n\n = = S = = \n\n {t[0]} \n" for t in texts
        ),
        "page.md": "---\ntitle: T\n---\n"
        + "".join(
            f"# {t[0]}\n\n* *a* [b](c)\n  1. `d` {' '.join(t)}\n\n> | e | f |\n> |---|---|\n\n"
            for t in texts
        ),
        "rows.jsonl": "".join(
            json.dumps({"text": " ".join(t), "id": i}) + "\n" for i, t in enumerate(texts)
        ),
        "rows.csv": "id,text\n" + "".join(f'{i},"{" ".join(t)}"\n' for i, t in enumerate(texts)),
        "rows.tsv": "id\ttext\n" + "".join(f"{i}\t{' '.join(t)}\n" for i, t in enumerate(texts)),
    }  # fmt: skip
    return {name: text.encode() for name, text in found.items()} | {"rows.parquet": _parquet(texts)}


def _parquet(texts: list[list[str]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    table = pa.table({"text": [" ".join(text) for text in texts], "id": list(range(len(texts)))})
    pq.write_table(table, sink, row_group_size=5)
    return sink.getvalue().to_pybytes()


def tasks(generator: random.Random) -> dict[str, dict[str, bytes]]:
    """Returns the name of a task -> the names of its files -> their contents."""
    found: dict[str, dict[str, bytes]] = {}
    for split, count in (("train", 24), ("dev", 16)):
        texts = [sentence(generator)[:-1] for _ in range(count)]
        labels = ["music", "town"] * (count // 2)
        known = [f"{t} {LABELS[label]}" for t, label in zip(texts, labels, strict=True)]
        tables = {
            "classification": [("text", "label"), *zip(known, labels, strict=True)],
            "multi_label": [
                ("text", "label"),
                *((t, ("a,b", "b", "")[i % 3]) for i, t in enumerate(texts)),
            ],
            "regression": [
                ("text", "text_b", "label"),
                *((t, t[:9], str(len(t) / 9)) for t in texts),
            ],
            "choice": [
                ("text", "choice0", "choice1", "label"),
                *((t, "a", "b c", str(i % 2)) for i, t in enumerate(texts)),
            ],
        }  # fmt: skip
        for task, rows in tables.items():
            text = "".join("\t".join(row) + "\n" for row in rows)
            found.setdefault(task, {})[f"{split}.tsv"] = text.encode()
        rows = [("sent1", "sent2", "ending0", "ending1", "ending2", "ending3", "label")]
        rows += [(t, "it", "a", '"b, c"', "d", "e", str(i % 4)) for i, t in enumerate(texts)]
        name = "train.csv" if split == "train" else "val.csv"
        found.setdefault("swag", {})[name] = "".join(",".join(r) + "\n" for r in rows).encode()
        tags = ("O", "B-PER", "I-PER", "B-LOC")
        lines = ("".join(f"{w} {tags[i % 4]}\n" for i, w in enumerate(t.split())) for t in texts)
        found.setdefault("tagging", {})[f"{split}.conll"] = "\n".join(lines).encode()
        found.setdefault("squad2.0", {})[f"{split}-v2.0.json"] = _questions(split, texts)
    return found


def _questions(split: str, texts: list[str]) -> bytes:
    def question(number: int, context: str) -> dict:
        word = context.split()[1]
        answers = [] if number % 3 == 0 else [{"text": word, "answer_start": context.index(word)}]
        return {
            **{"id": f"{split}{number}", "question": "which ?", "answers": answers},
            "is_impossible": not answers,
        }

    paragraphs = [{"context": t, "qas": [question(i, t)]} for i, t in enumerate(texts)]
    return json.dumps(
        {"version": "v2.0", "data": [{"title": "t", "paragraphs": paragraphs}]}
    ).encode()


def vocabulary() -> bytes:
    """Returns a vocabulary with all words and single letters."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    pieces = [*SPECIAL_TOKENS, *letters, *(f"##{letter}" for letter in letters), ".", ",", *WORDS]
    return "".join(f"{piece}\n" for piece in dict.fromkeys(pieces)).encode()


def make(root: pathlib.Path, seed: int, with_models: bool) -> None:
    """Makes everything in a folder.

    Args:
      root: the folder, which is made.
      seed: seed of the texts.
      with_models: whether to train models, too.
    """
    generator = random.Random(seed)
    root.mkdir(parents=True)
    (root / "vocab.txt").write_bytes(vocabulary())
    config = CONFIG | {"vocab_size": len(vocabulary().splitlines())}
    (root / "bert_config.json").write_text(json.dumps(config))
    for name, content in corpora(generator).items():
        _write(root / "corpora" / name, content)
    for task, files in tasks(generator).items():
        for name, content in files.items():
            _write(root / "tasks" / task / name, content)
    rows = [{"text": " ".join(text)} for text in documents(generator, 30)]
    delivery = "".join(json.dumps(row) + "\n" for row in rows).encode()
    _write(root / "text" / "1.jsonl", delivery)
    manifest = {"files": [{"path": "1.jsonl", "bytes": len(delivery)}]}
    _write(root / "text" / "1.manifest.json", json.dumps(manifest).encode())
    vocab = f"--vocab_file={root}/vocab.txt"
    text = f"--input={root}/text/1.jsonl"
    _run(root, "data", text, vocab, *DATA, f"--output={root}/records")
    _run(root, "verify", f"{root}/records", f"--output={root}/verification")
    if with_models:
        tiny = (f"--model={root}/bert_config.json", "--train_batch_size=8", "--num_train_steps=2")
        task = ("--task=classification", f"--data_dir={root}/tasks/classification")
        _run(
            root,
            "pretrain",
            f"--data={root}/records",
            "--recipe=tiny",
            *tiny,
            f"--model_dir={root}/encoder",
        )
        small = ("--max_seq_length=24", "--train_batch_size=8", "--num_train_epochs=1")
        _run(
            root,
            "finetune",
            *task,
            f"--init={root}/encoder",
            *small,
            f"--model_dir={root}/classifier",
        )
        _run(
            root,
            "evaluate",
            *task,
            f"--model={root}/classifier",
            f"--output={root}/evaluation",
            "--slices=none",
        )


def _write(path: pathlib.Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _run(root: pathlib.Path, *arguments: str) -> None:
    """Runs a command in a process of its own, so that this one stays without threads."""
    process = os.fork()
    if not process:
        status = 1
        try:
            ended = trials.run(arguments, root)
            status = ended.status
        finally:
            os._exit(status)
    if os.waitpid(process, 0)[1]:
        error = (root / "stderr.log").read_text() + (root / "stdout.log").read_text()
        raise trials.FoundError("material", f"{' '.join(arguments)}\n{error}")
