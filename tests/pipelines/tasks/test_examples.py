"""Examples of tasks: files, rows and labels, also several of one text."""

import collections
import dataclasses
import json
import pathlib
import re

import numpy as np
import pytest

from beambert.errors import InputError
from beambert.pipelines.tasks import declarations, multi_label
from beambert.pipelines.tasks.choice import ChoiceExample
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.multi_label import MultiLabel, MultiLabelOutcomes
from beambert.pipelines.tasks.reading import read_file, read_splits
from beambert.pipelines.tasks.table_task import TextExample
from beambert.pipelines.tasks.tagging import TaggedExample


def write(folder: pathlib.Path, name: str, content: str | bytes) -> str:
    """Writes a file and returns its folder as a string."""
    data = content if isinstance(content, bytes) else content.encode()
    (folder / name).write_bytes(data)
    return str(folder)


def read_examples(*given):
    return list(read_file(*given).examples)


def refused(message: str):
    """Expects an InputError that contains exactly this text."""
    return pytest.raises(InputError, match=re.escape(message))


@pytest.mark.parametrize("name", ["sst-2", "SST-2", "SST2", "sst_2"])
def test_task_names_ignore_case_and_hyphens(name):
    """The benchmark's own spelling works too."""
    assert declarations.find_task(name) is declarations.TASKS["sst-2"]


def test_a_task_that_is_probably_meant():
    for name, task in (("clasification", "classification"), ("MultiLable", "multi_label")):
        with refused(f"--task={name}: not a task; did you mean {task}"):
            declarations.find_task(name)
    with refused("--task=xyz: not a task; choose one of"):
        declarations.find_task("xyz")


def test_tsv_keeps_quotes_and_drops_the_byte_order_mark(tmp_path):
    """Quotes are text in a TSV, also unbalanced ones, and CRLF ends a line."""
    folder = write(
        tmp_path, "dev.tsv", '\ufeffsource\ttext\tlabel\r\na\t"so\u2028 it\tx\r\nb\tfine"\ty\r\n'
    )
    found = read_examples(declarations.TASKS["classification"], folder, "dev")
    assert found == [
        TextExample('"so\u2028 it', None, "x", {"source": "a"}),
        TextExample('fine"', None, "y", {"source": "b"}),
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("dev.tsv", "\ntext\tlabel\r\n\r\na\tx\n \nb\ty\n\n"),
        ("dev.csv", "text;label\n\na;x\nb;y\n\n"),
        ("dev.jsonl", '\n{"text": "a", "label": "x"}\n\n{"text": "b", "label": "y"}\n'),
    ],
)
def test_blank_lines_are_no_rows(tmp_path, name, content):
    """Also in a CSV with semicolons, as spreadsheets of many countries write it."""
    folder = write(tmp_path, name, content)
    found = read_examples(declarations.TASKS["classification"], folder, "dev")
    assert [(each.text, each.label) for each in found] == [("a", "x"), ("b", "y")]


def test_csv_and_json_lines_read_the_same_pairs(tmp_path):
    """The ending of the file chooses the reader."""
    (tmp_path / "csv").mkdir()
    (tmp_path / "jsonl").mkdir()
    csv = write(tmp_path / "csv", "dev.csv", 'text,text_b,label\n"a, ""b""\nc",d,1\n')
    jsonl = write(
        tmp_path / "jsonl", "dev.jsonl", '{"text": "a, \\"b\\"\\nc", "text_b": "d", "label": 1}\n'
    )
    expected = [TextExample('a, "b"\nc', "d", "1", {})]
    for folder in (csv, jsonl):
        assert read_examples(declarations.TASKS["classification"], folder, "dev") == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("dev.tsv", "text\tlabel\n", "dev.tsv: has no examples"),
        ("dev.tsv", "text\ttext\n", "has two columns named 'text'"),
        ("dev.tsv", "body\tlabel\na\tx\n", "line 2: has no column 'text' (it has body, label)"),
        ("dev.tsv", "text\tlabel\na\tx\tb\n", "line 2: needs 2 fields (text, label) but has 3"),
        ("dev.tsv", "text\tlabel\na\tx\n  \ty\n", "line 3: has an empty 'text'"),
        ("dev.tsv", "text\tlabel\na\t\n", "line 2: has an empty 'label'"),
        ("dev.tsv", "text\tlabel\na\tw\n", "line 2: has the label 'w', which is not one of x, y"),
        ("dev.tsv", b"text\tlabel\na\tx\nb\xff\ty\n", "dev.tsv: byte 0xff on line 3 is not UTF-8"),
        ("dev.csv", 'text,label\n"a,x\n', "line 2: not CSV"),
        ("dev.jsonl", '{"text": "a", "label": "x"}\n{"text": \n', "line 2: is not JSON"),
        (
            "dev.jsonl",
            '{"text": "a", "label": "x"}\n{"text": "a", "text_b": "b", "label": "x"}\n',
            "dev.jsonl: has 'text_b' in some rows only",
        ),
        (
            "dev.jsonl",
            '{"text": ["a"], "label": "x"}\n',
            "line 1: has a list or an object in 'text'",
        ),
        ("dev.csv", 'text,label\na,"x\ny"\n', "line 2: has a label of several lines"),
        ("dev.jsonl", "[" * 100_000, "line 1: is not JSON (maximum recursion depth exceeded"),
        ("dev.jsonl", '{"text": "\\ud800", "label": "x"}', r"has half a character ('\ud800')"),
    ],
)
def test_a_bad_row_is_named(tmp_path, name, content, message):
    """Every message has the file and the line; nothing is dropped."""
    folder = write(tmp_path, name, content)
    with refused(message):
        read_examples(declarations.TASKS["classification"], folder, "dev", ["x", "y"])


def test_a_file_in_another_encoding(tmp_path):
    text = "The price was £{} – and that is what they’d paid for it in the end, “more” or less."
    rows = [f"{text.format(number)}\tx\n" for number in range(20)]
    folder = write(tmp_path, "dev.tsv", "".join(["text\tlabel\n", *rows]).encode("cp1252"))
    task = declarations.TASKS["classification"]
    with refused("byte 0xa3 on line 2 is not UTF-8; windows-1252 would read"):
        read_examples(task, folder, "dev", ["x"])
    for encoding in ("utf-8,windows-1252", "cp1252"):
        declared = dataclasses.replace(task, encoding=encoding)
        found = read_examples(declared, folder, "dev", ["x"])
        assert found[7].text == text.format(7)
    with refused("is not shift_jis"):
        read_examples(dataclasses.replace(task, encoding="shift_jis"), folder, "dev")


def test_bad_rows_are_left_out_only_where_that_is_asked_for_and_named(tmp_path):
    rows = "text\tlabel\na\tx\n\tx\nb\tx\ty\nc\tz\nd\ty\n"
    folder = write(tmp_path, "dev.tsv", rows)
    task = declarations.TASKS["classification"]
    file = read_file(task, folder, "dev", ["x", "y"], skip_bad_rows=True)
    assert [example.text for example in file.examples] == ["a", "d"]
    assert [row.args[1] for row in file.bad_rows] == [3, 4, 5]
    with refused("line 3: has an empty 'text'; fill it in or delete the row (3 such rows"):
        read_examples(task, folder, "dev", ["x", "y"])


def test_a_row_of_json_lines_may_lack_a_column_of_the_others(tmp_path):
    rows = '{"text": "a", "label": 1}\n{"body": "b", "label": 2}\n{"text": "c", "label": 2}\n'
    folder = write(tmp_path, "dev.jsonl", rows)
    file = read_file(declarations.TASKS["classification"], folder, "dev", skip_bad_rows=True)
    assert [example.label for example in file.examples] == ["1", "2"]
    assert [row.reason for row in file.bad_rows] == ["has no column 'text' (it has body, label)"]


def test_a_missing_column_is_no_bad_row(tmp_path):
    folder = write(tmp_path, "dev.tsv", "words\tlabel\na\tx\n")
    with refused("line 2: has no column 'text' (it has words, label)"):
        read_file(declarations.TASKS["classification"], folder, "dev", skip_bad_rows=True)


def test_choices_are_the_columns_that_begin_so(tmp_path):
    folder = write(tmp_path, "dev.csv", "text,text_b,choice_a,choice_b,label,id\nI,am,x,y,1,7\n")
    (found,) = read_examples(declarations.TASKS["choice"], folder, "dev")
    assert found == ChoiceExample("I", "am", "1", {"id": "7"}, ("x", "y"))
    assert found.endings == ("am x", "am y")
    write(tmp_path, "dev.csv", "text,choice_a,choice_b,label\nI,x,y,2\n")
    with refused("has the label '2', which is none of its 2 endings, counted from 0"):
        read_examples(declarations.TASKS["choice"], folder, "dev")
    write(tmp_path, "dev.csv", "text,choice_a,label\nI,x,0\n")
    with refused("has no two columns choice*"):
        read_examples(declarations.TASKS["choice"], folder, "dev")


def test_columns_of_words_and_tags(tmp_path):
    content = "-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\n\n\nPeter NNP B-PER\n"
    folder = write(tmp_path, "dev.conll", content)
    assert read_examples(declarations.TASKS["tagging"], folder, "dev") == [
        TaggedExample(("EU", "rejects"), ("B-ORG", "O")),
        TaggedExample(("Peter",), ("B-PER",)),
    ]
    write(tmp_path, "dev.conll", "EU NNP B-ORG\nrejects O\n\nPeter NNP B-PER\n")
    with refused("dev.conll, line 2: needs 3 columns but has 2"):
        read_examples(declarations.TASKS["tagging"], folder, "dev")
    write(tmp_path, "dev.conll", "EU\tB-ORG\n\tO\n")
    with refused("dev.conll, line 2: has no word in column 1"):
        read_examples(declarations.TASKS["tagging"], folder, "dev")
    write(tmp_path, "dev.conll", "EU\tB-ORG\nrejects\t\n")
    with refused("dev.conll, line 2: has an empty tag"):
        read_examples(declarations.TASKS["tagging"], folder, "dev")


@pytest.mark.parametrize(
    ("task", "name", "rows"),
    [
        ("classification", "train.tsv", "text\tlabel\na\tpos\nb\tpos \nc\tneg\n"),
        ("classification", "train.csv", "text,label\na,pos\nb,\u00a0pos\nc,neg\n"),
        ("multi_label", "train.jsonl", '{"text": "a", "label": "pos , neg "}\n'),
    ],
)
def test_blanks_around_a_label_make_no_label(tmp_path, task, name, rows):
    task = declarations.TASKS[task]
    file = read_file(task, write(tmp_path, name, rows), "train")
    assert {each for e in file.examples for each in task.label_names(e)} == {"pos", "neg"}
    assert "blanks around the label were removed in 1 rows" in file.notes[0]


def test_missing_folder_file_and_split(tmp_path):
    """Each names the flag and what was looked for."""
    task = declarations.TASKS["classification"]
    with refused("--data_dir=/no/such: no such folder"):
        read_examples(task, "/no/such", "dev")
    with refused("has no dev.tsv or dev.csv or dev.jsonl; the dev split of classification"):
        read_examples(task, str(tmp_path), "dev")
    with refused("--split=valid: not a split; choose one of train, dev, test"):
        read_examples(task, str(tmp_path), "valid")
    write(tmp_path, "dev.tsv", "")
    write(tmp_path, "dev.csv", "")
    with refused("has both dev.tsv and dev.csv"):
        read_examples(task, str(tmp_path), "dev")


# The counts are those of the GLUE release.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "folder", "split", "count", "labelled"),
    [
        ("cola", "CoLA", "train", 8551, True),
        ("cola", "CoLA", "dev", 1043, True),
        ("cola", "CoLA", "test", 1063, False),
        ("mrpc", "MRPC", "dev", 408, True),
        ("qnli", "QNLI", "test", 5463, False),
        ("rte", "RTE", "test", 3000, False),
        ("sst-2", "SST-2", "train", 67349, True),
        ("sst-2", "SST-2", "test", 1821, False),
    ],
)
def test_glue_files_read_completely(shared_data, name, folder, split, count, labelled):
    """The real files, every row of them."""
    glue = shared_data / "glue"
    task = declarations.TASKS[name]
    found = read_examples(task, str(glue / folder), split)
    assert len(found) == count
    labels = collections.Counter(example.label for example in found)
    assert set(labels) == (set(task.labels) if labelled else {None})
    is_pair = len(task.text_columns) == 2
    assert all((example.text_b is not None) == is_pair for example in found)


@pytest.mark.parametrize("name", ["eng.testa", "valid.txt", "dev.txt"])
def test_a_file_may_have_one_of_several_names(tmp_path, name):
    """CoNLL-2003 is passed on under several names."""
    task = declarations.find_task("conll2003")
    with refused("has no eng.testa or valid.txt or dev.txt; the dev split of conll2003"):
        read_file(task, str(tmp_path), "dev")
    content = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n"
    folder = write(tmp_path, name, content)
    (found,) = read_file(task, folder, "dev").examples
    assert found.tags == ("B-ORG", "O")
    write(tmp_path, {"dev.txt": "eng.testa"}.get(name, "dev.txt"), content)
    with refused("has both "):
        read_file(task, folder, "dev")


CASES = json.loads((pathlib.Path(__file__).parents[2] / "golden/multi_label.json").read_text())


@pytest.mark.parametrize("case", CASES)
def test_scores_are_those_of_scikit_learn(case):
    """The golden file has cases with labels that never or always apply."""
    labels, probabilities = np.array(case["labels"]) > 0, np.array(case["probabilities"])
    names = [f"label {i}" for i in range(labels.shape[1])]
    predictions = probabilities > multi_label.THRESHOLD
    found = MultiLabelOutcomes(labels, predictions, probabilities)
    scores = found.scores(MultiLabelOutcomes.METRICS, 1)
    assert scores == pytest.approx(case["scores"], abs=1e-9)
    by_label = found.details(names)["by_label"]
    for name in ("precision", "recall", "f1"):
        of_labels = [by_label[label][name] for label in names]
        assert of_labels == pytest.approx(case[name], abs=1e-6)
    assert [by_label[label]["true"] for label in names] == case["support"]


def test_no_constant_answer_is_better_than_the_best():
    """All sets of three labels are tried."""
    labels = np.array(CASES[1]["labels"]) > 0
    found = MultiLabelOutcomes(labels, labels, labels.astype(float))
    names = ["micro_f1", "macro_f1", "exact_match"]
    tried = [each.scores(names, 1) for _, each in found.constants()]
    for bits in range(8):
        row = np.array([bits & 1, bits & 2, bits & 4]) > 0
        rows = np.tile(row, (len(labels), 1))
        other = MultiLabelOutcomes(labels, rows, rows.astype(float)).scores(names, 1)
        for name in names:
            assert max(scores[name] for scores in tried) >= other[name] - 1e-12
    assert found.written((0, 2), ["a", "b", "c"]) == "a, c"
    assert found.written((), ["a", "b", "c"]) == "no label"


def test_labels_stand_in_one_column(tmp_path):
    """With separators, or as a JSON list; none is an answer, too."""
    fields = [("x", ["b, c", "a"]), ("y", []), ("z", "a")]
    rows = [{"text": text, "label": label} for text, label in fields]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "train.jsonl").write_text(lines)
    (tmp_path / "dev.tsv").write_text("text\tlabel\nx\ta , a\ny\t\n")
    read = read_splits(find_task("multi_label"), str(tmp_path), ("train", "dev"), False)
    assert read.labels == ("a", "b, c")
    assert [each.label for each in read.examples["train"]] == [("b, c", "a"), (), ("a",)]
    assert [each.label for each in read.examples["dev"]] == [("a",), ()]
    piped = MultiLabel("multi_label", text_columns=("text",), label_separator="|")
    (tmp_path / "train.tsv").write_text("text\tlabel\nx\ta|b,c\n")
    assert read_file(piped, str(tmp_path), "train").examples[0].label == ("a", "b,c")


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ('["a"', "no JSON list of names"),
        ('["a", null]', "no JSON list of names"),
        ('["a", ["b"]]', "no JSON list of names"),
        ("[" * 100_000, "no JSON list of names"),  # the reader of JSON gives up on it
        ("a,,b", "has an empty label in a,,b"),
        ("a,b,", "has an empty label in a,b,"),
        ('["a", " "]', "has an empty label"),
    ],
)
def test_broken_labels_are_a_bad_row(tmp_path, field, reason):
    (tmp_path / "train.tsv").write_text(f"text\tlabel\nx\ta\ny\t{field}\nz\t[1, 2]\n")
    with pytest.raises(InputError, match=f"train.tsv, line 3: .*{reason}"):
        read_file(find_task("multi_label"), str(tmp_path), "train")
    read = read_file(find_task("multi_label"), str(tmp_path), "train", skip_bad_rows=True)
    assert [example.label for example in read.examples] == [("a",), ("1", "2")]
