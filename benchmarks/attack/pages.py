"""Markup in names, texts and values, which must not become elements of a page."""

import html.parser
import json
import pathlib
import shutil

from benchmarks.attack.trials import Family, FoundError, Trial

ELEMENT, ATTRIBUTE = "attack-er", "onattack"
INJECTIONS = (
    f"<{ELEMENT}>", f"</title><{ELEMENT}>", f"</script><{ELEMENT}>", f"</style><{ELEMENT}>",
    f"--><{ELEMENT}>", f'" {ATTRIBUTE}="1', f"' {ATTRIBUTE}='1", f'"><{ELEMENT}>',
    f"]]><{ELEMENT}>", f"</svg><{ELEMENT}>", f"&lt;{ELEMENT}&gt;", f"</textarea><{ELEMENT}>",
    f"<!--<{ELEMENT}>", f"\\u003c{ELEMENT}>",
)  # fmt: skip


class _Elements(html.parser.HTMLParser):
    found = ""

    def handle_starttag(self, tag: str, attrs: list) -> None:
        if tag == ELEMENT or any(name == ATTRIBUTE for name, _ in attrs):
            self.found = self.found or self.get_starttag_text() or tag


def foreign_element(page: str) -> str:
    """Returns the first element of a page that an injection has made, "" if there is none."""
    parser = _Elements()
    parser.feed(page)
    parser.close()
    return parser.found


def _attempt(trial: Trial) -> str:
    generator = trial.generator
    injection = generator.choice(INJECTIONS)
    output = trial.folder / "output"
    name = injection.replace("/", "∕") if generator.random() < 0.5 else "plain"
    if generator.random() < 0.8:
        folder = trial.folder / name
        shutil.copytree(trial.material / "records", folder)
        info = json.loads((folder / "info.json").read_text())
        _inject(generator, info, injection)
        (folder / "info.json").write_text(json.dumps(info))
        vocab = trial.folder / "vocab.txt"
        pieces = (trial.material / "vocab.txt").read_text().splitlines()
        pieces[generator.randrange(5, len(pieces))] = injection
        vocab.write_text("\n".join(pieces) + "\n")
        target = generator.choice((folder, f"{trial.material}/records/*.tfrecord"))
        status = trial.call("verify", target, f"--vocab_file={vocab}", f"--output={output}").status
    else:
        folder = trial.folder / f"{name}-model"
        shutil.copytree(trial.material / "classifier", folder)
        for file in ("training.json", "results.json"):
            value = json.loads((folder / file).read_text())
            _inject(generator, value, injection)
            (folder / file).write_text(json.dumps(value))
        target = trial.material / "classifier"
        status = trial.call("compare", folder, target, f"--output={output}").status
    pages = list(output.rglob("*.html"))
    for page in pages:
        if found := foreign_element(page.read_text("utf-8", "surrogatepass")):
            raise FoundError("injection", f"{page.name}: {found}")
    return "page without it" if pages else ("refused" if status == 2 else "no page")


def _inject(generator, value: dict, injection: str) -> None:
    """Puts a text in the place of some texts and names, at any depth."""
    for name in list(value):
        if isinstance(value[name], dict):
            if generator.random() < 0.1:
                value[name][injection] = next(iter(value[name].values()), 1)
            _inject(generator, value[name], injection)
        elif isinstance(value[name], str) and generator.random() < 0.15:
            value[name] = injection


def check(page: pathlib.Path) -> str:
    """Returns the first foreign element of a page in a file."""
    return foreign_element(page.read_text("utf-8"))


FAMILY = Family("pages", 0.03, _attempt)
