"""What a test can keep of the rules for what people read; docs/code.md has the rules."""

import ast
import functools
import pathlib
import re
import tokenize

import pytest

ROOT = pathlib.Path(__file__).parents[1]
TOPS = ("beambert", "pipelines", "model", "trainer", "deploy", "demo", "explore", "benchmarks")
FILES = sorted(path for top in TOPS for path in (ROOT / top).rglob("*.py"))
# What an error may begin with besides a flag or a value that is filled in.
SUBJECTS = (
    *("TF_CONFIG", "custom_config", "train_files", "schema_path"),
    *("deploy/", "pretrain.", "data."),
)


@functools.cache
def tree(path: pathlib.Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def message(node: ast.expr) -> str:
    """The text of a message, with {} for what is filled in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(message(v) if isinstance(v, ast.Constant) else "{}" for v in node.values)
    if isinstance(node, ast.BinOp):
        return message(node.left) + message(node.right)
    return "{}"


def errors():
    """(place, message) of every InputError that is raised with words of its own."""
    for path in FILES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and node.args:
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                text = message(node.args[0]) if name == "InputError" else "{}"
                if text.replace("{}", "").strip():
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def wrong(check) -> list[str]:
    return [f"{place}: {text}" for place, text in errors() if not check(text)]


@pytest.mark.slow
def test_errors_are_found():
    assert len(list(errors())) > 150


@pytest.mark.slow
def test_errors_begin_with_the_flag_or_file():
    """`--flag=value: what is wrong; what to do`, so that one sees at once where to look."""

    def has_subject(text):
        subject, colon, _ = text.partition(":")
        return bool(colon) and subject.startswith(("--", "{", *SUBJECTS))

    assert wrong(has_subject) == []


def test_errors_end_without_a_full_stop():
    assert wrong(lambda text: not text.rstrip().endswith(".")) == []


def test_errors_say_cannot():
    assert wrong(lambda text: not re.search(r"\b(can't|can not|couldn't|could not)\b", text)) == []


def docstrings(path: pathlib.Path):
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text


@pytest.mark.parametrize("top", TOPS)
def test_attributes_are_described_by_sentences_or_nouns(top):
    """Not by what hangs on the name: "of the files", "that are dealt"."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0].strip()}"
        for path in FILES
        if path.is_relative_to(ROOT / top)
        for line, text in docstrings(path)
        for match in re.finditer(r"^ +\*{0,2}\w+: (?:of|that|which|whose|where)\b.*", text, re.M)
    ]
    assert found == []


@pytest.mark.slow
@pytest.mark.parametrize("top", TOPS)
def test_comments_have_a_subject(top):
    """Not "Of tokens: …" or "That share …", which hang on the name below them."""
    found = []
    for path in FILES:
        if path.is_relative_to(ROOT / top):
            with tokenize.open(path) as file:
                tokens = list(tokenize.generate_tokens(file.readline))
            before = ""
            for token in tokens:
                if token.type == tokenize.COMMENT:
                    starts = not before.startswith("#") and token.line.strip().startswith("#")
                    hangs = re.match(r"#+ (?:Of|That|Which|Whose|What)\b(?!.*\bis\b)", token.string)
                    if starts and hangs:
                        found.append(f"{path.relative_to(ROOT)}:{token.start[0]}: {token.string}")
                    before = token.string
                elif token.type not in (tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
                    before = ""
    assert found == []


@pytest.mark.parametrize("top", TOPS)
def test_help_texts_have_a_noun(top):
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {message(node.value)}"
        for path in FILES
        if path.is_relative_to(ROOT / top)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.keyword)
        and node.arg == "help"
        and re.match(r"(?:of|that|which|whose)\b|default: [^(]*$", message(node.value))
    ]
    assert found == []
