"""What the benchmark of names reads of annotated trees, and what it counts."""

import pytest

from beambert.pipelines.text import scrubbing
from benchmarks import filters, names
from benchmarks.languages import f1, paragraphs_of, read_trees, spans_of


def tree(text: str, rows: str) -> str:
    """Rows "number word part-of-speech MISC" as a tree."""
    made = [f"# text = {text}"]
    for row in rows.strip().split("\n"):
        number, word, part, misc = row.split()
        made.append("\t".join([number, word, "_", part, *"_" * 5, misc]))
    return "\n".join(made) + "\n\n"


CONTENT = (
    "# newdoc id = one\n"
    + tree(
        "Dr. Ann Lee saw her in Leeds.",
        """1 Dr. PROPN Entity=(4-person-new-nnnnn-cf2-1,2-coref
2 Ann PROPN _
3 Lee PROPN Entity=4)
4 saw VERB _
5 her PRON Entity=(5-person-giv-nnnnn-cf2-1-ana)
6 in ADP _
7 Leeds PROPN Entity=(6-place-new-nnnnn-cf5-1-coref-Leeds)|SpaceAfter=No
8 . PUNCT _""",
    )
    + tree(
        "They don't like Leeds Town.",
        """1 They PRON Entity=(7-person-giv-nnnnn-cf1-1-ana)
2-3 don't _ _
2 do AUX _
3 n't PART _
4 like VERB _
5 Leeds PROPN Entity=(8-organization-new-nnnnn-cf5-1-coref(6-place-giv-nnnnn-cf5-1-coref-Leeds)
6 Town PROPN Entity=8)|SpaceAfter=No
7 . PUNCT _""",
    )
    + "# newdoc id = two\n"
    + tree("Yes.", "1 Yes INTJ SpaceAfter=No\n2 . PUNCT _")
)


def test_names_of_trees():
    one, two = names.read_documents(CONTENT)
    assert one.text == "Dr. Ann Lee saw her in Leeds.\nThey don't like Leeds Town.\n"
    found = [
        (name.type, one.text[name.start : name.end], one.text[name.last : name.end])
        for name in one.names
    ]
    assert found == [
        ("person", "Dr. Ann Lee", "Lee"),
        ("place", "Leeds", "Leeds"),
        ("place", "Leeds", "Leeds"),
        ("organization", "Leeds Town", "Town"),
    ]
    words = [one.text[start:end] for start, end in one.proper_nouns]
    assert words == ["Dr.", "Ann", "Lee", "Leeds", "Leeds", "Town"]
    assert two.text == "Yes.\n" and not two.names


def test_what_is_hidden(monkeypatch):
    def stand_in(text, asked, model):
        spans = [(text.find(word), word, name) for word, name in told.items() if word in text]
        return sorted(((at, at + len(word)), name) for at, word, name in spans)

    told = {"Ann Lee": "person", "Leeds Town": "location", "They": "person"}
    monkeypatch.setattr(scrubbing, "recognize", stand_in)
    found = names.measure([*names.read_documents(CONTENT)], "m")
    assert found["names"] == {
        "person": {"number": 1, "hidden": 0.0, "last_word_hidden": 1.0},
        "place": {"number": 2, "hidden": 0.5, "last_word_hidden": 0.5},
        "organization": {"number": 1, "hidden": 1.0, "last_word_hidden": 1.0},
    }
    assert found["replaced"] == {
        "location": {"number": 1, "without_a_proper_noun": 0.0},
        "person": {"number": 2, "without_a_proper_noun": 0.5},
    }


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
