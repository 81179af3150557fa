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
import importlib.util
import io
import json
import math
import os
import pathlib
import random
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
    found = filter(importlib.util.find_spec, ("beambert.cli", "beambert.commands"))
    run = importlib.import_module(next(found)).run
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
# Name of a job -> its flags beside those of `record_case`. A later flag replaces an earlier one.
JOBS: dict[str, list[str]] = {
    "next": [],
    "next_without_masks": ["--masks=none", "--random_seed=7"],
    "next_by_source": ["--random_next=source", "--input={corpus}/[ab].jsonl"],
    "reference": ["--pairs=reference"],
    "full_sentences": ["--pairs=none"],
    "full_sentences_without_masks": ["--pairs=none", "--masks=none"],
    "sentence_order_whole_words": ["--pairs=sop", "--masks=whole_word"],
    "copies_spans": ["--pairs=copy", "--masks=span", "--max_seq_length=48"],
    "lengths": [
        *("--max_seq_length=24,64", "--max_predictions_per_seq=4,12"),
        *("--masked_lm_prob=0.2", "--short_seq_prob=0.4"),
    ],
    "many_passes": ["--dupe_factor=7", "--num_shards=3", "--shuffle=runner"],
    "sources": [*SOURCES, "--weights=a=0.4,b=0.6", "--eval_fraction=0.25"],
    "sources_by_temperature": [
        *(*SOURCES, "--temperature=0.3", "--max_epochs_per_source=3"),
        *("--pairs=none", "--masks=span"),
    ],
    "held_out": ["--eval_fraction=0.2", "--pairs=sop", "--compression=gzip"],
    "bpe": [BPE, "--pairs=none", "--masks=whole_word"],
    "bpe_pairs": [BPE, "--masks=span"],
    "unigram": [UNIGRAM, "--masks=whole_word"],
    "cased_lines": ["--vocab_file={cased}", "--do_lower_case=False", "--sentences=line"],
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
    *("vocab", "data", "verify", "pretrain", "features", "finetune", "glue", "evaluate", "predict"),
    *("fill", "score", "embed", "index", "negatives", "search", "judge", "compare", "explore"),
    *("export", "deliver", "retrain", "demo"),
)

Case = Callable[[], Any]


def cases() -> dict[str, dict[str, Case]]:
    """Returns group -> name of a case -> what computes its value."""
    made: dict[str, dict[str, Case]] = {"vocabularies": {}, "records": {}, "flags": {}}
    for group, compute, names in (
        ("vocabularies", vocabulary_case, TOKENIZERS),
        ("records", record_case, JOBS),
        ("flags", flags_case, COMMANDS),
    ):
        made[group] = {name: functools.partial(compute, name) for name in names}
    return made


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


def check(group: str, name: str, values: dict[str, dict[str, Any]]) -> list[str]:
    """Computes a case and returns a line for each difference from the frozen values.

    What follows a comma in a name, such as other runners, must not change the value.
    """
    found = json.loads(json.dumps(cases()[group][name]()))
    return differences(values.get(group, {}).get(name.partition(",")[0]), found)


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
    os.environ["PYTHONPATH"] = str(pathlib.Path(package.__file__).resolve().parents[1])
    os.chdir(work())
    values, wrong, started = frozen(), 0, time.time()
    for group in flags.only.split(","):
        for name, compute in cases()[group].items():
            if flags.case not in name:
                continue
            begin, lines = time.time(), []
            try:
                if flags.write and "," not in name:
                    values.setdefault(group, {})[name] = compute()
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
    print(f"{wrong} cases differ or failed, {time.time() - started:.0f} s")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
