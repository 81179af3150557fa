"""What the benchmarks read of annotated trees, and what they count."""

from benchmarks.languages import f1, paragraphs_of, read_trees, spans_of

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
