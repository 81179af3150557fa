"""What the benchmarks read of annotated trees, and what they count."""

import pytest

from benchmarks import filters
from benchmarks.languages import f1, paragraphs_of, read_trees, spans_of


@pytest.mark.parametrize(
    "text, rows, expected",
    [
        ("She left.", "1 She PRON 2 nsubj\n2 left VERB 0 root\n3 . PUNCT 2 punct", True),
        ("She left", "1 She PRON 2 nsubj\n2 left VERB 0 root", False),
        ("It is late.)", "1 It PRON 3 nsubj\n2 is AUX 3 cop\n3 late ADJ 0 root", True),
        ("Chapter One.", "1 Chapter NOUN 0 root\n2 One NUM 1 nummod\n3 . PUNCT 1 punct", False),
    ],
)
def test_whole_sentences(text, rows, expected):
    made = [f"# text = {text}"]
    for number, word, part, head, relation in map(str.split, rows.split("\n")):
        made.append("\t".join([number, word, "_", part, "_", "_", head, relation, "_", "_"]))
    assert filters.is_whole("\n".join(made)) is expected


TREES = """# newdoc
# text = Vámonos al mar.
1-2\tVámonos\t_
1\tVamos\tir
2\tnos\tnosotros
3-4\tal\t_
3\ta\ta
4\tel\tel
5\tmar\tmar
6\t.\t.

# text = Ya.
1\tYa\tya
1.1\tvoy\tir
2\t.\t.

# newpar
# text = No.
1\tNo\tno
2\t.\t.
"""


def test_words_are_those_that_are_written(tmp_path):
    path = tmp_path / "es.conllu"
    path.write_text(TREES)
    found = list(read_trees(str(path)))
    expected = [["Vámonos", "al", "mar", "."], ["Ya", "."], ["No", "."]]
    assert [words for _, _, words in found] == expected
    assert paragraphs_of(found) == [["Vámonos al mar.", "Ya."], ["No."]]
    # Where every sentence is a document of its own, twenty make a paragraph.
    alone = [(True, text, words) for _, text, words in found] * 14
    assert [len(each) for each in paragraphs_of(alone)] == [20, 20, 2]


def test_scores():
    assert spans_of(["a b", " c"]) == {(0, 2), (2, 3)}
    assert f1([(["a.", "b."], ["a.", "b."])]) == 100.0
    # Of two sentences and one that is found none has both of its ends.
    assert f1([(["a.", "b."], ["a. b."])]) == 0.0
    # One of three and of two: 2 / 5 of both.
    assert f1([(["a.", "b.", "c."], ["a.", "b. c."])]) == 40.0
