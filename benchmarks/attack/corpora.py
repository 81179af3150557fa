"""Damaged corpora of every format, for `data` and `vocab`."""

import json

from beambert.pipelines.corpus.formats import AUTO, CHOICES
from beambert.pipelines.text.preparation import EXACT, NEAR
from benchmarks.attack import mutators
from benchmarks.attack.material import DATA
from benchmarks.attack.trials import Family, FoundError, Trial

# The formats of the files, beside the one that is recognised.
OWN = {
    **{"plain.txt": "text", "sentences.txt": "lines", "wiki_00": "wikiextractor"},
    **{"dump.xml": "mediawiki", "wiki.tokens": "wikitext", "rows.jsonl": "jsonl"},
    **{"rows.parquet": "parquet", "rows.csv": "csv", "rows.tsv": "tsv"},
    **{"page.md": "markdown"},
}
ENDINGS = ("", "", "", ".gz", ".bz2", ".zst")


def _attempt(trial: Trial) -> str:
    generator = trial.generator
    inputs, lines = [], None
    for number in range(generator.choice((1, 1, 2, 4))):
        path = generator.choice(sorted((trial.material / "corpora").iterdir()))
        ending = generator.choice(ENDINGS)
        content, lines = _content(trial, path.read_bytes(), ending, path.suffix != ".parquet")
        inputs.append(trial.folder / f"attacked{number}-{path.name}{ending}")
        inputs[-1].write_bytes(content)
    if len(inputs) > 1:
        inputs.append(path)
    # A file that another format's reader refuses at its first line is no attack on either.
    name = generator.choice((AUTO, AUTO, AUTO, OWN.get(path.name, AUTO), generator.choice(CHOICES)))
    flags = [
        "--input",
        *inputs,
        f"--format={name}",
        f"--max_reject_fraction={generator.choice((0, 0.99, 0.99, 0.99))}",
    ]
    if generator.random() < 0.2:
        output = trial.folder / "vocabulary.txt"
        ended = trial.call("vocab", *flags, "--vocab_size=300", f"--output={output}")
        if ended.status == 0 and not output.read_bytes().startswith(b"[PAD]\n"):
            raise FoundError("silent loss", "no vocabulary, and status 0")
        return "learnt" if ended.status == 0 else "refused"
    flags += [f"--vocab_file={trial.material}/vocab.txt", *DATA]
    if generator.random() < 0.2:
        flags.append(f"--duplicates={generator.choice((EXACT, NEAR))}")
    if generator.random() < 0.3:
        flags.append("--quality_filter=gopher")
    output = trial.folder / "records"
    ended = trial.call("data", *flags, f"--output={output}")
    if ended.status:
        return "refused"
    counts = json.loads((output / "info.json").read_text())["counts"]["documents"]
    parts = counts["used"] + counts["in_other_split"]
    parts += sum(counts["dropped"].values()) + sum(counts["rejected"].values())
    if counts["read"] != parts:
        raise FoundError("silent loss", f"{counts}")
    if lines is not None and name == "jsonl" and len(inputs) == 1 and counts["read"] != lines:
        raise FoundError("silent loss", f"{lines} lines, {counts}")
    rejects = sum(counts["rejected"].values())
    found = output / "rejects.jsonl"
    if rejects and len(found.read_text().splitlines()) != rejects:
        raise FoundError("silent loss", f"{rejects} rejects are not listed")
    return "some rejected" if rejects else "used"


def _content(trial: Trial, data: bytes, ending: str, is_text: bool) -> tuple[bytes, int | None]:
    """Returns the damaged file, and the number of its lines that aren't empty, if that is known."""
    generator = trial.generator
    if ending and generator.random() < 0.03:
        return mutators.bomb(generator, ending), None
    if ending and generator.random() < 0.3:
        return mutators.damage(generator, mutators.compress(ending, data))[1], None
    _, data = mutators.damage(generator, data, is_text)
    is_plain = not data.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\0\0"))
    # Of UTF-16, a zero byte is left of a blank line.
    lines = sum(1 for line in data.split(b"\n") if line.strip(b" \t\r\v\f\0"))
    return mutators.compress(ending, data), lines if is_plain else None


FAMILY = Family("corpora", 0.11, _attempt)
